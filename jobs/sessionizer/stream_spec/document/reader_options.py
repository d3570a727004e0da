"""The options that a source of files honours, by the encoding of its files.

Spark takes any name, and does nothing with one that the reader at hand does not know.
"""

from __future__ import annotations

import difflib
from typing import Final

OF_FILES: Final = (
    "cleanSource", "discardCachedInputRatio", "fileNameOnly", "latestFirst", "maxBytesPerTrigger", "maxCachedFiles",
    "maxFileAge", "maxFilesPerTrigger", "modifiedAfter", "modifiedBefore", "pathGlobFilter", "recursiveFileLookup",
    "sourceArchiveDir",
)  # fmt: skip
"""Options of the reader of a folder, whatever is in its files."""
_OF_LINES: Final = ("lineSep",)
_OF_TIMES: Final = (
    "dateFormat", "enableDateTimeParsingFallback", "locale", "timestampFormat", "timestampNTZFormat", "timeZone",
)  # fmt: skip
_OF_JSON: Final = (
    "allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers", "allowNumericLeadingZeros",
    "allowSingleQuotes", "allowUnquotedControlChars", "allowUnquotedFieldNames",
)  # fmt: skip
_OF_CSV: Final = (
    "charset", "charToEscapeQuoteEscaping", "comment", "delimiter", "emptyValue", "encoding", "enforceSchema", "escape",
    "header", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "maxColumns", "multiLine", "nanValue",
    "negativeInf", "nullValue", "positiveInf", "quote", "sep", "unescapedQuoteHandling",
)  # fmt: skip
_OF_PARQUET: Final = ("datetimeRebaseMode", "int96RebaseMode")
HONOURED: Final = {
    "text": (*OF_FILES, *_OF_LINES),
    "json": (*OF_FILES, *_OF_LINES, *_OF_TIMES, *_OF_JSON),
    "csv": (*OF_FILES, *_OF_LINES, *_OF_TIMES, *_OF_CSV),
    "parquet": (*OF_FILES, *_OF_PARQUET),
}


_ENDS_THE_QUERY: Final = ("unescapedquotehandling", "raise_error")


def unfit_option(option: str, value: str, encoding: str) -> str | None:
    """Return the advice about an ``option`` that does nothing with files of that ``encoding``, or None.

    An option that ends the stream at a single bad line gets advice, too.
    """
    if (option.lower(), value.lower()) == _ENDS_THE_QUERY:
        return "another value, because with this one a single bad line ends the stream"
    honoured = {name.lower(): name for name in HONOURED[encoding]}
    if option.lower() in honoured:
        return None
    close = difflib.get_close_matches(option.lower(), honoured, n=1)
    meant = f". Did you mean {honoured[close[0]]!r}?" if close else ""
    return f"Omit it, because it has no effect on {encoding} files (docs/stream-spec.md){meant}"
