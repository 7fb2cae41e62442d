"""The Merkle tree: frontier, whole tree and proofs agree with the definition in RFC 9162, written out."""

from __future__ import annotations

import hashlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_engine.domain.merkle import Frontier, Tree, leaf_hash, proved_root

_SIZES = st.integers(0, 70)


def leaves(count: int, *, salt: str = "") -> list[bytes]:
    """The leaves of some records."""
    return [leaf_hash(f"record {number}{salt}".encode()) for number in range(count)]


def defined(some: list[bytes]) -> bytes:
    """MTH of RFC 9162, 2.1.1, over leaves that are hashed already."""
    if not some:
        return hashlib.sha256(b"").digest()
    if len(some) == 1:
        return some[0]
    half = 1 << ((len(some) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + defined(some[:half]) + defined(some[half:])).digest()


@given(_SIZES, st.lists(st.integers(0, 9), max_size=12))
def test_the_root_is_the_defined_one_however_the_tree_grew(size: int, steps: list[int]) -> None:
    some, frontier, at = leaves(size), Frontier(), 0
    for step in [*steps, size]:
        frontier = frontier.extended(some[at : at + step])
        at = min(at + step, size)
    assert frontier.root == Tree(some).root == defined(some).hex()
    assert frontier.size == size
    assert Frontier.of(frontier.text) == frontier


@given(st.integers(1, 70), st.data())
def test_a_proof_proves_its_leaf_at_its_place_and_nothing_else(size: int, data: st.DataObject) -> None:
    some = leaves(size)
    tree = Tree(some)
    number = data.draw(st.integers(0, size - 1))
    proof = tree.proof(number)
    assert proved_root(some[number], number, size, proof) == tree.root
    assert len(proof) <= (size - 1).bit_length()
    assert proved_root(leaf_hash(b"another"), number, size, proof) != tree.root
    elsewhere = data.draw(st.integers(0, size - 1))
    if elsewhere != number:
        with suppress(InvalidInput):
            assert proved_root(some[number], elsewhere, size, proof) != tree.root
    if proof:
        cut = data.draw(st.integers(0, len(proof) - 1))
        changed = [*proof[:cut], "0" * 64, *proof[cut + 1 :]]
        assert proved_root(some[number], number, size, changed) != tree.root
        for wrong in (proof[:-1], (*proof, proof[-1])):
            with pytest.raises(InvalidInput):
                proved_root(some[number], number, size, wrong)


def test_a_leaf_is_never_a_node() -> None:
    """Else a record could be made that stands for two others."""
    one, other = leaves(2)
    assert leaf_hash(one + other) != Tree([one, other])._levels[-1][0]
    assert Tree([one, other]).root == hashlib.sha256(b"\1" + one + other).hexdigest()
    assert one == hashlib.sha256(b"\0record 0").digest()


@pytest.mark.parametrize("text", ["", "1", "1:", "2:00", "-1:", "x:", f"1:{'0' * 62}", f"3:{'0' * 64}", "1:zz"])
def test_a_frontier_of_no_tree_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Frontier.of(text)


@pytest.mark.parametrize(("number", "size"), [(0, 0), (-1, 3), (3, 3)])
def test_a_leaf_outside_the_tree_has_no_proof(number: int, size: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        proved_root(leaf_hash(b"x"), number, size, ())
    assert refused.value.field == "proof.leaf"


def test_a_proof_that_is_no_hash_is_refused() -> None:
    with pytest.raises(InvalidInput):
        proved_root(leaf_hash(b"x"), 0, 2, ("not hex",))
