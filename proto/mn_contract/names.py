"""What a name may be: ids, labels, claims, hashes and references.

A reference names a card to an asker: `id` for a card the asker wrote, `principal:id` for another principal's. Ids are
unique only among the cards of their writer, so that no writer learns of another's hidden cards by a clash (invariant
7).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import CLAIM_BYTES_MAX, ID_BYTES_MAX, LABEL_BYTES_MAX, MEDIA_TYPE_BYTES_MAX

_ID = re.compile(rf"[A-Za-z0-9_\-.@/]{{1,{ID_BYTES_MAX}}}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(\s*;\s*[A-Za-z0-9!#$&^_.+-]+=(\"[^\"]*\"|[^\s;\"]+))*\Z"
)

SUMMARY_MEDIA_TYPE: Final = "text/vnd.membrane.summary; charset=utf-8"
"""Of the artifact that holds a summary's text. Nobody can cite what stands under it (invariant 6)."""
PACK_MEDIA_TYPE: Final = "application/vnd.membrane.pack+json"
"""Of the artifact that holds a pinned pack: a copy of what others said, and nobody's source."""


def check_id(value: str, field: str) -> str:
    """`value` where it is an id. Raises InvalidInput naming `field`."""
    if not isinstance(value, str) or not _ID.match(value):
        raise InvalidInput(f"{field} must be 1-{ID_BYTES_MAX} bytes of [A-Za-z0-9_-.@/]", field=field)
    return value


def check_sha256(value: str, field: str) -> str:
    """`value` where it is 64 lower-case hex digits. Raises InvalidInput naming `field`."""
    if not isinstance(value, str) or not _SHA256.match(value):
        raise InvalidInput(f"{field} must be a SHA-256 as 64 lower-case hex digits", field=field)
    return value


def check_media_type(value: str, field: str) -> str:
    """`value` where it is a media type of RFC 6838, with parameters. Raises InvalidInput naming `field`."""
    if not isinstance(value, str) or len(value) > MEDIA_TYPE_BYTES_MAX or not _MEDIA_TYPE.match(value):
        raise InvalidInput(f"{field} must be a media type such as text/plain", field=field)
    return value


def utf8(text: str, field: str) -> bytes:
    """`text` in UTF-8. Raises InvalidInput naming `field` where it holds a lone surrogate."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field} holds a lone surrogate, which UTF-8 cannot carry", field=field) from error


def check_text(value: str, field: str, bytes_max: int, *, bytes_min: int = 0) -> str:
    """`value` where it is text of so many UTF-8 bytes. Raises InvalidInput naming `field` and the sizes."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be text, not {type(value).__name__}", field=field)
    size = len(value) if value.isascii() else len(utf8(value, field))
    if not bytes_min <= size <= bytes_max:
        raise InvalidInput(f"{field} must be {bytes_min}-{bytes_max} bytes, not {size}", field=field, size=size)
    return value


def check_label(value: str, field: str) -> str:
    """`value` where it is a topic or an entity. Raises InvalidInput naming `field`."""
    return check_text(value, field, LABEL_BYTES_MAX, bytes_min=1)


def check_claim(value: str, field: str) -> str:
    """`value` where it is a claim's name. Raises InvalidInput naming `field`."""
    return check_text(value, field, CLAIM_BYTES_MAX, bytes_min=1)


def read_names(values: object, field: str, check: Callable[[str, str], object], most: int) -> tuple[str, ...]:
    """A list of at most `most` names, each passed by `check`. A text is one name, never a list of letters.

    Raises InvalidInput naming `field`.
    """
    listed = (values,) if isinstance(values, str) else values
    if not isinstance(listed, Iterable) or isinstance(listed, bytes | bytearray | Mapping):
        raise InvalidInput(f"{field} must be a list of names, not {type(values).__name__}", field=field)
    found = tuple(islice(listed, most + 1))
    if len(found) > most:
        raise InvalidInput(f"{field}: at most {most}", field=field)
    for name in found:
        check(name, field)
    return found


def parse_ref(value: str, field: str) -> tuple[str | None, str]:
    """(owner or None, id) of a reference. Raises InvalidInput naming `field`."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be a card reference", field=field)
    owner, colon, card_id = value.rpartition(":")
    if colon:
        return check_id(owner, field), check_id(card_id, field)
    return None, check_id(value, field)


def format_ref(owner: str, card_id: str, asker: str) -> str:
    """The reference by which `asker` names a card."""
    return card_id if owner == asker else f"{owner}:{card_id}"
