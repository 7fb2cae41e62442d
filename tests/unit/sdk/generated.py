"""Made-up message histories: all that well-formed ones can hold, and what breaks them. Each from its seed alone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

_WORDS = ["brackets", "nest", "価格", "β-ray", "\n", '"', "}{", " ", "the quick brown fox", "\u2028", "<|im_end|>"]
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
_FUNCTIONS = ["find", "read_file", "f-1", "n" * 64]
_HUGE_CHARS = 120_000


MODELS = ("gpt-4o", "anthropic/claude-sonnet-4-5")


class Histories:
    """One seed's request: `model`, `messages`, `asked` (tools and their choice), and whether it was broken on
    purpose."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self._calls = 0
        self.model = self.chance.choice(MODELS)
        self.messages = self._packet() if self.chance.random() < 0.15 else self._general()
        self.asked = self._tools()
        self.broken = ""
        if self.chance.random() < 0.35:
            breaking = self.chance.choice(_BREAKING)
            self.broken = breaking.__name__
            breaking(self.messages, self.chance)
        elif self.asked and self.chance.random() < 0.1:
            self.broken = "a tool's name"
            self.asked["tools"][0]["function"]["name"] = self.chance.choice(["a.b", "x" * 129, "two words", ""])

    def _tools(self) -> dict[str, Any]:
        if self.chance.random() < 0.5:
            return {}
        tools = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": self._text(),
                    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
                },
            }
            for name in self.chance.sample(_FUNCTIONS, self.chance.randrange(1, len(_FUNCTIONS) + 1))
        ]
        named = {"type": "function", "function": {"name": self.chance.choice(tools)["function"]["name"]}}
        choice = self.chance.choice([None, "auto", "none", "required", named])
        return {"tools": tools, **({} if choice is None else {"tool_choice": choice})}

    def _packet(self) -> list[Message]:
        current = {self._text(3): self._text() for _ in range(self.chance.randrange(4))}
        return [self._instruction(), {"role": "user", "content": json.dumps({"goal": self._text(), **current})}]

    def _general(self) -> list[Message]:
        messages = [self._instruction() for _ in range(self.chance.choice([0, 1, 1, 2, 3]))]
        messages += self._said() if self.model != MODELS[0] else []
        for _ in range(self.chance.randrange(1, 14)):
            messages += self.chance.choice([self._said, self._said, self._answered, self._called, self._instructed])()
        if not any(message["role"] == "user" for message in messages):
            messages += self._said()
        if self.chance.random() < 0.05:
            self.chance.choice(messages)["content"] = self._text() * (_HUGE_CHARS // 20)
        return messages

    def _text(self, words: int = 12) -> str:
        return " ".join(self.chance.choices(_WORDS, k=self.chance.randrange(1, words + 1))) + "."

    def _instruction(self) -> Message:
        message: Message = {"role": self.chance.choice(["system", "developer"]), "content": self._texts()}
        return self._named(message)

    def _instructed(self) -> list[Message]:
        return [self._instruction()]

    def _said(self) -> list[Message]:
        return [self._named({"role": "user", "content": self._texts()})]

    def _answered(self) -> list[Message]:
        return [self._named({"role": "assistant", "content": self._texts()})]

    def _called(self) -> list[Message]:
        """Parallel calls, and their results in any order."""
        calls = []
        for _ in range(self.chance.choice([1, 1, 2, 4])):
            self._calls += 1
            arguments = self.chance.choice(["{}", "", json.dumps({"q": self._text()})])
            function = {"name": self.chance.choice(_FUNCTIONS), "arguments": arguments}
            calls.append({"id": f"call_{self._calls}", "type": "function", "function": function})
        results = [{"role": "tool", "tool_call_id": call["id"], "content": self._texts()} for call in calls]
        self.chance.shuffle(results)
        content = self.chance.choice([None, self._text()])
        return [{"role": "assistant", "content": content, "tool_calls": calls}, *results]

    def _texts(self) -> Any:
        if self.chance.random() < 0.8:
            return self._text()
        return [{"type": "text", "text": self._text()} for _ in range(self.chance.randrange(1, 4))]

    def _named(self, message: Message) -> Message:
        return {**message, "name": "ada-1"} if self.chance.random() < 0.15 else message


def _one(messages: list[Message], chance: random.Random, *roles: str) -> Message:
    """A message of one of these roles; a message where there is none."""
    return chance.choice([one for one in messages if one["role"] in roles] or messages)


def dropped(messages: list[Message], chance: random.Random) -> None:
    del messages[chance.randrange(len(messages))]


def repeated(messages: list[Message], chance: random.Random) -> None:
    messages.insert(chance.randrange(len(messages)), dict(chance.choice(messages)))


def swapped(messages: list[Message], chance: random.Random) -> None:
    one, other = chance.randrange(len(messages)), chance.randrange(len(messages))
    messages[one], messages[other] = messages[other], messages[one]


def cut_off(messages: list[Message], chance: random.Random) -> None:
    del messages[chance.randrange(1, len(messages) + 1) :]


def orphaned(messages: list[Message], chance: random.Random) -> None:
    orphan = {"role": "tool", "tool_call_id": chance.choice(["call_1", "nobody"]), "content": "r"}
    messages.insert(chance.randrange(len(messages) + 1), orphan)


def between_call_and_result(messages: list[Message], chance: random.Random) -> None:
    place = next((at for at, one in enumerate(messages) if one["role"] == "tool"), len(messages))
    role = chance.choice(["user", "system", "assistant"])
    messages.insert(place, {"role": role, "content": "in between"})


def of_nobody(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages)["role"] = chance.choice(["function", "", None, 3, "User"])


def without_content(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages)["content"] = None


def of_no_parts(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages)["content"] = []


def of_other_content(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages)["content"] = chance.choice([3, {"a": 1}, [3], ["x"], [{"type": "text"}], [{"text": "x"}]])


def seen(messages: list[Message], chance: random.Random) -> None:
    """A part that is no text, and that nobody can count."""
    chance.choice(messages)["content"] = [{"type": "text", "text": "look"}, _IMAGE]


def no_calls(messages: list[Message], chance: random.Random) -> None:
    _one(messages, chance, "assistant")["tool_calls"] = []


def used_again(messages: list[Message], chance: random.Random) -> None:
    """A call's id and its result's, a second time."""
    calls = [one for one in messages if one.get("tool_calls")]
    if calls:
        call = chance.choice(calls)
        results = [{"role": "tool", "tool_call_id": one["id"], "content": "r"} for one in call["tool_calls"]]
        messages += [call, *results]


def renamed_call(messages: list[Message], chance: random.Random) -> None:
    """A call with an id, name or arguments that one provider or the other does not take, its result with it."""
    calls = [call for one in messages for call in one.get("tool_calls") or ()]
    if not calls:
        return
    call = chance.choice(calls)
    what = chance.choice(["id", "name", "arguments"])
    if what == "id":
        renamed = chance.choice(["functions.find:0", "é", "call:x", "c" * 41])
        for message in messages:
            if message.get("tool_call_id") == call["id"]:
                message["tool_call_id"] = renamed
        call["id"] = renamed
    elif what == "name":
        call["function"]["name"] = chance.choice(["", "two words", "x" * 200, None])
    else:
        call["function"]["arguments"] = chance.choice(["not json", "[1]", None, {"q": 1}])


def typed_otherwise(messages: list[Message], chance: random.Random) -> None:
    calls = [call for one in messages for call in one.get("tool_calls") or ()]
    if calls:
        call = chance.choice(calls)
        call["type"] = chance.choice(["custom", None, "", "function"])
        if call["type"] is None and chance.random() < 0.5:
            del call["type"]


def alike(messages: list[Message], chance: random.Random) -> None:
    """Two calls whose ids are one where some signs are rewritten."""
    calls = [call for one in messages for call in one.get("tool_calls") or ()]
    for call, renamed in zip(calls, ("a.b", "a:b"), strict=False):
        for message in messages:
            if message.get("tool_call_id") == call["id"]:
                message["tool_call_id"] = renamed
        call["id"] = renamed


def nulled(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages).update(dict.fromkeys(chance.choice([["name"], ["tool_calls"], ["refusal", "audio"]])))


def annotated(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages)[chance.choice(["foo", "tool_call_id", "refusal"])] = "x"


def many_calls(messages: list[Message], chance: random.Random) -> None:
    called = {"type": "function", "function": {"name": "find", "arguments": "{}"}}
    ids = [f"many_{number}" for number in range(129)]
    messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": one, **called} for one in ids]})
    messages += [{"role": "tool", "tool_call_id": one, "content": "r"} for one in ids]


def begun_by_the_assistant(messages: list[Message], chance: random.Random) -> None:
    messages.insert(0, {"role": "assistant", "content": "x"})


def misnamed(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages)["name"] = chance.choice(["", "two words", "<x>", 3, "y" * 90])


def emptied(messages: list[Message], chance: random.Random) -> None:
    chance.choice(messages)["content"] = chance.choice(["", " ", [{"type": "text", "text": ""}]])


_BREAKING: list[Callable[[list[Message], random.Random], None]] = [
    dropped, repeated, swapped, cut_off, orphaned, between_call_and_result, of_nobody, without_content, of_no_parts,
    of_other_content, seen, no_calls, used_again, renamed_call, misnamed, emptied,
    typed_otherwise, alike, nulled, annotated, many_calls, begun_by_the_assistant,
]  # fmt: skip
