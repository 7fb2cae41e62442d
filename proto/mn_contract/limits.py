"""Every bound of the contract, in one frozen place.

A limit that is not here does not exist; faces, rules and stores read these numbers and none of their own. Relations
between limits are asserted when the module is imported, so that a change which breaks one cannot be started.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Names.
ID_BYTES_MAX: Final = 160
"""Ids: 1 to this many bytes of `[A-Za-z0-9_\\-.@/]`."""
LABEL_BYTES_MAX: Final = 160
"""Topics and entities, UTF-8."""
CLAIM_BYTES_MAX: Final = 256
"""A named claim, UTF-8."""
MEDIA_TYPE_BYTES_MAX: Final = 255
"""RFC 6838 allows 127 + 1 + 127."""
REASON_BYTES_MAX: Final = 1 * KIB
"""Why a run was cancelled or cleared."""
EVIDENCE_BYTES_MAX: Final = 4 * KIB
"""What a failure or a reconciliation rests on."""
ROLES_MAX: Final = 64
"""Roles of one caller, and entries of one list of an ACL."""

# Runs.
RUN_STORED_BYTES_MAX: Final = (1 << 63) - 1
"""The largest storage budget: what a signed 64-bit column holds."""

# Artifacts.
ARTIFACT_BYTES_MAX: Final = 4 * KIB * MIB
ARTIFACT_INLINE_BYTES_MAX: Final = 64 * KIB
"""Up to here an artifact lies in the record; larger ones are files beside it."""
ARTIFACT_CHUNK_BYTES_MAX: Final = 256 * KIB
ARTIFACT_READ_BYTES_MAX: Final = 64 * MIB
"""All ranges of one read together."""
ARTIFACT_READ_RANGES_MAX: Final = 1024

# Cards and events.
CARD_TEXT_BYTES_MAX: Final = 8 * KIB
CARD_SUMMARY_BYTES_MAX: Final = 2 * KIB
CARD_BYTES_MAX: Final = 32 * KIB
"""All of a card in canonical JSON."""
CARD_LIST_MAX: Final = 32
"""Topics, entities, claims, sources and relations of one card, each."""
SOURCE_URL_BYTES_MAX: Final = 2 * KIB
FACT_OBJECT_BYTES_MAX: Final = 4 * KIB
"""What a fact says of its subject, UTF-8; subjects, predicates and qualifiers are labels."""
EVENT_CARDS_MAX: Final = 1024
EVENT_ARTIFACTS_MAX: Final = 256
EVENT_RESOLVES_MAX: Final = 256
BATCH_EVENTS_MAX: Final = 256
BATCH_CARDS_MAX: Final = 4096
BULK_CARDS_MAX: Final = 500_000
"""Cards of one Arrow table handed to the store as one event."""
ORDINAL_PLACE_BITS: Final = 20
"""An ordinal is `revision << ORDINAL_PLACE_BITS | place`."""
REVISION_MAX: Final = (1 << (63 - ORDINAL_PLACE_BITS)) - 1

# Recall and packets.
FOCUS_BYTES_MAX: Final = 64 * KIB
DECISION_LIST_MAX: Final = 32
"""Topics, claims and entities of one decision, each."""
REQUIRED_NAMED_MAX: Final = 256
RECALL_PAGE_DEFAULT: Final = 20
RECALL_PAGE_MAX: Final = 200
CANDIDATES_MAX: Final = 2000
"""Ranked cards that one packet considers; a cursor reaches the rest."""
DIVERSITY_WINDOW: Final = 200
"""Ranked cards among which redundancy is weighed at a time."""
PACKET_ITEMS_MAX: Final = 512
PACKET_BUDGET_BYTES_MIN: Final = 2
"""The empty packet, `[]`."""
PACKET_BUDGET_BYTES_MAX: Final = 16 * MIB
PACKET_BUDGET_TOKENS_MAX: Final = 16 * MIB
CARD_TOKENS_MAX: Final = 1 * MIB
"""A writer's estimate of what a card takes."""
TOKEN_BYTES: Final = 3
"""A card without an estimate counts as one token for each of these bytes, rounded up."""
CURSOR_BYTES_MAX: Final = 32 * KIB

# Packs and their sessions.
PACK_BUDGET_TOKENS_MIN: Final = 300
PACK_BUDGET_TOKENS_DEFAULT: Final = 6000
"""The generic profile's budget, and the most that a query may ask for."""
PACK_CANDIDATE_TOKENS: Final = 40
"""A pack considers as many candidates as its budget would hold at this size, in whole windows; few are smaller."""
SESSION_TTL_TURNS: Final = 4
"""What a session has not been served for so many turns it may forget."""
SESSION_TRAJECTORY_TURNS: Final = 8
SESSION_KNOWN_MAX: Final = 512
SESSION_CENTROID_TERMS: Final = 64
QUERY_PAGE_DEFAULT: Final = 20
QUERY_PAGE_MAX: Final = 100
QUERY_ENTITIES_MAX: Final = 20
QUERY_TEXT_BYTES_MAX: Final = 4 * KIB
"""A query's cursor carries it."""
FOLLOW_UPS_MAX: Final = 3
GRAPH_ENTITIES_MAX: Final = 16
GRAPH_LINKS_MAX: Final = 32
EXPAND_MAX: Final = 20
"""Neighbours that one expansion answers."""
ENTITY_MEMORIES_MAX: Final = 5
"""Memories that an expansion answers of each entity."""
FACTS_PAGE_MAX: Final = 200
"""Facts and episodes that one answer tells."""
FACTS_WEIGHED_MAX: Final = 400
"""Ranked facts and episodes that a context is chosen from."""
HOPS_MAX: Final = 3

# Invocations.
RESPONSE_BYTES_MAX: Final = 4 * MIB
LEASE_MS_MAX: Final = 3_600_000
ATTEMPT_MAX: Final = (1 << 32) - 1

# The wire.
MESSAGE_BYTES_MAX: Final = 32 * MIB
ERROR_DETAIL_BYTES_DEFAULT: Final = 6 * KIB
"""Room for an error's detail in trailers that every gRPC client accepts (they cap metadata at 8 KiB)."""
ERROR_DETAIL_BYTES_MAX: Final = 4 * MIB
"""Room for it in the trailers of a client that asks for it: every item of a NeedsPartition with 6,000 of the longest
names. Beyond it lists are cut, and the detail says how long they were."""
WIRE_EXPANSION_NUM, WIRE_EXPANSION_DEN = 13, 10
"""Protobuf of a card is never larger than 1.3 times its canonical JSON (measured on generated cards)."""

SERVER_THREADS: Final = 64
"""Calls that a server works on at once; more wait. Calls that last as long as their client likes are not among them."""
SERVER_RESERVE_THREADS: Final = 4
"""Threads beside them that only health checks use; as many that only cancels use."""
SERVER_READS: Final = 32
"""Reads of artifacts that a server answers at once, on threads of their own; more wait."""
WATCHES_MAX: Final = 32
"""Watches that a server keeps open at once, on threads of their own; more are refused."""
UPLOADS_MAX: Final = 32
"""Uploads that a server takes in at once, on threads of their own; more are refused."""
UPLOAD_IDLE_SECONDS: Final = 30.0
"""How long an upload may send nothing before it is ended."""
BUSY_RETRY_MS: Final = 1000
"""When to ask again after a refusal because a server has its fill of such calls."""
SERVER_CALLS_MAX: Final = 1024
"""Calls that a server accepts at once, waiting ones included."""

HTTP_BODY_BYTES_MAX: Final = 1 * MIB
"""A request's body, over HTTP and MCP."""
HTTP_HEAD_BYTES_MAX: Final = 256 * KIB
"""A request's line and headers together, so also its query; what is longer is sent as a body."""
HTTP_PARAMETERS_MAX: Final = 1024
"""Query parameters of one request."""
HTTP_CONNECTIONS_MAX: Final = 2048
"""Connections that a server keeps open at once; more are answered 503."""
TOOL_THREADS: Final = 16
"""Tool calls over HTTP and MCP that a server works on at once; more wait."""
TOOL_CALLS_MAX: Final = 512
"""Tool calls that it accepts at once, waiting ones included; more are refused."""
TIMEOUT_MS_DEFAULT: Final = 60_000
"""How long a caller over HTTP or MCP waits where it does not say."""
TIMEOUT_MS_MAX: Final = 600_000
OVERTIME_SECONDS: Final = 2.0
"""How long after a caller's deadline the engine may still say what became of the call."""
PROFILES_MAX: Final = 256
"""Model profiles that one user adds."""


def _wire(cards: int) -> int:
    return cards * CARD_BYTES_MAX * WIRE_EXPANSION_NUM // WIRE_EXPANSION_DEN


_RELATIONS: Final = {
    "an inline artifact fits an event's message": ARTIFACT_INLINE_BYTES_MAX <= MESSAGE_BYTES_MAX // 4,
    "a chunk fits a message many times": ARTIFACT_CHUNK_BYTES_MAX <= MESSAGE_BYTES_MAX // 16,
    "a card's text fits an inline artifact": CARD_TEXT_BYTES_MAX <= ARTIFACT_INLINE_BYTES_MAX,
    "text and summary leave a card room for the rest": CARD_TEXT_BYTES_MAX + CARD_SUMMARY_BYTES_MAX
    <= CARD_BYTES_MAX // 2,
    "a recall page fits a message": _wire(RECALL_PAGE_MAX) <= MESSAGE_BYTES_MAX,
    "a packet's items fit a message": _wire(PACKET_ITEMS_MAX) <= MESSAGE_BYTES_MAX,
    "a packet's budget fits a message": PACKET_BUDGET_BYTES_MAX <= MESSAGE_BYTES_MAX // 2,
    "what may be named as required fits a packet": REQUIRED_NAMED_MAX < PACKET_ITEMS_MAX,
    "every source of a packet's cards can be read at once": CARD_TEXT_BYTES_MAX * PACKET_ITEMS_MAX
    <= ARTIFACT_READ_BYTES_MAX,
    "candidates are weighed in whole windows": CANDIDATES_MAX % DIVERSITY_WINDOW == 0,
    "a recall page is within the candidate cap": RECALL_PAGE_MAX <= CANDIDATES_MAX,
    "a batch's cards have distinct ordinals": max(BATCH_CARDS_MAX, BULK_CARDS_MAX) < 1 << ORDINAL_PLACE_BITS,
    "an event fits a batch": EVENT_CARDS_MAX <= BATCH_CARDS_MAX,
    "what one pack serves a session can know": PACKET_ITEMS_MAX <= SESSION_KNOWN_MAX,
    "a query's page is a page": QUERY_PAGE_MAX <= RECALL_PAGE_MAX,
    "a response fits a message": RESPONSE_BYTES_MAX <= MESSAGE_BYTES_MAX // 2,
    "every call that a server works on can be accepted": SERVER_THREADS
    + 2 * SERVER_RESERVE_THREADS
    + SERVER_READS
    + WATCHES_MAX
    + UPLOADS_MAX
    <= SERVER_CALLS_MAX // 2,
    "every tool call's arguments fit a body, however JSON escapes them": 6
    * (FOCUS_BYTES_MAX + CURSOR_BYTES_MAX + DECISION_LIST_MAX * (2 * LABEL_BYTES_MAX + CLAIM_BYTES_MAX))
    + REQUIRED_NAMED_MAX * 3 * ID_BYTES_MAX
    <= HTTP_BODY_BYTES_MAX,
    "the longest task fits a query, however it is percent-encoded": 3 * FOCUS_BYTES_MAX <= HTTP_HEAD_BYTES_MAX * 3 // 4,
    "every tool call that a server works on can be accepted": TOOL_THREADS <= TOOL_CALLS_MAX // 2,
    "a caller that does not say waits no longer than one that does": TIMEOUT_MS_DEFAULT <= TIMEOUT_MS_MAX,
    "a full error detail is larger than a compact one": ERROR_DETAIL_BYTES_DEFAULT < ERROR_DETAIL_BYTES_MAX,
}
_broken = [name for name, holds in _RELATIONS.items() if not holds]
if _broken:
    raise AssertionError(f"limits contradict each other: {'; '.join(_broken)}")
