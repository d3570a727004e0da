"""The form of ``sessionizer.operate``, as Airflow shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Param

from sessionizer_airflow.operating.verbs import FIELDS, SAID, Operation

if TYPE_CHECKING:
    from collections.abc import Sequence


def form_of(streams: Sequence[str]) -> dict[str, Param]:
    """Build the form: a required verb and stream, and each verb's own fields in a section of its name."""
    return {
        "verb": Param(
            type="string",
            enum=[str(verb) for verb in Operation],
            values_display={str(verb): f"{verb}: {said}" for verb, said in SAID.items()},
            title="What to do",
        ),
        "stream": Param(type="string", enum=list(streams) or ["no stream has a spec"], title="Stream"),
        "why": Param(
            None,
            type=["null", "string"],
            maxLength=500,
            title="Why",
            description="Optional. Shown to whoever approves.",
        ),
        **{name: _param(name) for name in FIELDS},
    }


def _param(name: str) -> Param:
    field = FIELDS[name]
    return Param(
        False if field.schema["type"] == "boolean" else None,
        title=field.title,
        description=f"{field.description[0].upper()}{field.description[1:]}.",
        section=f"To {field.verbs[0]}" if len(field.verbs) == 1 else "Trial of a new lineage",
        **field.schema,
    )
