"""Artifacts: handles, ranges and uploads, inline and as files."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mn_contract.errors import ContextBudgetExceeded, InvalidInput, NotFound, RunClosed, SourceMismatch
from mn_contract.limits import ARTIFACT_INLINE_BYTES_MAX, KIB
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.artifacts import Artifact
from mn_engine.store.port import Store
from tests.storing import KEY, artifact, batch, event, handles, observe, open_run, sha

SIZES = (0, 1, ARTIFACT_INLINE_BYTES_MAX, ARTIFACT_INLINE_BYTES_MAX + 1, 3 * ARTIFACT_INLINE_BYTES_MAX + 7)


def blob(size: int) -> bytes:
    """Bytes that differ from place to place."""
    return bytes(number * 37 % 251 for number in range(size))


def upload(
    store: Store, data: bytes, *, owner: str = "ada", acl: Acl = OPEN, expected: str = "", chunk: int = 50 * KIB
) -> Artifact:
    """Puts bytes, in chunks."""
    arriving = store.upload(KEY)
    for start in range(0, len(data), chunk):
        arriving.write(data[start : start + chunk])
    return arriving.finish(media_type="text/plain", owner=owner, acl=acl, expected_sha256=expected)


@pytest.mark.parametrize("size", SIZES)
def test_what_was_put_is_read_whole_and_in_parts(store: Store, size: int) -> None:
    open_run(store)
    data = blob(size)
    handle = upload(store, data, expected=sha(data))
    assert handle == Artifact(sha256=sha(data), size=size, media_type="text/plain", owner="ada")
    assert handles(store, handle.sha256) == (handle,)
    spans = [(0, size), (size // 3, size // 2 + 1), (size - 1, size)] if size else []
    found = store.read_ranges(KEY, [(handle.sha256, start, end) for start, end in spans])
    assert found == [data[start:end] for start, end in spans]
    assert store.run(KEY).stored_bytes == size


def test_ranges_of_several_artifacts_come_in_the_order_asked(store: Store) -> None:
    open_run(store)
    small, large = b"small bytes", blob(100_000)
    store.commit(batch(event("e", artifacts=(artifact(small),))))
    upload(store, large)
    asked = [(sha(large), 7, 9), (sha(small), 0, 5), (sha(large), 0, 2), (sha(small), 0, 5)]
    assert store.read_ranges(KEY, asked) == [large[7:9], b"small", large[:2], b"small"]


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (6, 5), (-1, 3), (0, 200_000), (200_000, 200_001)])
def test_a_range_past_the_end_is_refused(store: Store, size: int, start: int, end: int) -> None:
    open_run(store)
    handle = upload(store, blob(size))
    with pytest.raises(InvalidInput) as refused:
        store.read_ranges(KEY, [(handle.sha256, start, end)])
    assert refused.value.field == "range"


def test_an_unknown_artifact_is_not_found(store: Store) -> None:
    open_run(store)
    upload(store, b"there")
    assert handles(store, sha(b"not there")) == ()
    with pytest.raises(NotFound):
        store.read_ranges(KEY, [(sha(b"there"), 0, 1), (sha(b"not there"), 0, 1)])


@pytest.mark.parametrize("size", [10, 100_000])
def test_bytes_are_read_through_handles_that_permit_it(store: Store, size: int) -> None:
    """Invariant 7: all handles of the bytes are shown, and where none will do the bytes are as absent."""
    open_run(store)
    data = blob(size)
    for owner in ("bob", "ada"):
        upload(store, data, owner=owner)
    shown: list[str] = []

    def of_ada(handles: Iterable[Artifact]) -> bool:
        shown.extend(handle.owner for handle in handles)
        return "ada" in shown

    assert store.read_ranges(KEY, [(sha(data), 0, 2)], permits=of_ada) == [data[:2]]
    assert shown == ["bob", "ada"]
    upload(store, b"open")
    for start in (0, -1):  # whatever the range: that one is bad would tell that the bytes are there
        with pytest.raises(NotFound) as refused:
            store.read_ranges(KEY, [(sha(b"open"), 0, 1), (sha(data), start, 2)], permits=lambda handles: False)
        with pytest.raises(NotFound) as absent:
            store.read_ranges(KEY, [(sha(b"absent"), 0, 1)])
        assert str(refused.value) == str(absent.value)


@pytest.mark.parametrize("size", [10, 100_000])
def test_bytes_that_are_not_the_expected_ones_are_not_kept(store: Store, size: int) -> None:
    """Invariant 6."""
    open_run(store)
    with pytest.raises(SourceMismatch):
        upload(store, blob(size), expected=sha(b"others"))
    assert handles(store, sha(blob(size))) == ()
    assert store.run(KEY).stored_bytes == 0


def test_an_aborted_upload_leaves_nothing(store: Store) -> None:
    open_run(store)
    arriving = store.upload(KEY)
    arriving.write(blob(100_000))
    arriving.abort()
    arriving.abort()
    assert handles(store, sha(blob(100_000))) == ()
    assert store.run(KEY).stored_bytes == 0


def test_every_put_of_the_same_bytes_is_a_handle_of_its_own(store: Store) -> None:
    """Invariant 7: nobody learns from a put that the bytes were there already."""
    open_run(store)
    for data in (b"small", blob(100_000)):
        first = upload(store, data, acl=Acl(allow_principals=frozenset({"ada"})))
        second = upload(store, data, owner="bob")
        assert upload(store, data, owner="bob") == second
        assert handles(store, sha(data)) == (first, second)
        assert store.read_ranges(KEY, [(sha(data), 0, 5)]) == [data[:5]]


@pytest.mark.parametrize("size", [100, 100_000])
def test_an_upload_over_the_storage_budget_is_refused_with_numbers(store: Store, size: int) -> None:
    open_run(store, max_stored_bytes=size - 1)
    with pytest.raises(ContextBudgetExceeded) as refused:
        upload(store, blob(size))
    assert refused.value.detail["limit"] == size - 1
    assert store.run(KEY).stored_bytes == 0
    assert handles(store, sha(blob(size))) == ()


@pytest.mark.parametrize("size", [100, 100_000])
def test_an_upload_is_charged_when_it_ends(store: Store, size: int) -> None:
    """What had room when it began may have none when it ends."""
    open_run(store, max_stored_bytes=size + 50)
    arriving = store.upload(KEY)
    arriving.write(blob(size))
    upload(store, b"x" * 51)
    with pytest.raises(ContextBudgetExceeded) as refused:
        arriving.finish(media_type="text/plain", owner="ada", acl=OPEN, expected_sha256="")
    assert refused.value.detail["used"] == 51
    assert handles(store, sha(blob(size))) == ()
    assert store.run(KEY).stored_bytes == 51


def test_an_upload_that_began_before_a_cancel_is_refused_at_its_end(store: Store) -> None:
    open_run(store)
    arriving = store.upload(KEY)
    arriving.write(blob(100_000))
    store.cancel_run(KEY, reason="")
    with pytest.raises(RunClosed):
        arriving.finish(media_type="text/plain", owner="ada", acl=OPEN, expected_sha256="")
    assert handles(store, sha(blob(100_000))) == ()


def test_an_artifact_makes_no_revision(store: Store) -> None:
    open_run(store)
    observe(store, "a")
    upload(store, b"bytes")
    assert store.run(KEY).revision == 1
