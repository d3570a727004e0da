"""An option of a source does what the page says, or the spec is refused."""

import re

import pytest
from pydantic import TypeAdapter, ValidationError

from sessionizer.stream_spec.document.reader_options import READER_OPTIONS, ReaderOptions
from sessionizer.stream_spec.document.source import Source, SourceWithOptions
from support.places import REPOSITORY

PAGE = REPOSITORY / "docs" / "stream-spec.md"
FILES = ("text", "json", "csv", "parquet")
READERS = (*FILES, "delta", "kafka")
NAMES = sorted({name.replace("*", "x") for row in READER_OPTIONS for name in row.names.split()} | {"anything", "sep "})


def source_with(reader: str, option: str, value: str = "1", block: str = "options") -> SourceWithOptions:
    own = {
        "delta": {"format": "delta", "path": "t"},
        "kafka": {"format": "kafka", "bootstrap_servers": "b:1", "topic": "t", "encoding": "text"},
    }.get(reader, {"format": "files", "path": "f", "encoding": reader})
    columns = {"columns": "a string"} if reader in {"json", "csv", "parquet"} else {}
    source = TypeAdapter(Source).validate_python({**own, **columns, block: {option: value}})
    assert isinstance(source, SourceWithOptions)
    return source


@pytest.mark.parametrize("reader", READERS)
def test_an_option_is_taken_or_refused_by_name(reader: str) -> None:
    for option, given in ((name, written) for name in NAMES for written in (name, name.upper())):
        rows = [row for row in READER_OPTIONS if row.has(option) and reader in row.readers.split()]
        if rows and rows[0].advice is None:
            assert source_with(reader, given).options == {given: "1"}
            continue
        with pytest.raises(ValidationError) as refused:
            source_with(reader, given)
        assert refused.value.errors()[0]["ctx"]["at"] == ("options", given)


@pytest.mark.parametrize(
    ("reader", "option", "value"),
    [
        ("json", "latestFirst", "true"),
        ("parquet", "fileNameOnly", "true"),
        ("text", "ignoreCorruptFiles", "true"),
        ("csv", "unescapedQuoteHandling", "RAISE_ERROR"),
        ("delta", "readChangeFeed", "true"),
        ("delta", "failOnDataLoss", "false"),
        ("delta", "mergeSchema", "true"),
        ("kafka", "failOnDataLoss", "false"),
        ("kafka", "minOffsetsPerTrigger", "1000"),
        ("kafka", "multiLine", "true"),
    ],
)
def test_an_option_that_loses_events_is_refused(reader: str, option: str, value: str) -> None:
    with pytest.raises(ValidationError) as refused:
        source_with(reader, option, value)
    found = refused.value.errors()[0]["ctx"]
    assert (found["at"], found["value"]) == (("options", option), value)


def test_an_option_from_the_environment_is_refused_alike() -> None:
    with pytest.raises(ValidationError) as refused:
        source_with("kafka", "maxTriggerDelay", "DELAY", "options_from_environment")
    assert refused.value.errors()[0]["ctx"]["at"] == ("options_from_environment", "maxTriggerDelay")


def test_the_closest_option_is_named() -> None:
    with pytest.raises(ValidationError, match="recursiveFileLookup'"):
        source_with("text", "recursiveFileLookUps", "true")


def page_rows(rows: list[ReaderOptions]) -> str:
    def names(row: ReaderOptions) -> str:
        readers = row.readers.replace(" ".join(FILES), "files").replace(" ", ", ")
        return f"| {readers} | {', '.join(f'`{name}`' for name in row.names.split())} | {row.effect} |\n"

    return "".join(map(names, rows))


@pytest.mark.parametrize(
    ("head", "is_taken"),
    [("| source | taken | effect |\n|---|---|---|\n", True), ("| source | refused | why |\n|---|---|---|\n", False)],
)
def test_the_page_shows_every_option(head: str, is_taken: bool, request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text()
    wanted = head + page_rows([row for row in READER_OPTIONS if (row.advice is None) == is_taken])
    if request.config.getoption("--rewrite-golden"):
        text = re.sub(re.escape(head) + r"(\|.*\n)*", lambda _: wanted, text)
        PAGE.write_text(text)
    assert f"{wanted}\n" in text, "differs from the table in the code. Run pytest with --rewrite-golden"
