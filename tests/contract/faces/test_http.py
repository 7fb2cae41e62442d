"""The HTTP face as programs and browsers meet it: queries, formats, packs that are kept, problems, tokens, limits."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from mn.context.working.v1 import run_pb2
from mn_contract.addresses import Address
from mn_contract.errors import DependencyUnavailable
from mn_contract.limits import FOCUS_BYTES_MAX, HTTP_BODY_BYTES_MAX, HTTP_HEAD_BYTES_MAX, TIMEOUT_MS_MAX, TOOL_THREADS
from mn_engine.bootstrap import engine_over, http_server
from mn_engine.domain.scope import run_key
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import BoundToken, Gate
from mn_engine.faces.http import HttpServer, heads
from mn_engine.service.engine import Engine
from mn_engine.store.memory import MemoryStore
from tests.contract.faces.asking import WAIT, ServingHttp, embedded, scope_of, url_of

HEADERS = scope_of().headers()
JSON = {"content-type": "application/json"}
RUN_KEY = run_key("job", "run")


@pytest.fixture
async def engine() -> Any:
    engine = engine_over(MemoryStore())
    EmbeddedFace(engine).call("OpenRun", HEADERS, run_pb2.OpenRunRequest())
    async with embedded(engine, scope_of()) as ask:
        await ask("remember_this", {"text": "The pump costs 12 euros.", "topics": ["pricing", "pumps"], "key": "price"})
    yield engine
    engine.close()


@pytest.fixture
def server(engine: Engine) -> Iterator[HttpServer]:
    with ServingHttp(engine) as server:
        yield server


@pytest.fixture
def client(server: HttpServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url_of(server), headers=HEADERS, timeout=WAIT) as client:
        yield client


def refused(answer: httpx.Response, status: int, reason: str, field: str | None = None) -> dict[str, Any]:
    """The problem in an answer, which must be of this status, reason and field."""
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert (problem["status"], problem["reason"], problem.get("field")) == (status, reason, field)
    assert problem["type"] == f"urn:mn:context:error:{reason}"
    assert problem["detail"]
    assert answer.headers["cache-control"] == "no-store"
    return problem


def test_a_query_and_a_body_ask_the_same(client: httpx.Client) -> None:
    """Whole numbers, shares, switches and lists are read from text."""
    body = {
        "task": "What does the pump cost? 100 % sure + é",
        "format": "json",
        "token_budget": 900,
        "counter_share": 0.25,
        "pin": False,
        "topics": ["pricing", "pumps"],
        "model": "claude",
    }
    query = [(name, json.dumps(value) if not isinstance(value, str) else value) for name, value in body.items()]
    query = [pair for pair in query if pair[0] != "topics"] + [("topics", "pricing"), ("topics", "pumps")]
    asked, posted = client.get("/v1/context", params=query), client.post("/v1/context", json=body)
    assert (asked.status_code, asked.headers["content-type"]) == (200, "application/json")
    assert asked.content == posted.content
    assert asked.json()["items"][0]["ref"] == "note/price"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("token_budget=900.0", "token_budget"),
        ("token_budget=+900", "token_budget"),
        ("token_budget=", "token_budget"),
        ("token_budget=٩٠٠", "query"),
        ("token_budget=%D9%A9", "token_budget"),
        ("token_budget=1e3", "token_budget"),
        ("token_budget=" + "9" * 400, "token_budget"),
        ("counter_share=NaN", "counter_share"),
        ("counter_share=1.5", "counter_share"),
        ("pin=1", "pin"),
        ("pin=True", "pin"),
        ("task=a&task=b", "task"),
        ("format=xml", "format"),
        ("principal=bob", "arguments"),
        ("task=%ff", "query"),
        ("task=%ED%A0%80", "query"),
        ("&".join(["topics=a"] * 33), "topics"),
        ("&".join(["topics=a"] * 1025), "query"),
    ],
)
def test_a_query_is_read_strictly(server: HttpServer, query: str, field: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as connection:
        head = f"GET /v1/context?{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        scope = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
        connection.sendall(f"{head}{scope}\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    if query.isascii():
        assert answer.startswith(b"HTTP/1.1 422"), answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["field"] == field
    else:
        assert answer.startswith(b"HTTP/1.1 4"), "the server itself refuses what is no request"


def test_formats_have_their_types(client: httpx.Client) -> None:
    for ask in (
        client.get("/v1/context", params={"task": "pump", "format": "markdown"}),
        client.post(
            "/v1/tools/call", json={"name": "get_context", "arguments": {"task": "pump", "format": "markdown"}}
        ),
    ):
        assert ask.headers["content-type"] == "text/markdown; charset=utf-8"
        assert "] The pump costs 12 euros.\n" in ask.text
        assert ask.headers["x-content-type-options"] == "nosniff"
    assert client.get("/v1/context", params={"task": "pump"}).json()["smp"] == "1"


def test_a_pack_that_is_kept_has_an_etag_and_is_not_sent_twice(client: httpx.Client) -> None:
    kept = client.get("/v1/context", params={"task": "pump", "pin": "true"})
    etag = f'"{kept.json()["receipt"]["digest"]}"'
    assert (kept.headers["etag"], kept.headers["cache-control"]) == (etag, "private, no-cache")
    assert "mn-principal" in kept.headers["vary"]
    pinned = {"pinned": kept.json()["pin"]}
    for told in (etag, f'"other", W/{etag}', "*"):
        again = client.get("/v1/context", params=pinned, headers={"if-none-match": told})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    again = client.get("/v1/context", params=pinned, headers={"if-none-match": '"other"'})
    assert (again.status_code, again.content) == (200, kept.content)
    assert client.post("/v1/context", json=pinned, headers={"if-none-match": etag}).status_code == 200


def test_what_is_not_kept_or_belongs_to_a_session_has_no_etag(client: httpx.Client) -> None:
    for query in ({"task": "pump"}, {"task": "pump", "pin": "true", "session_id": "chat"}):
        answer = client.get("/v1/context", params=query, headers={"if-none-match": "*"})
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        assert "etag" not in answer.headers


def test_no_session_moves_on_unread(client: httpx.Client) -> None:
    """A HEAD is safe, and answers nothing that the session could be said to have."""
    query = {"task": "pump", "session_id": "chat"}
    head = client.head("/v1/context", params=query)
    assert (head.status_code, set(head.headers["allow"].split(", "))) == (405, {"GET", "POST"})
    assert client.get("/v1/context", params=query).json()["working_memory"]["cursor"] == "1"


def test_a_kept_pack_is_told_to_nobody_else(client: httpx.Client) -> None:
    """Invariant 7: not even that it stands."""
    pin = client.get("/v1/context", params={"task": "pump", "pin": "true"}).json()["pin"]
    theirs = {"mn-principal": "bob", "if-none-match": "*"}
    refused(client.get("/v1/context", params={"pinned": pin}, headers=theirs), 422, "INVALID_ARGUMENT", "pinned")


@pytest.mark.parametrize("missing", ["mn-job-id", "mn-run-id", "mn-principal"])
def test_a_scope_is_named_whole(server: HttpServer, missing: str) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != missing}
    answers = [
        httpx.get(f"{url_of(server)}/v1/context", headers=headers),
        httpx.post(f"{url_of(server)}/v1/tools/call", headers=headers, json={"name": "search"}),
    ]
    for answer in answers:
        refused(answer, 422, "INVALID_ARGUMENT", missing)


@pytest.mark.parametrize("name", ["mn-job-id", "mn-principal", "mn-roles", "authorization", "mn-timeout-ms"])
def test_a_header_of_the_contract_that_is_given_twice_is_refused(server: HttpServer, name: str) -> None:
    headers = [*HEADERS.items(), (name, "1"), (name.title(), "2")]
    refused(httpx.get(f"{url_of(server)}/v1/context", headers=headers), 422, "INVALID_ARGUMENT", name)


@pytest.mark.parametrize("bad", ["not a name", "x" * 161, "é"])
def test_a_scope_of_other_signs_is_refused(client: httpx.Client, bad: str) -> None:
    answer = client.get("/v1/context", headers={"mn-principal": bad.encode()})
    refused(answer, 422, "INVALID_ARGUMENT", "principal")


@pytest.mark.parametrize("told", ["0", "-1", "1.5", "soon", "", "٣", str(TIMEOUT_MS_MAX + 1), "9" * 5000])
def test_a_nonsensical_deadline_is_refused(client: httpx.Client, told: str) -> None:
    answer = client.get("/v1/context", headers={"mn-timeout-ms": told.encode()})
    refused(answer, 422, "INVALID_ARGUMENT", "mn-timeout-ms")


def test_unknown_paths_and_methods_are_problems(client: httpx.Client) -> None:
    for path in ("/", "/v1/context/", "/v1/tools", "/docs", "/v1//context", "/mcp/"):
        refused(client.get(path), 404, "NOT_FOUND")
    for method, path, allowed in (
        ("DELETE", "/v1/context", {"GET", "POST"}),
        ("GET", "/v1/tools/call", {"POST"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("PROPFIND", "/openapi.json", {"GET", "HEAD"}),
    ):
        answer = client.request(method, path)
        refused(answer, 405, "INVALID_ARGUMENT", "method")
        assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'"search"', b"null", b"\xff", b'{"name": "search"', b"[" * 100_000,
        b'{"name": "search", "arguments": {"query": "a"}, "scope": {}}', b'{"name": ["search"]}', b'{"arguments": {}}',
        b'{"name": "search", "arguments": null}', b'{"name": "search", "arguments": [1]}',
        b'{"name": "search", "arguments": {"query": "\\ud800"}}', b'{"name": "search", "arguments": {"query": NaN}}',
        b'{"name": "query_memory", "arguments": {"find": "a", "min_trust": NaN}}',
        b'{"name": "query_memory", "arguments": {"find": "a", "min_trust": 1e999}}',
        b'{"name": "query_memory", "arguments": {"find": "a", "k": ' + b"9" * 5000 + b"}}",
        '{"name": "search", "arguments": {"query": "a"}}'.encode("utf-16"),
        b'{"name": "search", "name": "fetch", "arguments": {"query": "a"}}',
        b'{"name": "search", "arguments": {"query": "a", "query": "b"}}',
        b'{"name": "drop_table"}', b'{"name": "\\ud800"}',
    ],
)  # fmt: skip
def test_a_body_that_is_no_call_is_refused(client: httpx.Client, engine: Engine, body: bytes) -> None:
    before = engine.store.run(RUN_KEY)
    answer = client.post("/v1/tools/call", content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert answer.json()["reason"] == "INVALID_ARGUMENT"
    assert engine.store.run(RUN_KEY) == before


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_of_some_page_can_send_is_no_call(client: httpx.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    for path in ("/v1/tools/call", "/v1/context"):
        answer = client.post(path, content=b'{"name": "search", "arguments": {"query": "a"}}', headers=headers)
        refused(answer, 415, "INVALID_ARGUMENT", "content-type")


def test_a_post_has_no_query(client: httpx.Client) -> None:
    refused(client.post("/v1/context?task=a", json={}), 422, "INVALID_ARGUMENT", "query")


def test_the_largest_call_fits_a_body_and_what_is_larger_is_refused(client: httpx.Client, engine: Engine) -> None:
    told = client.post("/v1/context", json={"task": "\x01" * FOCUS_BYTES_MAX})
    assert told.status_code == 200, told.text
    before = engine.store.run(RUN_KEY)
    large = b'{"name": "remember_this", "arguments": {"text": "a"}}' + b" " * HTTP_BODY_BYTES_MAX

    def unsized() -> Iterator[bytes]:
        for at in range(0, len(large), 65_536):
            yield large[at : at + 65_536]

    with httpx.Client(base_url=client.base_url, headers=HEADERS, timeout=WAIT) as another:
        refused(another.post("/v1/tools/call", content=large, headers=JSON), 413, "INVALID_ARGUMENT", "body")
        refused(another.post("/v1/context", content=unsized(), headers=JSON), 413, "INVALID_ARGUMENT", "body")
    assert engine.store.run(RUN_KEY) == before


def test_the_longest_task_fits_a_query_and_a_longer_one_is_refused(server: HttpServer) -> None:
    for task, status in (("é" * (FOCUS_BYTES_MAX // 2), 200), (":" * (FOCUS_BYTES_MAX + 1), 422)):
        with closing(HTTPConnection("127.0.0.1", server.port, timeout=WAIT)) as connection:  # httpx takes shorter ones
            connection.request("GET", f"/v1/context?{urlencode({'task': task})}", headers=dict(HEADERS))
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read()).get("field")) == (
                status,
                "task" if status == 422 else None,
            )


def test_a_body_that_does_not_come_is_not_waited_for(server: HttpServer) -> None:
    scope = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, **JSON, "mn-timeout-ms": "200"}.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as connection:
        connection.sendall(
            f"POST /v1/context HTTP/1.1\r\nhost: 127.0.0.1\r\n{scope}content-length: 9\r\n\r\n{{".encode()
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 429"), answer
    assert b'"budget":"deadline"' in answer


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nhost: local", b"POST /v1/context HTTP/1.1\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """However slowly it comes, and whether it is a connection's first or not."""
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.3)
    with ServingHttp(engine) as server:
        for before in (b"", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as connection:
                connection.sendall(before)
                if before:
                    assert b'"serving"' in _one_answer(connection)
                connection.sendall(sent)
                answer = b"".join(iter(lambda: connection.recv(65_536), b""))
            if sent or not before:  # between requests nothing is owed
                head, _, body = answer.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 408")
                assert b"content-type: application/problem+json" in head
                assert (json.loads(body)["status"], json.loads(body)["reason"]) == (408, "BUDGET_EXCEEDED")


def test_a_connection_whose_body_nobody_reads_is_not_held(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer can come before the body has; what is sent then is not waited for for ever."""
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.3)
    with ServingHttp(engine) as server, socket.create_connection(("127.0.0.1", server.port), WAIT) as connection:
        connection.sendall(b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n")
        assert _one_answer(connection).startswith(b"HTTP/1.1 405")
        connection.sendall(b"x")
        assert connection.recv(65_536) == b""


def _one_answer(connection: socket.socket) -> bytes:
    """An answer in JSON, whole, on a connection that goes on."""
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65_536)
    return answer


def test_what_is_no_request_is_a_problem(server: HttpServer) -> None:
    for sent in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /" + b"a" * HTTP_HEAD_BYTES_MAX):
        with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as connection:
            connection.sendall(sent)
            head, _, body = b"".join(iter(lambda: connection.recv(65_536), b"")).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400")
        assert json.loads(body)["reason"] == "INVALID_ARGUMENT"


def test_more_connections_than_are_served_are_told_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mn_engine.faces.http.server.HTTP_CONNECTIONS_MAX", 1)
    with ServingHttp(engine) as server, httpx.Client(base_url=url_of(server), headers=HEADERS, timeout=WAIT) as client:
        assert client.get("/healthz").status_code == 200
        with closing(HTTPConnection("127.0.0.1", server.port, timeout=WAIT)) as connection:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
            assert answer.headers["retry-after"] == "1"
            assert json.loads(answer.read())["reason"] == "UNAVAILABLE"


class Held:
    """An engine whose look-ups wait until they are let go."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.over = threading.Semaphore(0), threading.Event()
        run = engine.store.run

        def held(key: str) -> Any:
            self.begun.release()
            self.over.wait(2 * WAIT)
            return run(key)

        monkeypatch.setattr(engine.store, "run", held)


SEARCH = {"name": "search", "arguments": {"query": "pump"}}


def test_a_deadline_that_passes_while_the_engine_works_is_told(
    client: httpx.Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(engine, monkeypatch)
    answer = client.post("/v1/tools/call", json=SEARCH, headers={"mn-timeout-ms": "50"})
    held.over.set()
    refused(answer, 503, "UNAVAILABLE")
    assert "may still be done" in answer.json()["detail"]


def test_what_waits_beyond_its_deadline_is_not_begun_and_what_is_too_much_is_refused_at_once(
    server: HttpServer, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(engine, monkeypatch)
    answers: list[httpx.Response] = []

    def call(timeout_ms: int) -> None:
        with httpx.Client(base_url=url_of(server), headers=HEADERS, timeout=WAIT) as client:
            answers.append(client.post("/v1/tools/call", json=SEARCH, headers={"mn-timeout-ms": str(timeout_ms)}))

    busy = [threading.Thread(target=call, args=(60_000,)) for _ in range(TOOL_THREADS)]
    for thread in busy:
        thread.start()
    for _ in busy:
        assert held.begun.acquire(timeout=WAIT)
    call(50)
    refused(answers.pop(), 503, "UNAVAILABLE")
    assert httpx.get(f"{url_of(server)}/healthz").status_code == 200, "probes get through"
    held.over.set()
    for thread in busy:
        thread.join(WAIT)
    assert [answer.status_code for answer in answers] == [200] * TOOL_THREADS
    assert not held.begun.acquire(blocking=False), "a call whose caller had gone was begun"


TRUSTED, BOUND = "trusted", "bound"
GATE = Gate(
    trusted_sha256=hashlib.sha256(TRUSTED.encode()).hexdigest(),
    bound=(
        BoundToken(
            sha256=hashlib.sha256(BOUND.encode()).hexdigest(),
            principal="alice",
            roles=frozenset({"reader"}),
            jobs=frozenset({"job"}),
        ),
    ),
)


@pytest.mark.parametrize("path", ["/v1/context", "/v1/tools/call", "/mcp"])
def test_tokens_guard_every_path_that_has_a_scope(engine: Engine, path: str) -> None:
    before = engine.store.run(RUN_KEY)
    with ServingHttp(engine, GATE) as server, httpx.Client(base_url=url_of(server), timeout=WAIT) as client:

        def ask(token: str | None, headers: Mapping[str, str]) -> httpx.Response:
            bearer = {"authorization": f"Bearer {token}"} if token else {}
            return client.post(path, json={}, headers={**headers, **bearer})

        for token, headers, status, reason in (
            (None, HEADERS, 401, "UNAUTHENTICATED"),
            ("wrong", HEADERS, 401, "UNAUTHENTICATED"),
            (BOUND, {**HEADERS, "mn-principal": "bob"}, 403, "PERMISSION_DENIED"),
            (BOUND, {**HEADERS, "mn-job-id": "other"}, 403, "PERMISSION_DENIED"),
            (BOUND, {**HEADERS, "mn-roles": "reader,admin"}, 403, "PERMISSION_DENIED"),
            (TRUSTED, {"mn-job-id": "job", "mn-run-id": "run"}, 422, "INVALID_ARGUMENT"),
        ):
            answer = ask(token, headers)
            told = answer.json()
            assert (answer.status_code, told.get("reason") or told["error"]["data"]["reason"]) == (status, reason)
            assert (answer.headers.get("www-authenticate") == "Bearer") is (status == 401)
        for path_without in ("/healthz", "/openapi.json"):
            assert client.get(path_without).status_code == 200
        bound = {"mn-job-id": "job", "mn-run-id": "run", "authorization": f"Bearer {BOUND}", "host": "engine.example"}
        assert client.get("/v1/context", headers=bound).json()["smp"] == "1"
    assert engine.store.run(RUN_KEY) == before


@pytest.mark.parametrize("path", ["/v1/context", "/mcp", "/healthz", "/openapi.json", "/nowhere"])
def test_without_tokens_no_page_of_another_origin_is_served(client: httpx.Client, path: str) -> None:
    """Neither by DNS rebinding nor across origins."""
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "10.0.0.1",
        "[::ffff:10.0.0.1]",
        "",
    ):
        refused(client.get(path, headers={"host": host}), 421, "PERMISSION_DENIED")
    for origin in ("http://evil.example", "null", "https://localhost.evil.example", "file://localhost", "localhost"):
        refused(client.get(path, headers={"origin": origin}), 403, "PERMISSION_DENIED")
    for host, origin in (("localhost", "http://localhost:3000"), ("[::1]:80", "https://127.0.0.1"), ("127.0.0.9", "")):
        answer = client.get(path, headers={"host": host, **({"origin": origin} if origin else {})})
        assert answer.status_code not in (421, 403)
        assert "access-control-allow-origin" not in answer.headers


def test_until_the_record_is_open_calls_are_told_to_come_again() -> None:
    with ServingHttp(None) as server, httpx.Client(base_url=url_of(server), headers=HEADERS, timeout=WAIT) as client:
        assert (client.get("/healthz").status_code, client.get("/healthz").json()) == (503, {"status": "opening"})
        answer = client.get("/v1/context", params={"task": "a"})
        refused(answer, 503, "UNAVAILABLE")
        assert answer.headers["retry-after"] == "1"


def test_a_fault_of_ours_is_told_without_its_contents(
    client: httpx.Client, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(key: str) -> None:
        raise RuntimeError("the pump costs 12 euros")

    monkeypatch.setattr(engine.store, "run", fail)
    answer = client.post("/v1/tools/call", json=SEARCH)
    problem = refused(answer, 500, "INTERNAL")
    assert "euros" not in json.dumps(problem)
    assert "Traceback" not in answer.text
    assert "RuntimeError at" in caplog.text
    assert "euros" not in caplog.text
    assert "Traceback" not in caplog.text


def test_a_port_that_is_taken_is_one_clear_error(server: HttpServer, engine: Engine) -> None:
    with pytest.raises(DependencyUnavailable, match="another server"):
        http_server(Address(host="127.0.0.1", port=server.port), Gate())
