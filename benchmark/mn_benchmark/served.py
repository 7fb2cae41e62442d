"""Servers in processes of their own: ours over a record, and one that answers nothing, as a floor.

`python -m mn_benchmark.served` is the latter: uvicorn on a port that the system picks, which it prints.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mn_contract.errors import DependencyUnavailable

_STOP_SECONDS: Final = 60.0


@contextmanager
def served(record: Path) -> Iterator[str]:
    """Our server over `record`; the address of its HTTP face."""
    arguments = ["mn_engine.cli", "serve", "--address", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", str(record)]
    with _started([*arguments, "--log-level", "info"], "listening for HTTP on ", until=" serving") as address:
        yield address


@contextmanager
def empty() -> Iterator[str]:
    """A server whose every answer is empty; its address."""
    with _started(["mn_benchmark.served"], "port ", until="port ") as address:
        yield address


@contextmanager
def _started(arguments: list[str], marked: str, *, until: str) -> Iterator[str]:
    """A module that runs until the end; the address with the port that stands behind `marked` in its log, once it has
    logged `until`."""
    process = subprocess.Popen([sys.executable, "-m", *arguments], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = ""
        for line in process.stderr:
            if marked in line:
                port = line.split(marked)[1].split()[0]
            if port and until in line:
                break
        else:
            raise DependencyUnavailable(f"{arguments[0]} did not start", dependency=arguments[0])
        # What it logs from here on is read, or it would wait for a reader.
        threading.Thread(target=deque, args=(process.stderr, 0), daemon=True).start()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def _serve_nothing() -> None:
    import socket

    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    print("port", listening.getsockname()[1], file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(_answer, log_level="critical", lifespan="off")).run([listening])


if __name__ == "__main__":
    _serve_nothing()
