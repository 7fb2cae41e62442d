"""Signed notes: as C2SP and Go's package write them, and nothing else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import ContextError, InvalidInput, SourceMismatch
from mn_engine.domain.signed_notes import (
    NOTE_BYTES_MAX,
    SIGNATURES_MAX,
    SigningKey,
    VerifierKey,
    base64_bytes,
    verified_text,
)

# The example of golang.org/x/mod/sumdb/note (ExampleSign, ExampleOpen): key, text and note.
SKEY = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
SIGNATURE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
NOTE = f"{TEXT}\n{SIGNATURE}"
# The same package's second signer, and from its tests two keys that are none though their ids fit (TestNewVerifier).
ENOCH_VKEY = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
ENOCH_SIGNATURE = (
    "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
)
LONG_VKEY = "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY=="
OTHER_KIND_VKEY = "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
# The example of https://c2sp.org/signed-note.
C2SP_VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
C2SP_NOTE = (
    "This is an example message.\n\n— example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
KEY = VerifierKey.of(VKEY)


def refused(note: str | bytes, key: VerifierKey = KEY) -> ContextError:
    """Why a note is not taken."""
    data = note.encode() if isinstance(note, str) else note
    with pytest.raises((InvalidInput, SourceMismatch)) as caught:
        verified_text(data, key)
    return caught.value


def test_gos_example_is_signed_and_verified_byte_for_byte() -> None:
    key = SigningKey.of(SKEY)
    assert (key.text, key.verifier.text, key.verifier) == (SKEY, VKEY, KEY)
    assert key.signed(TEXT) == NOTE
    assert verified_text(NOTE.encode(), KEY) == TEXT


def test_c2sps_example_is_verified() -> None:
    assert verified_text(C2SP_NOTE.encode(), VerifierKey.of(C2SP_VKEY)) == "This is an example message.\n"


def test_a_note_of_several_signatures_is_verified_by_each_of_their_keys() -> None:
    both = (NOTE + ENOCH_SIGNATURE).encode()
    assert verified_text(both, KEY) == verified_text(both, VerifierKey.of(ENOCH_VKEY)) == TEXT


def test_a_signature_of_another_key_counts_for_nothing() -> None:
    assert refused(NOTE, VerifierKey.of(ENOCH_VKEY)).detail["field"] == "signature"
    namesake = SigningKey("PeterNeumann", bytes(32))
    assert verified_text((namesake.signed(TEXT) + SIGNATURE).encode(), KEY) == TEXT, "an unknown key, by its id"
    assert isinstance(refused(namesake.signed(TEXT)), SourceMismatch)


def test_one_wrong_signature_of_the_key_spoils_the_note() -> None:
    """C2SP: "If a signature from a known key fails to verify, clients SHOULD reject the whole note"."""
    of_other_text = SigningKey.of(SKEY).signed("other\n").rpartition("\n\n")[2]
    for note in (NOTE + of_other_text, f"{TEXT}\n{of_other_text}{SIGNATURE}"):
        assert isinstance(refused(note), SourceMismatch)


@pytest.mark.parametrize("at", range(len(NOTE.encode())))
def test_every_change_of_one_byte_is_refused(at: int) -> None:
    note = NOTE.encode()
    for byte in {0, 10, 13, 32, 43, 61, 65, 0x80, 0xFF, note[at] ^ 1, note[at] ^ 0x20, note[at] ^ 0x80} - {note[at]}:
        refused(note[:at] + bytes([byte]) + note[at + 1 :])
    refused(note[:at] + note[at + 1 :])
    refused(note[:at])


@given(st.integers(0, len(NOTE.encode()) - 1), st.integers(1, 255))
def test_any_other_byte_anywhere_is_refused(at: int, change: int) -> None:
    note = bytearray(NOTE.encode())
    note[at] ^= change
    refused(bytes(note))


@pytest.mark.parametrize(
    ("note", "field"),
    [
        ("", "note"),
        (TEXT, "note"),
        (f"{TEXT}\n", "note"),
        (NOTE.removesuffix("\n"), "note"),
        (NOTE.encode() + b"\xff\n", "note"),
        (SigningKey.of(SKEY).signed("x" * NOTE_BYTES_MAX + "\n"), "note"),
        (NOTE.replace("If", "If\t"), "text"),
        (NOTE.replace("\n", "\r\n"), "note"),
        (NOTE.replace("— ", "- "), "signature"),
        (NOTE + "more\n", "signature"),
        (NOTE + "other AAAAAAA=\n", "signature"),
        (NOTE + "— PeterNeumann\n", "signature"),
        (NOTE + "— Peter+Neumann AAAAAAA=\n", "signature"),
        (NOTE + "— Peter\u00a0Neumann AAAAAAA=\n", "signature"),
        (NOTE + "— other AAAAAA==\n", "signature"),  # a key's id and nothing more
        (NOTE + "— other AAAAAAA\n", "signature"),
        (NOTE + "— other AAAAAAA=\u00e9\n", "signature"),
        (NOTE + "— other AAAAAAB=\n", "signature"),  # another spelling of the same bytes
        (NOTE + SIGNATURE * SIGNATURES_MAX, "signature"),
    ],
)
def test_what_has_another_form_is_refused_by_the_name_of_its_part(note: str | bytes, field: str) -> None:
    error = refused(note)
    assert isinstance(error, InvalidInput)
    assert error.field == field


def test_as_many_signatures_as_c2sp_asks_for_are_read() -> None:
    assert verified_text((NOTE + ENOCH_SIGNATURE * (SIGNATURES_MAX - 1)).encode(), KEY) == TEXT


@given(st.from_regex(r"[^\s+\x00-\x1f\ud800-\udfff]{1,40}", fullmatch=True), st.binary(min_size=32, max_size=32))
def test_keys_are_read_as_they_are_written(name: str, seed: bytes) -> None:
    key = SigningKey(name, seed)
    assert SigningKey.of(key.text) == key
    assert VerifierKey.of(key.verifier.text) == key.verifier
    assert verified_text(key.signed("a\n\n").encode(), key.verifier) == "a\n\n"


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u2028b", "a\nb", "\x00", "\ud800"])
def test_a_name_that_a_note_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        SigningKey(name, bytes(32))


@pytest.mark.parametrize("key", [SKEY, VKEY])
def test_a_key_of_which_a_byte_is_changed_or_gone_is_refused(key: str) -> None:
    """As Go's TestNewVerifier and TestNewSigner have it; no message shows a part of a secret."""
    read = SigningKey.of if key is SKEY else VerifierKey.of
    parts = {key[start:end] for start in range(len(key)) for end in range(start, len(key) + 1)} - {key}
    changed = {key[:at] + chr(ord(key[at]) + 1) + key[at + 1 :] for at in range(len(key))}
    for wrong in parts | changed | {LONG_VKEY, OTHER_KIND_VKEY, f"{key}\n", f" {key}", key.replace("+c74f", "+C74F")}:
        with pytest.raises(InvalidInput) as caught:
            read(wrong)
        assert caught.value.field in ("key", "text")
        assert "AYEKFALV" not in caught.value.message


def test_a_signing_key_does_not_show_its_seed() -> None:
    key = SigningKey("k", b"s" * 32)
    assert "sss" not in repr(key)


@pytest.mark.parametrize("text", ["", "no end", "tab\t\n", "line\r\n"])
def test_a_text_that_is_no_notes_is_not_signed(text: str) -> None:
    with pytest.raises(InvalidInput):
        SigningKey.of(SKEY).signed(text)


@given(st.binary(max_size=70))
def test_bytes_have_one_spelling_in_base64(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert base64_bytes(text, "x") == data
    for other in (text + "=", text + "\n", text.rstrip("=") + "===", text[:-1]):
        if other != text:
            with pytest.raises(InvalidInput):
                base64_bytes(other, "x")
