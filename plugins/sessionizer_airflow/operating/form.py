"""The form of ``sessionizer.operate``, generated from the options of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param

from sessionizer_airflow.operating.request import form_fields, purposes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.state.commands.command import Option

_LONGEST: Final = 1000
_FEW: Final = 2
"""Most commands of a section that is named after them."""


def form_of(streams: Sequence[str], only: str | None = None) -> dict[str, Param]:
    """Build the form: a required verb and stream, and each verb's own fields in a section of its name.

    ``only``: the one verb of the form. It is then not asked for, and Airflow hides a constant field.
    """
    said = purposes()
    return {
        "verb": Param(
            type="string",
            enum=[*said],
            values_display={verb: f"{verb}: {purpose}" for verb, purpose in said.items()},
            title="What to do",
        )
        if only is None
        else Param(only, type="string", const=only),
        "stream": Param(type="string", enum=list(streams) or ["no stream has a spec"], title="Stream"),
        "why": Param(
            None,
            type=["null", "string"],
            maxLength=500,
            title="Why",
            description="Optional. Users who may approve see it.",
        ),
        **{
            name: _param(option, _section(verbs, only))
            for name, (option, verbs) in form_fields().items()
            if only in {None, *verbs}
        },
    }


def _section(verbs: Sequence[str], only: str | None) -> str | None:
    """Return the section of a field that these verbs have. A form of one verb shows its own fields at the top."""
    if len(verbs) > _FEW:
        return "Canary of a new lineage"
    return f"To {' or '.join(verbs)}" if only is None else None


def _param(option: Option, section: str | None) -> Param:
    said = f"{option.help[0].upper()}{option.help[1:]}.{' One per line.' if option.default == () else ''}"
    return Param(
        False if option.default is False else None,
        title=option.title,
        description=f"{said} In the time zone of this page." if option.is_moment else said,
        section=section,
        **schema_of(option),
    )


def schema_of(option: Option) -> dict[str, Any]:
    """Return the JSON schema of the option's value. A field that the user leaves empty is null, or false."""
    if option.default is False:
        return {"type": "boolean"}
    if option.is_moment:
        return {"type": ["null", "string"], "format": "date-time"}
    if option.min is not None:
        return {"type": ["null", "integer"], "minimum": option.min, **({"maximum": option.max} if option.max else {})}
    return {
        "type": ["null", "string"],
        "maxLength": _LONGEST,
        **({"pattern": option.pattern} if option.pattern else {}),
        **({"format": "multiline"} if option.default == () else {}),
        **({"examples": list(option.examples)} if option.examples else {}),
    }
