"""A driver that rolls a failed canary back looks for a promotion before it deletes a row."""

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.operation import Operation, new_operation
from sessionizer.errors import StreamMovedOn
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, require_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary, promote_lineage, read_canary, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.driver.auto_rollback import CanaryRollbackRunner
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.commands.steps import PointOfNoReturn


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    """A stream whose second lineage failed its canary."""
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    first = start_lineage(home, spec=LineageSpec({}))
    second = make_lineage(home, LineageSpec({}))
    begin_canary(home, second, "rescale", first, CanaryTerms(goes_back=True))
    activate_lineage(home, second, first)
    canary = read_canary(home, second)
    assert canary is not None
    write_canary(home, canary.decided(CanaryOutcome.FAILED, "as the test says"))
    return home


def test_a_promotion_while_spark_starts_ends_the_rollback(home: StreamHome) -> None:
    lineage = require_lineage(home)
    record = new_operation(home, Rollback.name, "0123456789abcdef", "the driver", (lineage, 0))
    runner = CanaryRollbackRunner(spark=cast("SparkSession", None), home=home, command=Rollback())
    promote_lineage(home, "ann")
    with pytest.raises(StreamMovedOn) as ended:
        runner.run(PointOfNoReturn(), Operation(home, record, lambda: None))
    assert {"ann", lineage} <= set(ended.value.cause.split())
