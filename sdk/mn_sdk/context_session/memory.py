"""What a model may do with memory by itself: page through it, and read one record exactly. Read-only and bounded.

The scope is the session's; no argument can name another. Page numbers are the model's. Each stands durably for one
opaque cursor, and so for one revision, and is never given to another: walks of the same query that began at different
revisions have different numbers, in whichever sessions they are made, and a page means the same after a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from mn.context.working.v1 import artifact_pb2, packet_pb2
from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import DECISION_LIST_MAX, FOCUS_BYTES_MAX
from mn_contract.names import check_label, check_text, parse_ref, read_names
from mn_sdk.arguments import read_time, read_whole
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session.documents import card_document, coverage_document
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.recording import Recorder
from mn_sdk.context_session.verify import verify

PAGE_DEFAULT: Final = 10
PAGE_MAX: Final = 50
READ_BYTES_DEFAULT: Final = 4096
READ_BYTES_MAX: Final = 64 * 1024


class Memory:
    """The read-only actions of one session."""

    def __init__(self, client: WorkingMemoryClient, recorder: Recorder, notes: Notes) -> None:
        self._client = client
        self._recorder = recorder
        self._notes = notes
        self._actions: Mapping[str, tuple[Callable[[Mapping[str, Any]], dict[str, Any]], frozenset[str]]] = {
            "recall_memory": (self._recall, frozenset({"query", "topics", "cursor", "limit", "as_of"})),
            "read_memory": (self._read, frozenset({"item_id", "max_bytes", "offset"})),
        }

    def act(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to an action. Raises InvalidInput for an action or an argument that does not exist."""
        if not isinstance(action, str) or action not in self._actions:
            raise InvalidInput(f"action must be one of {', '.join(self._actions)}", field="action")
        run, known = self._actions[action]
        if not isinstance(arguments, Mapping) or not set(arguments) <= known:
            raise InvalidInput(f"{action} takes {', '.join(sorted(known))}", field="arguments")
        return run(arguments)

    def _recall(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """{records, coverage, revision, newest_revision, cursor}: a page; `cursor` is the next page's number, None
        after the last. A walk keeps its revision, so a later page may be of an older one than the newest."""
        query = check_text(arguments.get("query", ""), "query", FOCUS_BYTES_MAX)
        topics = read_names(arguments.get("topics", ()), "topics", check_label, DECISION_LIST_MAX)
        limit = read_whole(arguments.get("limit", PAGE_DEFAULT), "limit", 1, PAGE_MAX)
        page = read_whole(arguments.get("cursor", 0), "cursor", 0, 1 << 31)
        as_of = read_time(arguments.get("as_of"), "as_of")
        decision = packet_pb2.Decision(focus=query, topics=topics, as_of=as_of)
        named = [] if as_of is None else [as_of.ToJsonString()]
        asked = digest(["recall_memory", query, topics, limit, *named])[:40]
        request = packet_pb2.RecallRequest(decision=decision, page_size=limit, cursor=self._cursor(asked, page))
        answer = self._client.recall(request)
        cards = [candidate.card for candidate in answer.candidates]
        verify(self._client, cards)
        return {
            "records": [card_document(card) for card in cards],
            "coverage": coverage_document(answer.coverage),
            "revision": answer.revision,
            "newest_revision": answer.newest_revision,
            "cursor": self._notes.number(_pages(asked), answer.cursor.encode()) if answer.cursor else None,
        }

    def _cursor(self, asked: str, page: int) -> str:
        if page == 0:
            return ""
        kept = self._notes.get(_pages(asked), str(page))
        if kept is None:
            raise InvalidInput("no earlier page of this query led here; begin with cursor 0", field="cursor")
        return kept.decode()

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """{id, kind, text, offset, size, next_offset, source}: exact bytes of a record, cut at a character's edge. A
        summary has no source: it is nothing to cite."""
        item = arguments.get("item_id", "")
        parse_ref(item, "item_id")
        most = read_whole(arguments.get("max_bytes", READ_BYTES_DEFAULT), "max_bytes", 4, READ_BYTES_MAX)
        cards = self._recorder.cards_of(item)
        first, last = self._client.card(cards[0]), self._client.card(cards[-1])
        begin, end = first.body.start, last.body.end
        offset = read_whole(arguments.get("offset", 0), "offset", 0, max(end - begin - 1, 0))
        wanted = artifact_pb2.SourceRange(
            artifact_sha256=first.body.artifact_sha256, start=begin + offset, end=min(begin + offset + most, end)
        )
        data = _at_character(self._client.read_ranges([wanted])[0])
        stop = offset + len(data)
        document = card_document(first)
        return {
            **{name: document[name] for name in document if name not in ("text", "source", "id")},
            "id": item,
            "text": data.decode("utf-8"),
            "offset": offset,
            "size": end - begin,
            "next_offset": stop if stop < end - begin else None,
            **({"source": _source(wanted, data)} if "source" in document else {}),
        }


def _pages(asked: str) -> str:
    """The kind of the notes that number a query's pages."""
    return f"page/{asked}"


def _source(wanted: artifact_pb2.SourceRange, data: bytes) -> dict[str, Any]:
    return {
        "artifact": wanted.artifact_sha256,
        "start": wanted.start,
        "end": wanted.start + len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _at_character(data: bytes) -> bytes:
    """`data` without a character that its end cuts. Raises InvalidInput where its start cuts one."""
    for cut in range(min(4, len(data))):
        whole = data[: len(data) - cut]
        try:
            whole.decode("utf-8")
        except UnicodeDecodeError:
            continue
        return whole
    raise InvalidInput("offset falls inside a character; use the next_offset of an earlier read", field="offset")
