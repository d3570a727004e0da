"""The command that erases people, with its plan: ``erase``.

A new lineage begins without their open events. Then their rows leave the tables and the old files of these, and what
is left of the state before is written anew or removed. Nothing of that can be undone.

A table may hold requests to erase people. A row asks for a value of the column ``key``, ``client`` or one of the
payload. Its other columns may be left out: ``stream`` (null: every stream), ``requested_at`` (timestamp; null: since
ever), and ``done`` (a map of the streams that have erased it, with the moments).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, ClassVar, Final

from sessionizer.control.execution import Step
from sessionizer.core.definition.erasure import KEY, PERSONAL
from sessionizer.counts import count_is, count_text
from sessionizer.errors import DamagedFile, InvalidSpec, LookupNotInstalled
from sessionizer.home.local_files import first_line
from sessionizer.home.names import PROOF, QUARANTINE
from sessionizer.state.commands.command import Command, Decision, Plan, option
from sessionizer.state.commands.steps import (
    Activate,
    NoteErasure,
    PointOfNoReturn,
    RemoveCheckpoints,
    Stop,
    new_lineage,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from sessionizer.control.records.erasure_record import ErasureRecord
    from sessionizer.core.wire.erased_keys import ErasedKeys
    from sessionizer.lineage.kept_spec import KeptTypes
    from sessionizer.stream_spec.document.stream import StreamSpec

STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True)
class ErasePlan(Decision):
    """A decision: ``stream`` leaves ``lineage`` after ``batch_id`` or a later one, without ``people`` of them.

    ``digest_of_people``: of all their digests. ``column``: what identifies them. ``for_good``: later events are
    dropped as well. ``redacts``: payload columns that become null in their events, which then stay. ``measures``: of
    these columns. ``open_events``, ``rows`` by table: theirs now. ``lineages``: whose checkpoints
    are removed. ``native``: savepoints that are removed. ``canonical``: those that are written anew.
    """

    covers: ClassVar = ("stream", "lineage", "people", "digest_of_people", "column", "for_good", "redacts")

    stream: str
    lineage: str
    batch_id: int
    people: int
    digest_of_people: str
    column: str
    for_good: bool
    redacts: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    open_events: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    lineages: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    canonical: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        if not self.people:
            yield f"stream {self.stream} has erased everyone who is asked for"
            return
        until = "for good" if self.for_good else "with all that happened until this is approved"
        verb = f"redacts {', '.join(self.redacts)} of" if self.redacts else "erases"
        yield f"stream {self.stream} {verb} {count_text(self.people, self.column)} {until}"
        yield f"  from  lineage {self.lineage}, after batch {self.batch_id}. Its checkpoint is removed, for good"
        without = f"{', '.join(self.redacts)} in " if self.redacts else ""
        yield f"  to    a new lineage without {without}{count_text(self.open_events, 'open event')}"
        for table, rows in self.rows.items():
            done = "redacted" if self.redacts and table != QUARANTINE else "deleted"
            done = "cleared of their samples" if table == PROOF else done
            yield f"  {table}: {count_is(rows, 'row')} {done}"
        if self.measures:
            yield f"        measures of finished sessions stay as they are: {', '.join(self.measures)}"
        elif self.column not in PERSONAL and not self.redacts:
            yield f"        a session is deleted as a whole, if one of its events has such a {self.column}"
        if not (self.open_events or any(self.rows.values())):
            yield "        nothing of them is found. Are these the values of the stream's key?"
        yield "        older versions of the tables are removed. No restore brings rows of these back"
        if self.lineages:
            yield f"  checkpoints of {count_text(len(self.lineages), 'earlier lineage')} removed: {_few(self.lineages)}"
        yield "        no rollback leads behind this"
        if self.native:
            yield f"  native savepoints removed: {_few(self.native)}"
        if self.canonical:
            yield f"  canonical savepoints written anew, if they hold events of them: {_few(self.canonical)}"
        yield "  not reached: the source, backups, copies and what other systems have read. Erase there as well"


@dataclass(frozen=True, kw_only=True)
class Erase(Command):
    """Show what an erasure of people would do. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "erase"
    purpose: ClassVar = "erase people from state, tables and savepoints"
    reads_spec: ClassVar[bool] = False
    writes_tables: ClassVar = True
    sweeps: ClassVar = True
    needed: ClassVar = ("keys",)
    when_impossible: ClassVar = "correct what the plan names, then {again}"

    keys: str | None = option(
        "--keys",
        "Keys",
        "file with a value in each line, Delta table with that column, or - for the standard input",
    )
    column: str = option(
        "--column", "Column", "column that has the values: `key`, `client`, or a text of the payload", default=KEY
    )
    redact: str | None = option(
        "--redact",
        "Redact",
        "payload columns, separated by commas, that become null in their events, which then stay",
    )
    folder: str | None = option(
        "--in",
        "Savepoints elsewhere",
        "further place with savepoints of the stream: a folder of them per stream",
        is_folder=True,
    )
    verify: bool = option(
        "--verify", None, "instead of a plan: decode every file of the stream, and count what is left", default=False
    )
    for_good: bool = option("--for-good", "For good", "drop their later events as well, for ever", default=False)
    wait_for_readers: int | None = option(
        "--wait-for-readers",
        "Wait for readers",
        "minutes in which readers of the change feed may read the deletions, before the old files go",
        min=1,
        max=180,
    )
    until: str | None = option(None, None, "moment in ISO 8601 up to which requests in a table count, None for now")

    @property
    def redacts(self) -> tuple[str, ...]:
        """The payload columns that are redacted, none for an erasure of whole events."""
        return tuple(sorted(filter(None, map(str.strip, (self.redact or "").split(",")))))

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the decisive change."""
        return (RemoveCheckpoints(),)

    def plan(self, decision: ErasePlan) -> Plan[ErasePlan]:
        """Decide what happens, in order."""
        return self.make_plan(
            decision,
            leaves=(decision.lineage, decision.batch_id),
            steps=(Stop(), *new_lineage(None), PointOfNoReturn(), NoteErasure(), Activate(), *self.last_steps),
            is_needed=decision.people > 0,
        )


def _few(names: tuple[str, ...], listed: int = 5) -> str:
    more = f" and {len(names) - listed} more" if len(names) > listed else ""
    return f"{', '.join(names[:listed])}{more}"


def require_column(column: str, spec: StreamSpec, kept: KeptTypes) -> None:
    """Raise InvalidSpec unless ``column`` is in all tables of the stream that are to be searched for it."""
    texts = [name for name in spec.mapping.payload if kept.payload.get(name) == ["string"]]
    if column in PERSONAL or (column in texts and spec.sink.keep_events):
        return
    if column in texts:
        raise InvalidSpec("--column", column, "key or client, because sink.keep_events is false and sessions lack it")
    raise InvalidSpec("--column", column, f"one of {', '.join((*PERSONAL, *texts))}")


def require_redactable(redacts: Sequence[str], column: str, spec: StreamSpec) -> tuple[str, ...]:
    """Return the measures that read a column of ``redacts``. Raises InvalidSpec unless all are other payload columns.

    Rules read columns of the source, of which an event keeps the results. So a redaction changes no session.
    """
    allowed = [name for name in spec.mapping.payload if name != column]
    for name in redacts:
        if name not in allowed:
            raise InvalidSpec("--redact", name, f"some of {', '.join(allowed)}")
    reads = re.compile(rf"\b({'|'.join(redacts)})\b")
    return tuple(name for name, sql in spec.measures.items() if redacts and reads.search(sql))


def require_people(values: Iterable[str | None], place: str) -> tuple[str, ...]:
    """Return the ``values`` that are given at ``place``, each once, in order. Raises InvalidSpec if there are none."""
    people = tuple(sorted({value for value in values if value}))
    if not people:
        raise InvalidSpec("--keys", place, "at least one value, each in a line of its own")
    return people


REQUESTS: Final = "SESSIONIZER_ERASE_REQUESTS"
"""Variable with the place of the table, an absolute path or a URI."""
STREAM: Final = "stream"
REQUESTED_AT: Final = "requested_at"
DONE: Final = "done"
OPTIONAL: Final = (STREAM, REQUESTED_AT, DONE)
_TYPES: Final = {STREAM: "string", REQUESTED_AT: "timestamp", DONE: "map"}


def count_requests(place: str, streams: Mapping[str, Collection[str]], until_ms: int) -> Iterator[tuple[str, str, int]]:
    """Yield each stream with people to erase, the column, and their number. ``streams``: their payload columns."""
    try:
        from deltalake import DeltaTable  # noqa: PLC0415  an extra
        from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415
    except ImportError as error:
        raise LookupNotInstalled from error
    try:
        dataset = DeltaTable(place).to_pyarrow_dataset()
        names = dataset.schema.names
        by = [each for each in PERSONAL if each in names]
        # beside a key, a column of the same name as one of the payload says something else of the request
        by = by or sorted(set[str]().union(*streams.values()).intersection(names) - {*OPTIONAL})
        if DONE not in names or not by or (len(by) > 1 and by[0] not in PERSONAL):
            column = f"{' or '.join(PERSONAL)}, or else one of a payload"
            raise InvalidSpec(REQUESTS, place, f"a Delta table with the columns {DONE} and {column}")
        rows = dataset.to_table(columns=[*by, *(each for each in OPTIONAL if each in names)])
    except TableNotFoundError as error:
        raise InvalidSpec(REQUESTS, place, "the place of a Delta table") from error
    except DeltaError as error:
        raise DamagedFile(place, first_line(error)[:300]) from error
    for stream, payload in streams.items():
        for column in by:
            people = find_requests(rows, column, stream, until_ms) if column in (*PERSONAL, *payload) else ()
            if people:
                yield stream, column, len(people)
                break  # the others are due as soon as these are done


def find_requests(rows: pa.Table, column: str, stream: str, until_ms: int, *, are_done: bool = False) -> dict[str, int]:
    """Return the values that ``stream`` has not erased, each with its newest request (epoch ms) up to ``until_ms``.

    ``are_done``: those that it has erased. ``rows``: ``column`` and those columns of ``OPTIONAL`` that the table has.
    Raises InvalidSpec for a column of another type.
    """
    for name, wanted in _TYPES.items():
        kind = str(rows.schema.field(name).type) if name in rows.column_names else wanted
        if not kind.removeprefix("large_").startswith(wanted):
            raise InvalidSpec(f"the column {name} of the requests", kind, f"a {wanted}")
    found = dict[str, int]()
    for row in rows.to_pylist():
        value, moment = row[column], row.get(REQUESTED_AT)
        at = 0 if moment is None else int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        is_asked = value not in {None, ""} and row.get(STREAM) in {None, stream} and at <= until_ms
        if is_asked and (stream in dict(row.get(DONE) or ())) is are_done:
            found[str(value)] = max(at, found.get(str(value), 0))
    return found


def find_done(
    requests: Mapping[str, int], ledger: Iterable[ErasureRecord], erased: ErasedKeys, column: str
) -> Iterator[tuple[ErasureRecord, list[str]]]:
    """Yield each finished erasure of the ``ledger`` with the values that it erased after they were requested."""
    for record in ledger:
        if record.swept_at is not None and record.column == column and not record.redacts:
            erasure = record.erasure
            done = [value for value, at in requests.items() if at <= record.until and erased.has(erasure, value)]
            if done:
                yield record, done
