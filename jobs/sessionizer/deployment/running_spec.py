"""The spec that a driver runs by: its lineage's, until a user has the file's applied (docs/adr/0055)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sessionizer.control.records.supervision_records import Desired, DesiredState, examine_desired
from sessionizer.deployment.upgrade_plan import require_no_loss
from sessionizer.errors import ChangeRefused, InvalidSpec, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE, LineageSpec, write_lineage_spec
from sessionizer.stream_spec.decisions import (
    KEY_GROUPS,
    Change,
    Decisions,
    changes_between,
    decisions_of,
    document_of,
    field_at,
    list_decisions,
    spec_fingerprint,
)
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import SpecFile, find_stream, parse_recorded_spec


def require_continuable(stream: str, changes: Iterable[Change]) -> None:
    """Raise ChangeRefused for a change that no begun lineage can take, because its checkpoint has the old value."""
    for change in changes:
        command, known = command_for(stream, change), field_at(change.field)
        if command is not None and known is not None and known.effect.refused is not None:
            why = known.effect.refused.format(before=change.before)
            shown = [each["id"] for each in change.now] if isinstance(change.now, list) else change.now
            raise ChangeRefused(change.field, shown, f"Run `sessionizer {command}`{why}", command)


def command_for(stream: str, change: Change) -> str | None:
    """Return the command that carries ``change`` out, as typed behind ``sessionizer``. None if a start is enough."""
    known = field_at(change.field)
    found = None if known is None else known.effect.command_for(change)
    return None if found is None else found.format(stream=stream)


def require_whole(changes: Iterable[Change], half_written: int | None) -> None:
    """Raise InvalidSpec for a change to the rows of batch ``half_written``. None: there is no such batch."""
    for change in () if half_written is None else changes:
        known = field_at(change.field)
        if known is None or known.effect.changes_begun_batch(change):
            until = f"until a driver with it has finished batch {half_written}"
            allowed = f"{change.before!r} {until}, because the tables have rows of it already"
            raise InvalidSpec(change.field, change.now, allowed)


EDITED_AGAIN: Final = "the file was changed once more after that was approved: approve it again"


@dataclass(frozen=True, slots=True)
class RunningSpec:
    """The ``spec`` that a driver runs by, as chosen when the desired state of ``desired_at`` (epoch ms) held.

    ``before``: the spec that the lineage ran by so far, None if it is unknown. ``applied``: the changes of this start.
    ``pending``: the changes in the file that wait for a user. ``remark``: a further line for the user.
    """

    spec: StreamSpec
    record: LineageSpec
    desired_at: int
    before: Decisions | None = None
    applied: tuple[Change, ...] = ()
    pending: tuple[Change, ...] = ()
    remark: str | None = None

    @property
    def is_news(self) -> bool:
        """Whether it must be recorded for the lineage."""
        return self.record.since == 0 or bool(self.applied)

    def new_record(self) -> LineageSpec:
        """Make the record of a lineage that begins to run by it. It uses up the approvals until the choice.

        A later approval is the next driver's, because this one may have chosen half a minute ago.
        """
        return LineageSpec(document_of(self.spec), epoch_ms(), self.desired_at).follow(self.record)

    def lines(self) -> list[str]:
        """Describe the changes and the remark, a line for each. There is none if the stream runs by its file."""
        said = [f"spec applied: {change}" for change in self.applied]
        if self.pending:
            said += [pending_line(self.spec.name, self.pending), *(f"not applied: {change}" for change in self.pending)]
        return [*said, *([self.remark] if self.remark else [])]


def choose_spec(home: StreamHome, file: SpecFile, *, apply: bool) -> RunningSpec:
    """Return the spec for a driver that starts now. ``apply``: a user wants the file's.

    Raises DamagedFile, and the error of the file if there is no other spec to run by.
    """
    desired, (record, recorded) = examine_desired(home).value or Desired(DesiredState.RUNNING), _recorded(home)
    if record is None or recorded is None:
        spec = file.required()
        return RunningSpec(spec, LineageSpec(document_of(spec)), desired.at)
    before = list_decisions(record.document)
    if file.spec is None:
        if apply:
            file.required()
        broken = f"runs with its recorded spec, because its file is broken: {file.problem}"
        return RunningSpec(recorded(), record, desired.at, before, remark=broken)
    spec = record.keep_rescale(file.spec)
    changes = changes_between(before, decisions_of(spec))
    approved = desired.approved if desired.at != record.desired_at else None
    if changes and (apply or approved == spec_fingerprint(file.spec)):
        return RunningSpec(spec, record, desired.at, before, applied=changes)
    remark = EDITED_AGAIN if changes and approved else None
    return RunningSpec(recorded(), record, desired.at, before, pending=changes, remark=remark)


def _recorded(home: StreamHome) -> tuple[LineageSpec | None, Callable[[], StreamSpec] | None]:
    """Return the record of the spec that the active lineage runs by, and what parses it. Raises DamagedFile."""
    lineage = active_lineage(home)
    if lineage and (record := (file := SPEC_FILE.of(home, lineage)).require()):
        return record, partial(parse_recorded_spec, record.document, file.path)
    return None, None


def note_spec(home: StreamHome, lineage: str, running: RunningSpec) -> None:
    """Record that the lineage runs by this spec from now on. Raises UnwritablePath."""
    if running.is_news:
        write_lineage_spec(home, lineage, running.new_record())


def new_record(home: StreamHome, spec: StreamSpec) -> LineageSpec:
    """Make the record of a lineage that begins to run by ``spec`` now. It uses up every approval given so far."""
    desired = examine_desired(home).value
    return LineageSpec(document_of(spec), epoch_ms(), desired.at if desired else 0).follow(_recorded(home)[0])


def pending_changes(home: StreamHome, spec: StreamSpec) -> tuple[Change, ...]:
    """Return the changes from the spec that the stream runs by to the file's ``spec``. Empty if they are unknown."""
    with suppress(SessionizerError):
        record, _ = _recorded(home)
        if record is not None:
            return changes_between(list_decisions(record.document), decisions_of(record.keep_rescale(spec)))
    return ()


def spec_in_force(home: StreamHome, spec: StreamSpec) -> StreamSpec:
    """Return the spec that the stream runs by, whatever its file says now. If it is unknown, the file's ``spec``."""
    with suppress(SessionizerError):
        _, recorded = _recorded(home)
        if recorded is not None:
            return recorded()
    return spec


def describe_change(home: StreamHome, folder: Path) -> str | None:
    """Return the ``pending_line`` of the stream for its current file in ``folder``. None if there is no change."""
    with suppress(SessionizerError):
        if changes := pending_changes(home, find_stream(folder, home.name)):
            return pending_line(home.name, changes)
    return None


def pending_line(stream: str, changes: tuple[Change, ...]) -> str:
    """Describe changes that are not in force in one line."""
    fields_of, keeping = defaultdict(list), dict[str, str]()
    for change in changes:
        if (command := command_for(stream, change)) is not None:
            fields_of[command].append(change.field)
            if change.field == KEY_GROUPS:  # a rescale has divided the state, and the file does not say so
                keeping[command] = f", or keep {change.before}: write it into the file"
    said = f"spec changed: {', '.join(change.field for change in changes)}"
    if fields_of:  # a start and an apply refuse such a change
        for command, fields in fields_of.items():
            said += f". Use `sessionizer {command}` for {', '.join(fields)}{keeping.get(command, '')}"
        return said
    return f"{said}. To apply it, run `sessionizer apply {stream}`, or use the form of {dag_id(stream, Verb.START)}"


def list_named_variables(home: StreamHome, streams: Path) -> frozenset[str]:
    """Return the environment variables that a driver may need, by its file and by the spec that it runs by.

    Never raises: an unreadable spec names none, and its user reports the error.
    """
    named: set[str] = set()
    with suppress(SessionizerError):
        source = find_stream(streams, home.name).source
        if source.format == "kafka":
            named.update(source.environment_variables)
    with suppress(SessionizerError):
        record, _ = _recorded(home)
        kept = record.document.get("source", {}) if record else {}
        named.update(map(str, (kept.get("options_from_environment") or {}).values()))
        named.update(filter(None, [(kept.get("registry") or {}).get("credentials_from_environment")]))
    return frozenset(named)


@dataclass(frozen=True, slots=True)
class Approval:
    """The ``fingerprint`` of the spec, and its changes to the stream."""

    fingerprint: str
    changes: tuple[Change, ...]

    def lines(self) -> list[str]:
        """Describe the approved changes, a line for each."""
        if not self.changes:
            return ["there is nothing to apply: the stream already runs with its file, or has not run yet"]
        return [f"to be applied at the next start: {change}" for change in self.changes]


def approve_spec(home: StreamHome, streams: Path, name: str) -> Approval:
    """Approve the current file of stream ``name`` in folder ``streams``.

    Raises InvalidSpec if it is broken or the stream cannot take it, NotAccepted if open sessions would lack something,
    UnknownStream, DuplicateStream, DamagedFile. The driver checks the checkpoint itself.
    """
    spec, lineage = find_stream(streams, name), active_lineage(home)
    changes = pending_changes(home, spec)
    if lineage is not None and Store(home.lineage(lineage).open_sessions).exists():  # since its first batch
        require_continuable(home.name, changes)
        require_no_loss(home, lineage, spec)
    return Approval(spec_fingerprint(spec), changes)
