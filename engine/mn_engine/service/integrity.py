"""Integrity: whether what is stored of a run is what was written, told by its tree and the chain of its roots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from mn_contract.errors import InvalidInput
from mn_contract.names import check_sha256
from mn_engine.domain.merkle import Frontier, leaf_hash
from mn_engine.domain.runs import EMPTY_ROOT, Run, chained_root
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call, Engine
from mn_engine.store.port import RootAt, Store, StoredLeaf

_LEAVES_AT_ONCE: Final = 4096
_NAMED: Final = ("artifact", "card", "event")
"""Kinds of leaves whose names tell of what somebody wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampered:
    """The first thing that is not what was written: which leaf, what it is and is called, and what is wrong with it.
    `number` is None where it is no leaf."""

    number: int | None
    kind: str
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """What a look over a run came to; `root` is over `size` leaves, at `revision`."""

    revision: int
    size: int
    root: str
    tampered: Tampered | None
    had: frozenset[str] = frozenset()
    """The roots that the leaves have been found to have, the newest among them."""

    @property
    def holds(self) -> bool:
        """Whether all is as it was written."""
        return self.tampered is None


def verify_integrity(engine: Engine, scope: Scope, call: Call, *, expected_root: str = "") -> Integrity:
    """Looks over all of a run. What is not the asker's own is told by its number, not by its name.

    With `expected_root`, a root that somebody has kept, the run must have had it over leaves that it still has: raises
    InvalidInput where all is well but for that. What is written beside the leaves proves nothing: neither a root that
    does not follow from them, nor one of a record of before there were trees.
    """
    if expected_root:
        check_sha256(expected_root, "expected_root")
    call.check()
    run = engine.store.run(scope.run_key)
    run.check_readable()
    found = look_over(engine.store, scope.run_key, run, call)
    tampered = found.tampered
    if tampered is None and expected_root and expected_root not in found.had:
        raise InvalidInput(
            "the run never had this root: it is of another run, or what it was over has been changed since",
            field="expected_root",
            root=run.root,
        )
    if tampered is not None and tampered.kind in _NAMED and not tampered.name.startswith(f"{scope.principal}:"):
        return replace(found, tampered=replace(tampered, name=""))  # another's, who may have hidden it (invariant 7)
    return found


def look_over(store: Store, run_key: str, run: Run, call: Call) -> Integrity:
    """Reads every leaf again, up to the head `run`, and follows the roots."""
    roots = store.roots(run_key)
    newest = store.run(run_key)  # read after them: what was written meanwhile is not over more leaves than it has
    chain = _Chain([at for at in roots if at.size <= run.frontier.size])
    beyond = [at for at in roots if at.size > newest.frontier.size]
    tampered = _root_wrong(beyond[0]) if beyond else next(_wrong(store, run_key, run, call, chain), None)
    had = frozenset({EMPTY_ROOT, *chain.had})
    return Integrity(revision=run.revision, size=run.frontier.size, root=run.root, tampered=tampered, had=had)


def _wrong(store: Store, run_key: str, run: Run, call: Call, chain: _Chain) -> Iterator[Tampered]:
    """What is wrong, in the order in which it was written."""
    for first in range(0, run.frontier.size, _LEAVES_AT_ONCE):
        call.check()
        count = min(_LEAVES_AT_ONCE, run.frontier.size - first)
        leaves: dict[int, StoredLeaf] = {}
        for one in store.leaves(run_key, first=first, count=count):
            if one.number in leaves:
                yield Tampered(number=one.number, kind=one.kind, name=one.name, why="its place is taken twice")
            leaves[one.number] = one
        for number in range(first, first + count):
            leaf = leaves.get(number)
            if leaf is None:
                yield Tampered(number=number, kind="leaf", name="", why="it is gone")
                return  # without it nothing that follows can be told
            if why := _why(leaf):
                yield Tampered(number=number, kind=leaf.kind, name=leaf.name, why=why)
            yield from chain.grown(leaf.hash)
    yield from chain.ended(run)
    for stray in store.strays(run_key):
        yield Tampered(number=None, kind="row", name="", why=stray)


def _why(leaf: StoredLeaf) -> str:
    if leaf.wrong:
        return leaf.wrong
    return "" if leaf_hash(leaf.record) == leaf.hash else "it is not what its hash says"


class _Chain:
    """Follows a run's roots while its tree grows, leaf by leaf."""

    def __init__(self, roots: list[RootAt]) -> None:
        self._roots = roots
        self._next = 0
        self._root = EMPTY_ROOT
        self._frontier = Frontier()
        self.had: set[str] = set()
        """Those that follow from leaves."""
        while self._next < len(roots) and not roots[self._next].size:
            self._root = roots[self._next].root  # that of a record of before there were trees, else the empty one
            self._next += 1

    def grown(self, leaf: bytes) -> Iterator[Tampered]:
        """Adds a leaf; tells of a root that is not the one of what has been read."""
        self._frontier = self._frontier.extended([leaf])
        if self._next == len(self._roots) or self._roots[self._next].size != self._frontier.size:
            return
        at = self._roots[self._next]
        expected = chained_root(self._root, at.revision, at.size, self._frontier.root)
        while self._next < len(self._roots) and self._roots[self._next].size == at.size:
            if self._roots[self._next].root != expected:
                yield _root_wrong(at)
            self._next += 1
        self._root = expected
        self.had.add(expected)

    def ended(self, run: Run) -> Iterator[Tampered]:
        """Tells where the roots go on elsewhere than the leaves, or end in another one than the run's."""
        if self._next != len(self._roots) or self._root != run.root:
            yield _root_wrong(RootAt(run.revision, run.frontier.size, run.root))


def _root_wrong(at: RootAt) -> Tampered:
    return Tampered(
        number=None, kind="root", name=str(at.revision), why="the root of this revision is not that of its leaves"
    )
