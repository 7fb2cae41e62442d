"""Asking a session, and the command, why a card is in a turn's packet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mn_contract.errors import InvalidInput, NotFound
from mn_sdk.context_session import ContextSession
from tests.scenario.session.upstream import Upstream

MESSAGES = [{"role": "user", "content": json.dumps({"goal": "find the cause"})}]


def a_turn(session: ContextSession, upstream: Upstream) -> Any:
    session.observe("The parser fails on nested brackets", event_id="o1", stance="supports")
    session.observe("The parser is fine with brackets", event_id="o2", stance="opposes")
    session.observe("Rain in the hills", event_id="o3")
    session.observe("Never touch the lexer", event_id="c1", kind="constraint")
    with session.turn("d1", focus="does the parser fail on brackets?") as turn:
        turn.call({"messages": MESSAGES, **upstream.arguments})
    assert turn.report is not None
    return turn.report


def test_each_card_of_a_turn_is_explained(session: ContextSession, upstream: Upstream) -> None:
    report = a_turn(session, upstream)
    held = {item["id"]: item for item in report.items}
    for card, role in (("o1", "ranked"), ("o2", "opposing_share"), ("c1", "constraint")):
        told = session.explain(report.packet_digest, card)
        assert (told["selected"], told["role"], told["reason"]) == (True, role, None)
        assert (told["role"], told["bytes"]) == (held[card]["role"], held[card]["bytes"])
        assert told["packet_digest"] == report.packet_digest
    told = session.explain(report.packet_digest, "o1")
    assert sum(told["parts"].values()) == told["score"] > 0
    assert told["relevance"] == 1 / told["rank"]
    assert told["matched_terms"] == ["bracket", "fail", "parser"]
    assert session.explain(report.packet_digest, "o3")["reason"] == "irrelevant"


def test_it_is_explained_at_the_packets_revision_whatever_came_since(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    session = open_session()
    report = a_turn(session, upstream)
    before = session.explain(report.packet_digest, "o1")
    session.observe("The parser was mended", event_id="o4", supersedes=["o1"])
    session.close()
    again = open_session()
    assert again.explain(report.packet_digest, "o1") == before
    assert again.explain(report.packet_digest, "o4")["reason"] == "later"


def test_an_unknown_packet_or_card_is_refused_in_one_way(session: ContextSession, upstream: Upstream) -> None:
    report = a_turn(session, upstream)
    with pytest.raises(NotFound):
        session.explain("0" * 64, "o1")
    with pytest.raises(NotFound):
        session.explain(report.packet_digest, "absent")
    for digest, card in (("short", "o1"), (report.packet_digest, "not a ref"), (None, "o1"), (report.packet_digest, 5)):
        with pytest.raises(InvalidInput):
            session.explain(digest, card)  # type: ignore[arg-type]


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mn_engine.cli", "explain", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_says_the_same(
    open_session: Callable[..., ContextSession], upstream: Upstream, tmp_path: Path
) -> None:
    session = open_session(root=tmp_path / "root")
    report = a_turn(session, upstream)
    expected = session.explain(report.packet_digest, "o2")
    session.close()
    scope = ["--root", str(tmp_path / "root"), "--job", "job", "--run", "run", "--principal", "alice"]
    done = ran(report.packet_digest, "o2", *scope)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("o2 is in the packet: it opposes")
    assert json.loads(ran(report.packet_digest, "o2", *scope, "--json").stdout) == expected
    absent = ran(report.packet_digest, "absent", *scope)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "NOT_FOUND" in absent.stderr
    nowhere = ran(report.packet_digest, "o2", *scope[2:], "--root", str(tmp_path / "nowhere"))
    assert (nowhere.returncode, "there is no session" in nowhere.stderr) == (1, True)
    assert not (tmp_path / "nowhere").exists()


def test_a_packet_is_explained_to_the_roles_that_it_was_made_with(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    """Invariant 7, and no story of another packet."""
    with_role = open_session(roles=("chief",))
    report = a_turn(with_role, upstream)
    assert with_role.explain(report.packet_digest, "o1")["selected"]
    with pytest.raises(NotFound) as refused:
        open_session().explain(report.packet_digest, "o1")
    assert "o1" not in refused.value.message


def test_a_record_of_several_cards_is_explained_card_by_card(session: ContextSession, upstream: Upstream) -> None:
    cards = session.observe("parser " * 10_000, event_id="long")
    assert len(cards) > 1
    report = a_turn(session, upstream)
    with pytest.raises(InvalidInput, match=f"{cards[0]} to {cards[-1]}"):
        session.explain(report.packet_digest, "long")
    assert session.explain(report.packet_digest, cards[0])["card"] == cards[0]


def test_what_is_required_has_no_score(session: ContextSession, upstream: Upstream) -> None:
    """It is in by right, however it ranks, and its numbers add up."""
    session.observe("Brackets fail", event_id="rule", kind="constraint")
    told = session.explain(a_turn(session, upstream).packet_digest, "rule")
    assert (told["role"], told["score"], told["parts"]) == ("constraint", 0, {})
