"""Counting complete requests: recorded requests and the tokens that their providers billed, beside litellm's counter.

A file is a provider's; a row is counted as its API writes it, under litellm's name of its model. Cases are
`FILE/plain`, `FILE/tools` and `FILE/response_format` (a row with tools counts as tools), and `all`. A row that is
refused counts as not exact, not near and not covered, and has no overcount. Rows of OpenAI's Responses API from before
2025-04 are left out: they were billed for tokens that are not in them.

- `exact`: the count is what was billed; `exact_macro` is its mean over distinct (tool set or conversation, model);
  `within_1pct_or_2` of it, by one per cent or two tokens.
- `admitted_coverage`: what was billed is at most count and margin; `uncovered_of_allowed`: rows for which it is not, by
  the larger of one and one per cent of the rows, for cases with 50 rows or more.
- `max_undercount_tokens`, `overcount_p50`, `overcount_p95`: of count and margin, tokens and shares of what was billed.

litellm's `token_counter` has no margin; it is given each request as a chat completion, which is the only form it takes.

The case `speed` is a history of MESSAGES texts, drawn from those of the recorded chat completions. `append_to_cold`:
counting it with one message more, after it was counted, by counting it at first; `litellm_to_append`: litellm's counter
on the same request by that. Processor time, a value a round, their median; texts differ from round to round, so that no
cache outlives one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mn_benchmark.chats import as_chat
from mn_benchmark.data import Data
from mn_benchmark.report import ALL, OURS, Sample, Statistic
from mn_benchmark.suites.asked import Asked
from mn_benchmark.values import Value
from mn_contract.errors import InvalidInput
from mn_tokens import Api, Counter

PEER: Final = "litellm"
MESSAGES: Final = 400
_ROUNDS: Final = 7
_MODEL: Final = "gpt-4o"
_ROWS_MIN: Final = 50
"""From here on a case has an allowance of uncovered rows that means something."""
_ALLOWED: Final = 0.01
_RESPONSES_FROM: Final = "2025-04-01"
_APIS: Final[Mapping[str, Api]] = {
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock_converse": "converse",
    "openai_responses": "responses",
    "other_responses": "responses",
}
"""Providers whose requests are no chat completions."""
_ROUTERS: Final = {
    "anthropic-count": "anthropic", "gemini-count": "gemini", "openai-count": "openai", "vertex": "vertex_ai",
    "openrouter.ai": "openrouter",
}  # fmt: skip
"""litellm's names of hosts, where they are not the recordings'; other hosts are routers of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """A request, how it was sent, and what was billed for it."""

    request: Mapping[str, Any]
    model: str
    api: Api
    billed: int
    kind: str
    group: str


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    recorded: list[_Recorded]


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a system made of one; None where it refused."""

    tokens: int | None
    upper: int | None


_System = Callable[[_Recorded], _Counted]


def run(asked: Asked) -> Iterator[Sample]:
    """The suite."""
    systems: dict[str, _System] = {OURS: _ours(), PEER: _litellm()}
    everything: dict[str, list[tuple[_Recorded, _Counted]]] = defaultdict(list)
    chats: list[_Recorded] = []
    for file in asked.each("tokens", "*.jsonl", _read):
        chats += [one for one in file.recorded if one.api == "chat"]
        for name, system in systems.items():
            asked.progress(f"tokens: {name} on {len(file.recorded)} requests of {file.name}")
            counted = [(one, system(one)) for one in file.recorded]
            everything[name] += counted
            for kind in dict.fromkeys(one.kind for one in file.recorded):
                yield from _figures(f"{file.name}/{kind}", name, [pair for pair in counted if pair[0].kind == kind])
    for name, counted in everything.items():
        yield from _figures(ALL, name, counted)
    texts = list(dict.fromkeys(text for one in chats for text in _texts(one.request)))
    if texts:
        asked.progress(f"tokens: {_ROUNDS} rounds of a history of {MESSAGES} messages")
        yield from _speed(texts, random.Random(asked.seed))


def _figures(case: str, system: str, counted: Sequence[tuple[_Recorded, _Counted]]) -> Iterator[Sample]:
    if not counted:
        return

    def sample(
        metric: str, values: Sequence[float], *, statistic: Statistic = "mean", unit: str = "fraction"
    ) -> Sample:
        return Sample(case=case, system=system, metric=metric, values=values, unit=unit, statistic=statistic)

    exact = [float(of.tokens == one.billed) for one, of in counted]
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (one, _), hit in zip(counted, exact, strict=True):
        groups[one.group, one.model].append(hit)
    near = [of.tokens is not None and abs(of.tokens - one.billed) <= max(2, 0.01 * one.billed) for one, of in counted]
    yield sample("exact", exact)
    yield sample("exact_macro", [sum(hits) / len(hits) for hits in groups.values()])
    yield sample("within_1pct_or_2", [float(one) for one in near])
    covered = [float(of.upper is not None and of.upper >= one.billed) for one, of in counted]
    yield sample("admitted_coverage", covered)
    if len(covered) >= _ROWS_MIN:
        allowed = max(1.0, _ALLOWED * len(covered))
        yield sample("uncovered_of_allowed", [(len(covered) - sum(covered)) / allowed], unit="ratio")
    held = [(one.billed, of.upper) for one, of in counted if of.upper is not None]
    if held:
        under = [float(max(0, billed - upper)) for billed, upper in held]
        over = [upper / billed - 1 for billed, upper in held]
        yield sample("max_undercount_tokens", under, statistic="max", unit="tokens")
        yield sample("overcount_p50", over, statistic="p50")
        yield sample("overcount_p95", over, statistic="p95")


def _read(data: Data, file: Path) -> _File:
    return _File(file.stem, [one for given in data.json_lines(file) if (one := _recorded(given)) is not None])


def _recorded(given: Value) -> _Recorded | None:
    """A recorded request; None where what was billed for it is known not to be its own."""
    provider, created = given.field("provider").text(), given.field("created")
    if provider == "openai_responses" and created.found is not None and created.text() < _RESPONSES_FROM:
        return None
    tools, schema = given.field("has_tools").truth(), given.field("has_response_format").truth()
    billed, request = given.field("prompt_tokens"), given.field("request")
    if billed.whole() < 1:
        raise billed.damage("a number of tokens, 1 or more")
    request.fields()
    return _Recorded(
        request=request.found,
        model=_model(given),
        api=_APIS.get(provider, "chat"),
        billed=billed.whole(),
        kind="tools" if tools else "response_format" if schema else "plain",
        group=_group(request.found),
    )


def _model(given: Value) -> str:
    """litellm's name of a recorded model: what hosts it, then its own name."""
    named = [given.field(name) for name in ("model", "response_model")]
    host = given.field("host").text()
    name = next((one.text() for one in named if one.found), "")
    router = _ROUTERS.get(host, host)
    return f"{router}/{name}" if router else name


def _group(request: Mapping[str, Any]) -> str:
    """The tool set of a request; where it has none, its conversation."""
    sets = [request.get(key) for key in ("tools", "functions", "toolConfig")]
    said = [request.get(key) for key in ("messages", "input", "contents")]
    shared = next((one for one in [*sets, *said] if one), None)
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()


def _ours() -> _System:
    counter = Counter()

    def counted(one: _Recorded) -> _Counted:
        try:
            found = counter.count(one.request, model=one.model, api=one.api)
        except InvalidInput:
            return _Counted(None, None)
        return _Counted(found.tokens, found.upper)

    return counted


def _litellm() -> _System:
    count = _token_counter()

    def counted(one: _Recorded) -> _Counted:
        try:
            chat = as_chat(one.request, api=one.api)
        except InvalidInput:
            return _Counted(None, None)
        try:
            tokens = count(model=one.model, **chat)
        except Exception:  # noqa: BLE001  # a peer may raise anything: it has then not counted
            return _Counted(None, None)
        return _Counted(tokens, tokens)

    return counted


def _token_counter() -> Callable[..., int]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # for some models the peer would fetch a tokenizer
    from mn_sdk.context_session.provider import load

    counter: Callable[..., int] = load().token_counter
    return counter


def _texts(request: Mapping[str, Any]) -> Iterator[str]:
    for message in request.get("messages") or ():
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str) and content:
            yield content


def _speed(texts: Sequence[str], rng: random.Random) -> Iterator[Sample]:
    count = _token_counter()
    appended: list[float] = []
    peer: list[float] = []
    for number in range(_ROUNDS + 1):
        history = _history(rng.choices(texts, k=MESSAGES), number)
        longer = [*history, {"role": "user", "content": f"{number}. And what follows from that?"}]
        counter = Counter()
        cold = _seconds(functools.partial(counter.count, {"messages": history}, model=_MODEL))
        warm = _seconds(functools.partial(counter.count, {"messages": longer}, model=_MODEL))
        theirs = _seconds(functools.partial(count, model=_MODEL, messages=longer))
        if number:  # the first round loads tokenizers
            appended.append(warm / cold)
            peer.append(theirs / warm)
    for metric, values in (("append_to_cold", appended), ("litellm_to_append", peer)):
        yield Sample(case="speed", system=OURS, metric=metric, values=values, unit="ratio", statistic="p50")


def _history(texts: Sequence[str], number: int) -> list[dict[str, str]]:
    return [
        {"role": ("user", "assistant")[place % 2], "content": f"{number}.{place} {text}"}
        for place, text in enumerate(texts)
    ]


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
