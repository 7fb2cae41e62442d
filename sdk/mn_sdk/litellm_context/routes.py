"""Which of the proxy's calls are admitted, which pass, and which are refused, by the proxy's own names of them.

Chat completions are counted. What has no model write text has nothing that could overflow a window. All the rest is
refused, because nobody would count it, unless the operator has named it in `pass`. The proxy's Assistants routes
(`/threads/...`) and what reaches litellm without the proxy's pre-call hook are not seen here.
"""

from __future__ import annotations

import re
from typing import Final

from mn_contract.errors import UnmanagedCall

ADMITTED: Final = frozenset({"acompletion", "completion"})
_WRITES_NO_TEXT: Final = re.compile(
    r"a?(embedding|moderation|transcription|speech|rerank|search|ocr)"
    r"|a?(image|video|vector_store|file)_\w+|a?create_(file|container|skill|fine_tuning_job|agent|eval)"
    r"|a?(get|list|retrieve|delete|cancel|update|upload)_\w+|call_mcp_tool|list_mcp_tools|apply_guardrail"
)


def is_admitted(call_type: str, passed: frozenset[str]) -> bool:
    """Whether a call is to be counted; otherwise it passes. Raises UnmanagedCall where it is refused."""
    if call_type in ADMITTED:
        return True
    if call_type in passed or _WRITES_NO_TEXT.fullmatch(call_type):
        return False
    raise UnmanagedCall(
        f"{call_type} has a model write text and is not counted; use chat completions, or let it pass uncounted with "
        f"callback_settings.membrane.pass: [{call_type}]",
        call_type=call_type,
    )
