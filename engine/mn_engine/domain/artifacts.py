"""Artifacts: immutable bytes, named by their SHA-256 within a run.

The same bytes may be put twice, by different principals for different readers: each put is a handle of its own, and an
artifact is readable through any handle that permits it. So nobody learns from a put that the bytes were there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mn_contract.errors import InvalidInput, NotFound, SourceMismatch
from mn_contract.names import PACK_MEDIA_TYPE, SUMMARY_MEDIA_TYPE, check_id, check_media_type, check_sha256
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A handle: which bytes, whose, for whom."""

    sha256: str
    size: int
    media_type: str
    owner: str
    acl: Acl = field(default=OPEN)

    def __post_init__(self) -> None:
        check_sha256(self.sha256, "artifact.sha256")
        check_media_type(self.media_type, "artifact.media_type")
        check_id(self.owner, "principal")

    @property
    def pack(self) -> bool:
        """Whether it is a pack that the engine has kept."""
        return _plain(self.media_type) == _plain(PACK_MEDIA_TYPE)

    @property
    def citable(self) -> bool:
        """Whether cards may cite its bytes: a summary's and a pack's are derived (invariant 6). The same bytes, put as
        what they are in another artifact, have a handle that is."""
        return _plain(self.media_type) not in (_plain(SUMMARY_MEDIA_TYPE), _plain(PACK_MEDIA_TYPE))


def check_open(media_type: str, field: str) -> str:
    """`media_type` where anybody may put bytes under it: packs are the engine's to make. Raises InvalidInput."""
    if _plain(media_type) == _plain(PACK_MEDIA_TYPE):
        raise InvalidInput(f"what is of media type {PACK_MEDIA_TYPE} only the engine makes: pin a pack", field=field)
    return media_type


def _plain(media_type: str) -> str:
    """A media type without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def readable(handles: Iterable[Artifact], reader: Scope) -> Artifact | None:
    """The first of an artifact's handles that permits `reader`, their own first; None where none does."""
    permitted = [handle for handle in handles if handle.acl.permits(reader, owner=handle.owner)]
    permitted.sort(key=lambda handle: handle.owner != reader.principal)
    return permitted[0] if permitted else None


Permits = Callable[[Iterable[Artifact]], bool]
"""Whether an artifact may be read through one of its handles."""


def to_all(handles: Iterable[Artifact]) -> bool:
    """Permits what is there: for the engine's own checks, whose answers nobody sees."""
    return True


def check_permitted(handles: Iterable[Artifact], permits: Permits) -> None:
    """Raises NotFound where an artifact has no handle in the run, and the same where none permits it."""
    handles = tuple(handles)
    if not handles or not permits(handles):
        raise absent()


def absent() -> NotFound:
    """The error for an artifact that the run does not have, and for one that is not the asker's to read."""
    return NotFound("there is no such artifact in this run, or it is not yours to read")


def check_range(size: int, start: int, end: int) -> None:
    """Raises InvalidInput where [start, end) is empty or leaves an artifact of `size` bytes."""
    if not 0 <= start < end <= size:
        raise InvalidInput(
            f"range {start}-{end} does not lie in the artifact's {size} bytes",
            field="range",
            start=start,
            end=end,
            size=size,
        )


def check_hash(found: str, expected: str) -> None:
    """Raises SourceMismatch where bytes are not those that were cited."""
    if expected and found != expected:
        raise SourceMismatch(
            "the bytes are not those that were cited; the evidence was not used", expected=expected, found=found
        )
