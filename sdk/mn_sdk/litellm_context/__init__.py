"""Membrane in a LiteLLM proxy: `callbacks: mn_sdk.litellm_context.admission` admits any client's chat
completions.

A request is counted whole and sent, or refused with numbers before it is. One whose metadata names a run, and whose key
may use it, gets what the run recalls, is sent at most once, and leaves a durable receipt. Configured in the proxy's
YAML, under `callback_settings.membrane`; a setting that is wrong stops the proxy's start.

Imported by the proxy only, which has loaded litellm already.
"""

from mn_sdk.context_session import provider
from mn_sdk.litellm_context.gateway import Gateway
from mn_sdk.litellm_context.settings import read_settings

admission = Gateway(read_settings(provider.load().callback_settings.get("membrane") or {}))

__all__ = ["admission"]
