"""Damaged data: whatever is wrong with a file, one error says where and what, and the rest is measured and reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.benchmark.running import ran, report
from tests.unit.benchmark.test_command import conversation
from tests.unit.benchmark.test_supersession import fact_list

_CHAT: Final = [{"turns": [[{"id": 0, "content": "The boat is in Oslo."}, {"id": 1, "content": "Since May."}]]}]
_PROBING: Final = {"temporal_reasoning": [{"question": "Where is the boat?", "source_chat_ids": {"where": [0, 1]}}]}
_CLAIM: Final = {
    "claim_id": 0,
    "claim": "Ice thaws",
    "evidences": [
        {"evidence_label": "SUPPORTS", "evidence": "The ice thaws in spring."},
        {"evidence_label": "REFUTES", "evidence": "The ice stays all year."},
    ],
}
_ASKED: Final = {
    "question_text": "Where was the boat built?",
    "contexts": [
        {"title": "Boats", "paragraph_text": "The boat was built in Oslo.", "is_supporting": True},
        {"title": "Seas", "paragraph_text": "The sea is cold in the north.", "is_supporting": False},
    ],
}
_MUSIQUE: Final = [{"question": "Where was the boat built?", "paragraphs": _ASKED["contexts"]}]
FILES: Final[dict[str, dict[str, Any]]] = {
    "beam": {"beam/one/chat.json": _CHAT, "beam/one/probing_questions/probing_questions.json": _PROBING},
    "counter_evidence": {
        "climate-fever/one.jsonl": _CLAIM,
        "scifact/corpus_x.csv": "doc_id,title,abstract\n1,T,['Mice run.']\n2,T,\"['Mice sleep.']\"\n",
        "scifact/claims_x.csv": 'id,claim,evidence_doc_id,evidence_label\n0,x,1,SUPPORT\n0,x,2,"CONTRADICT"\n',
    },
    "cranfield": {
        "cranfield/cran.all.1400": "".join(f".I {n}\n.T\ntitle {n}\n.W\nwing {n}\n" for n in (1, 2)),
        "cranfield/cran.qry": ".I 001\n.W\nwing 1\n.I 002\n.W\nwing 2\n",
        "cranfield/cranqrel": "1 1 1\n2 2 1\n",
    },
    "locomo": {"locomo/one.json": [conversation()]},
    "multihop": {"hotpotqa/one.jsonl": _ASKED, "musique/one.json": _MUSIQUE},
    "speed": {"hotpotqa/one.jsonl": _ASKED, "climate-fever/one.jsonl": _CLAIM, "locomo/one.json": [conversation()]},
    "supersession": {"letta-evals/one.jsonl": fact_list(0, 2)},
}
"""Small data of each suite in its format; texts stand as they are, other values as JSON."""
SETTINGS: Final = {
    "counter_evidence": "{opposing: 0.4, supporting: 0.3}",
    "speed": "{cards: 50, queries: 1, rounds: 1}",
}
DAMAGES: Final[dict[str, Callable[[str], bytes]]] = {
    "cut short": lambda text: text[: len(text) * 2 // 3].encode("utf-8"),
    "empty": lambda _: b"",
    "only white space": lambda _: b" \n\n",
    "another format": lambda _: b"%PDF-1.7 1 0 obj",
    "HTML": lambda _: b"<html>\n<body>404: not found</body>\n</html>\n",
    "a number": lambda _: b"3",
    "a list of lists": lambda _: b"[[]]",
    "an object of another kind": lambda _: b'{"a": 1}',
    "UTF-16": lambda text: text.encode("utf-16"),
    "Latin-1": lambda text: text.encode("utf-8") + b"\xe9",
    "nested deeply": lambda _: b"[" * 100_000,
    "a long number": lambda _: b"1" * 10_000,
}
_OF_PYTHON: Final = re.compile(
    r"\w+Error\b|Traceback|NoneType|indices must|subscriptable|codec|Expecting|literal|unhashable|recursion|encod"
)


def put(folder: Path, suite: str) -> Path:
    """The suite's data, undamaged. Its folder."""
    for name, content in FILES[suite].items():
        file = folder / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder / "data"


def measured(folder: Path, suite: str) -> int:
    """Runs the suite on what was put. Its exit code."""
    result = ran(folder, f"suite: {suite}\nsettings: {SETTINGS.get(suite, '{}')}", folder / "data")
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result.exit_code


def told(folder: Path) -> str:
    """The one error of the report."""
    (error,) = report(folder)["errors"]
    assert not _OF_PYTHON.search(error), error
    assert "expected" in error
    assert "found" in error
    assert "get the file again" in error
    assert len(error.splitlines()) == 1
    return str(error)


@pytest.mark.parametrize("suite", FILES)
def test_the_small_data_is_whole(tmp_path: Path, suite: str) -> None:
    put(tmp_path, suite)
    assert measured(tmp_path, suite) == 0
    assert report(tmp_path)["rows"]
    assert report(tmp_path)["errors"] == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("suite", "name"), [(suite, name) for suite, files in FILES.items() for name in files])
def test_a_damaged_file_is_named_in_the_report_and_exits_with_2(
    tmp_path: Path, suite: str, name: str, damage: str
) -> None:
    file = put(tmp_path, suite) / name
    file.write_bytes(DAMAGES[damage](file.read_text(encoding="utf-8")))
    assert measured(tmp_path, suite) == 2
    assert told(tmp_path).startswith(str(file)) or damage == "cut short"  # what names a part that was cut off tells


@pytest.mark.parametrize(
    ("suite", "name", "whole"),
    [
        ("beam", "beam/one/chat.json", "beam/two/chat.json"),
        ("counter_evidence", "climate-fever/one.jsonl", "scifact/corpus_x.csv"),
        ("counter_evidence", "scifact/claims_x.csv", "climate-fever/one.jsonl"),
        ("locomo", "locomo/one.json", "locomo/two.json"),
        ("multihop", "hotpotqa/one.jsonl", "musique/one.json"),
        ("supersession", "letta-evals/one.jsonl", "letta-evals/two.jsonl"),
    ],
)
def test_what_is_not_damaged_is_measured(tmp_path: Path, suite: str, name: str, whole: str) -> None:
    data = put(tmp_path, suite)
    for file in sorted(data.rglob("*.json*")):
        other = data / str(file.relative_to(data)).replace("one", "two", 1)
        if whole.partition("/two")[1]:
            other.parent.mkdir(parents=True, exist_ok=True)
            other.write_bytes(file.read_bytes())
    (data / name).write_text("{")
    assert measured(tmp_path, suite) == 2
    assert report(tmp_path)["rows"]
    assert whole in report(tmp_path)["environment"]["data"]
    assert name in told(tmp_path)


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where anything stands in JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*path, name)
        yield from _places(one, (*path, name))


PLACES: Final = [
    (suite, name, path)
    for suite, files in FILES.items()
    for name, content in files.items()
    if not isinstance(content, str)
    for path in _places(content)
]
WRONG: Final = (None, True, -1, 10**30, 0.5, "", "x", "\ud800", "x\x00", "x" * 400, [], [[]], [None], {}, {"a": None})


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), wrong=st.sampled_from(WRONG), gone=st.booleans())
def test_a_value_that_is_gone_or_of_another_type_is_told_or_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[str, str, tuple[str | int, ...]], wrong: Any, gone: bool
) -> None:
    suite, name, path = place
    folder = tmp_path_factory.mktemp("damaged")
    file = put(folder, suite) / name
    content = json.loads(file.read_text(encoding="utf-8"))
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    if gone:
        del inner[path[-1]]
    else:
        inner[path[-1]] = wrong
    file.write_text(json.dumps(content), encoding="utf-8")
    code = measured(folder, suite)
    assert code in (0, 2)
    if code == 2:
        assert told(folder).startswith((f"{file}, record ", f"{file.parent}/", f"{file}, "))
    assert code == 2 or report(folder)["errors"] == []


@pytest.mark.parametrize(
    ("suite", "name", "damage", "error"),
    [
        (
            "locomo",
            "locomo/one.json",
            ('"category": 1', '"category": "1"'),
            "one.json, record 1, qa[1].category: expected a whole number, found the text '1'; get the file again",
        ),
        (
            "locomo",
            "locomo/one.json",
            ('"session_2_date_time"', '"session_2_date"'),
            "one.json, record 1, conversation.session_2_date_time: expected this field, found an object with 'session_",
        ),
        (
            "counter_evidence",
            "climate-fever/one.jsonl",
            ('"REFUTES"', '"DENIES"'),
            "one.jsonl, record 1, line 1, evidences[1].evidence_label: expected one of SUPPORTS, SUPPORT, REFUTES, "
            "CONTRADICT, NOT_ENOUGH_INFO, found the text 'DENIES'; get",
        ),
        (
            "counter_evidence",
            "scifact/claims_x.csv",
            ("0,x,2,", "0,x,7,"),
            "claims_x.csv, row 2, evidence_doc_id: expected a document of the corpus, found the text '7'; get",
        ),
        (
            "counter_evidence",
            "scifact/claims_x.csv",
            (',"CONTRADICT"', ""),
            "claims_x.csv, row 2: expected 4 fields, as the header names them, found 3; get",
        ),
        (
            "cranfield",
            "cranfield/cranqrel",
            ("2 2 1", "2 2"),
            "cranqrel, line 2: expected the numbers of a question and a document, and a grade, found the text '2 2'; ",
        ),
        (
            "beam",
            "beam/one/chat.json",
            ('"id": 1', '"id": 0'),
            "chat.json, record 1, turns[0][1].id: expected an id of its own, found 0 again; get",
        ),
        (
            "multihop",
            "hotpotqa/one.jsonl",
            ('"contexts"', '"context"'),
            "one.jsonl, record 1, line 1, contexts or paragraphs: expected this field, found an object with ",
        ),
        (
            "supersession",
            "letta-evals/one.jsonl",
            ("[0, 2]", "[0, 3]"),
            "supporting_fact_indices[1]: expected the place of one of the 3 facts, from 0 up, found the number 3; get",
        ),
        (
            "multihop",
            "musique/one.json",
            ('"Seas"', '"\\ud800"'),
            "one.json, record 1, paragraphs[1].title: expected a text in UTF-8, found the text '\\ud800'; get",
        ),
        ("speed", "hotpotqa/one.jsonl", ("}", "", 1), "one.jsonl, line 1: expected JSON, found "),
    ],
)
def test_an_error_says_where_what_and_what_to_do(
    tmp_path: Path, suite: str, name: str, damage: Any, error: str
) -> None:
    file = put(tmp_path, suite) / name
    text = file.read_text(encoding="utf-8")
    assert damage[0] in text
    file.write_text(text.replace(*damage), encoding="utf-8")
    assert measured(tmp_path, suite) == 2
    assert error in told(tmp_path)


@pytest.mark.parametrize("suite", FILES)
def test_a_byte_order_mark_and_line_ends_of_other_systems_are_no_damage(tmp_path: Path, suite: str) -> None:
    data = put(tmp_path, suite)
    for name in FILES[suite]:
        (data / name).write_bytes(b"\xef\xbb\xbf" + (data / name).read_bytes().replace(b"\n", b"\r\n"))
    assert measured(tmp_path, suite) == 0
    assert report(tmp_path)["rows"]


def test_speed_without_sentences_has_nothing_to_measure(tmp_path: Path) -> None:
    data = put(tmp_path, "speed")
    for name in FILES["speed"]:
        text = (data / name).read_text()
        (data / name).write_text(re.sub(r'"(paragraph_text|evidence|text)": "[^"]*"', r'"\1": "x"', text))
    assert measured(tmp_path, "speed") == 0
    assert report(tmp_path)["rows"] == []
    assert "no sentence" in report(tmp_path)["absent"][0]


def test_a_record_of_cranfield_has_a_number(tmp_path: Path) -> None:
    file = put(tmp_path, "cranfield") / "cranfield/cran.all.1400"
    file.write_text(file.read_text() + ".I\n")
    (tmp_path / "data/cranfield/cranqrel").write_text("1 3 1\n")
    assert measured(tmp_path, "cranfield") == 2
    assert "one of 2 questions and 2 documents" in told(tmp_path)
