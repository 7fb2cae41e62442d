"""What the counter-evidence suite's figures mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.benchmark.running import figures, ran, report, write

CONFIG = "suite: counter_evidence\nsettings: {opposing: 0.45, supporting: 0.35}"
NO_SHARES = "suite: counter_evidence\nsettings: {opposing: 0, supporting: 0}"
CASE = "climate-fever/one"


def claim(claim_id: str, text: str, *evidences: tuple[str, str]) -> dict[str, object]:
    """A claim in Climate-FEVER's format; evidences are (label, text)."""
    told = [{"evidence_label": label, "evidence": evidence} for label, evidence in evidences]
    return {"claim_id": claim_id, "claim": text, "evidences": told}


def dominated(refuting: str) -> dict[str, object]:
    """A claim whose support repeats it more often than 2,000 tokens hold."""
    support = [("SUPPORTS", f"Glaciers melt fast, says survey {number}, and " + "on " * 40) for number in range(60)]
    return claim("0", "Glaciers melt fast", *support, ("REFUTES", refuting))


def test_opposition_is_shown_beside_a_dominant_side_because_of_its_share(tmp_path: Path) -> None:
    refuting = "Hardly any of the world's glaciers " + "that somebody measured last year " * 8 + "lost ice"
    write(tmp_path / "data/climate-fever/one.jsonl", dominated(refuting))
    with_shares = figures(tmp_path, CONFIG, tmp_path / "data")
    without = figures(tmp_path, NO_SHARES, tmp_path / "data")
    for metric in ("both_sides@1000tokens", "both_sides@2000tokens", "refute_recall@1000tokens"):
        assert with_shares["all", "membrane", metric] == (1, 1)
        assert without["all", "membrane", metric] == (0, 1)


def test_a_key_finds_what_words_do_not(tmp_path: Path) -> None:
    write(tmp_path / "data/climate-fever/one.jsonl", dominated("Snouts of valley tongues remained put"))
    found = figures(tmp_path, CONFIG, tmp_path / "data")
    assert found[CASE, "membrane", "both_sides@1000tokens"] == (0, 1)
    assert found[CASE, "membrane", "both_sides_keyed@1000tokens"] == (1, 1)


def test_keyed_claims_count_where_a_card_of_each_side_fits(tmp_path: Path) -> None:
    long = "Glaciers grow " + "and grow " * 600
    write(
        tmp_path / "data/climate-fever/one.jsonl",
        claim("0", "Glaciers melt", ("SUPPORTS", "Glaciers melt away"), ("REFUTES", long)),
        claim("1", "Ice thaws", ("SUPPORTS", "Ice thaws here"), ("REFUTES", "Ice stays here")),
    )
    found = figures(tmp_path, CONFIG, tmp_path / "data")
    assert found["all", "membrane", "both_sides@1000tokens"] == (0.5, 2)
    assert found["all", "membrane", "both_sides_keyed@1000tokens"] == (1, 1)


def test_only_claims_with_both_sides_are_scored_and_equal_texts_are_one(tmp_path: Path) -> None:
    write(
        tmp_path / "data/climate-fever/one.jsonl",
        claim(
            "0", "Ice thaws", ("SUPPORTS", "Ice  thaws\there"), ("SUPPORTS", "Ice thaws here"), ("REFUTES", "Ice stays")
        ),
        claim("1", "Ice is cold", ("SUPPORTS", "Ice thaws here"), ("NOT_ENOUGH_INFO", "Ice stays")),
        claim("2", "Ice floats", ("SUPPORTS", "Ice floats, or so"), ("REFUTES", "Ice floats, or so"), ("REFUTES", " ")),
    )
    write(tmp_path / "data/climate-fever/two.jsonl", claim("0", "Snow", ("SUPPORTS", "Snow"), ("REFUTES", "No snow")))
    found = figures(tmp_path, CONFIG + "\npeers: [bm25s]", tmp_path / "data")
    for system in ("membrane", "bm25s"):
        assert found[CASE, system, "support_recall@1000tokens"] == (1, 2)
        assert found["all", system, "both_sides@1000tokens"] == (1, 3)
    assert ("all", "bm25s", "both_sides_keyed@1000tokens") not in found


def test_a_text_may_be_cited_by_more_claims_than_a_card_can_carry(tmp_path: Path) -> None:
    cited = [claim(str(one), f"Ice {one}", ("SUPPORTS", "Ice"), ("REFUTES", f"No ice {one}")) for one in range(40)]
    write(tmp_path / "data/climate-fever/one.jsonl", *cited)
    found = figures(tmp_path, CONFIG, tmp_path / "data")
    assert found["all", "membrane", "both_sides_keyed@1000tokens"] == (1, 40)


def scifact(data: Path, *, abstract: str, claims: str) -> None:
    """SciFact's two tables; `claims` are its rows."""
    (data / "scifact").mkdir(parents=True)
    (data / "scifact/corpus_x.csv").write_text(f'doc_id,title,abstract\n1,T,"{abstract}"\n2,T,"[\'Mice sleep.\']"\n')
    (data / "scifact/claims_x.csv").write_text(f"id,claim,evidence_doc_id,evidence_label\n{claims}")


def test_scifact_is_a_case_outside_all(tmp_path: Path) -> None:
    write(tmp_path / "data/climate-fever/one.jsonl", claim("0", "Ice", ("SUPPORTS", "Ice"), ("REFUTES", "No ice")))
    scifact(
        tmp_path / "data",
        abstract="['Mice don\\'t sleep.'\n '24 mice ran.']",
        claims="0,Mice sleep,1,CONTRADICT\n0,Mice sleep,2,SUPPORT\n1,Mice fly,,\n",
    )
    found = figures(tmp_path, CONFIG, tmp_path / "data")
    assert found["scifact", "membrane", "both_sides@1000tokens"] == (1, 1)
    assert found["all", "membrane", "both_sides@1000tokens"] == (1, 1)


def test_a_part_that_is_not_there_is_absent_and_the_rest_is_measured(tmp_path: Path) -> None:
    scifact(tmp_path / "data", abstract="['Mice run.']", claims="0,Mice sleep,2,SUPPORT\n")
    assert figures(tmp_path, CONFIG, tmp_path / "data") == {}
    assert ["climate-fever" in report(tmp_path)["absent"][0], "scifact" in report(tmp_path)["absent"][1]] == [True] * 2
    assert figures(tmp_path, CONFIG, tmp_path) == {}
    assert ["climate-fever" in report(tmp_path)["absent"][0], "scifact" in report(tmp_path)["absent"][1]] == [True] * 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"claim_id": "0"', "line 1"),
        ("{}", "record 1"),
        ("\n[3]", "record 1"),
        ('{"claim_id": 0, "claim": "x", "evidences": [{"evidence_label": "MAYBE", "evidence": "y"}]}', "MAYBE"),
        ('{"claim_id": 0, "claim": "x", "evidences": [{"evidence_label": "REFUTES", "evidence": 3}]}', "the number 3"),
    ],
)
def test_data_of_another_format_names_file_and_place(tmp_path: Path, content: str, told: str) -> None:
    write(tmp_path / "data/climate-fever/one.jsonl").write_text(content)
    result = ran(tmp_path, CONFIG, tmp_path / "data")
    assert result.exit_code == 2
    assert "one.jsonl" in result.output
    assert told in result.output


@pytest.mark.parametrize(
    ("abstract", "claims", "told"),
    [
        ("Mice run.", "", "corpus_x.csv, row 1"),
        ("['Mice run.", "", "corpus_x.csv, row 1"),
        ("['Mice run.']", "0,Mice sleep,7,SUPPORT\n", "claims_x.csv, row 1"),
        ("['Mice run.']", '0,"Mice sl', "claims_x.csv"),
    ],
)
def test_a_table_that_is_damaged_names_file_and_place(tmp_path: Path, abstract: str, claims: str, told: str) -> None:
    scifact(tmp_path / "data", abstract=abstract, claims=claims)
    result = ran(tmp_path, CONFIG, tmp_path / "data")
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize(
    "settings", ["{}", "{opposing: 0.4}", "{opposing: a, supporting: 0.3}", "{opposing: 0.4, neutral: 1}"]
)
def test_settings_are_two_shares(tmp_path: Path, settings: str) -> None:
    result = ran(tmp_path, f"suite: counter_evidence\nsettings: {settings}", tmp_path)
    assert result.exit_code == 2
    assert "shares" in result.output
