"""What may stand behind a model name of the proxy's, and what a request may take whichever of it the proxy picks.

The proxy routes a name to one of its deployments, so a request is admitted only where it fits the narrowest of them,
counted by the tokenizer that counts most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mn_contract.errors import InvalidInput
from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.litellm_context.settings import POLICY_FIELDS, read_object
from mn_tokens import Count, count, model_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model as litellm takes it, and its policy."""

    model: str
    policy: ContextPolicy


def target_of(model: str, info: Mapping[str, Any], policy: Mapping[str, Any]) -> Target:
    """The target for a deployment of `model`. `info` is its `model_info` in the proxy's YAML: fields of a policy under
    `membrane`, which come before `policy`, and litellm's own `max_input_tokens`. Where nothing states the window it is
    the one of litellm's table, and ContextPolicy's default for a model that is not in it. Raises InvalidInput."""
    own = read_object(info.get("membrane") or {}, f"model_info.membrane of {model}", POLICY_FIELDS)
    stated = {"window_tokens": info["max_input_tokens"]} if info.get("max_input_tokens") else {}
    fields = {**stated, **policy, **own}
    limits = model_limits(model)
    known = limits is not None and limits.input_tokens is not None
    return Target(model=model, policy=ContextPolicy.for_model(model, **fields) if known else ContextPolicy(**fields))


def narrowest(targets: Sequence[Target], output_tokens: int) -> ContextPolicy:
    """The policy that leaves the least for a request which allows so much output; its window is final. Raises
    InvalidInput where one leaves nothing."""
    least = min(targets, key=lambda target: target.policy.budget_of(target.model, output_tokens=output_tokens))
    return replace(least.policy, window_tokens=least.policy.window_of(least.model), model_limits=False)


def most(targets: Sequence[Target], request: Mapping[str, Any]) -> Count:
    """The count of a request by the target that counts most."""
    return max((count(request, model=model) for model in dict.fromkeys(t.model for t in targets)), key=_upper)


def targets_of(name: Any, deployments: Sequence[Mapping[str, Any]], policy: Mapping[str, Any]) -> list[Target]:
    """The targets of a name: its deployments', or itself where the proxy has none (it then takes the name as litellm's,
    and `Gateway` counts again once the proxy has picked). Raises InvalidInput."""
    if not isinstance(name, str) or not name:
        raise InvalidInput("a call names its model", field="model")
    found = [target_of(str(one["litellm_params"]["model"]), one.get("model_info") or {}, policy) for one in deployments]
    return found or [target_of(name, {}, policy)]


def _upper(counted: Count) -> int:
    return counted.upper
