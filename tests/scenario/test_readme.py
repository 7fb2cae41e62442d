"""The README's examples run as they stand."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from mn_engine.config import serve_config
from mn_sdk.context_session import ContextPolicy
from mn_sdk.demo.stand_in import MODEL, StandIn
from tests.scenario.session.upstream import Upstream, completion

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str, about: str) -> list[str]:
    """The README's blocks of a language that hold a word."""
    found = re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in found if about in block]


def test_the_embedding_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its constraint, both sides of the price and the answer come back."""
    monkeypatch.delenv("MN_CONTEXT_ADDR", raising=False)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    (code,) = blocks("python", "ContextSession(")
    stand_in = StandIn(tmp_path / "ledger.jsonl", lambda decision: None)
    monkeypatch.setenv("OPENAI_API_BASE", stand_in.url)
    monkeypatch.setenv("OPENAI_API_KEY", "stand-in")
    try:
        exec(compile(code, str(README), "exec"), {"root": tmp_path / "run", "model": f"openai/{MODEL}"})
    finally:
        stand_in.close()
    printed = capsys.readouterr().out
    assert len(stand_in.requests) == 1, printed
    assert "contract-7" in printed
    for recorded in ("rule-1", "offer-1"):
        assert recorded in printed


def test_the_decision_that_is_kept_as_a_file_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MN_CONTEXT_ADDR", raising=False)
    monkeypatch.chdir(tmp_path)
    upstream = Upstream()
    upstream.body = completion('{"price": 10.5}')
    for name, value in {"MODEL": "openai/gpt-4o", "API_BASE": upstream.base, "API_KEY": "none"}.items():
        monkeypatch.setenv(f"MN_LLM_{name}", value)
    (example,) = blocks("python", "durable_json_decision")
    names = {"ContextPolicy": ContextPolicy, "schema": {"type": "object"}, "validate": lambda schema, value: None}
    try:
        for _ in range(2):
            exec(compile(example, str(README), "exec"), names)
    finally:
        upstream.close()
    assert names["value"] == {"price": 10.5}
    assert len(upstream.requests) == 1


def test_the_tokens_file_is_read(tmp_path: Path) -> None:
    (text,) = blocks("yaml", "principal: alice")
    (named,) = re.findall(r"printf %s (\S+) \| sha256sum", text)
    file = tmp_path / "tokens.yaml"
    file.write_text(text)
    (token,) = serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)}).gate.bound
    assert token.sha256 == hashlib.sha256(named.encode()).hexdigest()
    assert (token.principal, token.roles, token.jobs) == ("alice", {"reader"}, None)
