"""How proofs and appends grow with a tree, counted in nodes; and the time that it takes to check a proof."""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Final

from mn_benchmark.report import ALL, OURS, Sample, Statistic
from mn_benchmark.temporal.stages import Stages
from mn_engine.domain import merkle
from mn_engine.domain.merkle import Frontier, Tree, proved_root

_SMALLEST: Final = 100
_PROOFS: Final = 200
_APPENDS: Final = 64


def proved(largest: int, seed: int, progress: Callable[[str], None]) -> Iterator[Sample]:
    """Trees of 100 leaves, of ten times as many, and so on up to `largest`: the nodes of proofs of leaves by chance and
    the time to check each, and the nodes that an append hashes for frontier and root, of the tree's next appends. The
    figures of nodes are the most; `all` is of nodes by ceil(log2 n) and by the bits of n, the most over all trees."""
    rng = random.Random(seed)
    proofs, appends = [], []
    leaves: list[bytes] = []
    size = min(_SMALLEST, largest)
    while size <= largest:
        progress(f"temporal: proofs in a tree of {size:,} leaves")
        leaves += [hashlib.sha256(b"%d" % number).digest() for number in range(len(leaves), size)]
        tree = Tree(leaves)
        root = tree.root
        lengths, micros = [], []
        for _ in range(_PROOFS):
            number = rng.randrange(size)
            proof = tree.proof(number)
            started = time.process_time_ns()
            found = proved_root(leaves[number], number, size, proof)
            micros.append((time.process_time_ns() - started) / 1000)
            assert found == root, "a proof does not lead to the root"
            lengths.append(float(len(proof)))
        hashed = _appended(Frontier().extended(leaves))
        proofs.append(max(lengths) / max(math.ceil(math.log2(size)), 1))
        appends.append(max(hashed) / size.bit_length())
        case = f"{size:,} leaves"
        yield _sample(case, "proof_nodes", lengths, "nodes", "max")
        yield _sample(case, "append_nodes", hashed, "nodes", "max")
        yield _sample(case, "verify_proof_us", micros, "us", "p50")
        size *= 10
    yield _sample(ALL, "proof_to_log2", proofs, "ratio", "max")
    yield _sample(ALL, "append_to_log2", appends, "ratio", "max")


def _appended(frontier: Frontier) -> list[float]:
    """The nodes that each of the next appends hashes."""
    counts = []
    for number in range(_APPENDS):
        with Stages({"nodes": [merkle.node_hash]}) as stages:
            frontier = frontier.extended([hashlib.sha256(b"more %d" % number).digest()])
            assert frontier.root
        counts.append(float(stages.calls["nodes"]))
    return counts


def _sample(case: str, metric: str, values: list[float], unit: str, statistic: Statistic) -> Sample:
    return Sample(case=case, system=OURS, metric=metric, values=values, unit=unit, statistic=statistic)
