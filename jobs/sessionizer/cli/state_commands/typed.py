"""Command lines of the commands, generated from the declarations of their options."""

from __future__ import annotations

from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sessionizer.cli.state_commands.operations import note_pending
from sessionizer.cli.state_commands.shared_options import Shared
from sessionizer.errors import SessionizerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessionizer.state.commands.command import Command, Option


def command_line(command: type[Command], run: Callable[[Any, Shared], None]) -> Callable[..., None]:
    """Return the function from which Typer builds the command line. It calls ``run`` with the typed command."""

    def call(**values: Any) -> None:
        shared = {each.name: values.pop(each.name) for each in fields(Shared) if each.name in values}
        repeated = {name: tuple(values[name] or ()) for name, each in command.options().items() if each.default == ()}
        try:
            run(command(**{**values, **repeated}), Shared(**shared))
        except SessionizerError as error:
            note_pending(error, Shared(**shared))
            raise

    parameters = {each.name: each for each in _parameters(command)}
    call.__name__ = call.__qualname__ = command.name
    call.__doc__ = command.__doc__
    call.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    vars(call)["__signature__"] = Signature([*parameters.values()])
    return call


def _parameters(command: type[Command]) -> Iterator[Parameter]:
    """Yield the stream, the command's own options, then the shared options."""
    hints: Mapping[str, Any] = get_type_hints(Shared, include_extras=True)
    yield _keyword("stream", hints["stream"], MISSING)
    types = get_type_hints(command)
    for name, each in command.options().items():
        if each.flag is not None:
            yield _keyword(name, _annotate(each, types[name]), each.default)
    for shared in fields(Shared)[1:]:
        if shared.name != "streams" or command.reads_spec:
            yield _keyword(shared.name, hints[shared.name], shared.default)


def _keyword(name: str, annotation: Any, default: Any) -> Parameter:  # noqa: ANN401  of any type
    given = Parameter.empty if default is MISSING else None if default == () else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=given, annotation=annotation)


def _annotate(each: Option, kind: Any) -> Any:  # noqa: ANN401  a type
    """Return the annotation that Typer reads."""
    said = f"{each.help[0].upper()}{each.help[1:]}.{' Repeat it for each.' if each.default == () else ''}"
    if not each.is_typed:
        return Annotated[kind, typer.Argument(metavar=f"[{each.flag}]", help=said)]
    if each.default == ():
        kind = list[str] | None
    said = f"{said} In ISO 8601." if each.is_moment else said
    return Annotated[kind, typer.Option(each.flag, metavar=each.metavar, help=said, min=each.min, max=each.max)]
