"""The README's section on the proxy, as it stands."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mn_sdk.litellm_context.models import target_of
from mn_sdk.litellm_context.scopes import read_scope, read_wish
from mn_sdk.litellm_context.settings import read_settings
from tests.scenario.gateway.conftest import Proxy
from tests.scenario.session.upstream import Upstream
from tests.scenario.test_readme import blocks


def run(proxy: Proxy, text: str) -> None:
    messages = [{"role": "system", "content": "decide"}, {"role": "user", "content": text}]
    (code,) = blocks("python", "openai.OpenAI(")
    names: dict[str, Any] = {"proxy": proxy.base, "key": "sk-alice", "messages": messages}
    exec(compile(code.replace('"small"', '"narrow"'), "README.md", "exec"), names)
    names["client"].close()


def test_the_clients_example_prints_the_answer_or_the_ledger(
    proxy: Proxy, upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    run(proxy, "word " * 3000)
    refused = capsys.readouterr().out
    assert refused.startswith("NEEDS_PARTITION")
    assert "messages[1]" in refused
    assert "carry_forward" in refused
    assert upstream.requests == []
    run(proxy, "hello")
    assert capsys.readouterr().out == "yes\n"


def test_the_configuration_is_read() -> None:
    (text,) = blocks("yaml", "litellm_settings")
    config = yaml.safe_load(text)
    settings = read_settings(config["callback_settings"]["membrane"])
    assert settings.passed == {"anthropic_messages"}
    (model,) = config["model_list"]
    policy = target_of(model["litellm_params"]["model"], model["model_info"], settings.policy).policy
    assert (policy.window_tokens, policy.output_tokens, policy.max_calls) == (32_000, 4096, 200)


async def test_the_keys_example_gives_a_key_its_scope() -> None:
    (code,) = blocks("python", "UserAPIKeyAuth")
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    key = await names["authenticate"](None, "sk-alice")
    wish = read_wish({"job_id": "pricing", "run_id": "r"}, "unnamed")
    assert read_scope(wish, key.metadata, {}).principal == "alice"
    with pytest.raises(PermissionError):
        await names["authenticate"](None, "sk-nobody")
