"""What fits before anything is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mn_sdk.context_session.policy import ContextPolicy


def available_text_bytes(
    policy: ContextPolicy, *, model: str, request: Mapping[str, Any] | None = None, sample: str = ""
) -> int:
    """How many bytes of further text a request may carry beside what it already says (`request`, as it would be sent).

    Without a `sample` of the text the answer is what holds for any text: a token is at least one byte. With one, it is
    reckoned at the sample's density, less a tenth. Recalled records share the same room: what they take is not
    subtracted here.
    """
    from mn_tokens import count

    used = 0 if request is None else count(request, model=model).upper
    room = max(policy.input_budget - used, 0)
    if not sample:
        return room
    cost = max(count({"messages": [{"role": "user", "content": sample}]}, model=model).upper, 1)
    return max(room, room * len(sample.encode("utf-8")) * 9 // (cost * 10))
