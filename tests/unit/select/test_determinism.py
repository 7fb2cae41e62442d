"""Invariant 5: the same revision and request give the same selection in every process, on every processor."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from itertools import product

import pytest

from mn_engine.domain.cards import CONTRADICTS, Card, Kind, Relation, Stance
from mn_engine.domain.packets import Decision, Shares
from tests.unit.recall.corpus import TOPICS, WORDS, card, recorded
from tests.unit.select.selecting import pages


def fingerprint() -> str:
    """A digest of rotations over a seeded record: items, scores, sizes, coverage and positions."""
    rng = random.Random(5)
    words = [*WORDS, *("".join(letters) for letters in product("bdfgk", repeat=3))]  # more than a sketch holds
    cards: list[Card] = []
    for at in range(400):
        links = [Relation(CONTRADICTS, rng.choice(cards).key)] if cards and at % 9 == 0 else []
        cards.append(
            card(
                f"c{at}",
                " ".join(rng.choices(words, k=rng.randint(1, 60))),
                owner=rng.choice(("alice", "bob")),
                kind=rng.choice(list(Kind)[:3]),
                stance=rng.choice(list(Stance)),
                topics=tuple(rng.sample(TOPICS, rng.randint(0, 2))),
                relations=tuple(links),
            )
        )
    view = recorded([cards[at : at + 50] for at in range(0, 400, 50)]).view()
    told = []
    for focus in ("nested brackets fail", "cache", "", "slow memory of the parser"):
        for page in pages(view, Decision(focus=focus, topics=TOPICS[:1]), 9000, shares=Shares()):
            told.append(repr((page.items, page.coverage, page.next)))
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX X86_V3 X86_V4"},
        {"PYTHONHASHSEED": "3", "OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "1"},
    ],
    ids=["hash-seed", "no-simd", "other-blas"],
)
def test_another_process_tells_the_same(variables: dict[str, str]) -> None:
    code = "from tests.unit.select.test_determinism import fingerprint; print(fingerprint())"
    # numpy warns of features that this machine, or this build, does not have: those are off already.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == fingerprint()
