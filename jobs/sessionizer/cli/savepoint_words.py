"""Places of a stream's savepoints, and the commands' texts about them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, TypeAlias

import typer

from sessionizer.cli.places import require_known_stream
from sessionizer.counts import count_text, state_text
from sessionizer.home.clock import describe_duration, moment_text
from sessionizer.home.roots import DataPath, folder_at, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.savepoints.listing import Savepoint
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.stream_spec.decisions import Change

Folder: TypeAlias = Annotated[
    str | None,
    typer.Option("--in", help="Folder or URI with a folder of savepoints per stream. Default: the stream's data."),
]
Id: TypeAlias = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Id of the savepoint.")]


_MOMENTS: Final = ("batch_at", "watermark_ms", "earliest_due_ms")
_OF_CANONICAL: Final = "counts."
"""Fields that a native savepoint does not have, because nothing reads its state when it is made."""


def savepoints_folder(home: StreamHome, given: str | None) -> DataPath:
    """Return the folder of the stream's savepoints: in its home, or its own folder below the one ``given``.

    A folder outside the home may be all that is left of the stream. Nothing of it is opened. Raises InvalidSpec, and
    UnknownStream.
    """
    if given is not None:
        return folder_at(given, "--in") / home.name
    require_known_stream(home)
    return home.savepoints


def contents_line(manifest: Manifest) -> str:
    """Describe the contents of a savepoint in one line."""
    size, counts = f"{manifest.bytes / 1_000_000:,.1f} MB", manifest.counts
    if counts is None:
        return f"{manifest.kind}, {count_text(len(manifest.files), 'file')}, {size}"
    return f"{state_text(counts.events, counts.keys, counts.sessions)}, {size}"


def savepoint_list(found: Sequence[Savepoint], now: int) -> str:
    """Describe each savepoint in a line, with its lineage if there are several, because each counts from batch 0."""
    has_several = len({each.manifest.lineage for each in found if each.manifest is not None}) > 1
    return "\n".join(savepoint_line(each, now, names_lineage=has_several) for each in found)


def savepoint_line(found: Savepoint, now: int, *, names_lineage: bool = False) -> str:
    """Describe a savepoint in one line."""
    age = "" if found.at is None else f"  {describe_duration(now - found.at)} ago"
    if found.manifest is None:
        return f"{found.id}  {found.state}{age}{f'  ({found.wrong})' if found.wrong else ''}"
    of = f" of {found.manifest.lineage}" if names_lineage else ""
    return f"{found.id}  {found.state}{age}  batch {found.manifest.batch_id}{of}  {contents_line(found.manifest)}"


def savepoint_facts(found: Savepoint) -> Sequence[tuple[str, str]]:
    """Return all facts about a savepoint, with a name for each."""
    directory = ("directory", uri_of(found.home.root))
    why = ("why", found.begun.why if found.begun else "no reason given")
    made = found.manifest
    if made is None:
        return [directory, why]
    versions = ", ".join(f"{name} {version}" for name, version in made.fingerprint.versions.items())
    position = "nothing read yet" if made.position.offset is None else json.dumps(made.position.offset)
    return [
        directory,
        ("kind", f"{made.kind}, revision {made.revision}"),
        ("lineage", f"{made.lineage}, batch {made.batch_id} of {moment_text(made.batch_at)}"),
        ("source", f"{made.position.format} at {position}"),
        ("watermark", moment_text(made.watermark_ms) if made.watermark_ms else "none"),
        *_describe_counts(made),
        *((sink.name, f"version {sink.version} of {sink.location}") for sink in made.sinks),
        ("made", f"{moment_text(made.made_at)}{', while the stream ran' if made.live else ''}; {versions}"),
        why,
    ]


def _describe_counts(made: Manifest) -> Sequence[tuple[str, str]]:
    if made.counts is None:
        return [("key groups", f"{made.key_groups}")]
    return [
        ("first end", "never" if made.earliest_due_ms is None else moment_text(made.earliest_due_ms)),
        ("key groups", f"{made.counts.groups} of {made.key_groups} hold events"),
        ("timeouts", f"another one for {count_text(made.counts.timeouts, 'client')}"),
    ]


def change_line(change: Change) -> str:
    """Describe a difference between two savepoints in one line."""
    before, now = (_value_text(change.field, each) for each in (change.before, change.now))
    return f"{change.field}: {before} → {now}"


def _value_text(field: str, value: Any) -> str:  # noqa: ANN401 - JSON
    if value is None:
        return "not in this kind" if field.startswith(_OF_CANONICAL) else "none"
    return moment_text(value) if field in _MOMENTS else repr(value)


def savepoint_json(found: Savepoint) -> dict[str, Any]:
    """Return a savepoint as JSON."""
    return {
        "id": found.id,
        "state": str(found.state),
        "location": uri_of(found.home.root),
        "wrong": found.wrong,
        "begun": asdict(found.begun) if found.begun else None,
        "manifest": found.manifest.to_json() if found.manifest else None,
    }
