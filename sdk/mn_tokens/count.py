"""The count of a complete request: read, billed by its family's rules, and the margin that goes with it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from mn_contract.errors import InvalidInput
from mn_tokens import encodings
from mn_tokens.families import Family, family_of
from mn_tokens.memo import Memo
from mn_tokens.reading import SHAPES
from mn_tokens.reading.json_values import frozen, listed
from mn_tokens.reading.shape import Item, Shape
from mn_tokens.request import Message
from mn_tokens.rules import Line, Rules, Tokens
from mn_tokens.values import Count, Kind, Part

Api = Literal["chat", "responses", "anthropic", "gemini", "converse"]

_HOSTS: Final = ("system", "developer")
"""Roles of the message that tools are shown in."""


class Counter:
    """Counts requests, each part once: what was counted of a message, or of all tools, is kept by its value.

    Safe to use from several threads. It holds its memo and nothing else: a new one has counted nothing.
    """

    def __init__(self) -> None:
        self._groups: Memo[tuple[Line, ...]] = Memo()
        self._envelopes: Memo[tuple[Part, ...]] = Memo(entries_max=1024)

    def count(self, request: Mapping[str, Any], *, model: str, api: Api = "chat") -> Count:
        """The tokens of a complete request, as `model`'s provider would bill them.

        `request` is the body of a call of `api`; `model` is litellm's name (`openai/gpt-4o`,
        `vertex_ai/gemini-2.5-pro`), for hosts bill differently. What no rule knows is counted as its text, and the
        count is then an estimate; what is known not to be read by a model costs nothing. Raises InvalidInput as
        `check_request` does.
        """
        shape, family = SHAPES[api], family_of(model, api)
        items = _items(request, shape)
        ledger: list[Part] = []
        for start, group in _groups(items, shape):
            key = (family.rules, api, *[frozen(item, f"{shape.items}[{start}]") for item in group])
            lines = self._groups.get(key, functools.partial(_counted, group, start, shape, family.rules))
            for line in lines:
                ledger.append(_part(line, shape.items, start))
        ledger.extend(self._beside(request, items, shape, family.rules, api))
        return _total(tuple(ledger), family)

    def _beside(
        self, request: Mapping[str, Any], items: Sequence[Item], shape: Shape, rules: Rules, api: Api
    ) -> tuple[Part, ...]:
        rest = {key: value for key, value in request.items() if key != shape.items}
        host = next((item for item in items if item.get("role") in _HOSTS), None)
        key = (rules, api, *[(name, frozen(value, name)) for name, value in rest.items()], frozen(host, shape.items))
        return self._envelopes.get(key, lambda: tuple(_enveloped(rest, host, shape, rules)))


_SHARED: Final = Counter()


def count(request: Mapping[str, Any], *, model: str, api: Api = "chat") -> Count:
    """`Counter.count`, with what the whole process has counted before."""
    return _SHARED.count(request, model=model, api=api)


def check_request(request: Mapping[str, Any], *, api: Api = "chat") -> None:
    """Raises InvalidInput where a request has no form that can be counted: no messages, parts that are no text
    (images, audio, files), tools that are none, or what is no JSON. `field` says where."""
    shape = SHAPES[api]
    items = _items(request, shape)
    for start, group in _groups(items, shape):
        for item in group:
            frozen(item, f"{shape.items}[{start}]")
        _read(group, start, shape)
    for name, value in request.items():
        if name != shape.items:
            frozen(value, name)
    shape.envelope({key: value for key, value in request.items() if key != shape.items})


def _items(request: Mapping[str, Any], shape: Shape) -> Sequence[Item]:
    given = request.get(shape.items) if isinstance(request, Mapping) else None
    if shape.said is not None and isinstance(given, str | dict):
        given = [shape.said(given) if isinstance(given, str) else given]
    items = listed(given, shape.items)
    if not items:
        raise InvalidInput(f"a request has a list of {shape.items}", field=shape.items)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidInput(f"{shape.items}[{index}] must be an object", field=f"{shape.items}[{index}]")
    return items


def _groups(items: Sequence[Item], shape: Shape) -> Iterator[tuple[int, Sequence[Item]]]:
    """(where it begins, its items) of each group."""
    start = 0
    for index in range(1, len(items) + 1):
        if index == len(items) or shape.opens(items[index], items[index - 1]):
            yield start, items[start:index]
            start = index


def _read(group: Sequence[Item], start: int, shape: Shape) -> list[Message]:
    messages = []
    names: Mapping[str, str] | None = None
    for index, item in enumerate(group):
        place = f"{shape.items}[{start + index}]"
        try:
            names = shape.names(group) if names is None else names
            messages.append(shape.read(item, names))
        except InvalidInput as error:
            field = f"{place}.{error.field}" if error.field else place
            raise InvalidInput(f"{place}: {error.message}", field=field) from error
    return messages


def _counted(group: Sequence[Item], start: int, shape: Shape, rules: Rules) -> tuple[Line, ...]:
    return tuple(rules.group(_read(group, start, shape), _tokenizer(rules)))


def _enveloped(rest: Mapping[str, Any], host: Item | None, shape: Shape, rules: Rules) -> Iterator[Part]:
    tokens = _tokenizer(rules)
    envelope = shape.envelope(rest)
    for message in envelope.instructions:
        for line in rules.group([message], tokens):
            yield replace(_part(line, "", 0), part="instructions" + line.path)
    hosts = (*envelope.instructions, *([shape.read(host, {})] if host is not None else ()))
    yield from rules.envelope(envelope, next(iter(hosts), None), tokens)
    for strange in envelope.strange:
        yield Part(strange.path, tokens(strange.text), "strange", certain=False)


def _tokenizer(rules: Rules) -> Tokens:
    return functools.partial(encodings.tokens, rules.encoding)


def _part(line: Line, items: str, start: int) -> Part:
    first, last = start + line.start, start + line.end
    place = f"{items}[{first}]" if last == first + 1 else f"{items}[{first}:{last}]"
    path = f"{place}.{line.path}" if line.path else place
    return Part(path, line.tokens, line.kind, line.fields, line.beyond, line.certain)


def _total(ledger: tuple[Part, ...], family: Family) -> Count:
    spent: dict[Kind, int] = {}
    for part in ledger:
        spent[part.kind] = spent.get(part.kind, 0) + part.tokens
    total, beyond = sum(spent.values()), sum(part.beyond for part in ledger)
    encoding = family.rules.encoding
    if not encodings.available(encoding):
        # Both are in bytes: no byte-level tokenizer makes more tokens than that.
        reason = f"no tokenizer of {encoding} on this machine"
        return Count(
            tokens=total, margin=beyond, exact=False, tokenizer="utf-8 bytes", ledger=ledger, reasons=(reason,)
        )
    doubted = [part.part for part in ledger if not part.certain]
    return Count(
        tokens=total,
        margin=family.margin.of(spent) + beyond,
        exact=family.known and not doubted,
        tokenizer=encoding if family.known else f"{encoding} as an estimate for {family.name}",
        ledger=ledger,
        reasons=tuple(_reasons(family, doubted, beyond)),
    )


def _reasons(family: Family, doubted: Sequence[str], beyond: int) -> Iterator[str]:
    """Why more than the count may be billed."""
    if not family.known:
        yield f"{family.name} is estimated"
    if doubted:
        more = f" and {len(doubted) - 1} more" if len(doubted) > 1 else ""
        yield f"no rule knows all of {doubted[0]}{more}"
    if beyond:
        yield f"{beyond} tokens are of what may not be shown to the model, or of text that tokenizers differ on"
