"""A real `litellm --config` process, the real openai client before it, and a recording upstream behind it. One process
serves all the tests of a worker; each uses runs of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml

from mn_sdk.context_session import ContextSession
from tests.scenario.gateway import keys
from tests.scenario.session.test_remote import Served
from tests.scenario.session.upstream import Upstream

START_SECONDS_MAX = 100
NARROW = {"window_tokens": 2000, "output_tokens": 500, "safety_tokens": 100}
ADDING = {"window_tokens": 4600, "output_tokens": 500, "safety_tokens": 100}
Asker = Callable[..., Any]


def told(error: Any) -> dict[str, Any]:
    """What stands at the documented place of an error's body."""
    found: dict[str, Any] = error.value.body["provider_specific_fields"]["membrane"]
    return found


class Proxy:
    """The process. `root` is where it keeps its journal."""

    def __init__(self, folder: Path, upstream: Upstream, engine: str) -> None:
        self.root = folder / "root"
        self.upstream = upstream
        self._log = (folder / "log").open("wb")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        shutil.copy(keys.__file__, folder / "gateway_keys.py")
        (folder / "config.yaml").write_text(yaml.safe_dump(self._config()))
        self._process = subprocess.Popen(
            [
                Path(sys.executable).with_name("litellm"),
                *f"--config config.yaml --host 127.0.0.1 --port {port}".split(),
            ],
            cwd=folder,
            env={
                **os.environ,
                "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(24)}",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "MN_CONTEXT_ADDR": engine,
            },
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def wait(self) -> None:
        """Returns once it serves."""
        until = time.monotonic() + START_SECONDS_MAX
        while self._process.poll() is None and time.monotonic() < until:
            try:
                httpx.get(f"{self.base}/health/liveliness", timeout=5)
            except httpx.HTTPError:
                time.sleep(0.1)
            else:
                return
        self.stop()
        raise AssertionError(f"the proxy did not start: {Path(self._log.name).read_text()[-4000:]}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._log.close()

    def _config(self) -> dict[str, Any]:
        def model(name: str, model: str = "openai/gpt-4o", *, params: Any = None, **membrane: Any) -> dict[str, Any]:
            params = {"model": model, "api_base": self.upstream.base, "api_key": "none", **(params or {})}
            return {"model_name": name, "litellm_params": params, "model_info": {"membrane": membrane}}

        return {
            "model_list": [
                model("wide"),
                model("narrow", "openai/gpt-4o-2024-08-06", **NARROW),
                model("mixed"),
                model("mixed", "openai/gpt-4o-mini", **NARROW),
                model("rationed", max_calls=1),
                model("unknown", "openai/nobody-knows-it"),
                model("hurried", params={"timeout": 1, "stream_timeout": 1}),
                model("foreign", "hosted_vllm/gpt-4o"),
                model("set", params={"temperature": 0.2}),
                model("claude", "anthropic/claude-3-haiku-20240307", window_tokens=8000),
                model("adding", "databricks/databricks-claude-3-7-sonnet", **ADDING),
            ],
            "litellm_settings": {
                "callbacks": "mn_sdk.litellm_context.admission",
                "num_retries": 1,
                "fallbacks": [{"wide": ["narrow"]}],
            },
            "router_settings": {"retry_policy": {"InternalServerErrorRetries": 1, "RateLimitErrorRetries": 1}},
            "callback_settings": {"membrane": {"root": str(self.root), "pass": ["atext_completion"]}},
            "general_settings": {"custom_auth": "gateway_keys.authenticate"},
        }


@pytest.fixture(scope="session")
def engine() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory, engine: Served) -> Iterator[Proxy]:
    upstream = Upstream()
    started = Proxy(tmp_path_factory.mktemp("proxy"), upstream, engine.address)
    try:
        started.wait()
        yield started
    finally:
        started.stop()
        upstream.close()


@pytest.fixture
def upstream(proxy: Proxy) -> Upstream:
    proxy.upstream.fresh()
    return proxy.upstream


@pytest.fixture
def run() -> str:
    return f"run-{secrets.token_hex(8)}"


@pytest.fixture
def ask(proxy: Proxy, run: str) -> Iterator[Asker]:
    """A chat completion by a key; `membrane` is what its metadata asks, beside the job and the run. The client retries
    as openai's does by default."""
    opened: list[openai.OpenAI] = []

    def asked(
        content: Any = "hello", *, key: str = "sk-alice", membrane: Any = None, retries: int = 2, **arguments: Any
    ) -> Any:
        client = openai.OpenAI(base_url=f"{proxy.base}/v1", api_key=key, max_retries=retries)
        opened.append(client)
        if isinstance(membrane, dict):
            membrane = {"job_id": "pricing", "run_id": run, **membrane}
        messages = [{"role": "system", "content": "decide"}, {"role": "user", "content": content}]
        given = {"model": "wide", "messages": messages, **arguments}
        extra = {} if membrane is None else {"extra_body": {"metadata": {"membrane": membrane}}}
        return client.chat.completions.with_raw_response.create(**given, **extra)

    yield asked
    for client in opened:
        client.close()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, proxy: Proxy, engine: Served, run: str) -> Iterator[ContextSession]:
    """The run that the proxy serves, as its author has it: at the same engine, with the proxy's notes."""
    monkeypatch.setenv("MN_CONTEXT_ADDR", engine.address)
    opened = ContextSession(proxy.root, job_id="pricing", run_id=run, principal="alice")
    yield opened
    opened.close()
