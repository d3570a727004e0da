"""The rows of a table in a relational database, read through JDBC. The password comes from the environment, only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from sessionizer.errors import InvalidSpec, SourceUnreachable
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.state.seeds.seed_plan import PASSWORD, url_without_secret

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_AT_A_TIME: Final = "10000"


@dataclass(frozen=True, slots=True)
class JdbcTable:
    """A ``table`` in the database at ``url`` (``jdbc:…``), as ``user`` may read it."""

    url: str
    table: str
    user: str | None

    def require_no_secret(self, field: str) -> None:
        """Raise InvalidSpec for a URL with a password, because it would be in the list of processes, and be kept."""
        shown = url_without_secret(self.url)
        if shown is not None:
            raise InvalidSpec(
                field, shown, f"a URL without a password. Put the password into {PASSWORD} in the environment"
            )


def read_jdbc(spark: SparkSession, table: JdbcTable) -> DataFrame:
    """Read the rows as they are now. Raises SourceUnreachable if the database does not answer."""
    options = {"url": table.url, "dbtable": table.table, "fetchsize": _ROWS_AT_A_TIME}
    if table.user is not None:
        options |= {"user": table.user, "password": os.environ.get(PASSWORD, "")}
    try:
        return spark.read.format("jdbc").options(**options).load()
    except (PySparkException, JavaError) as error:
        raise SourceUnreachable(f"{table.url} ({table.table})", java_message(error)) from error
