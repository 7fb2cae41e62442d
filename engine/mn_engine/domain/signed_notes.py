"""Signed notes: text that a key vouches for, and that anybody checks who knows the key.

The form is C2SP's (https://c2sp.org/signed-note) and that of Go's golang.org/x/mod/sumdb/note: the text, an empty line,
and a line for each signature, `— NAME BASE64`, of four bytes of key id and the signature. Keys are Ed25519 (RFC 8032)
and travel as one line: the verifier key `NAME+ID+BASE64`, the signing key `PRIVATE+KEY+NAME+ID+BASE64`. Whatever is
read here is written again byte for byte; what would not be is refused. The one module that knows cryptography.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mn_contract.errors import InvalidInput, SourceMismatch
from mn_contract.names import utf8

NOTE_BYTES_MAX: Final = 1_000_000
"""A note whole; as much as Go's package reads."""
SIGNATURES_MAX: Final = 100
"""Of one note; C2SP wants 16 or more to be taken, Go's package takes as many as this."""
KEY_BYTES: Final = 32
"""An Ed25519 key, public or private (the seed)."""

_ED25519: Final = b"\x01"
"""C2SP's byte for the kind of signature."""
_ID_BYTES: Final = 4
_DASH: Final = "\u2014 "
_PRIVATE: Final = "PRIVATE+KEY+"
_NAME = re.compile(r"[^\s+\x00-\x1f]+\Z")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """What checks a signature: the key's name and its 32 bytes."""

    name: str
    public: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name, "key")
        _check_length(self.public)

    @property
    def id(self) -> bytes:
        """Four bytes that, with the name, say which key made a signature."""
        return hashlib.sha256(utf8(self.name, "key") + b"\n" + _ED25519 + self.public).digest()[:_ID_BYTES]

    @property
    def text(self) -> str:
        """The key as it is handed around."""
        return f"{self.name}+{self.id.hex()}+{_base64(_ED25519 + self.public)}"

    @classmethod
    def of(cls, text: str) -> VerifierKey:
        """The inverse of `text`. Raises InvalidInput of `key`."""
        name, _, rest = text.partition("+")
        key_id, _, data = rest.partition("+")
        key = cls(name, _key_bytes(data))
        if key.id.hex() != key_id:
            raise InvalidInput("the key's id is not that of its name and bytes: copy the whole key again", field="key")
        return key

    def verifies(self, text: str, signature: bytes) -> bool:
        """Whether the key has signed the text."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text.encode("utf-8"))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """What makes a signature: the key's name and the 32 bytes of its seed, which no message and no log may show."""

    name: str
    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_key_name(self.name, "key")
        _check_length(self.seed)

    @property
    def verifier(self) -> VerifierKey:
        """The key that checks what this one signs."""
        return VerifierKey(self.name, self._key.public_key().public_bytes_raw())

    @property
    def text(self) -> str:
        """The key as a file keeps it: secret."""
        return f"{_PRIVATE}{self.name}+{self.verifier.id.hex()}+{_base64(_ED25519 + self.seed)}"

    @classmethod
    def of(cls, text: str) -> SigningKey:
        """The inverse of `text`. Raises InvalidInput of `key`, which quotes nothing of it."""
        if not text.startswith(_PRIVATE):
            raise InvalidInput(f"this is no signing key: such a key begins with {_PRIVATE}", field="key")
        name, _, rest = text.removeprefix(_PRIVATE).partition("+")
        key_id, _, data = rest.partition("+")
        key = cls(name, _key_bytes(data))
        if key.verifier.id.hex() != key_id:
            raise InvalidInput("the signing key's id is not that of its name and bytes", field="key")
        return key

    def signed(self, text: str) -> str:
        """The note of a text that ends with a newline, under one signature."""
        check_text(text)
        signature = self._key.sign(text.encode("utf-8"))
        return f"{text}\n{_DASH}{self.name} {_base64(self.verifier.id + signature)}\n"

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def verified_text(note: bytes, key: VerifierKey) -> str:
    """The text of a note that the key has signed. Signatures of other keys are passed over, as C2SP wants it.

    Raises InvalidInput naming what has another form (`note`, `text` or `signature`), SourceMismatch where the key has
    not signed the note, or the text is not what it has signed."""
    text, lines = _parted(note)
    by_key = [signature for name, key_id, signature in _signatures(lines) if (name, key_id) == (key.name, key.id)]
    if not by_key:
        raise SourceMismatch(
            "the note has no signature of this key: ask whoever gave you the note for theirs", field="signature"
        )
    if not all(key.verifies(text, signature) for signature in by_key):
        raise SourceMismatch(
            "the note is not what this key has signed: do not rely on it, and ask for another", field="signature"
        )
    return text


def check_key_name(name: str, field: str) -> str:
    """`name` where it may name a key: no spaces and no plus. Raises InvalidInput naming `field`."""
    if not _NAME.match(name):
        raise InvalidInput(f"{field}: a key's name has no spaces and no +, such as example.com/membrane", field=field)
    utf8(name, field)
    return name


def check_text(text: str) -> str:
    """`text` where a note can be made of it. Raises InvalidInput of `text`."""
    if not text.endswith("\n") or _CONTROL.search(text):
        raise InvalidInput("a note's text ends with a newline and has no other control characters", field="text")
    return text


def base64_bytes(text: str, field: str) -> bytes:
    """The bytes of base64 with its padding, in its one spelling. Raises InvalidInput naming `field`."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{field} is not base64", field=field) from error
    if _base64(data) != text:  # bits beyond the last byte, which decoding drops
        raise InvalidInput(f"{field} is not base64 as it is written", field=field)
    return data


def _parted(note: bytes) -> tuple[str, list[str]]:
    """A note's text and its signature lines. Raises InvalidInput."""
    if len(note) > NOTE_BYTES_MAX:
        raise InvalidInput(f"a note is of at most {NOTE_BYTES_MAX} bytes", field="note")
    try:
        whole = note.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput("the note is not in UTF-8", field="note") from error
    text, empty, signatures = whole.rpartition("\n\n")
    if not empty or not signatures.endswith("\n"):
        raise InvalidInput("this is no signed note: it ends with an empty line and lines of signatures", field="note")
    lines = signatures.removesuffix("\n").split("\n")
    if len(lines) > SIGNATURES_MAX:
        raise InvalidInput(f"a note has at most {SIGNATURES_MAX} signatures", field="signature")
    return check_text(f"{text}\n"), lines


def _signatures(lines: list[str]) -> Iterator[tuple[str, bytes, bytes]]:
    """(key name, key id, signature) of each line. Raises InvalidInput."""
    for line in lines:
        name, _, data = line.removeprefix(_DASH).partition(" ")
        if not line.startswith(_DASH):
            raise InvalidInput("a signature's line is an em dash, the key's name and base64", field="signature")
        signature = base64_bytes(data, "signature")
        if len(signature) <= _ID_BYTES:
            raise InvalidInput("a signature is four bytes of key id and more", field="signature")
        yield check_key_name(name, "signature"), signature[:_ID_BYTES], signature[_ID_BYTES:]


def _key_bytes(data: str) -> bytes:
    """The 32 bytes of an Ed25519 key. Raises InvalidInput of `key`."""
    kind_and_key = base64_bytes(data, "key")
    if kind_and_key[:1] != _ED25519:
        raise InvalidInput("the key is none for Ed25519 signatures", field="key")
    return kind_and_key[1:]


def _check_length(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"an Ed25519 key is of {KEY_BYTES} bytes", field="key")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
