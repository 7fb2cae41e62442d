"""What became of a request, judged by what was seen on the wire and never by an exception's words (invariant 10).

FAILED_DEFINITE needs proof: nothing was sent, or the provider's own answer says that it declined. A complete 200 whose
body cannot be used is a paid response. Everything else after sending began is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mn_contract.canonical import digest, encoded
from mn_contract.limits import EVIDENCE_BYTES_MAX, RESPONSE_BYTES_MAX
from mn_sdk.context_session.wiretap import Exchange

DECLINED: Final = frozenset({307, 308, 400, 401, 403, 404, 413, 422, 429})
"""HTTP statuses by which a provider says that it did not execute the request; a redirect says that it stands elsewhere
(RFC 9110), and is not followed."""

_UNSENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError"}
)
"""Errors of the HTTP client that mean that no byte of the request left."""
_CHAIN_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Answered:
    """A usable response: as it is stored, and as it is returned."""

    stored: bytes
    response: Any


@dataclass(frozen=True, slots=True)
class Unusable:
    """A response was received and paid for, and cannot be used: its exact bytes, and why."""

    body: bytes
    error: BaseException


@dataclass(frozen=True, slots=True)
class NotExecuted:
    """The provider did not execute the request, and `evidence` says how that is known."""

    error: BaseException
    evidence: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell whether it was executed."""

    error: BaseException
    evidence: str


Outcome = Answered | Unusable | NotExecuted | Unknown


def size_of(response: bytes) -> bytes:
    """What is stored of a response that is larger than the contract takes: that it came, how large it is, its hash."""
    return encoded({"larger_than": RESPONSE_BYTES_MAX, "bytes": len(response), "sha256": digest(response)})


def judge(error: BaseException, exchange: Exchange) -> Outcome:
    """The outcome of a call that raised `error`."""
    told = f"{type(error).__name__} ({exchange.describe()})"[: EVIDENCE_BYTES_MAX // 4]
    if exchange.sent == 0:
        if exchange.refusal is not None:
            return NotExecuted(exchange.refusal, f"nothing was sent: {exchange.refusal.reason}")
        if exchange.about_to_send and not _means_unsent(error):
            return Unknown(error, f"sent by other means than a known HTTP client: {told}")
        return NotExecuted(error, f"nothing was sent: {told}")
    if exchange.status in DECLINED:
        return NotExecuted(error, f"the provider declined with {exchange.status}: {told}")
    if exchange.status == 200 and exchange.body is not None and isinstance(error, Exception):
        return Unusable(exchange.body, error)
    if exchange.status is None and exchange.failure is not None and _unsent(exchange.failure):
        return NotExecuted(error, f"no connection was made: {told}")
    return Unknown(error, told)


def _means_unsent(error: BaseException) -> bool:
    return any(_unsent(link) for link in _chain(error))


def _unsent(error: BaseException) -> bool:
    return isinstance(error, ConnectionRefusedError) or type(error).__name__ in _UNSENT


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from, bounded."""
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(links) < _CHAIN_MAX:
        links.append(link)
        link = link.__cause__ or link.__context__
    return links
