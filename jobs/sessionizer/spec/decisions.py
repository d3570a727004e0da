"""What a spec decides of the rows that a given batch emits: its mapping, its rules and its key groups.

How much a batch brings (the source's options) and when it runs are not among it: those are settled when a batch begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from sessionizer.spec.duration import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

    from sessionizer.spec.stream import StreamSpec

Decisions: TypeAlias = "dict[str, str | int | None]"
"""Field, as a spec names it (``rules.gap_timeout``), to its value, in a spec's words."""

KEY_GROUPS: Final = "key_groups"
_DURATION: Final = "_ms"
"""How the name of a field ends that is a duration in the file and milliseconds here."""


def decisions_of(spec: StreamSpec) -> Decisions:
    """All that ``spec`` decides, defaults included."""
    timeouts = {name: format_duration(ms) for name, ms in spec.rules.client_timeouts.items()}
    return {
        KEY_GROUPS: spec.key_groups,
        **dict(_fields("mapping", spec.mapping)),
        **_named("mapping.payload", spec.mapping.payload),
        **dict(_fields("rules", spec.rules)),
        **_named("rules.client_timeouts", timeouts),
    }


def changed_fields(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """The fields that differ, or that only one of them has."""
    return [field for field in {**now, **before} if before.get(field) != now.get(field)]


def _fields(section: str, model: BaseModel) -> Iterator[tuple[str, str | int | None]]:
    """The simple fields of a section."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if not isinstance(value, dict):
            is_duration = name.endswith(_DURATION) and isinstance(value, int)
            yield f"{section}.{field.alias or name}", format_duration(value) if is_duration else value


def _named(section: str, values: Mapping[str, str]) -> Decisions:
    return {f"{section}.{name}": value for name, value in values.items()}
