"""What all parts of a stream spec have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A block of the YAML file: no unknown keys, no conversion between types, never changed once read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        # a value may be a secret that was put in the wrong place
        hide_input_in_errors=True,
    )
