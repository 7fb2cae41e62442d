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


def events(
    *pieces: str, finish: str | None = "stop", usage: bool = True, done: bool = True, tool: str = ""
) -> list[bytes]:
    """A streamed answer, event by event. `tool` is the name of a tool that is called with the pieces' text."""

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        document = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "gpt-4o-2024-08-06",
            "choices": [choice],
            **more,
        }
        return b"data: " + json.dumps(document).encode() + b"\n\n"

    found = [chunk({"role": "assistant", "content": None if tool else ""})]
    for at, piece in enumerate(pieces):
        call = {"index": 0, "function": {"arguments": piece}}
        if tool and not at:
            call |= {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": piece}}
        found.append(chunk({"tool_calls": [call]} if tool else {"content": piece}))
    if finish is not None:
        found.append(chunk({}, finish))
    if usage:
        found.append(chunk({}, choices=[], usage={"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}))
    return [*found, b"data: [DONE]\n\n"] if done else found


class Upstream:
    """`events`, where there are any, are streamed instead of `body`, with a call of `between` before each, and the
    connection is reset after them where `cut`. `status`, `headers` and `body` are what it answers; `reset` ends the
    connection instead; `hold` is called between receiving a request and answering it; `trickle` is the part, `head` or
    `body`, from which on the answer comes slowly, byte by byte."""

    def __init__(self) -> None:
        self.fresh()
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

    def fresh(self) -> None:
        """Answers as it did at first, and remembers nothing."""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = completion()
        self.events: list[bytes] = []
        self.between: Callable[[], None] = lambda: None
        self.cut = False
        self.reset = False
        self.trickle = ""
        self.hold: Callable[[], None] = lambda: None
        self.requests: list[dict[str, Any]] = []

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
            _reset(handler)
            return
        if self.events and self.status == 200:
            self._stream(handler)
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

    def _stream(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        with contextlib.suppress(OSError):  # nobody reads any more
            for event in self.events:
                self.between()
                handler.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
                handler.wfile.flush()
            if self.cut:
                _reset(handler)
            else:
                handler.wfile.write(b"0\r\n\r\n")


def _reset(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


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
