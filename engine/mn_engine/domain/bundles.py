"""Citation bundles: facts, what they rest on, and proof that a run's record has all of it, checked without a record.

A bundle is a JSON document. Each record in it is a card, as its text and the canonical JSON of the rest (`meta`), with
its place in the tree and the nodes beside its way to the root; each source is the bytes of a range that a card cites.
`root` chains the tree to the roots before it, so that whoever has kept a run's root knows the bundle is of that run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.errors import ContextError, InvalidInput, SourceMismatch
from mn_contract.names import check_id, check_sha256
from mn_engine.domain.cards import Card
from mn_engine.domain.known import STATED_IN
from mn_engine.domain.leaves import proved_card_leaf
from mn_engine.domain.merkle import leaf_hash, proved_root
from mn_engine.domain.runs import chained_root

BUNDLE_FORMAT: Final = "membrane-bundle/1"
_KEYS: Final = ("format", "job_id", "run_id", "revision", "root", "previous_root", "tree", "size", "records", "sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """What a bundle proves: the cards, in its order, of a run whose root is `root` at `revision`, chained over the
    root `tree` of `size` leaves. `job_id` and `run_id` are what the bundle calls the run: its root does not say them, a
    signed one does (domain.checkpoints)."""

    job_id: str
    run_id: str
    revision: int
    size: int
    tree: str
    root: str
    cards: tuple[Card, ...]


def source_document(artifact: str, start: int, end: int, data: bytes) -> dict[str, Any]:
    """A source, as it stands in a bundle: its bytes in base64."""
    return {"artifact": artifact, "start": start, "end": end, "data": base64.b64encode(data).decode("ascii")}


def read_bundle(data: bytes, *, expected_root: str = "") -> Proved:
    """The same of a bundle's bytes. Raises InvalidInput where they are no JSON."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the bundle is no JSON", field="bundle") from error
    return verify_bundle(document, expected_root=expected_root)


def verify_bundle(document: Any, *, expected_root: str = "") -> Proved:
    """What a bundle proves. Raises InvalidInput naming the part that is missing or has another shape, SourceMismatch
    naming the part that is not what it is said to be; also where the root is not the expected one."""
    bundle = _object(document, "bundle")
    for key in _KEYS:
        if key not in bundle:
            raise InvalidInput(f"the bundle has no {key}", field=key)
    if bundle["format"] != BUNDLE_FORMAT:
        raise InvalidInput(
            f"this is no bundle that can be read here: its format is not {BUNDLE_FORMAT}", field="format"
        )
    root, tree, size = bundle["root"], bundle["tree"], _number(bundle, "size")
    for key in ("root", "previous_root", "tree"):
        check_sha256(bundle[key], key)
    if chained_root(bundle["previous_root"], _number(bundle, "revision"), size, tree) != root:
        raise SourceMismatch("root is not that of the tree and the root before it", field="root")
    if expected_root and check_sha256(expected_root, "expected_root") != root:
        raise SourceMismatch("the bundle is of another root than the expected one", field="root")
    sources = _sources(bundle["sources"])
    cards = tuple(
        _card(_object(record, f"records.{at}"), f"records.{at}", size, tree, sources)
        for at, record in enumerate(_list(bundle["records"], "records"))
    )
    if not cards:
        raise InvalidInput("the bundle has no records", field="records")
    there = {card.key for card in cards}
    for at, card in enumerate(cards):
        if not there.issuperset(card.targets(STATED_IN)):
            raise InvalidInput(f"records.{at} was stated in a record that is not in the bundle", field=f"records.{at}")
    return Proved(
        job_id=check_id(_text(bundle, "job_id"), "job_id"),
        run_id=check_id(_text(bundle, "run_id"), "run_id"),
        revision=bundle["revision"],
        size=size,
        tree=tree,
        root=root,
        cards=cards,
    )


def _card(
    record: Mapping[str, Any], at: str, size: int, tree: str, sources: Mapping[tuple[str, int, int], bytes]
) -> Card:
    for key in ("number", "ordinal", "meta", "text", "columns", "path"):
        if key not in record:
            raise InvalidInput(f"{at} has no {key}", field=f"{at}.{key}")
    meta, text = _text(record, "meta", at), _text(record, "text", at)
    leaf = leaf_hash(
        proved_card_leaf(
            ordinal=_number(record, "ordinal", at),
            meta_sha256=hashlib.sha256(_utf8(meta, at)).hexdigest(),
            text_sha256=hashlib.sha256(_utf8(text, at)).hexdigest(),
            columns=check_sha256(record["columns"], f"{at}.columns"),
        )
    )
    path = _list(record["path"], f"{at}.path")
    if proved_root(leaf, _number(record, "number", at), size, path) != tree:
        raise SourceMismatch(f"{at} is not what the tree has in its place", field=at)
    try:
        card = Card.from_json({**json.loads(meta), "text": text})
    except (ContextError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"{at}.meta is no card", field=f"{at}.meta") from error
    for cited in (card.body, *card.sources):
        data = sources.get(cited.span)
        if data is None:
            raise InvalidInput(f"{at} cites bytes that are not in the bundle", field=f"{at}.sources")
        if hashlib.sha256(data).hexdigest() != cited.sha256:
            raise SourceMismatch(f"a source of {at} is not what was cited", field=f"{at}.sources")
    if sources[card.body.span] != text.encode("utf-8"):
        raise SourceMismatch(f"the text of {at} is not its body", field=f"{at}.text")
    return card


def _sources(listed: Any) -> dict[tuple[str, int, int], bytes]:
    found: dict[tuple[str, int, int], bytes] = {}
    for number, one in enumerate(_list(listed, "sources")):
        at = f"sources.{number}"
        source = _object(one, at)
        for key in ("artifact", "start", "end", "data"):
            if key not in source:
                raise InvalidInput(f"{at} has no {key}", field=f"{at}.{key}")
        try:
            data = base64.b64decode(_text(source, "data", at), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidInput(f"{at}.data is not base64", field=f"{at}.data") from error
        span = (
            check_sha256(source["artifact"], f"{at}.artifact"),
            _number(source, "start", at),
            _number(source, "end", at),
        )
        if len(data) != span[2] - span[1]:
            raise SourceMismatch(f"{at} has another length than its range", field=at)
        found[span] = data
    return found


def _object(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{at} is no JSON object", field=at)
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput(f"{at} is no list", field=at)
    return value


def _number(value: Mapping[str, Any], key: str, at: str = "") -> int:
    field = f"{at}.{key}" if at else key
    found = value[key]
    if type(found) is not int or found < 0:
        raise InvalidInput(f"{field} is no whole number from 0 up", field=field)
    return found


def _text(value: Mapping[str, Any], key: str, at: str = "") -> str:
    field = f"{at}.{key}" if at else key
    found = value[key]
    if not isinstance(found, str):
        raise InvalidInput(f"{field} is no text", field=field)
    return found


def _utf8(text: str, at: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{at} holds a lone surrogate", field=at) from error
