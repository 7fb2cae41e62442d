"""Configuration from arguments and environment."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mn_contract.errors import InvalidInput
from mn_engine.config import parse_address, record_path, serve_config


def test_defaults_are_loopback_and_a_record_under_the_data_home(tmp_path: Path) -> None:
    config = serve_config({"XDG_DATA_HOME": str(tmp_path)})
    assert str(config.address) == "127.0.0.1:50052"
    assert config.record == tmp_path / "membrane" / "record.duckdb"
    assert config.gate.open


def test_other_addresses_want_a_token_and_a_word_about_plain_text() -> None:
    env = {"MN_CONTEXT_ADDR": "0.0.0.0:50052"}
    with pytest.raises(InvalidInput):
        serve_config(env)
    with pytest.raises(InvalidInput) as caught:
        serve_config({**env, "MN_CONTEXT_AUTH_TOKEN": "t"})
    assert caught.value.field == "--allow-plaintext"
    assert not serve_config({**env, "MN_CONTEXT_AUTH_TOKEN": "t"}, allow_plaintext=True).gate.open


@pytest.mark.parametrize(
    "bad", ["", "host", "host:", ":1", "host:x", "host:70000", "host:-1", "1:2:3:x", "host:" + "9" * 5000]
)
def test_malformed_addresses_are_refused(bad: str) -> None:
    with pytest.raises(InvalidInput):
        parse_address(bad, "MN_CONTEXT_ADDR")


def test_ipv6_loopback_is_loopback() -> None:
    assert parse_address("[::1]:5", "a").loopback
    assert str(parse_address("[::1]:5", "a")) == "[::1]:5"
    assert not parse_address("example.org:5", "a").loopback


def test_a_store_url_or_folder_is_refused(tmp_path: Path) -> None:
    for bad in ("postgresql://x/y", str(tmp_path)):
        with pytest.raises(InvalidInput):
            record_path({"MN_CONTEXT_STORE": bad})


def test_tokens_are_read_from_a_file(tmp_path: Path) -> None:
    hashed = hashlib.sha256(b"t").hexdigest()
    file = tmp_path / "tokens.yaml"
    file.write_text(f"tokens:\n  {hashed}:\n    principal: alice\n    roles: [a]\n    jobs: [j]\n")
    (token,) = serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)}).gate.bound
    assert (token.principal, token.roles, token.jobs) == ("alice", {"a"}, {"j"})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "tokens: []", "tokens: {short: {principal: a}}", "tokens: {" + "a" * 64 + ": {}}", "a: b: c", "\x00"],
)
def test_a_malformed_tokens_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)})
    assert "MN_CONTEXT_TOKENS_FILE" in caught.value.field or "principal" in caught.value.message
