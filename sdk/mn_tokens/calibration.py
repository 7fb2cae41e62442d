"""What reported usage says of our counts: a value, and the rule by which it changes.

A provider reports what it billed. Where that is more than count and margin together, the model bills otherwise than is
known here: the drift is told, and from then on the model's margin is wider, in this and every later session that is
given the value. It becomes narrower by `forgotten` only, and a margin that holds is never touched.

What is billed beyond a margin is a constant (a hidden prompt), a share of the request (another tokenizer), or both. A
small request says nothing of shares, so it teaches the constant; a larger one teaches the share, of what the constant
does not explain. What no model would bill for such a request is told and teaches nothing: it is a fault in reporting.

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
_SHARE_TOKENS_MIN: Final = 1024
"""A request of fewer tokens teaches no share: a hidden prompt of a few hundred would be most of it."""
_BELIEVED_TIMES: Final = 8
_BELIEVED_TOKENS: Final = 4096
"""More than so many times the count and so many tokens besides is billed for no request, and reckoned with for none."""
_MODELS_MAX: Final = 1024
_VERSION: Final = 1
_TOKENS_MAX: Final = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was seen of one model: requests with reported usage, how many of them were billed more than count and
    margin, and by how many tokens, and by which share of the count besides, the margin is widened."""

    requests: int = 0
    exceeded: int = 0
    tokens: int = 0
    share: float = 0.0

    def room(self, counted: int) -> int:
        """Tokens that the margin of a count of `counted` is widened by: never more than could be believed of it."""
        return min(self.tokens + math.ceil(self.share * counted), _believable(counted))

    def widened(self, counted: int, missing: int) -> Learned:
        """With room for `missing` tokens more in a request of `counted`."""
        learned = replace(self, requests=self.requests + 1, exceeded=self.exceeded + 1)
        if missing <= 0:
            return learned
        if counted < _SHARE_TOKENS_MIN:
            return replace(learned, tokens=self.tokens + math.ceil(_HEADROOM * missing))
        return replace(learned, share=self.share + _HEADROOM * missing / counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A request that was billed more than count and margin, for whoever warns of it. `widened_by` is how many tokens
    the margin of such a request is wider than this one's was; 0 where what was billed is not believed."""

    model: str
    counted: int
    margin: int
    billed: int
    widened_by: int

    def __str__(self) -> str:
        learned = (
            f"its margin is now wider by {self.widened_by} tokens for a request like that"
            if self.widened_by
            else "no request costs so much, so nothing is learned from it"
        )
        return (
            f"{self.model} billed {self.billed} tokens for a request that was counted as {self.counted} with a margin "
            f"of {self.margin}; {learned}"
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
        return replace(count, margin=count.margin + room, widened=room, exact=False, reasons=(*count.reasons, reason))

    def observed(self, count: Count, *, model: str, billed: object) -> tuple[Calibration, Drift | None]:
        """The calibration after a request was billed, and its drift where that was more than count and margin.

        `count` is what the request was admitted with (see `applied`); `billed` are all its input tokens, from a cache
        or not. It raises nothing: usage comes from outside, after a call was paid for, and what is no whole number
        from 1 up teaches nothing. Usage that was estimated, by a proxy or for a cut stream, says nothing: leave it out.
        """
        if isinstance(billed, bool) or not isinstance(billed, int) or billed <= 0:
            return self, None
        learned = self.models.get(model, Learned())
        drift = Drift(model=model, counted=count.tokens, margin=count.margin, billed=billed, widened_by=0)
        if billed <= count.upper:
            return self._with(model, replace(learned, requests=learned.requests + 1)), None
        own = count.upper - count.widened
        if billed > own + _believable(count.tokens):
            return self, drift
        # What was learned since the request was admitted explains a part of it.
        wider = learned.widened(count.tokens, billed - own - learned.room(count.tokens))
        return self._with(model, wider), replace(drift, widened_by=wider.room(count.tokens) - count.widened)

    def forgotten(self, model: str) -> Calibration:
        """Without what was learned of a model, so that its margin is as wide as that of a model nothing is known of."""
        return Calibration({name: one for name, one in self.models.items() if name != model})

    def _with(self, model: str, learned: Learned) -> Calibration:
        """With what is learned of a model now. Of too many models, one that holds its margin is forgotten first."""
        models = dict(self.forgotten(model).models)
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


def _believable(counted: int) -> int:
    """How many tokens beyond count and margin a request of `counted` tokens may be billed."""
    return _BELIEVED_TIMES * counted + _BELIEVED_TOKENS


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
