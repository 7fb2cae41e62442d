"""Workers that are processes of their own, make one call, and die on the way where told.

Run as a program this is a nursery: it loads what takes long once, then forks a worker for each line of its input and
tells on its output, a JSON line each, the worker's process id and later how it ended. `Nursery` is its other end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "g"})}]


class Nursery:
    """Starts workers."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.scenario.session.worker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, root: Path, base: str, point: str = "", *, started: Callable[[int], None] = lambda pid: None) -> int:
        """Runs a worker to its end; `started` is told its process id. Answers its exit status; negative: a signal."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([str(root), base, point]) + "\n")
        stdin.flush()
        started(int(json.loads(stdout.readline())))
        return int(json.loads(stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=30)


def call_once(root: str, base: str, point: str) -> None:
    from mn_sdk.context_session import ContextSession

    session = ContextSession(Path(root), job_id="job", run_id="run", principal="alice")
    if point:
        _arm(point)
    session.complete("d", messages=MESSAGES, model="openai/gpt-4o", api_base=base, api_key="none", timeout=30)
    session.close()


def _arm(point: str) -> None:
    from mn_sdk.context_session import dispatch, provider

    def die(*args: Any, **kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    owner, attribute = {
        "before the dispatch is durable": (dispatch.Dispatcher, "_calls_max"),
        "before the request leaves": (provider, "send"),
        "before the response is durable": (dispatch.Dispatcher, "settle"),
        "before the write-back": (dispatch, "write_back"),
    }[point]
    setattr(owner, attribute, die)


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _serve() -> None:
    import mn_engine.bootstrap  # noqa: F401 - loaded before the forks
    from mn_sdk.context_session import dispatch, provider  # noqa: F401

    provider.load()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            call_once(*json.loads(line))
            os._exit(0)
        _tell(pid)
        _tell(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    _serve()
