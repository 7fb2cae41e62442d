"""The peers, each as its own documentation says to use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import bm25s
import snowballstemmer
import tantivy

from mn_benchmark.systems import Document

_HEAP_BYTES: Final = 128_000_000


class _Peer:
    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Bm25s(_Peer):
    """bm25s with its defaults: Lucene's BM25, English stop words; stemmed, where asked, with Snowball's English."""

    def __init__(self, documents: Sequence[Document], *, stemmed: bool) -> None:
        self._stemmer = snowballstemmer.stemmer("english").stemWords if stemmed else None
        self._count = len(documents)
        self._index = bm25s.BM25()
        self._index.index(self._tokens([document.charged for document in documents]), show_progress=False)

    def rank(self, question: str, limit: int) -> list[int]:
        """See Ranker. bm25s ranks documents without a match, too: they are left out."""
        found, scores = self._index.retrieve(
            self._tokens([question]), k=min(limit, self._count), show_progress=False, n_threads=1
        )
        return [int(place) for place, score in zip(found[0], scores[0], strict=True) if score > 0]

    def _tokens(self, texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stemmer=self._stemmer, show_progress=False)


class Tantivy(_Peer):
    """tantivy with its English stemmer."""

    def __init__(self, documents: Iterable[Document]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", stored=False, tokenizer_name="en_stem")
        builder.add_integer_field("place", stored=True)
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for place, document in enumerate(documents):
            writer.add_document(tantivy.Document(text=document.charged, place=place))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def rank(self, question: str, limit: int) -> list[int]:
        """See Ranker."""
        return [int(self._searcher.doc(address)["place"][0]) for _, address in self.hits(question, limit)]

    def hits(self, question: str, limit: int) -> list[Any]:
        """(score, address) of each hit, best first: the bare query, without reading documents."""
        query, _ = self._index.parse_query_lenient(question, ["text"])
        found: list[Any] = self._searcher.search(query, limit).hits
        return found
