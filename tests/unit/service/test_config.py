"""Configuration from arguments and environment."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from mn_contract.errors import InvalidInput
from mn_engine.bootstrap import RECORD_NAME, embedded, open_engine
from mn_engine.cli import main
from mn_engine.config import mcp_config, profiles, read_signing_key, record_path, serve_config
from mn_engine.domain.signed_notes import SigningKey


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


KEY, OTHER_KEY = SigningKey("a.example/b", b"k" * 32), SigningKey("a.example/b", b"o" * 32)


def _key_file(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_signing_key_is_read_from_the_option_or_the_variable(tmp_path: Path) -> None:
    kept, other = _key_file(tmp_path / "a", f"{KEY.text}\n"), _key_file(tmp_path / "b", OTHER_KEY.text)
    env = {"MN_CONTEXT_SIGNING_KEY_FILE": kept, "XDG_DATA_HOME": str(tmp_path)}
    assert serve_config(env).signing_key == KEY
    assert serve_config(env, signing_key=other).signing_key == OTHER_KEY
    assert serve_config({"XDG_DATA_HOME": str(tmp_path)}).signing_key is None
    with pytest.raises(InvalidInput, match="--signing-key is empty"):
        serve_config(env, signing_key="")


def test_an_engine_signs_with_the_key_of_its_environment_unless_it_is_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An embedded one, too."""
    monkeypatch.setenv("MN_CONTEXT_SIGNING_KEY_FILE", _key_file(tmp_path / "key", KEY.text))
    for given, expected in ((None, KEY), (OTHER_KEY, OTHER_KEY)):
        engine = open_engine(tmp_path / RECORD_NAME, given)
        engine.close()
        assert engine.signing_key == expected
    session = embedded(tmp_path)
    try:
        assert session._face._engine.signing_key == KEY
    finally:
        session.close()


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        (KEY.text, 0o604, "chmod 600"),
        (KEY.text[:-1], 0o600, "keygen"),
        (KEY.verifier.text, 0o600, "keygen"),
        (f"{KEY.text}\n{KEY.text}\n", 0o600, "keygen"),
        ("", 0o600, "keygen"),
    ],
)
def test_a_file_that_is_no_key_or_everybodys_is_refused_and_not_quoted(
    text: str, mode: int, told: str, tmp_path: Path
) -> None:
    file = _key_file(tmp_path / "key", text, mode)
    with pytest.raises(InvalidInput, match=told) as caught:
        read_signing_key({}, named=file)
    assert caught.value.field == "--signing-key"
    assert KEY.text[20:40] not in caught.value.message


def test_a_key_file_that_cannot_be_read_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    for named in ("nowhere", "binary", "."):
        done = CliRunner().invoke(main, ["serve", "--signing-key", str(tmp_path / named)])
        assert done.exit_code == 2, done.output
        assert "--signing-key" in done.output


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


def test_http_is_served_where_it_is_asked_for_and_guarded_as_grpc_is() -> None:
    assert serve_config({}).http is None
    assert str(serve_config({"MN_CONTEXT_HTTP": "127.0.0.1:80"}).http) == "127.0.0.1:80"
    assert str(serve_config({"MN_CONTEXT_HTTP": "127.0.0.1:80"}, http="[::1]:81").http) == "[::1]:81"
    for env, field in (
        ({"MN_CONTEXT_HTTP": "0.0.0.0:80"}, "MN_CONTEXT_HTTP"),
        ({"MN_CONTEXT_HTTP": "0.0.0.0:80", "MN_CONTEXT_AUTH_TOKEN": "t"}, "--allow-plaintext"),
        ({"MN_CONTEXT_HTTP": "x"}, "MN_CONTEXT_HTTP"),
    ):
        with pytest.raises(InvalidInput) as caught:
            serve_config(env)
        assert caught.value.field == field


def test_mcp_speaks_for_a_scope_of_the_environment(tmp_path: Path) -> None:
    env = {"MN_JOB_ID": "j", "MN_RUN_ID": "r", "MN_PRINCIPAL": "p", "MN_ROLES": "b, a", "HOME": str(tmp_path)}
    config = mcp_config(env)
    assert (config.scope.job_id, config.scope.run_id, config.scope.principal) == ("j", "r", "p")
    assert (config.scope.roles, config.replicas) == ({"a", "b"}, ())
    dialling = {**env, "MN_CONTEXT_ADDR": "127.0.0.1:1,127.0.0.1:2", "MN_CONTEXT_AUTH_TOKEN": " t "}
    assert (len(mcp_config(dialling).replicas), mcp_config(dialling).token) == (2, "t")
    with pytest.raises(InvalidInput, match="--store"):
        mcp_config(dialling, store=str(tmp_path / "record.duckdb"))


WEIGHTS = "{relevance: .7, recency: .2, trust: .1}"
PROFILE = f"{{context_window: 8000, pack_token_budget: 700, chars_per_token: 3, weights: {WEIGHTS}"


def test_profiles_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text(f"profiles:\n  mine: {PROFILE}}}\n  other: {PROFILE}, packer: layers, aliases: [a1, b2]}}\n")
    mine, other = profiles({"MN_CONTEXT_PROFILES_FILE": str(file)})
    assert (mine.name, mine.pack_token_budget, mine.knapsack, mine.weights.relevance) == ("mine", 700, True, 700)
    assert (other.knapsack, other.aliases, other.chars_per_token) == (False, ("a1", "b2"), 3.0)
    assert profiles({}) == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must hold `profiles:`"),
        ("profiles: []", "must hold `profiles:`"),
        ("profiles: {}", "must hold `profiles:`"),
        ("profiles: {mine: 3}", "must have"),
        ("profiles: {mine: {context_window: 1}}", "must have"),
        (f"profiles:\n  mine: {PROFILE}, budget: 1}}", "nothing else"),
        (f"profiles:\n  mine: {PROFILE}, packer: best}}", "knapsack or layers"),
        (f"profiles:\n  mine: {PROFILE}, packer: [layers]}}", "knapsack or layers"),
        (f"profiles:\n  mine: {PROFILE}, aliases: [3]}}", "text"),
        (f"profiles:\n  mine: {PROFILE}, aliases: ['two words']}}", "a-z and 0-9"),
        (f"profiles:\n  3: {PROFILE}}}", "text"),
        (f"profiles:\n  My-Model: {PROFILE}}}", "a-z and 0-9"),
        (f"profiles:\n  generic: {PROFILE}}}", "no other profile"),
        (f"profiles:\n  mine: {PROFILE}}}\n  mine: {PROFILE}}}", "line 3"),
        (f"profiles:\n  mine: {PROFILE}}}\n  other: {PROFILE}, aliases: [mine]}}", "two profiles"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("8000", "true"), "context_window must be a whole number"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("8000", "8000.5"), "context_window must be a whole number"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("8000", "600"), "no more than"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("700", "299"), "300 or more"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("700", "'700'"), "pack_token_budget must be a whole number"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("token: 3", "token: .nan"), "1 to 16"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("token: 3", "token: three"), "chars_per_token must be a number"),
        (f"profiles:\n  mine: {PROFILE}}}".replace(".7,", ".6,"), "add up to 1"),
        (f"profiles:\n  mine: {PROFILE}}}".replace(".7,", ".7005,"), "thousandths"),
        (f"profiles:\n  mine: {PROFILE}}}".replace(".7,", ".inf,"), "thousandths"),
        (f"profiles:\n  mine: {PROFILE}}}".replace(".7,", ".nan,"), "thousandths"),
        (f"profiles:\n  mine: {PROFILE}}}".replace("trust: .1", "faith: .1"), "weights must have"),
    ],
)
def test_a_profile_that_is_wrong_is_one_error_that_names_it(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        profiles({"MN_CONTEXT_PROFILES_FILE": str(file)})
    assert told in caught.value.message
    assert caught.value.message.startswith(f"MN_CONTEXT_PROFILES_FILE {file}")
