"""Checkpoints: a run's root as C2SP's tlog-checkpoint writes it, read back as it was and in no other form."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput, SourceMismatch
from mn_contract.limits import ID_BYTES_MAX, REVISION_MAX
from mn_engine.domain.checkpoints import Checkpoint, verified_checkpoint
from mn_engine.domain.signed_notes import SigningKey

IDS = st.from_regex(r"[A-Za-z0-9_\-.@/]{1,160}", fullmatch=True)
HASHES = st.binary(min_size=32, max_size=32).map(bytes.hex)
CHECKPOINTS = st.builds(
    Checkpoint,
    job_id=IDS,
    run_id=IDS,
    size=st.integers(0, (1 << 63) - 1),
    tree=HASHES,
    revision=st.integers(0, REVISION_MAX),
    root=HASHES,
)
ONE = Checkpoint(job_id="a/b@c", run_id="2026-11", size=20852163, tree="0a" * 32, revision=7, root="bc" * 32)
TEXT = (
    "membrane/a%2Fb%40c/2026-11\n20852163\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\n"
    f"revision 7\nroot {'bc' * 32}\n"
)
KEY = SigningKey("example.com/membrane", b"k" * 32)


def test_a_checkpoint_is_written_line_by_line() -> None:
    assert ONE.text == TEXT
    assert Checkpoint.of(TEXT) == ONE


def test_the_three_lines_are_those_of_c2sps_example() -> None:
    """https://c2sp.org/tlog-checkpoint: size in decimal and root in base64 on the second and the third line."""
    root = base64.b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=").hex()
    lines = replace(ONE, tree=root).text.split("\n")
    assert lines[1:3] == ["20852163", "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="]


def test_an_empty_run_has_a_checkpoint_of_size_0() -> None:
    assert replace(ONE, size=0, revision=0, tree=hashlib.sha256().hexdigest()).text.split("\n")[1] == "0"


@given(CHECKPOINTS)
def test_any_checkpoint_is_read_as_it_is_written(checkpoint: Checkpoint) -> None:
    note = checkpoint.signed(KEY)
    assert verified_checkpoint(note.encode(), KEY.verifier) == checkpoint
    assert checkpoint.origin.isascii()
    assert not set(checkpoint.origin) & set(" +\n")


@given(IDS, IDS, IDS, IDS)
def test_no_two_runs_have_one_origin(job: str, run: str, other_job: str, other_run: str) -> None:
    def origin(job: str, run: str) -> str:
        return replace(ONE, job_id=job, run_id=run).origin

    assert (origin(job, run) == origin(other_job, other_run)) == ((job, run) == (other_job, other_run))
    short = job[:80]
    assert origin(f"{short}/x", run[:80]) != origin(short, f"x/{run[:80]}")


@given(CHECKPOINTS, st.data())
def test_every_changed_byte_of_a_note_is_refused(checkpoint: Checkpoint, data: st.DataObject) -> None:
    note = bytearray(checkpoint.signed(KEY).encode())
    note[data.draw(st.integers(0, len(note) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((InvalidInput, SourceMismatch)):
        verified_checkpoint(bytes(note), KEY.verifier)


@given(CHECKPOINTS, st.data())
def test_a_text_that_is_read_is_the_one_that_would_be_written(checkpoint: Checkpoint, data: st.DataObject) -> None:
    """Also of a signer that we do not know: whatever is taken has one spelling."""
    text = checkpoint.text
    at = data.draw(st.integers(0, len(text) - 1))
    piece = data.draw(st.sampled_from(["", "0", "1", "a", "A", "=", "/", "%", "%2F", "%2f", "+", "-", " ", "\n", "é"]))
    changed = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]
    with suppress(InvalidInput):
        assert Checkpoint.of(changed).text == changed


@pytest.mark.parametrize(
    ("line", "wrong", "field"),
    [
        (0, "", "origin"),
        (0, "membrane/a", "origin"),
        (0, "membrane/a/b/c", "origin"),
        (0, "membrane//b", "origin"),
        (0, "other/a/b", "origin"),
        (0, "membrane/a/b%2f", "origin"),
        (0, "membrane/%61/b", "origin"),
        (0, "membrane/a%20/b", "origin"),
        (0, "membrane/a%0Ab/c", "origin"),
        (0, f"membrane/{'a' * (ID_BYTES_MAX + 1)}/b", "origin"),
        (1, "", "size"),
        (1, "01", "size"),
        (1, "-1", "size"),
        (1, "+1", "size"),
        (1, "1_0", "size"),
        (1, " 1", "size"),
        (1, "١", "size"),
        (1, "9" * 5000, "size"),
        (1, str(1 << 63), "size"),
        (2, "", "tree"),
        (2, "AAAA", "tree"),
        (2, base64.b64encode(bytes(33)).decode(), "tree"),
        (2, "CgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgp=", "tree"),
        (2, "0a" * 32, "tree"),
        (3, "revision", "revision"),
        (3, "7", "revision"),
        (3, "revision 07", "revision"),
        (3, "Revision 7", "revision"),
        (3, f"revision {REVISION_MAX + 1}", "revision"),
        (3, f"root {'bc' * 32}", "revision"),
        (4, f"root {'BC' * 32}", "root"),
        (4, f"root  {'bc' * 32}", "root"),
        (4, "root bc", "root"),
        (4, "bc" * 32, "root"),
    ],
)
def test_a_line_of_another_form_is_refused_by_its_name(line: int, wrong: str, field: str) -> None:
    lines = TEXT.split("\n")
    lines[line] = wrong
    with pytest.raises(InvalidInput) as caught:
        Checkpoint.of("\n".join(lines))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "text", ["", TEXT + "more\n", TEXT + "\n", TEXT.removesuffix("\n"), TEXT.partition("revis")[0]]
)
def test_more_or_fewer_lines_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Checkpoint.of(text)
    assert caught.value.field == "text"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"job_id": "two\nlines"}, "origin"),
        ({"run_id": ""}, "origin"),
        ({"size": -1}, "size"),
        ({"revision": REVISION_MAX + 1}, "revision"),
        ({"tree": "AB" * 32}, "tree"),
        ({"root": ""}, "root"),
    ],
)
def test_what_is_no_checkpoint_is_not_made(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        replace(ONE, **change)
    assert caught.value.field == field
