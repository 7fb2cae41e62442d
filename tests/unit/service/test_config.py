"""Configuration from arguments and environment."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from mn_contract.errors import InvalidInput
from mn_engine.cli import main
from mn_engine.config import record_path, serve_config


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


def test_errors_name_where_a_value_came_from(tmp_path: Path) -> None:
    """The option where it was given, else the variable."""
    for named, field in (({"address": "x"}, "--address"), ({}, "MN_CONTEXT_ADDR")):
        with pytest.raises(InvalidInput, match=field) as caught:
            serve_config({"MN_CONTEXT_ADDR": "y", "XDG_DATA_HOME": str(tmp_path)}, **named)
        assert caught.value.field == field
    with pytest.raises(InvalidInput, match="--store"):
        record_path({}, store=str(tmp_path))


@pytest.mark.parametrize("empty", ["", " "])
def test_an_option_that_is_empty_is_not_taken_for_none(empty: str) -> None:
    """It came from a shell variable that was not set: the default is not what was meant."""
    with pytest.raises(InvalidInput, match="--address is empty"):
        serve_config({}, address=empty)
    with pytest.raises(InvalidInput, match="--store is empty"):
        record_path({}, store=empty)
    for command in (["serve", "--store", empty], ["serve", "--address", empty], ["compact", "--store", empty]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2
        assert "is empty" in done.output


def test_help_is_not_cut() -> None:
    done = CliRunner().invoke(main, ["--help"], terminal_width=80)
    assert done.exit_code == 0
    assert "..." not in done.output.partition("Commands:")[2]


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
    ("entry", "jobs"),
    [
        ("{principal: a, jobs: ['*']}", None),
        ("{principal: a, jobs: '*'}", None),
        ("{principal: a}", None),
        ("{principal: a, jobs: [j, k]}", {"j", "k"}),
        ("{principal: a, jobs: j}", {"j"}),
    ],
)
def test_a_tokens_jobs(tmp_path: Path, entry: str, jobs: set[str] | None) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(f"tokens: {{{'a' * 64}: {entry}}}")
    (token,) = serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)}).gate.bound
    assert token.jobs == jobs


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ("{principal: 5}", ".principal"),
        ("{principal: a, roles: [a b]}", ".roles"),
        ("{principal: a, roles: {a: b}}", ".roles"),
        ("{principal: a, jobs: [5]}", ".jobs"),
        ("{principal: a, jobs: null}", ".jobs"),
        ("{principal: a, job: b}", ""),
        ("[a]", ""),
    ],
)
def test_an_error_in_a_tokens_file_names_file_entry_and_field(tmp_path: Path, entry: str, field: str) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(f"tokens: {{{'a' * 64}: {{principal: a}}, {'b' * 64}: {entry}}}")
    with pytest.raises(InvalidInput) as caught:
        serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)})
    assert caught.value.message.startswith(f"MN_CONTEXT_TOKENS_FILE {file}: tokens[2]{field} ")


@pytest.mark.parametrize(
    "text",
    [
        "tokens:\n  {0}: {{principal: alice}}\n  {0}: {{principal: bob}}\n",
        "tokens:\n  {0}: {{principal: alice}}\ntokens:\n  {1}: {{principal: bob}}\n",
        "tokens:\n  {0}:\n    principal: alice\n    principal: bob\n",
    ],
)
def test_a_key_that_stands_twice_in_a_tokens_file_is_refused(tmp_path: Path, text: str) -> None:
    """PyYAML takes the last one, so that a token would speak for another principal than its reader sees."""
    file = tmp_path / "tokens.yaml"
    file.write_text(text.format("a" * 64, "b" * 64))
    with pytest.raises(InvalidInput, match="stands there already") as caught:
        serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)})
    assert caught.value.message.startswith(f"MN_CONTEXT_TOKENS_FILE {file}: line ")
    assert "aaaa" not in caught.value.message


def test_a_token_that_was_not_hashed_is_not_told(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text("tokens: {my-secret: {principal: a}}")
    with pytest.raises(InvalidInput) as caught:
        serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)})
    assert "my-secret" not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 20_000,
        "[]",
        "tokens: []",
        "tokens: {short: {principal: a}}",
        "tokens: {" + "a" * 64 + ": {}}",
        "a: b: c",
        "\x00",
    ],
)
def test_a_malformed_tokens_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        serve_config({"MN_CONTEXT_TOKENS_FILE": str(file)})
    assert "MN_CONTEXT_TOKENS_FILE" in caught.value.field or "principal" in caught.value.message
