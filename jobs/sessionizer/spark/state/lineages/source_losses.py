"""Comparison of a source with a position in it: the events that are gone, and the first position without a loss."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from sessionizer.checkpoint.batch_logs import read_begun_batch, read_last_commit
from sessionizer.checkpoint.file_lists import files_of_batch
from sessionizer.errors import InvalidSpec, SourceMissing, SourceReplaced, TransientError
from sessionizer.home.data_files import commits_of, data_exists, list_added_files, read_actions
from sessionizer.home.roots import folder_at, resolve_place
from sessionizer.lineage.source_ids import choose_known_ids, replaced_names, require_same_source
from sessionizer.spark.ingest.source_identity import source_ids
from sessionizer.spark.state.lineages.source_beginning import offsets_at
from sessionizer.state.lineages.lost_events import (
    Continuation,
    continuation_in_folder,
    going_on_in_table,
    going_on_in_topics,
)
from sessionizer.state.lineages.switch_plan import Edge, Start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.source import KafkaSource
    from sessionizer.stream_spec.document.stream import StreamSpec

_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.")
_KEEPS_NOTHING: Final = "Omit it, because a socket keeps no events"


def going_on(
    spark: SparkSession,
    home: StreamHome,
    spec: StreamSpec,
    offset: Any,  # noqa: ANN401  JSON
    noted: Mapping[str, str],
    lineage: str | None = None,
) -> tuple[Continuation, dict[str, str]]:
    """Return where the source of ``spec`` can be read on after ``offset``, and its ids now.

    ``noted``: the recorded ids of the topics that were read. ``lineage``: the one whose begun batch reads files. Raises
    SourceUnreachable, SourceMissing, SourceForbidden.
    """
    source = spec.source
    now = source_ids(spark, spec.name, source, home.platform)
    known = choose_known_ids(noted, source.model_dump(), offset)
    others = replaced_names(known, now)
    match source.format:
        case "kafka":
            return _continue_in_topics(
                spark, source, home, offset, others, [name for name in known if name in now]
            ), now
        case "delta":
            folder = folder_at(resolve_place(source.path, home.platform))
            return (_continue_in_table(folder, offset, replaced=bool(others)) if offset else Continuation(None)), now
        case "files":
            return _continue_in_folder(home, lineage, offset), now
        case "socket":
            raise InvalidSpec("--accept-loss", "given", _KEEPS_NOTHING)


def list_lost_events(
    spark: SparkSession,
    home: StreamHome,
    spec: StreamSpec,
    offset: Any,  # noqa: ANN401  JSON
    noted: Mapping[str, str],
) -> tuple[str, ...]:
    """List the events after ``offset`` that a topic or table no longer has, as texts.

    Empty if the source does not answer, because a later start reports it.
    """
    if spec.source.format not in ("kafka", "delta") or not offset:
        return ()
    try:
        if spec.source.format == "kafka":
            return going_on(spark, home, spec, offset, noted)[0].lost
        now = source_ids(spark, spec.name, spec.source, home.platform)
        require_same_source(spec.name, choose_known_ids(noted, spec.source.model_dump(), offset), now)
    except (SourceMissing, SourceReplaced) as error:
        return (str(error),)
    except TransientError:
        return ()
    return ()


def _continue_in_topics(
    spark: SparkSession,
    source: KafkaSource,
    home: StreamHome,
    offset: Any,  # noqa: ANN401  JSON
    others: list[str],
    known: list[str],
) -> Continuation:
    if not offset:
        return Continuation(offset)
    earliest, latest = (offsets_at(spark, source, home.platform, Start(edge=edge)) for edge in Edge)
    return going_on_in_topics(offset, earliest, latest, others, known)


def _continue_in_table(table: DataPath, offset: Mapping[str, Any], *, replaced: bool) -> Continuation:
    commits = commits_of(table)
    first = int(offset["reservoirVersion"])
    later = {} if replaced else {version: commit for version, commit in commits.items() if version >= first}
    holes = {version: gone for version, commit in later.items() if (gone := _files_gone(table, commit))}
    oldest = 0 if 0 in commits else min(commits_of(table, _CHECKPOINT), default=0)
    return going_on_in_table(offset, set(commits), holes, replaced=replaced, oldest=oldest)


def _files_gone(table: DataPath, commit: DataPath) -> int:
    """Count the data files that the commit added and that are not there."""
    added = [unquote(str(add["path"])) for add in list_added_files(read_actions(commit))]
    return sum(not data_exists(folder_at(path) if "://" in path else table / path) for path in added)


def _continue_in_folder(home: StreamHome, lineage: str | None, offset: Any) -> Continuation:  # noqa: ANN401  JSON
    checkpoint = home.checkpoint(lineage) if lineage else None
    newest = read_begun_batch(checkpoint) if checkpoint else None
    if checkpoint is None or newest is None or newest == read_last_commit(checkpoint):
        return Continuation(offset)
    begun = files_of_batch(checkpoint, newest)
    return continuation_in_folder(offset, begun, [uri for uri in begun if data_exists(folder_at(uri))])
