"""The page of a proof: all figures, nothing of a foreign host, and no data that acts as markup."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from sessionizer.lineage.fingerprint import Fingerprint
from sessionizer.state.proof.comparison import DifferenceKind, DifferenceSample, RowDifference
from sessionizer.state.proof.result import (
    NOTHING_COMPARED,
    Death,
    JudgedDifference,
    Proof,
    ProofVerdict,
    TableProof,
    proof_page,
    release_differences,
)
from support.fixtures.reviewed import Reviewed

EVIL = '<script>alert("&$stream")</script>'
SAMPLE = DifferenceSample({"session_id": EVIL}, {"spent": "1.5"}, {"spent": None})


def proof(*, died: Death | None = None) -> Proof:
    judged = (
        JudgedDifference(RowDifference(DifferenceKind.COLUMNS, ("spent",), 1_234, (SAMPLE,)), ()),
        JudgedDifference(
            RowDifference(DifferenceKind.ONLY_NEW, (), 7, (DifferenceSample({"session_id": "n"}, None, {"key": "k"}),)),
            (EVIL,),
        ),
    )
    tables = (TableProof("sessions", 5_000, 5_007, 3_766, judged, ("emitted_at", "lineage")),)
    release = ("spark: 4.2.0 → 4.2.1",)
    return Proof(
        "20261126T000000-000000", "clicks", "one", 0, 3, 9, 123_456, 4.2, release, (EVIL,), tables, (EVIL,), died
    )


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_data_is_text_only() -> None:
    seen = read(proof_page(proof()))
    assert not {"script", "img", "iframe"} & set(seen.tags)
    assert seen.addresses == []
    assert seen.text.count(EVIL) == 4
    assert "://" not in proof_page(proof())


def test_all_figures_are_on_it() -> None:
    text = read(proof_page(proof())).text
    for figure in ("123,456", "5,000", "5,007", "3,766", "1,234", "4.2 s", "3 to 9", "1.5", "null", "no row"):
        assert figure in text
    assert "$" not in text.replace(EVIL, "")


def test_it_is_made_for_light_and_dark() -> None:
    assert len(re.findall("light-dark", proof_page(proof()))) >= 6


def test_a_proof_without_rows_says_that_it_compared_nothing() -> None:
    empty = replace(proof(), tables=(TableProof("sessions", 0, 0, 0, (), ()),))
    assert (empty.verdict, empty.compared_nothing) == (ProofVerdict.EQUAL, True)
    assert NOTHING_COMPARED in read(proof_page(empty)).text
    assert NOTHING_COMPARED in list(empty.lines())[-1]
    assert not proof().compared_nothing
    assert not replace(empty, died=Death(3, "no heap")).compared_nothing


def test_a_death_is_on_it() -> None:
    text = read(proof_page(proof(died=Death(3, "ValueError: <b>")))).text
    assert "Batch 3" in text
    assert "ValueError: <b>" in text


def test_the_result_as_json() -> None:
    told = proof().to_json()
    assert (told["verdict"], told["unexplained"]) == (ProofVerdict.UNEXPLAINED, 1_234)
    assert (told["identical"], told["explained"]) == (3_766, 7)
    assert told["tables"][0]["explained"] == 7
    assert told["tables"][0]["differences"][0]["difference"]["samples"][0]["key"] == {"session_id": EVIL}
    lines = list(proof().lines())
    assert lines[-1] == "verdict: unexplained"


def test_versions_and_code_that_changed_are_named(reviewed: Reviewed) -> None:
    old = Fingerprint("a" * 64, {"spark": "4.2.0", "delta-spark": "4.4.0"})
    new = Fingerprint("b" * 64, {"spark": "4.2.1", "delta-spark": "4.4.0", "python": "3.11.9"})
    assert release_differences(old, new) == (
        "spark: 4.2.0 → 4.2.1",
        f"code that decides: {'a' * 12} → {'b' * 12}",
    )
    assert release_differences(new, new) == ()
    reviewed(release_differences(Fingerprint("", {}), new))
