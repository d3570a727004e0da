"""Options for places, shared by the commands, and commands in messages, as the user can paste them.

A user who typed ``--home /other`` would otherwise paste a remedy that acts on the default home.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

import typer

from sessionizer.errors import InvalidSpec, SessionizerError, UnknownStream, UnwritablePath
from sessionizer.home.control_store import Store
from sessionizer.home.data_files import require_reachable
from sessionizer.home.names import check_name
from sessionizer.home.roots import (
    DATA_VARIABLE,
    DEFAULT_STREAMS,
    DataPath,
    control_root,
    data_root,
    home_at,
    platform_home,
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
        names |= {file.stem for file in spec_files(specs_folder(None))}
    with suppress(SessionizerError, OSError):
        names |= {home.name for home in stream_homes(home_folder(None))}
    return sorted(name for name in names if name.startswith(typed))


Stream: TypeAlias = Annotated[
    str, typer.Argument(help="Name of the stream.", callback=_check_stream, autocompletion=_complete_stream)
]
StreamOrAll: TypeAlias = Annotated[
    str | None,
    typer.Argument(help="Name of a stream. Default: all.", callback=_check_stream, autocompletion=_complete_stream),
]
Streams: TypeAlias = Annotated[
    Path | None, typer.Option(help="Folder of the stream specs. Default: SESSIONIZER_STREAMS, else dags/streams.")
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option(help="The platform's home. Default: SESSIONIZER_HOME, else .sessionizer.")
]
Data: TypeAlias = Annotated[
    str | None,
    typer.Option(help="The data root (a path or URI, such as s3://…). Default: SESSIONIZER_DATA, else the home."),
]
Master: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Spark master. Default: SESSIONIZER_MASTER, else that of spark-submit, else local on all cores."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
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
        else:
            arguments.append(word)
    return command, options, arguments


def specs_folder(given: Path | None) -> Path:
    """Return the folder of specs: as given, else from the environment, else beneath the current folder."""
    return given or Path(os.environ.get("SESSIONIZER_STREAMS") or DEFAULT_STREAMS)


def home_folder(given: Path | None) -> Path:
    """Return the platform's home, absolute: as given, else from the environment, else beneath the current folder.

    Raises InvalidSpec for a URI.
    """
    return home_at(str(given), "--home") if given else platform_home()


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
        specs = {file.stem for file in spec_files(specs_folder(streams))}
        if where.name in specs:
            typer.echo(f"note: {nowhere}", err=True)
            return
        known |= specs
    unknown = UnknownStream(where.name, known)
    unknown.add_note(nowhere)
    raise unknown


def data_folder(given: str | None, home: Path) -> DataPath | None:
    """Return the data root: as given, else from the environment, else None, which is the home. Raises InvalidSpec."""
    return data_root(given, home, "--data") if given else data_root(os.environ.get(DATA_VARIABLE), home)


def stream_home(home: Path | None, stream: str, data: str | None = None) -> StreamHome:
    """Return the home of a stream, with its data where its lineage began, else where the data root is.

    Raises InvalidSpec, and StoreUnreachable if nothing answers there.
    """
    platform = home_folder(home)
    where = locate_data(StreamHome.of(platform, stream, data_folder(data, platform)))
    require_reachable(where.data)
    return where


def stream_spec(streams: Path | None, name: str) -> StreamSpec:
    """Return the spec of a stream. Raises UnknownStream, DuplicateStream, InvalidSpec."""
    return find_stream(specs_folder(streams), name)


def spark_master(given: str | None) -> str | None:
    """Return the given master. Without it, return None under spark-submit, which decides, else the whole machine."""
    if given or "PYSPARK_GATEWAY_PORT" in os.environ:
        return given
    return os.environ.get("SESSIONIZER_MASTER", "local[*]")


def existing_result(place: Path | str) -> UnwritablePath:
    """Return the refusal of a command to write its result to a ``place`` that exists."""
    cause, instead = "it exists, and nothing is overwritten", "give --to a folder that does not exist yet"
    return UnwritablePath(place, "the result", cause, instead)
