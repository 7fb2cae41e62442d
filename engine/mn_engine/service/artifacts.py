"""Putting, finding and reading artifacts. Every read checks the handle's ACL anew, and the bytes against their hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mn_contract.errors import InvalidInput
from mn_contract.limits import ARTIFACT_CHUNK_BYTES_MAX, ARTIFACT_READ_BYTES_MAX, ARTIFACT_READ_RANGES_MAX
from mn_contract.names import check_media_type, check_sha256
from mn_engine.domain.access import Acl
from mn_engine.domain.artifacts import Artifact, absent, check_hash, check_open, readable
from mn_engine.domain.requests import NewRange
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call, Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class RangePiece:
    """A piece of the `range_index`-th range that was asked for; `range_sha256` on its last piece."""

    range_index: int
    chunk: bytes
    range_sha256: str = ""


def put_artifact(engine: Engine, scope: Scope, call: Call, *, media_type: str, **given: Any) -> Artifact:
    """Stores bytes as they come in; see keep_artifact. What only the engine makes is refused: InvalidInput."""
    return keep_artifact(engine, scope, call, media_type=check_open(media_type, "media_type"), **given)


def keep_artifact(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    media_type: str,
    expected_sha256: str,
    acl: Acl,
    chunks: Iterable[bytes],
) -> Artifact:
    """Stores bytes as they come in; nothing is kept where the stream breaks, ends early or is not what was expected."""
    check_media_type(media_type, "media_type")
    if expected_sha256:
        check_sha256(expected_sha256, "expected_sha256")
    engine.store.run(scope.run_key).check_writable()
    upload = engine.store.upload(scope.run_key)
    try:
        for chunk in chunks:
            if len(chunk) > ARTIFACT_CHUNK_BYTES_MAX:
                raise InvalidInput(
                    f"a chunk is at most {ARTIFACT_CHUNK_BYTES_MAX} bytes", field="chunk", size=len(chunk)
                )
            call.check()
            upload.write(chunk)
        call.check()
        return upload.finish(media_type=media_type, owner=scope.principal, acl=acl, expected_sha256=expected_sha256)
    finally:
        upload.abort()


def stat_artifact(engine: Engine, scope: Scope, call: Call, *, sha256: str) -> Artifact:
    """The artifact, through a handle that the asker may read. Raises NotFound."""
    check_sha256(sha256, "sha256")
    handles = engine.store.artifacts(scope.run_key, {sha256}).get(sha256, ())
    handle = readable(handles, scope)
    if handle is None:
        raise absent()
    return handle


def read_artifact(engine: Engine, scope: Scope, call: Call, *, ranges: tuple[NewRange, ...]) -> Iterator[RangePiece]:
    """The ranges' bytes, in order. All of them are permitted and checked before the first piece."""
    if not 1 <= len(ranges) <= ARTIFACT_READ_RANGES_MAX:
        raise InvalidInput(f"1-{ARTIFACT_READ_RANGES_MAX} ranges can be read at once", field="ranges")
    if sum(wanted.end - wanted.start for wanted in ranges) > ARTIFACT_READ_BYTES_MAX:
        raise InvalidInput(f"at most {ARTIFACT_READ_BYTES_MAX} bytes can be read at once", field="ranges")
    found = engine.store.read_ranges(
        scope.run_key,
        [wanted.span for wanted in ranges],
        permits=lambda handles: readable(handles, scope) is not None,
    )
    hashes = [hashlib.sha256(data).hexdigest() for data in found]
    for wanted, sha256 in zip(ranges, hashes, strict=True):
        check_hash(sha256, wanted.sha256)
    return _pieces(found, hashes, call)


def _pieces(found: list[bytes], hashes: list[str], call: Call) -> Iterator[RangePiece]:
    for index, (data, sha256) in enumerate(zip(found, hashes, strict=True)):
        starts = range(0, len(data), ARTIFACT_CHUNK_BYTES_MAX)
        for start in starts:
            call.check()
            yield RangePiece(
                range_index=index,
                chunk=data[start : start + ARTIFACT_CHUNK_BYTES_MAX],
                range_sha256=sha256 if start == starts[-1] else "",
            )
