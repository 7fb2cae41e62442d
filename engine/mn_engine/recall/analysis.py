"""Analysis: from text to term hashes, once, when a card is written; stored with the card and versioned.

Words are lower-cased and stemmed; code identifiers yield the whole and its parts (`getUserName` -> getusername, get,
user, name), so do dotted names, paths and file names, whose pieces are names of their own; numbers and error codes stay
whole; CJK yields single characters and pairs. The index never sees text again: a change here is a new ANALYSIS_VERSION.
"""

from __future__ import annotations

import re
import struct
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import snowballstemmer

from mn_engine.domain.cards import Card, document_size, document_tokens
from mn_engine.domain.events import Analysis
from mn_engine.domain.hashes import hash64

ANALYSIS_VERSION: Final = 2
COUNT_MAX: Final = 255
"""Term counts are kept in a byte."""

_STOP_LIST: Final = """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further had has have having he her here hers him his how i
    if in into is it its itself just me more most my no nor not now of off on once only or other our ours out over own
    same she should so some such than that the their theirs them then there these they this those through to too under
    until up very was we were what when where which while who whom why will with would you your yours
    ain aren couldn d didn doesn don hadn hasn haven isn ll m mustn re s shouldn t ve wasn weren won wouldn
"""
_STOP_WORDS: Final = frozenset(_STOP_LIST.split())
_CJK: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN: Final = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+(?:[.\-/:][^\W{_CJK}]+)*")
_JOINED: Final = re.compile(r"[.\-/:]+")
_CASES: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\dA-Za-z_]+")
_IS_CJK: Final = re.compile(rf"[{_CJK}]")
_PART_MIN: Final = 2
NAME_WORDS: Final = 3
_NAMES_FROM: Final = 256
"""Words of a question in which names are looked for."""
_WORD: Final = re.compile(r"\w+(?:[.\-']\w+)*(?<!'s)")

_stemmer = snowballstemmer.stemmer("english")
_stemmer_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The terms of a question: each once, in order of appearance, and its hash."""

    terms: tuple[str, ...]
    hashes: tuple[int, ...]


def terms(text: str) -> Iterator[str]:
    """The terms of `text`, in order, with repetition, without stop words."""
    for token in _tokens(text):
        yield from _token_terms(token)


def analyse_query(text: str) -> Query:
    """The terms of a question. Of terms that share a hash, which is all that cards keep of theirs, the first stands."""
    by_hash: dict[int, str] = {}
    for term in terms(text):
        by_hash.setdefault(term_hash(term), term)
    return Query(terms=tuple(by_hash.values()), hashes=tuple(by_hash))


def analyse_names(text: str) -> tuple[int, ...]:
    """Label hashes of what `text` may name: every one to NAME_WORDS words in a row, each once."""
    words = _WORD.findall(text)[:_NAMES_FROM]
    names = (
        " ".join(words[start : start + count]) for count in range(1, NAME_WORDS + 1) for start in range(len(words))
    )
    return tuple(dict.fromkeys(map(label_hash, names)))


def matched_terms(text: str, query: Query) -> tuple[str, ...]:
    """The query's terms that `text` has, ascending."""
    if not query.terms:
        return ()
    had: set[str] = set().union(*map(_token_terms, set(_tokens(text))))
    return tuple(sorted(had.intersection(query.terms)))


def analyse(card: Card, vector: bytes = b"") -> Analysis:
    """What the index needs of `card`. Topics and entities are searched by their words, too. `vector`: an embedder's."""
    terms, counts, length = analyse_words(card.text, card.summary, *card.topics, *card.entities)
    size = document_size(card.document(ref=card.id))
    claims = sorted((claim_hash(claim), int(stance)) for claim, stance in card.claims)
    return Analysis(
        version=ANALYSIS_VERSION,
        terms=terms,
        counts=counts,
        length=length,
        topics=analyse_labels(card.topics),
        entities=analyse_labels(card.entities),
        claims=_uint32([hashed for hashed, _ in claims]),
        claim_stances=bytes(stance for _, stance in claims),
        id_hash=hash64(card.id),
        key_hash=card.key.hash,
        text_hash=hash64(card.text),
        document_bytes=size,
        document_tokens=card.tokens or document_tokens(size),
        body_hash=hash64(card.body.artifact),
        fact_place=0 if card.fact is None else card.fact.place_hash,
        fact_triple=0 if card.fact is None else card.fact.triple_hash,
        fact_singular=card.fact is not None and card.fact.singular,
        vector=vector,
    )


def analyse_words(*texts: str) -> tuple[bytes, bytes, int]:
    """The terms of texts, their counts and how many there are with repetition; as in Analysis."""
    counts: dict[int, int] = {}
    for text in texts:
        for token in _tokens(text):
            for hashed in _token_hashes(token):
                counts[hashed] = counts.get(hashed, 0) + 1
    ordered = sorted(counts)
    return (
        _uint32(ordered),
        bytes([min(counts[hashed], COUNT_MAX) for hashed in ordered]),
        sum(counts.values()),
    )


def analyse_labels(labels: Iterable[str]) -> bytes:
    """The hashes of topics or entities; as in Analysis."""
    return _uint32(sorted({label_hash(label) for label in labels}))


@lru_cache(maxsize=1 << 16)
def term_hash(term: str) -> int:
    """32 bits that stand for a term."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little")


def label_hash(label: str) -> int:
    """32 bits that stand for a topic or an entity; case and outer spaces do not matter."""
    return term_hash(label.strip().casefold())


def claim_hash(claim: str) -> int:
    """32 bits that stand for a named claim, exactly as it is named."""
    return term_hash(claim)


def _uint32(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def _tokens(text: str) -> list[str]:
    # Full-width letters, ligatures and split accents are written in one way first.
    return _TOKEN.findall(text if text.isascii() else unicodedata.normalize("NFKC", text))


@lru_cache(maxsize=1 << 17)
def _token_hashes(token: str) -> tuple[int, ...]:
    return tuple(map(term_hash, _token_terms(token)))


@lru_cache(maxsize=1 << 16)
def _token_terms(token: str) -> tuple[str, ...]:
    """The terms of one token: itself, and its parts where it is joined or camel-cased."""
    if _IS_CJK.match(token):
        return (*token, *(token[at : at + 2] for at in range(len(token) - 1)))
    whole = token.lower()
    if token.isalpha() and (token == whole or token[1:] == whole[1:]):  # a plain word
        return () if whole in _STOP_WORDS else (_stem(whole),)
    pieces = [piece.strip("_") for piece in _JOINED.split(token)]
    parts = [part.lower() for piece in pieces for part in _CASES.findall(piece)]
    if parts in ([], [whole]):
        if whole.isdecimal():
            return (whole,)
        return () if whole in _STOP_WORDS else (_stem(whole),)
    names = [piece.lower() for piece in pieces if len(pieces) > 1 and len(_CASES.findall(piece)) > 1]
    return (whole, *names, *(_stem(part) for part in parts if len(part) >= _PART_MIN and part not in _STOP_WORDS))


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    with _stemmer_lock:
        return str(_stemmer.stemWord(word))
