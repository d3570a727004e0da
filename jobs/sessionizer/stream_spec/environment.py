"""Lengths of time that an installation sets in the environment, for Airflow's processes and the command line alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.document.duration import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "SESSIONIZER_"


def duration_from(environment: Mapping[str, str], name: str) -> int:
    """``SESSIONIZER_STALE_LIMIT="5 minutes"`` as ms, for the name ``stale_limit``. Raises InvalidSpec, KeyError."""
    variable = variable_of(name)
    try:
        return parse_duration(environment[variable])
    except ValueError as error:
        raise InvalidSpec(variable, environment[variable], "a duration such as '30 seconds' or '5 minutes'") from error


def variable_of(name: str) -> str:
    """The variable that sets ``name``."""
    return PREFIX + name.upper()
