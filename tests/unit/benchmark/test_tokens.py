"""What the figures of the tokens suite mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mn_tokens import Counter, count
from tests.unit.benchmark.running import figures, ran, write

USER = {"role": "user", "content": "Where was the boat built?"}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
PLAIN = {"messages": [USER]}
TOOLS = {"messages": [USER], "tools": [TOOL]}
BILLED = {"plain": count(PLAIN, model="gpt-4o").tokens, "tools": count(TOOLS, model="gpt-4o").tokens}


def recorded(request: Any, billed: int, **more: Any) -> dict[str, Any]:
    """A row in the data's format."""
    return {
        "provider": "openai_chat", "host": "openai", "model": "gpt-4o", "response_model": None, "created": None,
        "request": request, "prompt_tokens": billed, "has_tools": "tools" in request, "has_response_format": False,
        **more,
    }  # fmt: skip


def test_a_count_is_exact_near_or_covered(tmp_path: Path) -> None:
    rows = [
        recorded(PLAIN, BILLED["plain"]),
        recorded(PLAIN, BILLED["plain"] + 2),
        recorded(TOOLS, BILLED["tools"]),
        recorded(TOOLS, BILLED["tools"] - 100 + 1000),
    ]
    write(tmp_path / "data/tokens/openai_chat.jsonl", *rows)
    found = figures(tmp_path, "suite: tokens", tmp_path / "data")
    ours = {(case, metric): figure for (case, system, metric), figure in found.items() if system == "membrane"}
    assert ours["openai_chat/plain", "exact"] == (0.5, 2)
    assert ours["openai_chat/plain", "exact_macro"] == (0.5, 1)
    assert ours["openai_chat/plain", "within_1pct_or_2"] == (1, 2)
    assert ours["openai_chat/plain", "admitted_coverage"] == (0.5, 2)
    assert ours["openai_chat/plain", "max_undercount_tokens"] == (2, 2)
    assert ours["openai_chat/tools", "exact"] == (0.5, 2)
    assert ours["openai_chat/tools", "max_undercount_tokens"][0] > 800
    assert ours["all", "exact"] == (0.5, 4)
    assert ours["openai_chat/plain", "overcount_p50"][0] < 0
    assert {metric for case, metric in ours if case == "speed"} == {"append_to_cold", "litellm_to_append"}
    assert found["openai_chat/plain", "litellm", "exact"] == (0.5, 2)


def test_uncovered_rows_are_measured_by_what_is_allowed_of_them(tmp_path: Path) -> None:
    rows = [recorded(PLAIN, BILLED["plain"] + (9 if n < 3 else 0)) for n in range(60)]
    write(tmp_path / "data/tokens/a.jsonl", *rows)
    found = figures(tmp_path, "suite: tokens", tmp_path / "data")
    assert found["a/plain", "membrane", "uncovered_of_allowed"][0] == 3


def test_old_responses_are_left_out_and_those_without_a_date_stay(tmp_path: Path) -> None:
    request = {"input": "Where was the boat built?"}
    billed = count(request, model="gpt-4o", api="responses").tokens
    rows = [
        recorded(request, billed + hidden, provider="openai_responses", created=created)
        for created, hidden in (("2025-03-31", 99), ("2025-04-01", 0), (None, 0))
    ]
    write(tmp_path / "data/tokens/r.jsonl", *rows)
    found = figures(tmp_path, "suite: tokens", tmp_path / "data")
    assert found["r/plain", "membrane", "exact"] == (1, 2)


def test_a_refused_request_is_not_covered(tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "x"}}
    write(tmp_path / "data/tokens/a.jsonl", recorded({"messages": [{"role": "user", "content": [picture]}]}, 900))
    found = figures(tmp_path, "suite: tokens", tmp_path / "data")
    assert found["a/plain", "membrane", "admitted_coverage"] == (0, 1)
    assert ("a/plain", "membrane", "overcount_p50") not in found


@pytest.mark.parametrize(
    ("host", "provider", "model", "named"),
    [
        ("vertex", "gemini", "gemini-2.5-flash", "vertex_ai/gemini-2.5-flash"),
        ("gemini-count", "gemini", "gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("api.x.ai", "other_responses", "grok-4.3", "api.x.ai/grok-4.3"),
        ("", "other_chat", "gpt-4o", "gpt-4o"),
    ],
)
def test_a_model_is_counted_under_litellms_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, provider: str, model: str, named: str
) -> None:
    seen: list[str] = []
    honest = Counter.count

    def counting(counter: Counter, request: Any, *, model: str, api: Any = "chat") -> Any:
        seen.append(model)
        return honest(counter, request, model=model, api=api)

    monkeypatch.setattr(Counter, "count", counting)
    request = {"contents": "hello"} if provider == "gemini" else {"input": "hello"} if "resp" in provider else PLAIN
    write(tmp_path / "data/tokens/a.jsonl", recorded(request, 5, host=host, provider=provider, model=model))
    figures(tmp_path, "suite: tokens", tmp_path / "data")
    assert named in seen


@pytest.mark.parametrize(
    "given", [{}, [], {"provider": 3}, recorded(PLAIN, 0), recorded(PLAIN, 5, model=7), recorded(PLAIN, "many")]
)
def test_data_of_another_format_names_file_and_place(tmp_path: Path, given: object) -> None:
    write(tmp_path / "data/tokens/one.jsonl", recorded(PLAIN, 5), given)
    result = ran(tmp_path, "suite: tokens", tmp_path / "data")
    assert result.exit_code == 2
    assert "one.jsonl, record 2" in result.output
