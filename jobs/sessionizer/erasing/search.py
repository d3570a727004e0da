"""Search for values, such as the keys of a user, in every file of folders, decoded and as it is.

An occurrence is a value as a whole token: no letter, digit or ``_`` stands before or after it. A letter that JSON or a
URL escapes counts as none. In bytes that are no text, its own length may stand before it, and then the next field may
follow at once. A value may be written as JSON, HTML or a URL writes it. Delta cuts texts in its statistics to 32
characters, so those of a longer value count, too. A value of digits is no number of a record, a log of Delta or a
column: there it is in quotes, or a text. A value below six bytes is looked for in texts and decoded columns only,
because other bytes have it by chance.

The time is linear in the bytes, whatever the number of values: the first or last eight bytes of each value are looked
up at all places of a piece at once, and only a hit is compared.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

import numpy as np
from numpy.typing import NDArray

from sessionizer.erasing.decoded import RAW, Numbers, Piece, decode_layers
from sessionizer.home.data_files import list_stored_sizes, read_data
from sessionizer.home.roots import DataPath, uri_of

IN_STATISTICS: Final = 32
"""Characters that Delta keeps of a text in the statistics of a file (``dataSkippingStringPrefixLength``)."""
_AFTER_CUT: Final = b'"\\\x7f\xf4\0'
"""What follows a text that Delta cut: the end of the text, or the letter that makes it the largest of its beginning."""
NAME: Final = "name"
_DELTA_LOG: Final = "/_delta_log/"
_QUOTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_EDGE: Final = 8
_FILTER_BITS: Final = 8
"""Logarithm of the places of the filter for each edge, so that one of some 300 others passes it."""
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_WORDS_AT_ONCE: Final = 2**19
_IN_TOKEN: Final = np.array([chr(byte).isalnum() or byte == ord("_") for byte in range(128)] + [False] * 128)
_LONGEST_LETTER: Final = 4
_SHORTEST_IN_BYTES: Final = 6
"""Bytes of the shortest value that is looked for in bytes that are no text: a shorter one is there by chance."""
_ESCAPED: Final = re.compile(rb"(?:\\(?:[bfnrt]|u[0-9a-fA-F]{4})|%[0-9a-fA-F]{2})\Z")
_LONGEST_ESCAPE: Final = 6


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Occurrences of the values in one layer of a file, or none. ``file`` is relative to ``root``, with slashes.

    ``decoded_by``: ``raw``, ``name`` for the name of the file, or the decoders in their order, such as ``zip > sst``.
    ``counts``: occurrences of each value that has any. ``unreadable``: why this layer was not read to its end.
    """

    root: str
    file: str
    decoded_by: str
    counts: Mapping[str, int] = field(default_factory=dict)
    unreadable: str | None = None


def search(roots: Sequence[DataPath], values: Sequence[str]) -> Iterator[Occurrences]:
    """Search every file below the ``roots``, also hidden ones, and yield each layer of each file, found or not.

    A file that vanishes meanwhile is unreadable, because it may have got another name. Links to folders are not
    followed, and unreadable. Raises ValueError for an empty value.
    """
    wanted = Wanted(values)
    for root in roots:
        for name, problem in _list_files(root):
            yield from _search_file(root, name, problem, wanted)


def _search_file(root: DataPath, name: str, problem: str | None, wanted: Wanted) -> Iterator[Occurrences]:
    place = uri_of(root)
    written = name.encode(errors="surrogateescape")
    if named := wanted.count(Piece(NAME, written, is_text=True, numbers=Numbers.NOWHERE)):
        yield Occurrences(place, name, NAME, named)
    if problem is None:
        try:
            content = read_data(root / name if name else root)
        except OSError as error:
            problem = str(error)
    if problem is not None:
        yield Occurrences(place, name, RAW, unreadable=problem)
        return
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    problems: dict[str, str] = {}
    for piece in decode_layers(content, (root / name).name if name else root.name):
        if _DELTA_LOG in f"{place}/{name}" and piece.numbers is not Numbers.NOWHERE:
            piece = replace(piece, numbers=Numbers.BETWEEN_QUOTES)  # noqa: PLW2901  the same piece
        counts[piece.way].update(wanted.count(piece))
        if piece.problem is not None:
            problems.setdefault(piece.way, piece.problem)
    for way, found in counts.items():
        yield Occurrences(place, name, way, dict(found), problems.get(way))


def _list_files(root: DataPath) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each file, empty for a root that is one, and why it cannot be read if that is known."""
    if not isinstance(root, Path):
        yield from ((name, None) for name, _ in list_stored_sizes(root))
        return
    if not root.is_dir():
        yield "", None
        return
    failed: list[OSError] = []
    for folder, folders, files in os.walk(root, onerror=failed.append):
        below = Path(folder).relative_to(root)
        yield from ((str(below / name), None) for name in files)
        links = (name for name in folders if Path(folder, name).is_symlink())
        yield from ((str(below / name), "it is a link to a folder, which is not followed") for name in links)
    for error in failed:
        yield str(Path(error.filename).relative_to(root)), str(error)


class _Edges:
    """First or last ``size`` bytes of forms, as ``numbers``. ``lengths``: of the forms that have an edge.

    ``is_possible``: whether there is an edge whose product with ``_SPREAD`` has these upper bits.
    """

    def __init__(self, size: int, lengths: Mapping[int, set[int]], *, is_first: bool) -> None:
        self.size, self.is_first = size, is_first
        self.lengths = {edge: sorted(each) for edge, each in lengths.items()}
        self.numbers = np.array(sorted(lengths), np.uint64)
        bits = len(lengths).bit_length() + _FILTER_BITS
        self.shift = np.uint64(64 - bits)
        self.is_possible = np.zeros(1 << bits, np.bool_)
        self.is_possible[(self.numbers * _SPREAD) >> self.shift] = True


class _Digits:
    """Numbers in a piece that may be a value, by their places."""

    def __init__(self, piece: Piece) -> None:
        self._content, self._numbers = piece.content, piece.numbers

    @cached_property
    def _texts(self) -> NDArray[np.int64]:
        """Places of the quotes around the texts of a record, in order."""
        spans = (each.span() for each in _QUOTED.finditer(self._content))
        return np.fromiter((place for span in spans for place in span), np.int64)

    def may_be_value(self, start: int, end: int) -> bool:
        if self._numbers is Numbers.IN_QUOTES:
            return bool(np.searchsorted(self._texts, start, side="right") % 2)
        if self._numbers is Numbers.BETWEEN_QUOTES:
            before, after = self._content[start - 1 : start], self._content[end : end + 2]
            return before == b'"' and after.startswith((b'"', b'\\"'))
        return self._numbers is Numbers.ANYWHERE


class Wanted:
    """Values to be found, in each form that they may be written in."""

    def __init__(self, values: Sequence[str]) -> None:
        if not all(values):
            raise ValueError("a value is empty, which every file holds")
        self._forms: dict[bytes, str] = {value.encode(): value for value in values}
        for value in values:
            for form in _written(value):
                self._forms.setdefault(form, value)
        self._cut = {form: value for value in values for form in _cut(value)}
        forms = (*self._forms, *self._cut)
        firsts, lasts = Counter(form[:_EDGE] for form in forms), Counter(form[-_EDGE:] for form in forms)
        lengths: defaultdict[tuple[int, bool], defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for form in forms:
            is_first = firsts[form[:_EDGE]] < lasts[form[-_EDGE:]]  # the rarer one: addresses of a host end alike
            edge = form[:_EDGE] if is_first else form[-_EDGE:]
            lengths[len(edge), is_first][int.from_bytes(edge, "little")].add(len(form))
        self._edges = [_Edges(size, found, is_first=is_first) for (size, is_first), found in lengths.items()]

    def count(self, piece: Piece) -> Counter[str]:
        """Count the occurrences of each value in a piece."""
        return Counter(value for _, value in self._find(piece))

    def cross_out(self, text: bytes, mark: bytes) -> bytes:
        """Return ``text``, in UTF-8, with ``mark`` in place of each occurrence."""
        left, end = list[bytes](), 0
        found = self._find(Piece(RAW, text, is_text=True))
        for start, back in sorted((start, -stop) for (start, _), stop in found.items()):  # the longest at each place
            if start >= end:
                left += [text[end:start], mark]
                end = -back
        return b"".join([*left, text[end:]])

    def _find(self, piece: Piece) -> dict[tuple[int, str], int]:
        """Return the end of each occurrence in a piece, by its start and value. A form may begin as another does."""
        found: dict[tuple[int, str], int] = {}
        content, digits = piece.content, _Digits(piece)
        padded = content + bytes(_EDGE)
        for edges in self._edges:
            for at in _places(padded, edges, is_text=piece.is_text):
                for length in edges.lengths[int.from_bytes(padded[at : at + edges.size], "little")]:
                    start = at if edges.is_first else at + edges.size - length
                    end = start + length
                    form = content[start:end] if start >= 0 else b""
                    if len(form) < _SHORTEST_IN_BYTES and not piece.is_text:
                        continue
                    if form.isdigit() and not digits.may_be_value(start, end):
                        continue
                    if form in self._cut and content[end : end + 1] in _AFTER_CUT:
                        found[start, self._cut[form]] = end
                    elif form in self._forms and _is_token(content, start, end, is_text=piece.is_text):
                        found[start, self._forms[form]] = end
        return found


def _written(value: str) -> Iterator[bytes]:
    """Yield the value as JSON, JSON within JSON, Python, HTML and URLs write it."""
    forms = []
    for is_ascii in (True, False):
        once = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        forms += [once, json.dumps(once, ensure_ascii=is_ascii)[1:-1]]
    shown, url = html.escape(value), quote(value, safe="")
    forms += [repr(value)[1:-1], shown, shown.replace("&#x27;", "&#39;"), html.escape(value, quote=False)]
    forms += [url, quote(value), quote_plus(value), quote(url, safe="")]
    yield from map(str.encode, forms)


def _cut(value: str) -> Iterator[bytes]:
    """Yield the beginning of a longer value in Delta's statistics, in JSON and in a column."""
    if len(value) > IN_STATISTICS:
        head = value[:IN_STATISTICS]
        yield from map(str.encode, (json.dumps(head)[:-1], json.dumps(head, ensure_ascii=False)[:-1], f"\0{head}"))


def _places(padded: bytes, edges: _Edges, *, is_text: bool) -> Iterator[int]:
    """Yield the places of the edges in ``padded``, whose last eight bytes are none of the content.

    Most places without a token around them are left out, so that short values do not cost a comparison each.
    """
    kept, each = np.uint64((1 << 8 * edges.size) - 1), np.frombuffer(padded, np.uint8)
    for shift in range(_EDGE):
        every = np.frombuffer(padded, "<u8", (len(padded) - shift) // _EDGE, shift)
        for first in range(0, len(every), _WORDS_AT_ONCE):
            words = every[first : first + _WORDS_AT_ONCE] & kept
            hits = np.flatnonzero(edges.is_possible[(words * _SPREAD) >> edges.shift])
            if not hits.size:
                continue
            hits = hits[np.isin(words[hits], edges.numbers)]
            places = (hits + first) * _EDGE + shift
            if edges.is_first:
                yield from places.tolist()
                continue
            is_whole = ~_IN_TOKEN[each[np.minimum(places + edges.size, len(each) - 1)]]
            if not is_text:
                is_whole |= (edges.size == _EDGE) | np.isin(each[places - 1], (0, edges.size, 2 * edges.size))
            yield from places[is_whole].tolist()


def _is_token(content: bytes, start: int, end: int, *, is_text: bool) -> bool:
    before = content[max(0, start - _LONGEST_LETTER) : start]
    if content[end - 1 : end] == b"\\" and _is_in_escape(content, start, end):
        return False
    after = content[end : end + _LONGEST_LETTER].decode(errors="replace")[:1]
    is_begun = not _is_of_token(before.decode(errors="replace")[-1:])
    is_begun = is_begun or _ESCAPED.search(content, max(0, start - _LONGEST_ESCAPE), start) is not None
    return (is_begun and not _is_of_token(after)) or (not is_text and before.endswith(_lengths(end - start)))


def _is_in_escape(content: bytes, start: int, end: int) -> bool:
    """Whether the last backslashes of an occurrence are the first half of escaped ones, and a letter follows those."""
    held = end - start - len(content[start:end].rstrip(b"\\"))
    rest = content[end : end + 4 * held + _LONGEST_LETTER]  # JSON within JSON has four of each
    after = rest.lstrip(b"\\")
    return len(rest) - len(after) >= held and _is_of_token(after.decode(errors="replace")[:1])


def _is_of_token(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _lengths(size: int) -> tuple[bytes, ...]:
    """Return a length as the formats of Java, Parquet, Thrift and Avro write it before a text.

    A quote is none, because bytes such as those of a tar hold JSON as well.
    """
    numbers = (size.to_bytes(4, "little"), size.to_bytes(4), size.to_bytes(2), _varint(size), _varint(2 * size))
    return tuple(number for number in numbers if number != b'"')


def _varint(number: int) -> bytes:
    parts = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes(part | 0x80 for part in parts[:-1]) + bytes(parts[-1:])
