"""A model's provider as a process of its own, with a ledger of what it received: the outside proof of what was sent.

A request is in the ledger, fsynced, before anything else happens to it. What is to become of it stands in the address
that it is sent to, `/CASE/RETRY/BYTES/FATE/v1`: whose call it is, under which retry identity (`-` for none), how long
the answer is, and whether a process is killed once the request is in the ledger (`received-PID`) or once half of the
answer has left (`middle-PID`). Run as a program it prints its port; `Provider` is the other end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.scenario.session.upstream import completion, events

ANSWERS = "answers"
NO_RETRY = "-"


@dataclass(frozen=True, slots=True)
class Received:
    """A line of the ledger: a request, and the answer that it gets."""

    case: str
    retry: str
    answer: str


class Provider:
    """Starts the provider, and reads its ledger."""

    def __init__(self, folder: Path) -> None:
        self._ledger = folder / "ledger.jsonl"
        self._ledger.touch()
        command = [sys.executable, "-m", "tests.crash.session.provider", str(self._ledger)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.base = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def received(self, case: str) -> list[Received]:
        """What came in for a case, in its order."""
        lines = map(json.loads, self._ledger.read_text(encoding="utf-8").splitlines())
        return [Received(**line) for line in lines if line["case"] == case]

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=30)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Quiet about callers that were killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ledger: Path
    lock = threading.Lock()

    def do_POST(self) -> None:
        _, case, retry, size, fate, *_ = self.path.split("/")
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = self._noted(case, "" if retry == NO_RETRY else retry, int(size))
        end, _, pid = fate.partition("-")
        if end == "received":
            os.kill(int(pid), signal.SIGKILL)
        parts = events(*_pieces(answer)) if asked.get("stream") else [completion(answer)]
        kind = "text/event-stream" if asked.get("stream") else "application/json"
        whole = b"".join(parts)
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole[: len(whole) // 2])
        self.wfile.flush()
        if end == "middle":
            os.kill(int(pid), signal.SIGKILL)
        self.wfile.write(whole[len(whole) // 2 :])

    def log_message(self, *args: object) -> None:
        """Quiet: what matters is in the ledger."""

    def _noted(self, case: str, retry: str, size: int) -> str:
        with self.lock, self.ledger.open("a", encoding="utf-8") as ledger:
            answer = f"answer {ledger.tell()} to {case} {retry} ".ljust(size, "x")  # no two are alike
            ledger.write(json.dumps({"case": case, "retry": retry, "answer": answer}) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())
        return answer


def _pieces(answer: str) -> list[str]:
    step = max(len(answer) // 8, 1)
    return [answer[at : at + step] for at in range(0, len(answer), step)]


def _serve(ledger: Path) -> None:
    _Handler.ledger = ledger
    server = _Server(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
