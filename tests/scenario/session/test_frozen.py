"""Files beside the record that are not what was put: nothing of them is used, whatever asks (invariants 6 and 13)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mn_contract.errors import SourceMismatch
from mn_sdk.context_session import ContextSession, provider
from tests.scenario.session.conftest import Opener
from tests.scenario.session.upstream import Upstream

litellm = provider.load()
LONG = "alpha " + "a long record of many words " * 6000
MESSAGES = [{"role": "user", "content": '{"goal": "decide"}'}]
DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "shorter": lambda file: file.write_bytes(file.read_bytes()[:1000]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"more"),
    "changed": lambda file: file.write_bytes(file.read_bytes()[:-1] + b"!"),
}


def damaged_after(session: ContextSession, root: Path, damage: str) -> None:
    session.observe(LONG, event_id="long")
    (file,) = root.rglob("*.blobs/*/*")
    DAMAGES[damage](file)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reopened", [False, True])
def test_a_damaged_file_is_a_source_mismatch_to_whoever_asks(
    open_session: Opener, upstream: Upstream, tmp_path: Path, damage: str, reopened: bool
) -> None:
    session = open_session()
    damaged_after(session, tmp_path, damage)
    if reopened:
        session.close()
        session = open_session()

    def turn() -> None:
        with session.turn("t", focus="alpha"):
            litellm.completion(messages=MESSAGES, **upstream.arguments)

    for ask in (
        turn,
        lambda: session.memory_action("read_memory", {"item_id": "long"}),
        lambda: session.memory_action("read_memory", {"item_id": "long", "offset": 100_000}),
        lambda: session.memory_action("recall_memory", {"query": "alpha"}),
    ):
        with pytest.raises(SourceMismatch):
            ask()
    assert session.observe("goes on", event_id="next") == ("next",)
