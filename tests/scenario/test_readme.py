"""The README's examples run as they stand."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters

from mn.context.working.v1 import run_pb2
from mn_contract.addresses import read_address
from mn_engine.bootstrap import engine_over, http_server
from mn_engine.config import profiles, serve_config
from mn_engine.domain.bundles import verify_bundle
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.store.memory import MemoryStore
from mn_engine.wire.table import TOOLS
from mn_sdk.context_session import ContextPolicy, ContextSession
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


def test_the_pack_example_finds_what_the_first_one_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MN_CONTEXT_ADDR", raising=False)
    (first,), (code,) = blocks("python", "ContextSession("), blocks("python", "session.envelope(")
    query = next(line for line in code.splitlines() if line.startswith("session.query_memory("))
    code = code.replace(query, f"found = {query}")
    given: dict[str, Any] = {"root": tmp_path / "run", "model": MODEL, "tasks": ["Which price holds?"]}
    exec(compile(first.partition("messages = [")[0], str(README), "exec"), given)
    with closing(given["session"]):
        exec(compile(code, str(README), "exec"), given)
    assert {"contract-7", "offer-1"} == {item["ref"] for item in given["found"]["items"]}
    assert given["items"]


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


def test_the_question_over_http_is_answered(tmp_path: Path) -> None:
    (command,) = blocks("sh", "/v1/context")
    said = shlex.split(command)
    url = next(word for word in said if word.startswith("http://"))
    headers = dict(said[at + 1].split(": ") for at, word in enumerate(said) if word == "-H")
    query = dict(said[at + 1].split("=") for at, word in enumerate(said) if word in ("-d", "--data-urlencode"))
    engine = engine_over(MemoryStore())
    EmbeddedFace(engine).call("OpenRun", headers, run_pb2.OpenRunRequest())
    server = http_server(read_address("127.0.0.1:0", "address"), Gate())
    server.start()
    server.serve(engine)
    try:
        answer = httpx.get(url.replace(":8080", f":{server.port}"), params=query, headers=headers, timeout=30)
    finally:
        server.stop(5)
        engine.close()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/markdown; charset=utf-8")


async def test_the_mcp_server_starts_as_it_is_configured(tmp_path: Path) -> None:
    (text,) = blocks("json", "mcpServers")
    configured = json.loads(text)["mcpServers"]["membrane"]
    command = Path(sys.executable).with_name(configured["command"])
    env = {**configured["env"], "MN_CONTEXT_STORE": str(tmp_path / "record.duckdb")}
    started = StdioServerParameters(command=str(command), args=configured["args"], env=env)
    async with Client(started, read_timeout_seconds=30) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
    text = README.read_text(encoding="utf-8")
    assert listed == [name for name in TOOLS if f"`{name}`" in text]


def test_the_profiles_file_is_read(tmp_path: Path) -> None:
    (text,) = blocks("yaml", "pack_token_budget")
    file = tmp_path / "profiles.yaml"
    file.write_text(text)
    (profile,) = profiles({"MN_CONTEXT_PROFILES_FILE": str(file)})
    assert (profile.name, profile.knapsack, profile.aliases) == ("pocket", True, ("phone", "watch"))


def test_the_tokens_file_is_read(tmp_path: Path) -> None:
    (text,) = blocks("yaml", "principal: alice")
    (named,) = re.findall(r"printf %s (\S+) \| sha256sum", text)
    file = tmp_path / "tokens.yaml"
    file.write_text(text)
    (token,) = serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)}).gate.bound
    assert token.sha256 == hashlib.sha256(named.encode()).hexdigest()
    assert (token.principal, token.roles, token.jobs) == ("alice", {"reader"}, None)


def test_the_facts_example_runs(tmp_path: Path) -> None:
    (example,) = blocks("python", "session.facts")
    with ContextSession(tmp_path / "run", job_id="job", run_id="run", principal="alice") as session:
        names = {"session": session}
        exec(compile(example, str(README), "exec"), names)
        facts = session.facts
        assert "Oslo" in facts.compile("Where is Acme based?", max_tokens=300)["text"]
        known = facts.time_travel("2026-06-01T00:00:00Z", recorded_as_of=2)["facts"]
        assert [fact["object"] for fact in known] == ["Bergen"]
        assert (
            verify_bundle(names["bundle"], expected_root=facts.verify()["root"]).cards[0].text == "Acme based_in Oslo"
        )
