"""A stand-in for a model: an OpenAI-compatible server on loopback that answers extractively from the packet it is sent.

It is not a model and says so. It keeps a ledger of every request that it received, written and fsynced before it
answers: the demo's outside proof of what was called, and how often.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

MODEL: Final = "stand-in-extractive"
_WORD: Final = re.compile(r"[A-Za-z_]{4,}")
_BODY_BYTES_MAX: Final = 1 << 24
_QUOTES: Final = 3
_QUOTE_CHARS: Final = 160


class StandIn:
    """The server. `on_request` is called with the decision's name after the ledger has it, before the answer leaves."""

    def __init__(self, ledger: Path, on_request: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._on_request = on_request
        self._lock = threading.Lock()
        self._answers: dict[str, dict[str, Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="stand-in", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens, as an OpenAI client wants it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def received(self) -> dict[str, int]:
        """Decision -> how many requests for it came in."""
        counts: dict[str, int] = {}
        for line in self._ledger.read_text(encoding="utf-8").splitlines():
            name = json.loads(line)["decision"]
            counts[name] = counts.get(name, 0) + 1
        return counts

    def answer_of(self, decision: str) -> dict[str, Any] | None:
        """What the provider's log holds for a decision: the response that it produced."""
        with self._lock:
            return self._answers.get(decision)

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()

    def take(self, body: dict[str, Any]) -> dict[str, Any]:
        """Notes a request durably and answers it."""
        packet = _packet(body)
        decision = str(packet.get("current", {}).get("decision", "?"))
        with self._lock:
            self.requests.append(body)
            with self._ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"decision": decision, "at": time.time()}) + "\n")
                file.flush()
                os.fsync(file.fileno())
            answer = _completion(extract(packet), body)
            self._answers[decision] = answer
        self._on_request(decision)
        return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                if self.path.rstrip("/") != "/v1/chat/completions" or not 0 < length <= _BODY_BYTES_MAX:
                    self._send(404, {"error": {"message": "only POST /v1/chat/completions"}})
                    return
                try:
                    body = json.loads(self.rfile.read(length))
                except ValueError:
                    self._send(400, {"error": {"message": "no JSON"}})
                    return
                self._send(200, stand_in.take(body))

            def _send(self, status: int, answer: dict[str, Any]) -> None:
                data = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except ConnectionError:
                    self.close_connection = True  # its caller was killed; the ledger has the request

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet: what matters is in the ledger."""

        return Handler


def extract(packet: dict[str, Any]) -> str:
    """The sentences of recalled records that share most words with the question, those that oppose it apart."""
    current = packet.get("current", {})
    wanted = {word.lower() for word in _WORD.findall(str(current.get("question", "")))}
    sides: dict[str, list[tuple[int, str]]] = {"for": [], "against": []}
    for record in packet.get("recalled", {}).get("records", []):
        against = record.get("stance") in ("opposes", "mixed")
        line, shared = _best_line(str(record.get("text", "")), wanted)
        if line and (shared or against):
            sides["against" if against else "for"].append((shared, f"{line} [{record.get('id')}]"))
    parts = [
        f"{side}: " + " | ".join(line for _, line in sorted(lines, key=lambda pair: -pair[0])[:_QUOTES])
        for side, lines in sides.items()
        if lines
    ]
    return f"(extractive stand-in, no model) {'; '.join(parts) or 'the packet holds nothing about this'}"


def _best_line(text: str, wanted: set[str]) -> tuple[str, int]:
    best, most = "", -1
    for line in text.splitlines():
        shared = len(wanted.intersection(word.lower() for word in _WORD.findall(line)))
        if line.strip() and shared > most:
            best, most = line.strip()[:_QUOTE_CHARS], shared
    return best, max(most, 0)


def _packet(body: dict[str, Any]) -> dict[str, Any]:
    messages = body.get("messages") or [{}]
    try:
        packet = json.loads(messages[-1].get("content") or "{}")
    except ValueError:
        return {}
    return packet if isinstance(packet, dict) else {}


def _completion(text: str, body: dict[str, Any]) -> dict[str, Any]:
    asked = len(json.dumps(body.get("messages", []))) // 4
    return {
        "id": f"stand-in-{time.time_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": len(text) // 4, "total_tokens": asked + len(text) // 4},
    }
