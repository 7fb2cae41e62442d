"""Exporting citation bundles, and a run's root under the engine's signature."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mn_contract.errors import DependencyUnavailable, InvalidInput, PermissionDenied, SourceMismatch
from mn_contract.limits import FACTS_PAGE_MAX
from mn_contract.names import format_ref
from mn_engine.domain.access import OPEN
from mn_engine.domain.bundles import BUNDLE_FORMAT, source_document
from mn_engine.domain.cards import Card, StoredCard
from mn_engine.domain.checkpoints import Checkpoint
from mn_engine.domain.known import STATED_IN
from mn_engine.domain.merkle import Frontier, Tree
from mn_engine.domain.requests import NewRange
from mn_engine.domain.runs import EMPTY_ROOT, Run, chained_root
from mn_engine.domain.scope import Scope
from mn_engine.recall.view import View
from mn_engine.service.artifacts import read_artifact
from mn_engine.service.compile import load
from mn_engine.service.engine import Call, Engine
from mn_engine.store.columns import card_meta
from mn_engine.store.port import RootAt


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRoot:
    """A run's root, and the signed note that says so (domain.checkpoints)."""

    note: str
    checkpoint: Checkpoint


def export_root(engine: Engine, scope: Scope, call: Call, *, revision: int | None = None) -> SignedRoot:
    """The run's root, or the last one that it had at an earlier revision, signed. The newest costs one signature, an
    earlier one a look at every leaf's hash.

    Raises DependencyUnavailable where the engine has no key, InvalidInput where the run has no such revision, and
    SourceMismatch where the record is no longer one that goes on from there: what was signed before stays true.
    """
    call.check()
    run = engine.store.run(scope.run_key)
    run.check_readable()
    if engine.signing_key is None:
        raise DependencyUnavailable(
            "this engine has no key to sign with: make one with `mn-context-engine keygen NAME FILE` and start it with "
            "--signing-key FILE or MN_CONTEXT_SIGNING_KEY_FILE",
            dependency="signing_key",
        )
    at, tree = RootAt(run.revision, run.frontier.size, run.root), run.frontier.root
    if revision is not None and revision != run.revision:
        at, tree = _earlier(engine, scope, run, revision)
    checkpoint = Checkpoint(
        job_id=scope.job_id, run_id=scope.run_id, size=at.size, tree=tree, revision=at.revision, root=at.root
    )
    return SignedRoot(note=checkpoint.signed(engine.signing_key), checkpoint=checkpoint)


def _earlier(engine: Engine, scope: Scope, run: Run, revision: int) -> tuple[RootAt, str]:
    """The last root of an earlier revision, and that of its tree, which the run's newest one must go on from."""
    roots = [RootAt(0, 0, EMPTY_ROOT), *engine.store.roots(scope.run_key)]
    at = next((one for one in reversed(roots) if one.revision == revision < run.revision), None)
    if at is None:
        raise InvalidInput(f"the run has no revision {revision}; its newest is {run.revision}", field="revision")
    leaves = engine.store.leaf_hashes(scope.run_key)
    frontier = Frontier().extended(leaves[: at.size])
    whole = frontier.extended(leaves[at.size : run.frontier.size])
    chained = chained_root(_before(roots, at.root), at.revision, at.size, frontier.root)
    if whole.root != run.frontier.root or (at.size and chained != at.root):  # a root of no leaves chains nothing
        raise _changed()
    return at, frontier.root


def export_bundle(engine: Engine, scope: Scope, call: Call, *, refs: tuple[str, ...]) -> dict[str, Any]:
    """The cards that are named and the episodes that they were stated in, with all bytes that they cite and proof that
    the run has them (domain.bundles). Raises NotFound, and PermissionDenied where a card has what only its owner may
    see: whom it is for, or links to cards that the asker may not read."""
    if not 1 <= len(refs) <= FACTS_PAGE_MAX:
        raise InvalidInput(f"a bundle is of 1-{FACTS_PAGE_MAX} refs", field="refs")
    call.check()
    run = engine.store.run(scope.run_key)
    run.check_readable()
    view = engine.indexes.view(scope, run.revision)
    stored = _with_episodes(engine, scope, call, view, [view.resolve(ref, live=False) for ref in refs])
    for one in stored:
        _check_shown(one.card, view, scope)
    tree, previous = _tree(engine, scope, run)
    ranges = {span.span: span for one in stored for span in (one.card.body, *one.card.sources)}
    wanted = [
        NewRange(artifact=one.artifact, start=one.start, end=one.end, sha256=one.sha256) for one in ranges.values()
    ]
    data = [bytearray() for _ in wanted]
    for piece in read_artifact(engine, scope, call, ranges=tuple(wanted)):
        data[piece.range_index] += piece.chunk
    return {
        "format": BUNDLE_FORMAT,
        "job_id": scope.job_id,
        "run_id": scope.run_id,
        "revision": run.revision,
        "root": run.root,
        "previous_root": previous,
        "tree": tree.root,
        "size": run.frontier.size,
        "records": _records(engine, scope, tree, stored),
        "sources": [source_document(*span, bytes(found)) for span, found in zip(ranges, data, strict=True)],
    }


def _with_episodes(engine: Engine, scope: Scope, call: Call, view: View, ordinals: Sequence[int]) -> list[StoredCard]:
    """The cards, and those that they were stated in, each once."""
    named = load(engine, scope, call, view, list(dict.fromkeys(ordinals)))
    told = [
        view.resolve(format_ref(key.owner, key.id, scope.principal), live=False)
        for one in named
        for key in one.card.targets(STATED_IN)
        if view.can_read(key)
    ]
    further = [ordinal for ordinal in dict.fromkeys(told) if ordinal not in {one.ordinal for one in named}]
    return [*named, *load(engine, scope, call, view, further)]


def _check_shown(card: Card, view: View, scope: Scope) -> None:
    hidden = any(not view.can_read(link.target) for link in card.relations)
    if hidden or (card.acl != OPEN and card.owner != scope.principal):
        raise PermissionDenied(
            f"card {format_ref(card.owner, card.id, scope.principal)!r} has what only its owner may see, and a bundle "
            "proves a card whole: let its owner export it"
        )


def _tree(engine: Engine, scope: Scope, run: Run) -> tuple[Tree, str]:
    """The run's tree, and the root before its last one. Raises SourceMismatch where the tree is not the run's."""
    tree = Tree(engine.store.leaf_hashes(scope.run_key)[: run.frontier.size])
    if tree.root != run.frontier.root:
        raise _changed()
    return tree, _before(engine.store.roots(scope.run_key), run.root)


def _before(roots: Sequence[RootAt], root: str) -> str:
    """The root before one of a run's, which may stand there several times."""
    previous = EMPTY_ROOT
    for at in roots:
        if at.root == root:
            break
        previous = at.root
    return previous


def _changed() -> SourceMismatch:
    return SourceMismatch("the record was changed: its leaves are not those of its root. Verify it")


def _records(engine: Engine, scope: Scope, tree: Tree, stored: Sequence[StoredCard]) -> list[dict[str, Any]]:
    leaves = engine.store.card_leaves(scope.run_key, [one.ordinal for one in stored])
    return [
        {
            "ref": format_ref(one.card.owner, one.card.id, scope.principal),
            "number": leaves[one.ordinal].number,
            "ordinal": one.ordinal,
            "meta": card_meta(one.card),
            "text": one.card.text,
            "columns": json.loads(leaves[one.ordinal].record)[4],
            "path": list(tree.proof(leaves[one.ordinal].number)),
        }
        for one in stored
    ]
