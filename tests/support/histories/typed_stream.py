"""A stream of files whose every line is known: each file has one session of each user and one line that is no event.

Files lie 100 seconds apart, so the next file ends the sessions of this one whatever gap the spec has below that.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sessionizer.control.records.erasure_record import SECRET, read_erased
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.lineages.origin import ORIGIN_FILE
from support.expected.landed import table_rows
from support.places import known, opened
from support.streams.stage import Stage

TYPED_SECRET: Final = "a secret of the typed user"  # noqa: S105  of a test
USERS: Final = 3
EVENTS: Final = 2
"""Of each session."""
SPEC: Final[dict[str, Any]] = {
    "source": {
        "format": "files",
        "path": "feed",
        "encoding": "json",
        "columns": "u string, ts bigint, id string",
        "options": {"maxFilesPerTrigger": 1},
    },
    "mapping": {"key": "u", "event_time": "timestamp_millis(ts)", "event_id": "id"},
    "rules": {"watermark_delay": "10 seconds", "gap_timeout": "60 seconds", "emit_every": None, "idle_after": None},
    "key_groups": 2,
    "trigger_interval": "100 milliseconds",
}


def write_session_file(folder: Path, number: int) -> str:
    part, name = folder / f".{number}", f"f{number:03}.json"
    part.write_text("".join([*(_line(number, n) for n in range(USERS * EVENTS)), f"no event {number}\n"]))
    os.utime(part, (1.75e9 + number,) * 2)
    part.rename(folder / name)
    return name


def lines_of_file(number: int) -> list[str]:
    return [*(f"{number}-{n}" for n in range(USERS * EVENTS)), f"no event {number}"]


def user_of(line: str) -> str | None:
    """The user of a line as ``lines_of_file`` names it, None for one that is no event."""
    _, dash, number = line.partition("-")
    return f"u{int(number) % USERS}" if dash else None


def _line(file: int, number: int) -> str:
    at = 1_790_000_000_000 + file * 100_000 + number * 200
    return json.dumps({"u": f"u{number % USERS}", "ts": at, "id": f"{file}-{number}"}) + "\n"


@dataclass(frozen=True, slots=True)
class Source:
    """The ``folder`` of a lineage, and files of other folders that its path ``read`` and ``excluded`` before."""

    folder: str
    read: frozenset[int] = frozenset()
    excluded: frozenset[int] = frozenset()


@dataclass(slots=True)
class TypedStream:
    """A stream whose file is ``document``. ``folder_of``: the number of each file, by the folder that it is in.

    ``sources``: of each lineage, what its path reads.
    """

    stage: Stage
    document: dict[str, Any]
    files: int = 0
    folder_of: dict[int, str] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)

    @classmethod
    def at(cls, root: Path) -> TypedStream:
        return cls(Stage.set_up(root, SPEC), {**SPEC})

    @property
    def home(self) -> StreamHome:
        return self.stage.stream_home

    @property
    def folder(self) -> str:
        """The folder that it reads: of the active lineage, else of the file."""
        lineage = self.stage.lineage
        return _folder_of(self.home, lineage) if lineage else str(self.document["source"]["path"])

    def bring(self, count: int) -> None:
        folder = self.folder
        for number in range(self.files, self.files + count):
            write_session_file(self.stage.home / folder, number)
            self.folder_of[number] = folder
        self.files += count

    def edit(self, **changes: Any) -> None:
        self.document = {**self.document, **changes}
        self.stage.write_spec(self.document)

    def break_file(self) -> None:
        """Save the file half-way."""
        (self.stage.streams / f"{self.stage.name}.yaml").write_text("name: clicks\nsource: [\n")

    def mend_file(self) -> None:
        self.stage.write_spec(self.document)

    def kept_document(self) -> dict[str, Any]:
        """The spec that the active lineage runs by."""
        return known(SPEC_FILE.of(self.home, known(self.stage.lineage)).require()).document

    @property
    def erased(self) -> set[str]:
        """The users who are in the ledger."""
        ledger = read_erased(self.home, {SECRET: TYPED_SECRET})
        return {user for user in map("u{}".format, range(USERS)) if ledger.names("key", user)}

    def note_source(self) -> None:
        active = self.stage.lineage
        if active is None or active in self.sources:
            return
        folder, origin = _folder_of(self.home, active), ORIGIN_FILE.of(self.home, active).require()
        parent = origin.parent if origin is not None else None
        if origin is None or parent is None or origin.verb == Seed.name:  # it reads its source from the beginning
            self.sources[active] = Source(folder)
            return
        before = self.sources[parent]
        if folder != before.folder:
            before = Source(folder, self._files_of(parent), self._excluded_of(parent))
        self.sources[active] = before

    def _files_of(self, lineage: str) -> frozenset[int]:
        source = self.sources[lineage]
        return source.read.union(number for number, place in self.folder_of.items() if place == source.folder)

    def _excluded_of(self, lineage: str) -> frozenset[int]:
        source, ranges, feed = self.sources[lineage], read_excluded_ranges(self.home, lineage), self.stage.home
        places = {number: f"file:{feed / place}/f{number:03}.json" for number, place in self.folder_of.items()}
        return source.excluded.union(number for number, place in places.items() if ranges.holds(place))

    def require_none_doubled(self) -> None:
        doubled = [line for line, count in self._lines().items() if count > 1]
        assert not doubled, f"in the tables more than once: {doubled}"

    def require_exact(self) -> None:
        """Assert that each line of the files is in the tables once, and each session once and whole.

        A file that the lineage excludes is in quarantine, line by line.
        """
        lineage = str(self.stage.lineage)
        read, excluded = self._files_of(lineage), self._excluded_of(lineage)
        gone = self.erased
        wanted = Counter(line for number in read for line in lines_of_file(number) if user_of(line) not in gone)
        found = self._lines()
        assert found == wanted, f"missing: {wanted - found}, too many: {found - wanted}"
        sessions = Counter((row["key"], _file_of(row), len(row["events"])) for row in self._rows("sessions"))
        kept = read - excluded
        left = {f"u{user}" for user in range(USERS)} - gone
        assert sessions == Counter((user, number, EVENTS) for number in kept for user in left)
        excluded_lines = {_line_of(row["raw"]) for row in self._rows("quarantine") if row["reason"] == "excluded"}
        lines = {line for number in excluded for line in lines_of_file(number)}
        assert excluded_lines == {line for line in lines if user_of(line) not in gone}
        assert not self._rows("late_events"), "no event came late"

    def _lines(self) -> Counter[str]:
        events = [event["event_id"] for row in self._rows("sessions") for event in row["events"]]
        late = [row["event_id"] for row in self._rows("late_events")]
        refused = [row for row in self._rows("quarantine") if row["reason"] != "erased"]
        return Counter([*events, *late, *(_line_of(row["raw"]) for row in refused)])

    def _rows(self, name: str) -> list[dict[str, Any]]:
        place = self.stage.table(name)
        return table_rows(place) if opened(place).exists() else []


def _folder_of(home: StreamHome, lineage: str) -> str:
    return str(known(SPEC_FILE.of(home, lineage).require()).document["source"]["path"])


def _file_of(session: dict[str, Any]) -> int:
    return int(session["events"][0]["event_id"].partition("-")[0])


def _line_of(raw: str) -> str:
    return str(json.loads(raw)["id"]) if raw.startswith("{") else raw.strip()
