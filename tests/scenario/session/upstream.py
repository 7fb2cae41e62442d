"""A loopback server that speaks OpenAI's chat completions, does as it is told, and remembers what it received."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def completion(content: str | None = "yes", **message: Any) -> bytes:
    """The body of a usable answer."""
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "gpt-4o-2024-08-06",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": content, **message},
                }
            ],
            "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
        }
    ).encode()


class Upstream:
    """`status`, `headers` and `body` are what it answers; `reset` ends the connection instead; `hold` is called between
    receiving a request and answering it; `trickle` is the part, `head` or `body`, from which on the answer comes
    slowly, byte by byte."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = completion()
        self.reset = False
        self.trickle = ""
        self.hold: Callable[[], None] = lambda: None
        self.requests: list[dict[str, Any]] = []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                upstream._answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.base = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def arguments(self) -> dict[str, Any]:
        """What a call needs to reach it."""
        return {"model": "openai/gpt-4o", "api_base": self.base, "api_key": "none", "timeout": 20}

    def said(self, index: int = -1) -> dict[str, Any]:
        """The object in the last message of a received request."""
        parsed: dict[str, Any] = json.loads(self.requests[index]["messages"][-1]["content"])
        return parsed

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(json.loads(handler.rfile.read(int(handler.headers["content-length"]))))
        self.hold()
        if self.reset:
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        if self.trickle == "head":
            handler.wfile = _Slow(handler.wfile)
        handler.send_response(self.status)
        for name, value in {"content-type": "application/json", **self.headers}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(self.body)))
        handler.end_headers()
        if self.trickle == "body":
            handler.wfile = _Slow(handler.wfile)
        handler.wfile.write(self.body)


class _Slow(io.BufferedIOBase):
    """Writes a byte each tenth of a second, until nobody reads any more."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            for byte in bytes(data):
                self._file.write(bytes([byte]))
                time.sleep(0.1)
        return len(data)
