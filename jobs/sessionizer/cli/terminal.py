"""What the commands say while they work, and how an error ends them."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from sessionizer.cli.remedies import remedy_for
from sessionizer.errors import QueryFailed, SessionizerError

if TYPE_CHECKING:
    from collections.abc import Iterator


def say(line: str) -> None:
    """A line of progress, on stderr. A reader that went away must not end the work."""
    with suppress(BrokenPipeError):
        typer.echo(line, err=True)


def tell(error: SessionizerError) -> None:
    """The error and what to do about it, on stderr."""
    say(f"error: {error}")
    say(f"remedy: {remedy_for(error)}")


@contextmanager
def named_failures(stream: str) -> Iterator[None]:
    """Whatever Spark dies of in the block becomes one of our errors."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415  fast --help

    from sessionizer.spark.expressions import first_line  # noqa: PLC0415
    from sessionizer.spark.failure import classified  # noqa: PLC0415

    try:
        yield
    except SessionizerError:
        raise
    except AnalysisException as error:
        raise QueryFailed(stream, "analysis", first_line(error)) from error
    except Exception as error:
        raise classified(stream, error) from error
