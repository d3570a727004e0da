"""An option of a reader of files does something, or the spec is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sessionizer.stream_spec.document.reader_options import HONOURED
from sessionizer.stream_spec.document.source import FilesSource

EVERYWHERE = ["maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst", "recursiveFileLookup",
              "pathGlobFilter", "modifiedAfter", "cleanSource", "MAXFILESPERTRIGGER"]  # fmt: skip
TIMES = ["dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone", "locale"]
HONOURED_BY = {
    **{option: {"json", "csv", "parquet", "text"} for option in EVERYWHERE},
    **{option: {"json", "csv"} for option in TIMES},
    "lineSep": {"json", "csv", "text"},
    "multiLine": {"csv"},
    "encoding": {"csv"},
    "header": {"csv"},
    "sep": {"csv"},
    "maxColumns": {"csv"},
    "allowComments": {"json"},
    "allowSingleQuotes": {"json"},
    "datetimeRebaseMode": {"parquet"},
    # what is not read with declared columns, is another option's, or would lose rows without a word
    **dict.fromkeys(
        ("inferSchema", "mergeSchema", "primitivesAsString", "samplingRatio", "wholetext", "compression",
         "ignoreCorruptFiles", "ignoreMissingFiles", "maxCharsPerColumn", "anything", "multiline "),
        frozenset(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("encoding", sorted(HONOURED))
@pytest.mark.parametrize("option", HONOURED_BY)
def test_an_option_is_honoured_or_refused_by_name(option: str, encoding: str) -> None:
    source = {"format": "files", "path": "feed", "encoding": encoding, "options": {option: "1"}}
    source |= {} if encoding == "text" else {"columns": "a string"}
    if encoding in HONOURED_BY[option]:
        assert FilesSource.model_validate(source).options == {option: "1"}
        return
    with pytest.raises(ValidationError) as refused:
        FilesSource.model_validate(source)
    assert refused.value.errors()[0]["ctx"]["at"] == ("options", option)


def test_the_closest_option_is_named() -> None:
    with pytest.raises(ValidationError, match="recursiveFileLookup"):
        FilesSource(format="files", path="feed", encoding="text", options={"recursiveFileLookUps": "true"})


def test_a_quote_that_ends_the_query_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        FilesSource(
            format="files", path="f", encoding="csv", columns="a int", options={"unescapedQuoteHandling": "RAISE_ERROR"}
        )
    assert refused.value.errors()[0]["ctx"]["at"] == ("options", "unescapedQuoteHandling")
