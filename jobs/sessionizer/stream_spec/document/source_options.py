"""Options of Spark's reader in a source: no secret, no code, and none that loses events without a word."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sessionizer.stream_spec.document.reader_options import unfit_option
from sessionizer.stream_spec.document.secrets import looks_secret, names_code, names_program
from sessionizer.stream_spec.document.section import Section, refusal
from sessionizer.stream_spec.effect import FOR_NEW_ROWS, OptionsEffect


def option_text(value: object) -> object:
    """Return a YAML scalar as Spark reads options: ``true`` and ``10`` need no quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


OptionValue = Annotated[
    str,
    BeforeValidator(option_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
BY_ENVIRONMENT: Final = "name its environment variable under options_from_environment.{option}"
BY_SPARK: Final = "set it in Spark's own configuration on the driver's machine"


class SourceWithOptions(Section):
    """A source that takes options of Spark's reader."""

    reader_field: ClassVar[str] = "format"
    """Field with the name of the reader, as ``ReaderOptions`` has it."""
    where_else: ClassVar[str] = BY_SPARK
    """Advice for an option that must not be in a file that is checked in."""

    options: Annotated[dict[str, OptionValue], OptionsEffect("source option changed", FOR_NEW_ROWS)] = Field(
        default_factory=dict,
        description="Options of Spark's reader, with Spark's names. No secrets.",
        examples=[{"maxFilesPerTrigger": "100"}],
    )

    @model_validator(mode="after")
    def _options_hold_no_secret(self) -> Self:
        for option, value in self.options.items():
            if looks_secret(option):
                raise refusal(
                    value,
                    f"Remove it, because a spec holds no secret. Instead, {self.where_else.format(option=option)}",
                    "options",
                    option,
                )
        return self

    @model_validator(mode="after")
    def _options_name_no_code(self) -> Self:
        for option, value in self.options.items():
            if names_code(option):
                allowed = f"Remove it, because a spec loads no class. Instead, {self.where_else.format(option=option)}"
                raise refusal(value, allowed, "options", option)
            if names_program(option):
                allowed = (
                    f"Remove it, because a spec starts no program. Instead, {self.where_else.format(option=option)}"
                )
                raise refusal(value, allowed, "options", option)
        return self

    @model_validator(mode="after")
    def _options_fit_the_reader(self) -> Self:
        self.check_options("options", self.options)
        return self

    def check_options(self, block: str, options: dict[str, str]) -> None:
        """Refuse ``options`` (written under ``block``) that the reader of this source does not take."""
        for option, value in options.items():
            if (allowed := unfit_option(option, value, getattr(self, self.reader_field))) is not None:
                raise refusal(value, allowed, block, option)
