"""Differences of one stream between two checkouts, for a pull request.

Nothing of a checkout is imported or run. What it does not tell is left out, and named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sessionizer.core.wire.rows import REVISION
from sessionizer.counts import count_text
from sessionizer.deployment.differences import (
    Difference,
    OpenState,
    Side,
    decided_differences,
    describe_differences,
    join_lines,
    refused,
)
from sessionizer.deployment.verdicts import judge_differences
from sessionizer.home.json_record import typed_digest
from sessionizer.home.names import quoted_command
from sessionizer.lineage.fingerprint import CHECKPOINT_FORMAT, PROGRAMS, RELEASE, Fingerprint, digest_of
from sessionizer.migrations.graph import revisions_before_head
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.effect import Verdict
from sessionizer.stream_spec.spec_folder import find_stream

SPECS: Final = "dags/streams"
PACKAGE: Final = "jobs/sessionizer"
LOCK: Final = "requirements.lock"
_VERSION: Final = re.compile(r"^(?:__version__|version) = \"([^\"]+)\"", re.MULTILINE)
_FORMAT: Final = re.compile(r"^CHECKPOINT_FORMAT: Final = (\d+)", re.MULTILINE)
_REVISION: Final = re.compile(r"^REVISION: Final = \"([^\"]+)\"", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the product's code, or with specs alone."""

    root: Path

    @property
    def specs(self) -> Path:
        """The folder of specs: the usual one, else the root itself."""
        usual = self.root / SPECS
        return usual if usual.is_dir() else self.root

    @property
    def has_code(self) -> bool:
        """Whether the product's code is in it."""
        return (self.root / PACKAGE).is_dir()

    def side(self, stream: str) -> Side:
        """Read the side of ``stream``. Raises UnknownStream, InvalidSpec, DuplicateStream."""
        spec = document_of(find_stream(self.specs, stream))
        if not self.has_code:
            return Side(spec, Fingerprint("", {}), CHECKPOINT_FORMAT, REVISION)
        package, versions = self.root / PACKAGE, dict[str, str | None]()
        for name, each in PROGRAMS.items():
            if each.package:
                line = re.compile(rf"^{re.escape(each.package)}==([\w.]+)", re.MULTILINE)
                versions[name] = _find(line, self.root / LOCK)
        versions[RELEASE] = _find(_VERSION, package / "__init__.py", self.root / "pyproject.toml")
        known = {name: version for name, version in versions.items() if version is not None}
        checkpoint_format = int(_find(_FORMAT, *(package / "lineage").glob("*.py")) or CHECKPOINT_FORMAT)
        revision = _find(_REVISION, *(package / "core" / "wire").glob("*.py")) or REVISION
        return Side(spec, Fingerprint(digest_of(package), known), checkpoint_format, revision)


def _find(pattern: re.Pattern[str], *files: Path) -> str | None:
    matches = (pattern.search(file.read_text(encoding="utf-8")) for file in files if file.is_file())
    return next((match[1] for match in matches if match is not None), None)


NOTHING: Final = 0
POSSIBLE: Final = 10
REFUSED: Final = 11
"""Exit codes of ``sessionizer diff``."""


@dataclass(frozen=True, slots=True)
class SpecDiff:
    """The differences of ``stream``, and what the comparison could not see (``unseen``)."""

    stream: str
    differences: tuple[Difference, ...]
    unseen: tuple[str, ...] = ()

    @classmethod
    def between(cls, stream: str, before: Side, now: Side, unseen: Sequence[str] = ()) -> SpecDiff:
        """Judge two sides without the stream's state: any session may be open."""
        pending, revisions = new_migrations(before.spec, now.spec), frozenset(revisions_before_head())
        found = judge_differences(before, now, OpenState(), pending=pending, revisions=revisions)
        return cls(stream, found, tuple(unseen))

    @classmethod
    def come_or_gone(
        cls, stream: str, before: Mapping[str, Any] | None, unseen: Sequence[str] = (), renamed: str | None = None
    ) -> SpecDiff:
        """Judge a stream of one checkout: that ``before`` unless None. ``renamed``: a new one with the same spec."""
        if before is None:
            reason = "it begins without an open session"
            found = Difference("name", "stream added", None, stream, Verdict.NONE, reason)
        elif renamed is not None:
            reason, remedy = "another name is another stream", "Keep the name, or drain the stream first"
            found = Difference("name", "stream renamed", stream, renamed, Verdict.INCOMPATIBLE, reason, remedy)
        else:
            reason = "open sessions come into no table, and no driver of it starts"
            remedy = f"To close them, first run {quoted_command('run', stream, '--until', 'drained')}"
            found = Difference("name", "stream removed", stream, None, Verdict.PARTIAL, reason, remedy)
        return cls(stream, (found,), tuple(unseen))

    @property
    def exit_code(self) -> int:
        """0 without a difference, 10 if it can be carried out, 11 if a difference is refused."""
        if refused(self.differences):
            return REFUSED
        return POSSIBLE if any(each.verdict is not Verdict.NONE for each in self.differences) else NOTHING

    @property
    def unaccepted(self) -> tuple[str, ...]:
        """Names of the differences that a user must accept."""
        return tuple(each.name for each in self.differences if each.must_be_accepted)

    @property
    def digest(self) -> str:
        """Digest of 16 hex digits, the same for the same differences."""
        return typed_digest({"stream": self.stream, "differences": decided_differences(self.differences)})

    def to_json(self) -> dict[str, Any]:
        """Return the differences for programs."""
        return {
            "stream": self.stream,
            "differences": [each.to_json() for each in self.differences],
            "unaccepted": list(self.unaccepted),
            "unseen": list(self.unseen),
            "exit_code": self.exit_code,
            "digest": self.digest,
        }

    def lines(self) -> Iterator[str]:
        """Return the differences as lines for a terminal."""
        if not self.differences:
            yield f"stream {self.stream}: no difference"
        else:
            yield f"stream {self.stream}: {count_text(len(self.differences), 'difference')}, digest {self.digest}"
        yield from (f"  {line}" for line in describe_differences(self.differences))
        if self.unseen:
            yield f"  not seen: {', '.join(self.unseen)}"

    def markdown(self) -> Iterator[str]:
        """Return the differences as lines of Markdown, for a comment on a pull request."""
        yield f"### Stream `{self.stream}`"
        yield ""
        if not self.differences:
            yield "No difference."
        else:
            yield f"{_SAID[self.exit_code]} Digest `{self.digest}`."
            yield ""
            yield "| verdict | difference | before | now | effect |"
            yield "|---|---|---|---|---|"
            yield from map(_row, self.differences)
        if self.unaccepted:
            names = (word for name in self.unaccepted for word in ("--accept", name))
            yield from ("", f"To be accepted by name: {quoted_command('upgrade', self.stream, *names)}")
        if self.unseen:
            yield from ("", f"Not seen: {', '.join(self.unseen)}.")


def new_migrations(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the migrations of ``now`` that ``before`` does not declare."""
    known = {each["id"] for each in before.get("migrations") or ()}
    return [each for each in now.get("migrations") or () if each["id"] not in known]


_SAID: Final = {
    NOTHING: "Nothing to carry out.",
    POSSIBLE: "Can be carried out by `sessionizer upgrade`.",
    REFUSED: "**Refused**: a difference is incompatible.",
}


def _row(each: Difference) -> str:
    effect = f"{each.reason}. {each.remedy}" if each.remedy else each.reason
    cells = (f"**{each.verdict}**", f"`{each.name}`: {each.kind}", _cell(each.before), _cell(each.now), effect)
    return " | ".join(("", *(cell.replace("|", r"\|") for cell in cells), "")).strip()


def _cell(value: object) -> str:
    return "" if value is None else f"`{join_lines(value).replace('`', '')}`"
