"""Plan of an upgrade or an apply, and its making from the records of a lineage and this installation, without Spark."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sessionizer.checkpoint.log_entries import read_pinned_settings
from sessionizer.control.execution import DigestOfDecided
from sessionizer.control.records.supervision_records import bundle_of_watch
from sessionizer.core.definition.rules import Clock
from sessionizer.core.wire.rows import REVISION
from sessionizer.counts import count_text
from sessionizer.deployment.differences import (
    Difference,
    OpenState,
    Side,
    SinkColumns,
    count_verdicts,
    decided_differences,
    describe_differences,
    describe_hindrance,
    refusal_of,
    refused,
    unaccepted,
)
from sessionizer.deployment.releases import ReleaseChoice, describe_programs, release_of
from sessionizer.deployment.verdicts import judge_differences
from sessionizer.errors import DamagedFile, InvalidSpec, NotAccepted, StoreUnreachable
from sessionizer.home.control_store import Store, cached_read
from sessionizer.home.data_files import list_names, read_data_text
from sessionizer.home.names import SESSIONS
from sessionizer.home.roots import DataPath, folder_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.canary.judge import USUAL, CanaryTerms, digest_terms
from sessionizer.lineage.fingerprint import (
    CHECKPOINT_FILE,
    CHECKPOINT_FORMAT,
    ENGINE,
    present_fingerprint,
    read_fingerprint,
)
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, keep_rescale, waiting_migrations
from sessionizer.migrations.declared import describe_migration, migration_digest
from sessionizer.migrations.graph import revisions_before_head
from sessionizer.stream_spec.decisions import Document, check_sql, document_of, spec_fingerprint
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.source import SOURCES, SourceSection
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import Verdict

UPGRADE: Final = "upgrade"
APPLY: Final = "apply"


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """Request of a user. ``verb``: ``apply`` is for the spec alone. ``accepted``: differences, by name.

    ``anew``: a new lineage is wanted, whatever changes. ``canary``: the canary of a new lineage, None for no canary.
    ``prove``: it is done only if a replay explains every row. ``stateless``: open sessions are left behind.
    ``key_groups`` and ``partitions`` divide the state anew. None leaves the first to the spec, and the other as it is.
    ``replay``: a new lineage begins from a savepoint that is made while the stream runs.
    """

    verb: str = UPGRADE
    accepted: tuple[str, ...] = ()
    anew: bool = False
    canary: CanaryTerms | None = USUAL
    prove: bool = False
    stateless: bool = False
    key_groups: int | None = None
    partitions: int | None = None
    replay: bool = False


@dataclass(frozen=True, slots=True)
class UpgradePlan(DigestOfDecided):
    """Plan that ``stream`` goes on by a spec of ``fingerprint`` and by the programs that are installed here.

    It goes on after ``batch_id`` of ``lineage`` or a later batch. ``migrations``: those that open events get, in words.
    ``ran_by``: versions of the lineage, which a rollback needs, and ``way_back`` where they are. ``open_sessions``:
    about so many, None if unseen. ``bundle``: DAG bundle of the lineage's newest driver, and that of the watch now.
    ``steps``: what each step of the command does, by its name, in order, for readers. The command fills them in.
    """

    stream: str
    lineage: str
    batch_id: int
    fingerprint: str
    differences: tuple[Difference, ...]
    request: UpgradeRequest = field(default_factory=UpgradeRequest)
    migrations: tuple[str, ...] = ()
    ran_by: str = ""
    way_back: ReleaseChoice = field(default_factory=ReleaseChoice)
    open_sessions: int | None = None
    bundle: tuple[str | None, str | None] = (None, None)
    steps: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to do. A difference without effect is not written anywhere."""
        return self.request.stateless or any(each.verdict is not Verdict.NONE for each in self.differences)

    @property
    def anew(self) -> bool:
        """Whether it goes on in a new lineage.

        A line of the engine that was never tested does, because then the old lineage stays for the old line.
        """
        other_engine = any(each.name in ENGINE and each.verdict is Verdict.UNKNOWN for each in self.differences)
        migrates = any(each.verdict is Verdict.MIGRATE for each in self.differences)
        return self.request.anew or self.request.stateless or migrates or other_engine

    @property
    def replays(self) -> bool:
        """Whether the new lineage begins from a savepoint that is made while the stream runs."""
        return self.anew and self.request.replay

    @property
    def refused(self) -> tuple[Difference, ...]:
        """The differences that no command can take as they are."""
        return refused(self.differences)

    @property
    def unaccepted(self) -> tuple[Difference, ...]:
        """The differences that a user must accept by name and has not."""
        return unaccepted(self.differences, self.request.accepted)

    @property
    def is_possible(self) -> bool:
        """Whether it can be carried out."""
        return self.changes_something and not self.refused and not self.unaccepted

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers: no counts, because the stream runs on, and each verdict is judged again."""
        on_canary = digest_terms(self.request.canary) if self.anew else {}
        asked = {"prove": self.request.prove, "stateless": self.request.stateless, "replay": self.replays}
        return {
            "verb": self.request.verb,
            "stream": self.stream,
            "lineage": self.lineage,
            "fingerprint": self.fingerprint,
            "differences": decided_differences(self.differences),
            "accepted": sorted(self.request.accepted),
            "anew": self.request.anew,
            **on_canary,
            **({"migrations": self.migrations} if self.migrations else {}),
            **{name: True for name, is_asked in asked.items() if is_asked},
        }

    @property
    def refusal(self) -> InvalidSpec | NotAccepted | None:
        """Error of the first refused difference, else of those that lack a user's consent. None if there is none."""
        return refusal_of(self.stream, self.request.verb, self.differences, self.request.accepted)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "stream": self.stream,
            "lineage": self.lineage,
            "batch_id": self.batch_id,
            "open_sessions": self.open_sessions,
            "differences": [each.to_json() for each in self.differences],
            "accepted": list(self.request.accepted),
            "unaccepted": [each.name for each in self.unaccepted],
            "anew": self.anew,
            "stateless": self.request.stateless,
            "migrations": list(self.migrations),
            "steps": list(self.steps),
            "rollback": self.rollback,
            "bundle": dict(zip(("before", "now"), self.bundle, strict=True)),
            "needed": self.changes_something,
            "possible": self.is_possible,
            "digest": self.digest,
        }

    @property
    def rollback(self) -> str:
        """Say what a rollback can do afterwards."""
        if self.anew:
            by = f", which ran by {self.ran_by}" if self.ran_by else ""
            back = f"`sessionizer rollback {self.stream}` leads back to lineage {self.lineage}{by}"
            return f"{back}{self.way_back.place}"
        return f"no rollback undoes it. {self._restore} leads back to the savepoint that is made first"

    @property
    def _restore(self) -> str:
        return f"`sessionizer restore {self.stream} SAVEPOINT`"

    def lines(self) -> Iterator[str]:
        """Return the plan as lines for users."""
        if not self.changes_something:
            settled = f"stream {self.stream} already runs with its file and the installed release"
            yield f"{settled}: nothing to {self.request.verb}"
            return
        counts = count_verdicts(self.differences)
        yield f"stream {self.stream}, lineage {self.lineage}, after batch {self.batch_id} or later: {counts}"
        yield from (f"  {line}" for line in describe_differences(self.differences))
        if any(self.bundle):
            yield f"  DAG bundle: {' → '.join(dict.fromkeys(each or 'unknown' for each in self.bundle))}"
        if not self.is_possible:
            yield f"  {describe_hindrance(self.differences, self.request.accepted)}"
            return
        yield from (f"  migration {each}" for each in self.migrations)
        said = filter(None, self.steps.values())
        yield from (f"  {number}. {says}" for number, says in enumerate(said, start=1))
        yield from self._effects()
        yield f"  {self.rollback}"

    def _effects(self) -> Iterator[str]:
        if self.request.stateless:
            yield f"  LOST: {self._left_behind}. Their events are read already, and come into no table"
            yield "  sessions that are over by the rules before are written"
            yield f"  the savepoint that is made first keeps them: {self._restore} leads back to it"
            return
        if self.replays:
            yield "  events that it reads after the savepoint are read again, and their rows are written again"
        elif not self.migrations:
            yield "  no row of a table is changed. No session is closed by it, and no event is read twice"
        else:
            yield "  no row of a table is changed, and no event is read twice"
        if self.migrations:
            yield "  sessions that are over by the rules before are written"
            yield "  open events that a migration excludes leave the state"
            yield f"  to count both: `sessionizer migration check {self.stream} --deep`"

    @property
    def _left_behind(self) -> str:
        if self.open_sessions is None:
            return "all open sessions (not counted here)"
        return f"about {count_text(self.open_sessions, 'open session')}" if self.open_sessions else "no open session"


_CHECKSUM: Final = re.compile(r"\d{20}\.crc")


def running_side(home: StreamHome, lineage: str) -> Side:
    """Read what ``lineage`` runs by. Raises DamagedFile if a record is lost or damaged."""
    files = home.lineage(lineage)
    spec = SPEC_FILE.of(home, lineage).require()
    record = CHECKPOINT_FILE.of(home, lineage).require()
    if spec is None or record is None:
        raise DamagedFile(files.records, "it lacks spec.json or checkpoint.json")
    kept = read_fingerprint(home, lineage)
    if not kept.configuration:
        kept = replace(kept, configuration=read_pinned_settings(files.checkpoint))
    return Side(spec.document, kept, record.checkpoint_format, record.revision)


def present_side(spec: StreamSpec, before: Side) -> Side:
    """Return what a stream would run by: the file's ``spec``, and the programs here, instead of those ``before``."""
    return Side(document_of(spec), present_fingerprint(known=before.fingerprint), CHECKPOINT_FORMAT, REVISION)


def open_state(home: StreamHome, lineage: str) -> OpenState:
    """Read about how many sessions are open, and the types that their columns may have. Raises DamagedFile.

    The number is 0 only if none is open.
    """
    file = home.lineage(lineage).open_sessions
    learned = OpenSessions(file) if Store(file).exists() else None
    count = None if learned is None else learned.total or learned.most
    return replace(uncounted_state(home, lineage), sessions=count)


def uncounted_state(home: StreamHome, lineage: str) -> OpenState:
    """Read the types that the columns of open sessions may have. Raises DamagedFile."""
    types = TYPES_FILE.of(home, lineage).require()
    return OpenState(types=types.payload if types is not None else {})


def sink_columns(home: StreamHome, spec: StreamSpec) -> SinkColumns:
    """Read the columns of the table of sessions that ``spec`` writes to, as far as its log tells at a glance."""
    table = folder_at(home.table_locations(spec.sink.path)[SESSIONS])
    return cached_read(table, "columns", lambda: _read_columns(table / "_delta_log"))


def _read_columns(log: DataPath) -> SinkColumns:
    try:
        newest = max(filter(_CHECKSUM.fullmatch, list_names(log)), default=None)
        if newest is None:
            return SinkColumns()
        metadata: dict[str, Any] = json.loads(read_data_text(log / newest))["metadata"]
        return SinkColumns.of(json.loads(metadata["schemaString"]), metadata.get("configuration") or {})
    # Spark asks the table before the plan is carried out
    except (OSError, StoreUnreachable, ValueError, KeyError, TypeError):
        return SinkColumns()


def plan_upgrade(
    home: StreamHome,
    at: tuple[str, int],
    spec: StreamSpec,
    request: UpgradeRequest,
    same_to_spark: frozenset[str] = frozenset(),
) -> UpgradePlan:
    """Make the plan. ``at``: the lineage and its newest committed batch.

    ``same_to_spark``: fields whose SQL is written otherwise and means the same, as Spark found.

    Raises DamagedFile, InvalidSpec for SQL that no driver would run or a replay that would not give the same, and
    MigrationRefused for a declared migration that cannot be applied.
    """
    lineage, batch_id = at
    spec = choose_groups(keep_rescale(home, lineage, spec), request.key_groups)
    pending = waiting_migrations(home, lineage, spec)
    before = running_side(home, lineage)
    if request.replay:
        _require_replayable(before.spec)
    now = present_side(spec, before)
    if request.verb != UPGRADE:
        now = replace(before, spec=now.spec)
    state = open_state(home, lineage)
    judged = OpenState(sessions=0) if request.stateless else state
    differences = judge_file(home, (before, now.divide(request.partitions)), spec, judged, pending, same_to_spark)
    return UpgradePlan(
        stream=home.name,
        lineage=lineage,
        batch_id=batch_id,
        fingerprint=spec_fingerprint(spec),
        differences=differences,
        request=request,
        migrations=describe_pending(pending),
        ran_by=describe_programs(before.fingerprint.versions),
        way_back=release_of(home, lineage, now.fingerprint.versions),
        open_sessions=state.sessions,
        bundle=(before.fingerprint.bundle, bundle_of_watch(home)),
    )


def _require_replayable(running: Document) -> None:
    """Raise InvalidSpec for a stream whose events cannot be read again, or would get other times."""
    source, mode = running["source"]["format"], running["rules"]["time_mode"]
    if not SOURCES.get(source, SourceSection).keeps_events:
        raise InvalidSpec("--replay", "given", f"Omit it, because a {source} keeps no events")
    if mode not in (clock for clock in Clock if clock.has_watermark):
        raise InvalidSpec("--replay", "given", f"Omit it, because time_mode {mode} goes by when events are read")


def choose_groups(spec: StreamSpec, key_groups: int | None) -> StreamSpec:
    """Return ``spec`` with so many key groups. None leaves their number."""
    return spec if key_groups is None else spec.model_copy(update={"key_groups": key_groups})


def judge_file(
    home: StreamHome,
    sides: tuple[Side, Side],
    spec: StreamSpec,
    state: OpenState,
    pending: Sequence[Migration],
    same_to_spark: frozenset[str] = frozenset(),
) -> tuple[Difference, ...]:
    """Judge the differences between two sides, of which the second is by ``spec``.

    ``pending``: its migrations that the state has not had. ``same_to_spark``: fields whose SQL is written otherwise and
    means the same, as Spark found. Raises InvalidSpec for SQL that no driver would run.
    """
    check_sql(spec)
    differences = judge_differences(
        *sides,
        state,
        tables=sink_columns(home, spec),
        pending=[each.model_dump(mode="json") for each in pending],
        revisions=frozenset(revisions_before_head()),
    )
    same = "Spark makes the same of both texts"
    return tuple(
        replace(each, verdict=Verdict.IN_PLACE, kind="written otherwise", reason=same, remedy="")
        if each.name in same_to_spark and each.verdict is Verdict.PARTIAL
        else each
        for each in differences
    )


def describe_pending(pending: Sequence[Migration]) -> tuple[str, ...]:
    """Describe migrations that open events get, each with the digest of its text."""
    return tuple(f"{each.id} ({migration_digest(each)}): {describe_migration(each)}" for each in pending)


def find_differences(home: StreamHome, lineage: str, spec: StreamSpec) -> tuple[Difference, ...]:
    """Find how ``lineage`` differs from ``spec`` and the programs here, without open sessions and tables.

    A plan has the same differences. Those with an effect in it have one here, and may be judged more gravely.

    Raises DamagedFile, and MigrationRefused for a declared migration that cannot be applied.
    """
    before, spec = running_side(home, lineage), keep_rescale(home, lineage, spec)
    return judge_differences(
        before,
        present_side(spec, before),
        uncounted_state(home, lineage),
        pending=[each.model_dump(mode="json") for each in waiting_migrations(home, lineage, spec)],
        revisions=frozenset(revisions_before_head()),
    )


def require_no_loss(home: StreamHome, lineage: str, spec: StreamSpec) -> None:
    """Raise NotAccepted if open sessions would lack something when a driver simply starts by ``spec``."""
    plan = plan_upgrade(home, (lineage, 0), spec, UpgradeRequest(APPLY))
    if plan.unaccepted:
        raise NotAccepted(home.name, UPGRADE, tuple(each.name for each in plan.unaccepted))
