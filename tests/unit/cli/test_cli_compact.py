"""``sessionizer compact``: what needs no Spark, and the words of its plan."""

from collections.abc import Callable

from sessionizer.cli.history import plan_lines, result_line
from sessionizer.errors import OperationPending
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.sinks.compaction import TableFiles, TablePlan, TableResult
from sessionizer.state.compaction.plan import CompactionPlan, Retention
from sessionizer.state.savepoints.listing import PruningVerdict
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import begun_restore, write_operation

FILES = TableFiles(files=8_641, bytes=512_000_000, old_files=12)


def test_nothing_is_compacted_while_a_command_is_not_over(platform: Platform, main: Callable[..., int]) -> None:
    platform.add("clicks")
    write_operation(StreamHome.of(platform.home, "clicks"), begun_restore())
    for option in ("--plan", "--yes"):
        code = main("compact", "clicks", option, "--home", str(platform.home), "--streams", str(platform.streams))
        assert code == OperationPending.exit_code


def test_the_plan_and_the_results_in_words(reviewed: Reviewed) -> None:
    plan = CompactionPlan(
        stream="clicks",
        tables=(),
        retention=Retention(289, "savepoint s2 may bring rows back from then", is_short=True, out_of_reach=("s1",)),
        checkpoints=(PruningVerdict("l1", goes=True, because="its newest batch began 9 d ago"),),
        savepoints=(PruningVerdict("s2", goes=False, because="it is young"),),
    )
    tables = [
        TablePlan("sessions", "/tables/sessions", FILES),
        TablePlan("quarantine", "/tables/quarantine", skipped="it belongs to visits@0123456789abcdef"),
        TablePlan("late_events", "s3://tables/late_events", FILES, merges=False, warning="its log takes one writer"),
    ]
    results = [
        TableResult("sessions", "/tables/sessions", 8_641, 3, 498_000_000, 12),
        TableResult("late_events", "/tables/late_events", 20, 20, 1_000_000, 0, overtaken=True),
    ]
    reviewed([*plan_lines(plan, tables), *map(result_line, results)])
