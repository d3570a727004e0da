"""Options for places, shared by the commands, and commands in messages, as the user can paste them.

A user who typed ``--home /other`` would otherwise paste a remedy that acts on the default home.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, get_type_hints

import typer

from sessionizer.errors import InvalidSpec, SessionizerError, UnknownStream, UnwritablePath
from sessionizer.home.control_store import Store
from sessionizer.home.data_files import reaching
from sessionizer.home.names import check_name
from sessionizer.home.roots import (
    DATA_VARIABLE,
    DEFAULT_STREAMS,
    DataPath,
    control_root,
    data_root,
    home_at,
    is_uri,
    platform_home,
    root_at,
    uri_of,
)
from sessionizer.home.stream_home import StreamHome, stream_homes
from sessionizer.lineage.active import locate_data
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import find_stream, spec_files


def _check_stream(typed: str | None) -> str | None:
    return typed and check_name("STREAM", typed)


def _complete_stream(typed: str) -> list[str]:
    """Return names that begin with ``typed``, of streams with a spec and of streams that have run."""
    names: set[str] = set()
    with suppress(SessionizerError, OSError):
        names |= {file.stem for file in spec_files(Options().specs)}
    with suppress(SessionizerError, OSError):
        names |= {home.name for home in stream_homes(platform_home())}
    return sorted(name for name in names if name.startswith(typed))


def require_local(parameter: typer.CallbackParam, typed: Path | None) -> Path | None:
    """Return the path as typed. Raises InvalidSpec for a URI, which ``Path`` takes for a relative one."""
    if typed is not None and is_uri(str(typed)):
        field = parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.name).upper()
        raise InvalidSpec(field, str(typed), "a path on this machine, and no URI")
    return typed


Stream: TypeAlias = Annotated[
    str, typer.Argument(help="Name of the stream.", callback=_check_stream, autocompletion=_complete_stream)
]
StreamOrAll: TypeAlias = Annotated[
    str | None,
    typer.Argument(help="Name of a stream. Default: all.", callback=_check_stream, autocompletion=_complete_stream),
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option(help="The platform's home. Default: SESSIONIZER_HOME, else .sessionizer.")
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that commands share, as typed. ``folder`` has a folder of savepoints per stream."""

    folder: Annotated[
        str | None,
        typer.Option("--in", help="Folder or URI with a folder of savepoints per stream. Default: the stream's data."),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False
    streams: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the stream specs. Default: SESSIONIZER_STREAMS, else dags/streams.", callback=require_local
        ),
    ] = None
    home: Home = None
    data: Annotated[
        str | None,
        typer.Option(help="The data root (a path or URI, such as s3://…). Default: SESSIONIZER_DATA, else the home."),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark master. Default: SESSIONIZER_MASTER, else that of spark-submit, else local on all cores."
        ),
    ] = None

    @property
    def specs(self) -> Path:
        """The folder of specs: as given, else from the environment, else beneath the current folder."""
        return self.streams or Path(os.environ.get("SESSIONIZER_STREAMS") or DEFAULT_STREAMS)

    @property
    def platform(self) -> Path:
        """The absolute home of the platform: as given, of the environment, or below this folder. Raises InvalidSpec."""
        return home_at(str(self.home), "--home") if self.home else platform_home()

    @property
    def data_root(self) -> DataPath | None:
        """The data root: as given, else from the environment, else None, which is the home. Raises InvalidSpec."""
        if self.data:
            return data_root(self.data, self.platform, "--data")
        return data_root(os.environ.get(DATA_VARIABLE), self.platform)

    def home_of(self, stream: str) -> StreamHome:
        """Return the home of a stream, with its data where its lineage began, else where the data root is.

        Raises InvalidSpec, and StoreUnreachable if nothing answers there.
        """
        where = locate_data(StreamHome.of(self.platform, stream, self.data_root))
        with reaching(where.data):  # asks a name node before a long work begins
            return where

    def spec_of(self, stream: str) -> StreamSpec:
        """Return the spec of a stream. Raises UnknownStream, DuplicateStream, InvalidSpec."""
        return find_stream(self.specs, stream)

    def known_home_of(self, stream: str) -> StreamHome:
        """Return the home of a stream that has run or has a file. Raises UnknownStream, and as ``home_of``."""
        where = self.home_of(stream)
        require_known_stream(where, self.streams)
        return where

    def show(self, told: Any, lines: Iterable[str]) -> None:  # noqa: ANN401  JSON
        """Print what a program is ``told``, if one asks. Else print the ``lines`` for a user."""
        for line in [json.dumps(told, indent=1)] if self.as_json else lines:
            typer.echo(line)


def shares(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options ``names`` of ``Options``, after its own. It has them as its argument ``at``.

    An own option among ``names`` has its place there.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints, parameters = get_type_hints(command, include_extras=True), signature(command).parameters
        own = {name: each.replace(annotation=hints[name]) for name, each in parameters.items() if name != "at"}
        shared = {each.name: each for each in option_parameters(Options, [name for name in names if name not in own])}

        @wraps(command)
        def call(**values: Any) -> None:
            at = Options(**{name: values.pop(name) for name in shared})
            command(**values, at=at)

        order = [*(name for name in own if name not in names), *names]
        return declare_parameters(call, [{**own, **shared}[name] for name in order])

    return decorate


def option_parameters(kind: type[Options], names: Iterable[str]) -> Iterator[Parameter]:
    """Yield the parameters from which Typer builds the options ``names`` of ``kind``."""
    hints, defaults = get_type_hints(kind, include_extras=True), {each.name: each.default for each in fields(kind)}
    for name in names:
        given = Parameter.empty if defaults[name] is MISSING else defaults[name]
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=given, annotation=hints[name])


def declare_parameters(call: Callable[..., None], parameters: Sequence[Parameter]) -> Callable[..., None]:
    """Give ``call``, which takes any keyword, the parameters of a command line."""
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(call)["__signature__"] = Signature(parameters)
    return call


PLACES: Final = ("--control", "--streams", "--home", "--data")
"""Options that say where things are. Each is repeated in every command that has it, the first before the command."""
_COMMAND: Final = re.compile(r"(?<=`)sessionizer ([^`]+)(?=`)|(?<=: )sessionizer ([^`]+)$")
"""A command between backticks, or at the end of a line, as in `to resume: sessionizer …`."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line: its ``stream``, and its ``places`` by option. ``root`` has all commands."""

    app: ClassVar[typer.Typer]
    root: Any
    stream: str | None
    places: Mapping[str, str]

    @classmethod
    def typed(cls) -> Self:
        """Return the command line of this process."""
        return cls.parse(typer.main.get_command(cls.app), sys.argv[1:])

    @classmethod
    def parse(cls, root: Any, words: Sequence[str]) -> Self:  # noqa: ANN401  a class that typer hides
        """Parse the words after the program's name. A line that is no command has neither stream nor places."""
        command, options, arguments = _parse(root, words)
        names = [each.name for each in command.params if each.param_type_name == "argument"]
        stream = dict(zip(names, arguments, strict=False)).get("stream")
        return cls(root, stream, {name: options[name] for name in PLACES if name in options})

    def complete(self, text: str) -> str:
        """Return the ``text``, each command in it with the places that it takes and does not name."""
        return _COMMAND.sub(lambda found: self._complete(found[1] or found[2]), text) if self.places else text

    def _complete(self, said: str) -> str:
        try:
            command, named, _ = _parse(self.root, shlex.split(said))
        except ValueError:  # an open quote: a part of a command
            return f"sessionizer {said}"
        if "--home" in named:  # another home has places of its own
            return f"sessionizer {said}"
        taken = {"--control", *(name for each in command.params for name in each.opts)} - named.keys()
        missing = {name: f"{name} {shlex.quote(value)}" for name, value in self.places.items() if name in taken}
        control = missing.pop("--control", None)
        return " ".join(filter(None, ["sessionizer", control, said, *missing.values()]))


def _parse(root: Any, words: Sequence[str]) -> tuple[Any, dict[str, str], list[str]]:  # noqa: ANN401
    """Return the command that the words name, the values of its options as typed, and its arguments."""
    command: Any = root
    options: dict[str, str] = {}
    arguments: list[str] = []
    left = iter(words)
    for word in left:
        name, is_joined, value = word.partition("=")
        known = {opt: each for each in command.params for opt in each.opts if each.param_type_name == "option"}
        if word.startswith("--") and name in known:
            options[name] = value if is_joined else "" if known[name].is_flag else next(left, "")
        elif word in getattr(command, "commands", {}):
            command = command.commands[word]
        elif word == "--":
            arguments.extend(left)
        else:
            arguments.append(word)
    return command, options, arguments


def nothing_known(platform: Path, streams: Iterable[str]) -> str:
    """Say that the home has no record of these streams. Another home may have them."""
    control = control_root(platform)
    where = f"the home {platform}" if control == platform else f"the control root {uri_of(control)}"
    return f"{where} knows nothing of {', '.join(streams)}. Another one: --home or SESSIONIZER_HOME"


def require_known_stream(where: StreamHome, streams: Path | None = None) -> None:
    """Raise UnknownStream if the home has no record of the stream, and no file of ``streams`` has its name.

    If there is only the file, say so on stderr. Raises ControlUnreachable.
    """
    if Store(where.control).exists():
        return
    nowhere = nothing_known(where.platform, [where.name])
    known = {each.name for each in stream_homes(where.platform)}
    with suppress(InvalidSpec):  # the folder of specs is optional for these commands
        specs = {file.stem for file in spec_files(Options(streams=streams).specs)}
        if where.name in specs:
            typer.echo(f"note: {nowhere}", err=True)
            return
        known |= specs
    unknown = UnknownStream(where.name, known)
    unknown.add_note(nowhere)
    raise unknown


def savepoints_folder(home: StreamHome, given: str | None) -> DataPath:
    """Return the folder of the stream's savepoints: in its home, or its own folder below the one ``given``.

    A folder outside the home may be all that is left of the stream. Nothing of it is opened. Raises InvalidSpec, and
    UnknownStream.
    """
    if given is not None:
        return root_at(given, "--in") / home.name
    require_known_stream(home)
    return home.savepoints


def spark_master(given: str | None) -> str | None:
    """Return the given master. Without it, return None under spark-submit, which decides, else the whole machine."""
    if given or "PYSPARK_GATEWAY_PORT" in os.environ:
        return given
    return os.environ.get("SESSIONIZER_MASTER", "local[*]")


def existing_result(place: Path | str) -> UnwritablePath:
    """Return the refusal of a command to write its result to a ``place`` that exists."""
    cause, instead = "it exists, and nothing is overwritten", "give --to a folder that does not exist yet"
    return UnwritablePath(place, "the result", cause, instead)
