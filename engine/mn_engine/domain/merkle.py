"""A Merkle tree over what was recorded, in the order in which it was recorded, as RFC 9162 builds it.

A leaf is the hash of one record, a node that of its two children; both are told apart by a first byte. A run keeps the
tree's frontier: the roots of its complete subtrees, one for each set bit of its size. From it the next frontier and the
root follow, so what an append costs grows with the logarithm of the size and nothing is hashed again. That a record is
in the tree is proved by the nodes beside its way to the root.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mn_contract.errors import InvalidInput
from mn_contract.names import check_sha256

_LEAF: Final = b"\0"
_NODE: Final = b"\1"
_BYTES: Final = 32


def leaf_hash(record: bytes) -> bytes:
    """The leaf of a record."""
    return hashlib.sha256(_LEAF + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The node over two others."""
    return hashlib.sha256(_NODE + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """A tree of `size` leaves, by the roots of its complete subtrees, the largest first."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def extended(self, leaves: Iterable[bytes]) -> Frontier:
        """The tree with more leaves."""
        size, peaks = self.size, list(self.peaks)
        for node in leaves:
            complete = size
            while complete & 1:
                node = node_hash(peaks.pop(), node)
                complete >>= 1
            peaks.append(node)
            size += 1
        return Frontier(size, tuple(peaks))

    @property
    def root(self) -> str:
        """The tree's root, in hex; of an empty tree the hash of nothing."""
        if not self.peaks:
            return hashlib.sha256().hexdigest()
        *rest, node = self.peaks
        for peak in reversed(rest):
            node = node_hash(peak, node)
        return node.hex()

    @property
    def text(self) -> str:
        """`size:peaks`, as a store keeps it."""
        return f"{self.size}:{b''.join(self.peaks).hex()}"

    @classmethod
    def of(cls, text: str) -> Frontier:
        """The inverse of `text`. Raises InvalidInput where it is of no tree."""
        size, colon, peaks = text.partition(":")
        try:
            count, joined = int(size), bytes.fromhex(peaks)
        except ValueError as error:
            raise InvalidInput("the frontier of the record is not one", field="frontier") from error
        if not colon or count < 0 or len(joined) != count.bit_count() * _BYTES:
            raise InvalidInput("the frontier of the record is not one", field="frontier")
        return cls(count, tuple(joined[at : at + _BYTES] for at in range(0, len(joined), _BYTES)))


class Tree:
    """A whole tree, for proofs: all its nodes, level by level. A node without a sibling stands in the next level, too,
    which gives RFC 9162's tree."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = [list(leaves)]
        while len(level := self._levels[-1]) > 1:
            above = [node_hash(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
            if len(level) % 2:
                above.append(level[-1])
            self._levels.append(above)

    @property
    def root(self) -> str:
        """As Frontier.root."""
        top = self._levels[-1]
        return top[0].hex() if top else hashlib.sha256().hexdigest()

    def proof(self, leaf: int) -> tuple[str, ...]:
        """The nodes beside the way from a leaf to the root, from below, in hex."""
        beside = []
        for level in self._levels[:-1]:
            if leaf ^ 1 < len(level):
                beside.append(level[leaf ^ 1].hex())
            leaf >>= 1
        return tuple(beside)


def proved_root(leaf: bytes, number: int, size: int, proof: Sequence[str]) -> str:
    """The root of the tree of `size` leaves in which the leaf stands at `number`, if the proof is right; RFC 9162,
    2.1.3.2. Raises InvalidInput where the proof is none for such a place."""
    if not 0 <= number < size:
        raise InvalidInput(f"there is no leaf {number} in a tree of {size}", field="proof.leaf")
    node, at, last = leaf, number, size - 1
    for beside in proof:
        check_sha256(beside, "proof.path")
        if not last:
            raise InvalidInput("the proof is longer than the way to the root", field="proof.path")
        if at & 1 or at == last:
            node = node_hash(bytes.fromhex(beside), node)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            node = node_hash(node, bytes.fromhex(beside))
        at, last = at >> 1, last >> 1
    if last:
        raise InvalidInput("the proof ends before the root", field="proof.path")
    return node.hex()
