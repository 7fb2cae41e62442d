"""The count of a complete request: read, billed by its family's rules, and the margin that goes with it."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mn_tokens import encodings
from mn_tokens.families import Family, family_of
from mn_tokens.limits import sent_to_responses
from mn_tokens.memo import Memo
from mn_tokens.reading import SHAPES, Api, Shape
from mn_tokens.reading.json_values import frozen, frozen_group
from mn_tokens.reading.shape import Item
from mn_tokens.reading.walk import groups_of, items_of, read_group
from mn_tokens.rules import Rules, Tokens
from mn_tokens.sums import Group, Sum, summed
from mn_tokens.values import Count, Kind, Part

_HOSTS: Final = ("system", "developer")
"""Roles of the message that tools are shown in."""
_ENVELOPES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class _Memos:
    """What was counted by one set of rules of requests of one API: their groups of items, and all that is beside."""

    groups: Memo[Group]
    envelopes: Memo[Sum]


class Counter:
    """Counts requests, each part once: what was counted of a message, or of all tools, is kept by its value.

    Safe to use from several threads. It holds its memos and nothing else: a new one has counted nothing.
    """

    def __init__(self) -> None:
        self._memos: dict[tuple[Rules, Api], _Memos] = {}

    def count(self, request: Mapping[str, Any], *, model: str, api: Api = "chat") -> Count:
        """The tokens of a complete request, as `model`'s provider would bill them.

        `request` is the body of a call of `api`; `model` is litellm's name (`openai/gpt-4o`,
        `vertex_ai/gemini-2.5-pro`), for hosts bill differently. What no rule knows is counted as its text, and the
        count is then an estimate; what is known not to be read by a model costs nothing. Raises InvalidInput as
        `check_request` does.
        """
        bridged = api == "chat" and sent_to_responses(model)
        shape, family = SHAPES[api], family_of(model, "responses" if bridged else api)
        memos = self._memos_of(family.rules, api)
        items = items_of(request, shape)
        sums = []
        for start, group in groups_of(items, shape):
            key = frozen_group(group, shape.items)
            known = memos.groups.find(key)
            if known is None:
                known = memos.groups.keep(key, _counted(group, start, shape, family.rules))
            sums.append(known.at(start))
        sums.append(_beside(request, items, shape, family.rules, memos.envelopes))
        return _total(sums, family)

    def _memos_of(self, rules: Rules, api: Api) -> _Memos:
        key = (rules, api)
        if key not in self._memos:
            self._memos.setdefault(key, _Memos(Memo(), Memo(entries_max=_ENVELOPES_MAX)))
        return self._memos[key]


_SHARED: Final = Counter()


def count(request: Mapping[str, Any], *, model: str, api: Api = "chat") -> Count:
    """`Counter.count`, with what the whole process has counted before."""
    return _SHARED.count(request, model=model, api=api)


def check_request(request: Mapping[str, Any], *, api: Api = "chat") -> None:
    """Raises InvalidInput where a request has no form that can be counted: no messages, parts that are no text
    (images, audio, files), tools that are none, or what is no JSON. `field` says where."""
    shape = SHAPES[api]
    for start, group in groups_of(items_of(request, shape), shape):
        read_group(group, start, shape)
    rest = _rest(request, shape)
    for name, value in rest.items():
        frozen(value, name)
    shape.envelope(rest)


def _rest(request: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key != shape.items}


def _counted(group: Sequence[Item], start: int, shape: Shape, rules: Rules) -> Group:
    return Group(rules.group(read_group(group, start, shape), _tokenizer(rules)), shape.items)


def _beside(request: Mapping[str, Any], items: Sequence[Item], shape: Shape, rules: Rules, memo: Memo[Sum]) -> Sum:
    rest = _rest(request, shape)
    host = next((item for item in items if item.get("role") in _HOSTS), None)
    named: list[Hashable] = [(name, frozen(value, name)) for name, value in rest.items()]
    key = (*named, frozen(host, shape.items))
    return memo.find(key) or memo.keep(key, summed(_enveloped(rest, host, shape, rules)))


def _enveloped(rest: Mapping[str, Any], host: Item | None, shape: Shape, rules: Rules) -> Iterator[Part]:
    tokens = _tokenizer(rules)
    envelope = shape.envelope(rest)
    for message in envelope.instructions:
        for line in rules.group([message], tokens):
            path = f"instructions.{line.path}" if line.path else "instructions"
            yield Part(path, line.tokens, line.kind, line.fields, line.beyond, line.certain)
    hosts = (*envelope.instructions, *([shape.read(host, {})] if host is not None else ()))
    yield from rules.envelope(envelope, next(iter(hosts), None), tokens)
    for strange in envelope.strange:
        yield Part(strange.path, tokens(strange.text), "strange", certain=False)


def _tokenizer(rules: Rules) -> Tokens:
    return functools.partial(encodings.tokens, rules.encoding)


def _total(sums: Sequence[Sum], family: Family) -> Count:
    ledger: list[Part] = []
    spent: dict[Kind, int] = defaultdict(int)
    doubted: list[str] = []
    beyond = 0
    for one in sums:
        ledger += one.parts
        doubted += one.doubted
        beyond += one.beyond
        for kind, tokens in one.spent:
            spent[kind] += tokens
    unsure = family.margin.doubts(spent)
    total, encoding = sum(spent.values()), family.rules.encoding
    if not encodings.available(encoding):
        # Both are in bytes: no byte-level tokenizer makes more tokens than that.
        reason = f"no tokenizer of {encoding} on this machine"
        return Count(
            tokens=total, margin=beyond, exact=False, tokenizer="utf-8 bytes", ledger=tuple(ledger), reasons=(reason,)
        )
    return Count(
        tokens=total,
        margin=family.margin.of(spent) + beyond,
        exact=family.known and not doubted and not unsure and not beyond,
        tokenizer=encoding if family.known else f"{encoding} as an estimate for {family.name}",
        ledger=tuple(ledger),
        reasons=tuple(_reasons(family, unsure, doubted, beyond)),
    )


_KINDS: Final[Mapping[Kind, str]] = {
    "text": "texts",
    "call": "tool calls and results",
    "tools": "tools",
    "schema": "schemas",
    "strange": "what is strange",
}


def _reasons(family: Family, unsure: Sequence[Kind], doubted: Sequence[str], beyond: int) -> Iterator[str]:
    """Why more than the count may be billed."""
    if not family.known:
        yield f"{family.name} is estimated"
    elif unsure:
        yield f"{family.name} bills {' and '.join(_KINDS[kind] for kind in unsure)} by rules that are not known whole"
    if doubted:
        more = f" and {len(doubted) - 1} more" if len(doubted) > 1 else ""
        yield f"no rule knows all of {doubted[0]}{more}"
    if beyond:
        yield f"{beyond} tokens are of what may not be shown to the model, or of text that tokenizers differ on"
