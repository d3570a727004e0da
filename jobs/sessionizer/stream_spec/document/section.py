"""The base of all sections of a stream spec, and the refusal that their validators raise."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A block of the YAML file: no unknown keys, no conversion between types, unchanged after reading."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        # a value may be a secret that was put in the wrong place
        hide_input_in_errors=True,
    )


REFUSED = "refused"


class Verbatim(str):
    """Text that a message prints as it stands, where ``repr`` would wrap it in quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the bare text."""
        return str(self)


MISSING = Verbatim("missing")


def refusal(value: object, allowed: str, *at: str) -> PydanticCustomError:
    """Build the error that a validator raises.

    ``at`` are the YAML keys that lead from the place of the validator to the value: none for a validator of the
    value itself, ``("mapping", "event_time")`` for a rule of the whole spec.
    """
    return PydanticCustomError(REFUSED, "{allowed}", {"value": value, "allowed": allowed, "at": at})
