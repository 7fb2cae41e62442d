"""Following a run's revisions over every face."""

from __future__ import annotations

import threading

import pytest

from mn.context.working.v1 import run_pb2
from mn_contract.errors import NotFound
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import observe, opened


def test_a_watcher_is_told_the_newest_revision_and_the_end(faces: Faces) -> None:
    alice, watcher = faces.of(), faces.of("watcher")
    opened(alice)
    observe(alice, "a", "one")
    told: list[tuple[int, int]] = []
    caught_up, first = threading.Event(), threading.Event()

    def follow() -> None:
        for answer in watcher.call("WatchRevisions", run_pb2.WatchRevisionsRequest()):
            told.append((answer.revision, answer.state))
            first.set()
            if answer.revision >= 3:
                caught_up.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert first.wait(20), "what was there already is told first"
    observe(alice, "b", "two")
    observe(alice, "c", "three")
    assert caught_up.wait(20)
    alice.call("CancelRun", run_pb2.CancelRunRequest(reason="enough"))
    thread.join(20)
    assert not thread.is_alive(), "the stream ends with the run"
    revisions = [revision for revision, _ in told]
    assert revisions == sorted(revisions), "the past is never told after the present"
    assert told[-1] == (3, run_pb2.RUN_STATE_CANCELLED)


def test_a_run_that_was_never_opened_cannot_be_watched(faces: Faces) -> None:
    with pytest.raises(NotFound):
        list(faces.of(run="absent").call("WatchRevisions", run_pb2.WatchRevisionsRequest()))
