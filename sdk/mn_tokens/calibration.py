"""What reported usage says of our counts: a value, and the rule by which it changes.

A provider reports what it billed. Where that is more than count and margin together, the model bills otherwise than is
known here: the drift is told, and from then on the model's margin is wider, in this and every later session that is
given the value. It never becomes narrower by itself, and a margin that holds is never touched.

Pure: no clock, no file, no log. `document` and `calibration_of` turn the value into JSON and back, for whoever stores
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_tokens.values import Count

_HEADROOM: Final = 1.25
"""How much wider a margin becomes than the drift that was seen: the first drift is hardly the largest."""
_MODELS_MAX: Final = 1024
_VERSION: Final = 1
_TOKENS_MAX: Final = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was seen of one model: requests with reported usage, how many of them were billed more than count and
    margin, and how many tokens, and which share of the count, the margin is widened by; the larger of the two holds."""

    requests: int = 0
    exceeded: int = 0
    tokens: int = 0
    share: float = 0.0

    def room(self, counted: int) -> int:
        """Tokens that the margin of a count of `counted` is widened by."""
        return max(self.tokens, math.ceil(self.share * counted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A request that was billed more than count and margin, for whoever warns of it."""

    model: str
    counted: int
    margin: int
    billed: int
    widened_by: int

    def __str__(self) -> str:
        return (
            f"{self.model} billed {self.billed} tokens for a request that was counted as {self.counted} with a margin "
            f"of {self.margin}; its margin is now wider by {self.widened_by} tokens for a request like that"
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is learned, by model as litellm names it. A new one has learned nothing."""

    models: Mapping[str, Learned] = field(default_factory=dict)

    def applied(self, count: Count, *, model: str) -> Count:
        """The count with the margin that the model has shown to need, and why."""
        learned = self.models.get(model, Learned())
        room = learned.room(count.tokens)
        if not room:
            return count
        reason = f"{model} billed more than was reckoned with, {learned.exceeded} times in {learned.requests}"
        return replace(count, margin=count.margin + room, exact=False, reasons=(*count.reasons, reason))

    def observed(self, count: Count, *, model: str, billed: int) -> tuple[Calibration, Drift | None]:
        """The calibration after a request was billed, and its drift where that was more than count and margin.

        `count` is what the request was admitted with (see `applied`); `billed` are all its input tokens, from a cache
        or not. Usage that was estimated, by a proxy or for a cut stream, says nothing: leave it out. Raises
        InvalidInput where `billed` is no number of tokens.
        """
        if isinstance(billed, bool) or not isinstance(billed, int) or not 0 < billed <= _TOKENS_MAX:
            raise InvalidInput("billed tokens are a whole number from 1 up", field="billed")
        learned = self.models.get(model, Learned())
        excess = billed - count.upper
        if excess <= 0:
            return self._with(model, replace(learned, requests=learned.requests + 1)), None
        missing = excess + learned.room(count.tokens)
        wider = Learned(
            requests=learned.requests + 1,
            exceeded=learned.exceeded + 1,
            tokens=max(learned.tokens, math.ceil(_HEADROOM * missing)),
            share=max(learned.share, _HEADROOM * missing / max(count.tokens, 1)),
        )
        drift = Drift(
            model=model,
            counted=count.tokens,
            margin=count.margin,
            billed=billed,
            widened_by=wider.room(count.tokens) - learned.room(count.tokens),
        )
        return self._with(model, wider), drift

    def _with(self, model: str, learned: Learned) -> Calibration:
        """With what is learned of a model now. Of too many models, one that holds its margin is forgotten first."""
        models = {name: one for name, one in self.models.items() if name != model}
        if len(models) >= _MODELS_MAX:
            forgotten = min(models, key=lambda name: (models[name].exceeded, models[name].requests))
            del models[forgotten]
        return Calibration({**models, model: learned})

    def document(self) -> dict[str, Any]:
        """The value as JSON."""
        return {
            "version": _VERSION,
            "models": {
                name: {
                    "requests": one.requests,
                    "exceeded": one.exceeded,
                    "tokens": one.tokens,
                    "share": one.share,
                }
                for name, one in self.models.items()
            },
        }


def calibration_of(document: Any) -> Calibration:
    """The calibration that a document holds. Raises InvalidInput for what `document` cannot have made."""
    models = document.get("models") if isinstance(document, Mapping) else None
    if not isinstance(models, Mapping) or document.get("version") != _VERSION or len(models) > _MODELS_MAX:
        raise InvalidInput(f"a calibration is an object of version {_VERSION} with models", field="calibration")
    return Calibration({str(name): _learned(name, given) for name, given in models.items()})


def _learned(name: Any, given: Any) -> Learned:
    place = f"calibration.models[{name!r:.80}]"
    if not isinstance(given, Mapping) or set(given) != {"requests", "exceeded", "tokens", "share"}:
        raise InvalidInput(f"{place} has requests, exceeded, tokens and share", field=place)
    for key, value in given.items():
        number = isinstance(value, int | float) if key == "share" else isinstance(value, int)
        if not number or isinstance(value, bool) or not 0 <= value <= _TOKENS_MAX:
            raise InvalidInput(f"{place}.{key} must be a number from 0 up", field=place)
    return Learned(**given)
