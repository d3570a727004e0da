"""An example of every error of the tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer import errors

if TYPE_CHECKING:
    from sessionizer.errors import SessionizerError

EXAMPLES: list[SessionizerError] = [
    errors.InvalidSpec("mapping.key", "user", "an expression over u"),
    errors.UnknownStream("clik", ["clicks"]),
    errors.DuplicateStream("clicks", [Path("a"), Path("b")]),
    errors.StoreUnreachable("hdfs://namenode/lake", "the table sessions", "Connection refused"),
    errors.JarsNotFetched(Path("/jars"), "there is no Java here"),
    errors.DiskFull(Path("/small"), "the next batch", "12 bytes are left"),
    errors.UnwritablePath(Path("/proc/x"), "the table sessions", "no"),
    errors.LeaseHeld("clicks", "a", 1, "here"),
    errors.LeaseLost("clicks", 1, 2),
    errors.DamagedFile(Path("lineage.json"), "cut"),
    errors.TableOwned("/lake/sessions", "clicks@1f", "visits@2e"),
    errors.DataOwned("hdfs://n:1/platform/streams/clicks", "clicks@1f", "/platform on laptop", "clicks@2e"),
    errors.StreamDrained("clicks", "20261121T105501-3fa9c2", 3, "2026-11-21 10:55 UTC"),
    errors.UnreadableLineage("clicks", "20261121T105501-3fa9c2", "its checkpoint has format 1"),
    errors.NotAccepted("clicks", "upgrade", ["mapping.key"]),
    errors.EngineChanged("clicks", "20261121T105501-3fa9c2", "spark", "4.2.0", "4.3.0"),
    errors.OperationPending("clicks", "restore", "20261121T105501-3fa9c2", "stopped"),
    errors.UnknownSavepoint("b", ["a"]),
    errors.UnusableSavepoint("a", "it is abandoned"),
    errors.NothingToSave("clicks", "it never ran"),
    errors.NothingToProve("clicks", "batch 7 cannot be replayed, because 2 files of the source are gone"),
    errors.ReplayDiffers("clicks", "12 rows are unexplained"),
    errors.NothingToShow("clicks", "batch 7 is not there. Its lineage a keeps 8 to 107"),
    errors.DamagedCheckpoint("/srv/checkpoint", 2),
    errors.HalfWrittenBatch("clicks", 7),
    errors.UnfaithfulState("clicks", "key group 1 should hold 2 open events and holds 1"),
    errors.BatchOutrun("clicks", 7, "offsets/7 is gone"),
    errors.DataElsewhere("clicks", "20261121T105501-3fa9c2", "SESSIONIZER_DATA", "hdfs://a:8020/x", "/home"),
    errors.StreamBegun("clicks", "20261121T105501-3fa9c2"),
    errors.NoWayBack("clicks", "20261121T105501-3fa9c2", "it began without the state of another"),
    errors.LineageUnfit("clicks", "20261121T105501-3fa9c2", None, "80% of its rows were refused, 1% before"),
    errors.LineageLeft("clicks", "20261121T105501-3fa9c2", "20261121T105501-000000", "3 of its drivers ended"),
    errors.PlanChanged("clicks", "0123456789abcdef", "fedcba9876543210"),
    errors.StreamMovedOn("clicks", "0123456789abcdef", "lineage a was left"),
    errors.OperationPastReturn("clicks", "restore", "taken_back", "sessionizer restore clicks a --approve 1"),
    errors.StreamRunsAgain("clicks", "c0ffee"),
    errors.EventsGone("clicks", ["file:/in/1.json"]),
    errors.EventsUnread("clicks", 12, "files"),
    errors.SourceMissing("clicks", "source.topic", "clics", "broker:9092"),
    errors.SourceForbidden("clicks", "source.topic", "clicks", "broker:9092", "it lacks the right READ"),
    errors.SourceReplaced("clicks", "clicks", "a", "b"),
    errors.RowsLeft("clicks", "/lake/sessions", 3),
    errors.RowsGone("clicks", "/lake/sessions", 3, "the version left the log"),
    errors.StateBehindTables("clicks", "/lake/sessions", "20261121T105501-3fa9c2", 9, 5),
    errors.RowsMissing("clicks", "/lake/sessions", "20261121T105501-3fa9c2", 9, 7),
    errors.DataAway("clicks", "the table sessions", "/lake/sessions"),
    errors.HomeCopied("/copy on laptop", "5d1c0f3e9a7b2468", "/srv/home on laptop"),
    errors.HomeNotShared(Path("/platform"), "worker-7"),
    errors.ExecutorsUnfit("their Python lacks pyarrow", "worker-8"),
    errors.PrivateDoorBroken("batch clock", "Method lastExecution([]) does not exist"),
    errors.QueryFailed("clicks", "schema_change", "..."),
    errors.DriverStillRuns("clicks", "c0ffee", 60),
    errors.ControlUnreachable(Path("/mnt"), "stale"),
    errors.SourceFilesGone("clicks", 3, ("file:/feed/a.json",)),
    errors.SourceFileUnfit("file:/feed/a.csv", "the header has 2 columns where source.columns has 3"),
    errors.SourceUnreachable("localhost:9092", "refused"),
    errors.QueryInterrupted("clicks", "memory", "..."),
    errors.TerminalError("x"),
    errors.TransientError("x"),
    errors.SessionizerError("x"),
]
