"""What leaves is what was admitted (invariants 2, 11, 12): the provider's request, read before a byte of it is sent.

litellm writes a request in its provider's form, and where the provider lacks something it adds text of its own: a tool
in place of a schema, a message that asks for a tool, a prompt before the caller's. A request that is not simply what
was counted is counted again as what it is; where it does not fit, or the caller's instructions are not in it as they
were written, it is not sent. Neither is one of which litellm has left a part out: a schema, a function, or the word
that a function is to be called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mn_contract.errors import InvalidInput, UnmanagedCall
from mn_sdk.context_session.counting import Counting
from mn_sdk.context_session.histories import INSTRUCTING
from mn_tokens import Count
from mn_tokens.reading import api_of
from mn_tokens.reading.shape import UNREAD

_SAID: Final = ("messages", "tools", "functions", "tool_choice", "function_call", "response_format")
_CHOICES: Final = frozenset({"tool_choice", "toolChoice", "functionCallingConfig", "function_call"})
"""How providers spell the member that says whether functions are called."""
_SHOWN_MAX: Final = 3
_SHOWN_CHARACTERS_MAX: Final = 80


@dataclass(slots=True, kw_only=True)
class Leaving:
    """An admitted request on its way. `count` is of what was admitted, and once that has been looked at, of what
    leaves."""

    asked: Mapping[str, Any]
    model: str
    count: Count
    input_budget: int
    counting: Counting
    outgrown: bool = False
    """Whether what leaves was stopped because it takes more than `input_budget`."""

    def check(self, url: str, body: bytes) -> None:
        """Looks at what is about to be sent to `url`. Raises UnmanagedCall where it is not to be sent. A body in a form
        that is not read here passes."""
        sent = _document(body)
        if sent is None or self._is_asked(sent):
            return
        api = api_of(sent, urlsplit(url).path)
        if api is None:
            return
        lost = self._lost(sent)
        if lost:
            raise self._refused(set(_texts(sent)), f"{lost} would not be sent")
        try:
            self.count = self.counting.sent(self.count, self.asked, sent, model=self.model, api=api)
        except InvalidInput:  # a provider's own form of what looks like one of these
            return
        known = set(_texts(sent))
        if any(not _stands(message["content"], known) for message in self.asked["messages"] if _instructs(message)):
            raise self._refused(known, "the instructions would not be sent as they were written")
        if self.count.upper > self.input_budget:
            self.outgrown = True
            raise self._refused(
                known, f"with what is added the request takes {self.count.upper} tokens, more than {self.input_budget}"
            )

    def _is_asked(self, sent: Mapping[str, Any]) -> bool:
        """Whether it says what was counted, and nothing else."""
        same = all(sent.get(name) == self.asked.get(name) for name in _SAID)
        return same and not (sent.keys() - self.asked.keys() - UNREAD)

    def _lost(self, sent: Mapping[str, Any]) -> str:
        """What of the request stands nowhere in what is sent, in whatever form; empty for nothing. Instructions aside,
        which have a rule of their own."""
        names = set(_names(sent))
        said = "\n".join(_texts(sent))
        functions = [tool.get("function", tool) for tool in self.asked.get("tools") or ()]
        for function in (*functions, *(self.asked.get("functions") or ())):
            if str(function.get("name", "")) not in said:
                return f"the function {function['name']!r}"
        described = set(_properties(self.asked.get("response_format"))) - names
        if any(json.dumps(name) not in said for name in described):  # litellm may write it into a message
            return "the schema of response_format"
        messages = sent.get("messages")
        asked_for = isinstance(messages, list) and len(messages) > len(self.asked["messages"])  # litellm asks by words
        if self._forces() and names.isdisjoint(_CHOICES) and not asked_for:
            return "tool_choice"
        return ""

    def _forces(self) -> bool:
        """Whether the call says that a function is to be called."""
        choices = (self.asked.get("tool_choice"), self.asked.get("function_call"))
        return any(choice is not None and choice not in ("auto", "none") for choice in choices)

    def _refused(self, known: set[str], why: str) -> UnmanagedCall:
        added = sorted(known.difference(_texts(self.asked)), key=len, reverse=True)[:_SHOWN_MAX]
        shown = [text[:_SHOWN_CHARACTERS_MAX] for text in added]
        return UnmanagedCall(
            f"litellm changes this request for {self.model}, so it was not sent: {why}. It adds {shown!r}. Leave out "
            "what the model does not take by itself (response_format, reasoning_effort, tool_choice, empty texts), "
            "make the request smaller, or give it more room",
            added=shown,
            tokens=self.count.upper,
            input_budget=self.input_budget,
        )


def _document(body: bytes) -> Mapping[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys aside."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)


def _names(value: Any) -> Iterator[str]:
    """Every name of a member that is not null in a JSON value."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            yield from (str(name) for name, member in one.items() if member is not None)
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)


def _properties(schema: Any) -> Iterator[str]:
    """The names of the properties that a JSON schema, or what holds one, describes."""
    pending = [schema]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            described = one.get("properties")
            if isinstance(described, Mapping):
                yield from map(str, described)
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)


def _instructs(message: Mapping[str, Any]) -> bool:
    return message["role"] in INSTRUCTING and bool(message["content"])


def _stands(content: Any, known: set[str]) -> bool:
    """Whether a message's text is among the known ones, whole or part by part."""
    parts = [content] if isinstance(content, str) else [part["text"] for part in content]
    return known.issuperset(parts) or "".join(parts) in known
