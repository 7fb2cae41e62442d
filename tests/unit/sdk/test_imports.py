"""What importing the session costs: nothing heavy is loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("litellm", "duckdb", "pyarrow", "numpy", "asyncio", "grpc", "tiktoken", "rich", "openai", "httpx", "mn_engine")


@pytest.mark.parametrize("module", ["mn_sdk.context_session", "mn_sdk.context_session.contracts", "mn_tokens"])
def test_nothing_heavy_is_loaded_with(module: str) -> None:
    code = f"import sys, {module}; print(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.split() == []


def test_the_package_exports_what_programs_import() -> None:
    from mn_sdk import context_session
    from mn_sdk.context_session import AsyncContextSession
    from mn_sdk.context_session.contracts import digest, encoded

    assert sorted(context_session.__all__) == [
        "AmbiguousInvocation",
        "AsyncContextSession",
        "ContextBudgetExceeded",
        "ContextError",
        "ContextPolicy",
        "ContextSession",
        "DependencyUnavailable",
        "IdempotencyConflict",
        "InvalidInput",
        "InvocationInFlight",
        "NeedsPartition",
        "NotFound",
        "RecordInUse",
        "RunClosed",
        "SessionScope",
        "SourceMismatch",
        "StorageFull",
        "UnmanagedCall",
        "UnusableResponse",
        "available_text_bytes",
    ]
    assert all(getattr(context_session, name) for name in context_session.__all__)
    assert AsyncContextSession is context_session.AsyncContextSession
    assert digest(encoded({"a": 1})) == digest({"a": 1})
