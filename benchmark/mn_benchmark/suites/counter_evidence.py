"""Claims whose evidence speaks for and against them: Climate-FEVER, and SciFact as a case of its own.

All evidence of a Climate-FEVER file is one pool; so are all of SciFact's abstracts. One card is one distinct text with
white space normalised, and is charged as that text alone: an abstract without its title. A claim is scored where it has
evidence on both sides; evidence that says both counts for either. Stance is recorded in two ways:

- blind: a card says that it supports or opposes what it was recorded about, mixed where it did both for any claims; the
  claim's text is the focus. `both_sides@N` is the share of claims of which the packet shows either side in N tokens,
  `support_recall@1000tokens` and `refute_recall@1000tokens` the share of a claim's evidence on that side that it shows.
- keyed: a card carries each claim that cites it, by its id, with its stance; the decision names its claim, too.
  `both_sides_keyed@1000tokens` counts claims of which a card of each side fits together, and no others.

Settings: `opposing` and `supporting`, the shares of the budget that either side is offered first.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from mn_benchmark.data import Data
from mn_benchmark.membrane import Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.tokens import tokens, within
from mn_benchmark.values import Value
from mn_contract.errors import InvalidInput
from mn_contract.limits import CARD_LIST_MAX

_SMALL: Final = 1000
_LARGE: Final = 2000
_STANCES: Final = {
    "SUPPORTS": "supports",
    "SUPPORT": "supports",
    "REFUTES": "opposes",
    "CONTRADICT": "opposes",
    "NOT_ENOUGH_INFO": "neutral",
}
_QUOTED: Final = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    """What either side is offered first, 0 to 1, together at most 1."""

    opposing: float
    supporting: float


@dataclass(slots=True, kw_only=True)
class _Claim:
    """A claim, and its evidence's texts on either side; a text may stand on both."""

    text: str
    supporting: set[str] = field(default_factory=set)
    refuting: set[str] = field(default_factory=set)

    @property
    def sides(self) -> tuple[set[str], set[str]]:
        """Either side."""
        return self.supporting, self.refuting


class _Pool:
    """The texts and claims of a case."""

    def __init__(self, *cases: str) -> None:
        self.cases = cases
        self.claims: dict[str, _Claim] = {}
        """By id."""
        self.said: dict[str, dict[str, str]] = {}
        """By text: claim id -> stance."""

    def cite(self, claim: Value, named: str, stance: str, text: str) -> None:
        """What an evidence says of a claim, whose id is in the field `named`. Two stances to one claim are mixed; an
        empty text says nothing."""
        claim_id, asked = claim.field(named).name(), _normal(claim.field("claim").question())
        cited = self.claims.setdefault(claim_id, _Claim(text=asked))
        if cited.text != asked:
            raise claim.field(named).damage("an id of its own", f"{claim_id!r}, as another claim is called")
        if not text:
            return
        said = self.said.setdefault(text, {})
        said[claim_id] = _joined((stance, said.get(claim_id, stance)))
        if stance == "supports":
            cited.supporting.add(text)
        elif stance == "opposes":
            cited.refuting.add(text)

    @property
    def scored(self) -> dict[str, _Claim]:
        """Claims that have both sides, by id."""
        return {claim_id: claim for claim_id, claim in self.claims.items() if all(claim.sides)}


def run(asked: Asked) -> Iterator[Sample]:
    """The suite: a case a file of Climate-FEVER, `all` of them, and `scifact`."""
    shares = read_settings(asked.settings)
    samples = Samples()
    pools = [*asked.each("climate-fever", "*.jsonl", _climate_fever), asked.part(_scifact)]
    for pool in filter(None, pools):
        case = pool.cases[-1]
        if not pool.scored:
            asked.absent(f"{case} has no claim with evidence on both sides")
            continue
        blind = [
            Document(text=text, charged=text, kind="evidence", stance=_joined(said.values()))
            for text, said in pool.said.items()
        ]
        asked.progress(f"{case}: {OURS} on {len(pool.scored)} claims, blind and keyed")
        _ours_blind(pool, blind, shares, samples)
        _ours_keyed(pool, shares, samples)
        for name, opened in asked.peers.items():
            asked.progress(f"{case}: {name} on {len(pool.scored)} claims")
            with opened(blind) as ranker:
                for claim in pool.scored.values():
                    ranked = ranker.rank(claim.text, len(blind))
                    shown = [_texts(blind, within(budget, ranked, blind)) for budget in (_SMALL, _LARGE)]
                    _score(samples, name, pool.cases, claim, *shown)
    yield from samples


def _ours_blind(pool: _Pool, blind: Sequence[Document], shares: _Shares, samples: Samples) -> None:
    with Membrane(blind) as ours:
        for claim in pool.scored.values():
            packets = [
                ours.packet(claim.text, budget, opposing=shares.opposing, supporting=shares.supporting)
                for budget in (_SMALL, _LARGE)
            ]
            shown = [_texts(blind, ours.held(packet)) for packet in packets]
            _score(samples, OURS, pool.cases, claim, *shown)


def _ours_keyed(pool: _Pool, shares: _Shares, samples: Samples) -> None:
    keyed = list(_keyed(pool))
    with Membrane(keyed) as ours:
        for claim_id, claim in pool.scored.items():
            if _fits(claim, _SMALL):
                packet = ours.packet(
                    claim.text, _SMALL, claims=[claim_id], opposing=shares.opposing, supporting=shares.supporting
                )
                shown = _both(claim, _texts(keyed, ours.held(packet)))
                samples.add(OURS, "both_sides_keyed@1000tokens", shown, *pool.cases)


def _score(
    samples: Samples, system: str, cases: tuple[str, ...], claim: _Claim, small: set[str], large: set[str]
) -> None:
    samples.add(system, "both_sides@1000tokens", _both(claim, small), *cases)
    samples.add(system, "both_sides@2000tokens", _both(claim, large), *cases)
    samples.add(system, "support_recall@1000tokens", len(claim.supporting & small) / len(claim.supporting), *cases)
    samples.add(system, "refute_recall@1000tokens", len(claim.refuting & small) / len(claim.refuting), *cases)


def _both(claim: _Claim, shown: set[str]) -> float:
    return float(all(side & shown for side in claim.sides))


def _fits(claim: _Claim, budget: int) -> bool:
    """Whether some card of each side fit the budget together."""
    return any(sum(map(tokens, {*pair})) <= budget for pair in itertools.product(*claim.sides))


def _texts(documents: Sequence[Document], places: Iterable[int]) -> set[str]:
    return {documents[place].text for place in places}


def _keyed(pool: _Pool) -> Iterator[Document]:
    """A text that more claims cite than a card can carry takes several cards; stances come before what says nothing."""
    for text, said in pool.said.items():
        claims = sorted(said.items(), key=lambda one: one[1] == "neutral")
        for first in range(0, max(len(claims), 1), CARD_LIST_MAX):
            carried = dict(claims[first : first + CARD_LIST_MAX])
            yield Document(text=text, charged=text, kind="evidence", claims=carried)


def _joined(stances: Iterable[str]) -> str:
    """What stances are together: one beside neutral ones is that one."""
    told = {*stances} - {"neutral"}
    return told.pop() if len(told) == 1 else "mixed" if told else "neutral"


def read_settings(settings: Mapping[str, Any]) -> _Shares:
    """The suite's settings. Raises InvalidInput."""
    named = {one.name for one in fields(_Shares)}
    if settings.keys() != named or not all(type(share) in (int, float) for share in settings.values()):
        raise InvalidInput("the settings of counter_evidence are two shares: opposing and supporting", field="settings")
    return _Shares(**settings)


def _climate_fever(data: Data, file: Path) -> _Pool:
    pool = _Pool(ALL, f"climate-fever/{file.stem}")
    for claim in data.json_lines(file):
        for evidence in claim.field("evidences").items():
            stance = evidence.field("evidence_label").one_of(_STANCES)
            pool.cite(claim, "claim_id", stance, _normal(evidence.field("evidence").text()))
    return pool


def _scifact(data: Data) -> _Pool:
    pool = _Pool("scifact")
    abstracts: dict[str, str] = {}
    for file in data.files("scifact", "corpus*.csv"):
        for row in data.csv(file, "doc_id", "abstract"):
            sentences = row.field("abstract").parsed(_sentences, "a printed list of texts")
            abstracts[row.field("doc_id").text()] = text = _normal(" ".join(sentences))
            if text:
                pool.said.setdefault(text, {})
    for file in data.files("scifact", "claims*.csv"):
        for row in data.csv(file, "id", "claim", "evidence_doc_id", "evidence_label"):
            if row.field("evidence_label").text():
                stance = row.field("evidence_label").one_of(_STANCES)
                cited = row.field("evidence_doc_id").one_of(abstracts, "a document of the corpus")
                pool.cite(row, "id", stance, cited)
    return pool


def _sentences(printed: str) -> list[str]:
    """The texts of a list that was printed with commas or, as numpy does it, without. Raises ValueError."""
    if printed.strip(" ")[:1] != "[" or _QUOTED.sub("", printed).strip(" \n,[]"):
        raise ValueError(printed)
    return [_unquoted(quoted) for quoted in _QUOTED.findall(printed)]


def _unquoted(quoted: str) -> str:
    """The text of a Python literal. Raises ValueError where an escape in it stands for no character."""
    try:
        text: str = ast.literal_eval(quoted)
    except SyntaxError as error:
        raise ValueError(quoted) from error
    text.encode("utf-8")
    return text


def _normal(text: str) -> str:
    """A text with single spaces for white space."""
    return " ".join(text.split())
