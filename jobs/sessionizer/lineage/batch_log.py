"""Log of a lineage's batches, with their figures and the open sessions.

``batches.json`` has the newest batches one by one, the sum of all before, and of the first. It also has the newest
batch that brought rows to each table, which a driver compares with the tables at its start.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from sessionizer.core.key_group.group_load import NOTHING_OPEN, GroupLoad, OpenInGroup, OpenLoad, latest, sum_loads
from sessionizer.errors import DamagedFile
from sessionizer.home.json_record import JsonRecord, add_stamp, require_known_format
from sessionizer.home.record_file import read_json, write_json
from sessionizer.home.roots import ControlPath, uri_of


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchFacts(JsonRecord):
    """A batch: the rows ``read`` of the source, how they were sorted, the ``sessions`` that it emitted.

    ``open_before`` and ``open_after`` are upper bounds of open sessions. ``held_bytes`` is the size of open events.
    ``lag_ms`` is the distance of the newest events behind the clock, None without a watermark yet (``lag_behind``).
    """

    batch_id: int
    read: int
    admitted: int
    late: int
    quarantined: int
    sessions: int
    open_before: int
    open_after: int
    held_bytes: int
    lag_ms: int | None = None


def lag_behind(now_ms: int, watermark_ms: int | None, delay_ms: int) -> int | None:
    """Return the lag (ms) of the newest events, without the spec's delay, which a new lineage may change."""
    return None if watermark_ms is None else now_ms - watermark_ms - delay_ms


_SUMS: Final = ("read", "admitted", "late", "quarantined", "sessions")


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchFigures(JsonRecord):
    """Figures of consecutive batches: counts are sums, ``batches`` counts those that read something.

    ``open_before`` is of the first, ``open_after`` and ``held_bytes`` are of the last. Lags (ms) are of batches that
    read something: the first lag, the last, and the longest.
    """

    batches: int = 0
    read: int = 0
    admitted: int = 0
    late: int = 0
    quarantined: int = 0
    sessions: int = 0
    open_before: int | None = None
    open_after: int = 0
    held_bytes: int = 0
    first_lag_ms: int | None = None
    last_lag_ms: int | None = None
    most_lag_ms: int | None = None

    @classmethod
    def of(cls, batches: Iterable[BatchFacts]) -> Self:
        """Sum up ``batches``, the oldest first."""
        return cls().and_those_of(batches)

    def and_those_of(self, batches: Iterable[BatchFacts]) -> Self:
        """Add ``batches`` that followed."""
        found = self
        for batch in batches:
            lag = batch.lag_ms if batch.read else None
            lags = [known for known in (found.most_lag_ms, lag) if known is not None]
            sums = {name: getattr(found, name) + getattr(batch, name) for name in _SUMS}
            found = type(self)(
                **sums,
                batches=found.batches + bool(batch.read),
                open_before=batch.open_before if found.open_before is None else found.open_before,
                open_after=batch.open_after,
                held_bytes=batch.held_bytes,
                first_lag_ms=lag if found.first_lag_ms is None else found.first_lag_ms,
                last_lag_ms=found.last_lag_ms if lag is None else lag,
                most_lag_ms=max(lags, default=None),
            )
        return found

    @property
    def fewest_begun(self) -> int:
        """Lower bound of the sessions that began in these batches: without those perhaps open before."""
        return max(0, self.sessions - (self.open_before or 0))

    @property
    def most_begun(self) -> int:
        """Upper bound of the sessions that began in these batches: all emitted ones, and all that may be open."""
        return self.sessions + self.open_after


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenRecord(JsonRecord):
    """The open sessions by key group after a batch. ``unmerged``: events that came since each group merged."""

    batch_id: int | None = None
    groups: Mapping[int, OpenInGroup]
    unmerged: Mapping[int, int] = field(default_factory=dict)


class OpenSessions:
    """The open sessions per key group, kept for a restart. Those of groups that only appended are upper bounds."""

    def __init__(self, file: ControlPath) -> None:
        """Read the file, or begin empty if a power cut left no JSON in it. Raises DamagedFile."""
        kept = read_json(file) or {"groups": {}}
        require_known_format(file, kept)
        try:
            record = OpenRecord.from_json(kept)
        except ValueError as error:
            raise DamagedFile(uri_of(file), str(error)) from error
        self._file, self._batch_id = file, record.batch_id
        self._of_group, self._unmerged = dict(record.groups), dict(record.unmerged)

    @property
    def total(self) -> int:
        """Open sessions of all groups, at most."""
        return sum(open_in_group.sessions for open_in_group in self._of_group.values())

    @property
    def most(self) -> int:
        """Upper bound: a key that came several times since its group merged may have as many sessions."""
        return self.total + sum(self._unmerged.values())

    @property
    def latest_due_ms(self) -> int | None:
        """Watermark (epoch ms) at which the last open session is emitted, None if none ever is."""
        return latest(*(open_in_group.latest_due_ms for open_in_group in self._of_group.values()))

    @property
    def held_bytes(self) -> int:
        """Upper bound of the decoded size of all groups' open events, in bytes."""
        return sum(open_in_group.held_bytes for open_in_group in self._of_group.values())

    @property
    def load(self) -> OpenLoad:
        """Sizes and ages of the open sessions. A restart forgets those of keys until their groups merge again."""
        return sum_loads((each.held_bytes for each in self._of_group.values()), self.loads)

    @property
    def loads(self) -> Mapping[int, GroupLoad]:
        """The load of each group, of its last merge if it has only appended since."""
        return {group: open_in_group.load for group, open_in_group in self._of_group.items()}

    @property
    def heaviest(self) -> tuple[int | None, int | None]:
        """Group that holds the most, and its bytes."""
        held = {group: open_in_group.held_bytes for group, open_in_group in self._of_group.items()}
        group = max(held, key=held.__getitem__, default=None)
        return group, None if group is None else held[group]

    def learn(self, batch_id: int, open_in_groups: Iterable[tuple[int, OpenInGroup]]) -> None:
        """Take over the reports of groups in this batch. If the batch runs again, its additions count once."""
        of_group, unmerged = dict(self._of_group), dict(self._unmerged)
        for group, open_in_group in open_in_groups:
            if open_in_group.merged or batch_id != self._batch_id:
                of_group[group] = open_in_group.combine(of_group.get(group, NOTHING_OPEN))
                came = 0 if open_in_group.merged else open_in_group.admitted
                unmerged[group] = came and unmerged.get(group, 0) + came
        is_news = of_group != self._of_group or unmerged != self._unmerged or self._batch_id is None
        self._of_group = of_group  # with loads, which no file keeps
        if is_news:
            self._unmerged, self._batch_id = unmerged, batch_id
            told = {str(group): open_in_group.as_dict() for group, open_in_group in of_group.items()}
            events = {str(group): came for group, came in unmerged.items() if came}
            kept = {"batch_id": batch_id, "groups": told, "unmerged": events}
            write_json(self._file, add_stamp(kept), durable=False)


KEPT: Final = 20
_EARLIER, _BATCHES, _WRITTEN, _ACCEPTED, _FIRST = "earlier", "batches", "written", "accepted", "first"


class BatchLog:
    """Figures of batches: a command reads the usual ones from it, a restart the progress of a canary.

    ``added``: number of batches added since it was opened. ``first``: sum of the lineage's first batches, as many as
    are kept one by one. ``written``: the newest batch with rows for a table. ``accepted``: unknown lineages whose rows
    a user accepted.
    """

    def __init__(self, file: ControlPath) -> None:
        """Read the file, or begin empty if it cannot be read. Raises DamagedFile for a file of a newer release."""
        self._file, self.added = file, 0
        kept = read_json(file) or {}
        require_known_format(file, kept)
        try:
            self._earlier = BatchFigures.from_json(kept.get(_EARLIER, {}))
            self._batches = [BatchFacts.from_json(batch) for batch in kept.get(_BATCHES, [])]
            self.first = BatchFigures.from_json(kept.get(_FIRST, {}))
        except (AttributeError, TypeError, ValueError):  # figures only: no reason to keep a stream from going on
            self._earlier, self._batches, self.first = BatchFigures(), [], BatchFigures()
        written, accepted = kept.get(_WRITTEN), kept.get(_ACCEPTED)
        of_tables = written.items() if isinstance(written, dict) else ()
        self.written = {str(key): batch for key, batch in of_tables if type(batch) is int}
        self.accepted = frozenset(map(str, accepted)) if isinstance(accepted, list) else frozenset[str]()

    @property
    def life(self) -> BatchFigures:
        """Figures of every batch of the lineage."""
        return self._earlier.and_those_of(self._batches)

    @property
    def recent(self) -> BatchFigures:
        """Figures of the newest batches."""
        return BatchFigures.of(self._batches)

    @property
    def kept_batches(self) -> Mapping[int, BatchFacts]:
        """The newest batches, by number."""
        return {batch.batch_id: batch for batch in self._batches}

    @property
    def has_batches(self) -> bool:
        """Whether a batch of the lineage was noted."""
        return bool(self._batches or self.written)

    def add(self, facts: BatchFacts, tables: Collection[str] = ()) -> None:
        """Note a batch, which replaces its earlier facts if it runs again. Raises UnwritablePath, DiskFull."""
        batches = [batch for batch in self._batches if batch.batch_id < facts.batch_id]
        batches.append(facts)
        self._earlier = self._earlier.and_those_of(batches[:-KEPT])
        self._batches = batches[-KEPT:]
        self.added += 1
        if self._earlier == BatchFigures():
            self.first = BatchFigures.of(self._batches)
        self.note_rows(facts.batch_id, tables)

    def note_rows(self, batch_id: int, tables: Collection[str]) -> None:
        """Note that the batch brought rows to ``tables``. Raises UnwritablePath, DiskFull."""
        self.written = {**self.written, **dict.fromkeys(tables, batch_id)}
        self._write()

    def accept(self, tables: Collection[str], lineages: Collection[str]) -> None:
        """Forget which rows ``tables`` should have, and accept those of ``lineages``.

        Raises UnwritablePath, DiskFull.
        """
        self.written = {key: batch for key, batch in self.written.items() if key not in tables}
        self.accepted |= set(lineages)
        self._write()

    def _write(self) -> None:
        told: dict[str, Any] = {_EARLIER: self._earlier.to_json(), _FIRST: self.first.to_json()}
        told |= {_BATCHES: [batch.to_json() for batch in self._batches], _WRITTEN: dict(self.written)}
        if self.accepted:
            told[_ACCEPTED] = sorted(self.accepted)
        write_json(self._file, add_stamp(told), durable=False)


def table_key(folder: str | None, table: str) -> str:
    """Name ``table`` in ``folder`` (``sink.path`` as the spec has it), independent of where the home is mounted."""
    return table if folder is None else f"{folder}/{table}"
