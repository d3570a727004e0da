"""``sessionizer spec``: stream specs, checked before anything starts."""

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from sessionizer.cli.init import print_preview
from sessionizer.cli.places import Options, StreamOrAll, require_local, shares
from sessionizer.cli.terminal import say, tell, translate_failures, working_spark
from sessionizer.deployment.spec_diff import LOCK, NOTHING, PACKAGE, SPECS, Checkout, SpecDiff
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.home.local_files import writing
from sessionizer.stream_spec.decisions import check_sql
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import add_place, find_stream, require_own_tables, spec_files, survey_streams
from sessionizer.stream_spec.spec_text import stream_schema_text

spec = typer.Typer(no_args_is_help=True, help="Check stream specs, and print their JSON Schema for editors.")

NOT_LOOKED_AT: Final = "  (types, syntax and the source are not checked: add --deep)"


@spec.command()
@shares("streams", "home", "master")
def check(
    at: Options,
    stream: StreamOrAll = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Also resolve columns and types, with Spark.")] = False,
) -> None:
    """Check the specs and their SQL, with --deep by Spark as well. The exit code is that of the first error.

    Of one stream, --deep also shows what the first rows become.
    """
    folder, platform = at.specs, at.platform
    survey = survey_streams(folder)
    specs, errors = list(survey.specs.values()), list[SessionizerError](survey.problems)
    if stream:
        specs, errors = [find_stream(folder, stream)], []
    specs, sharing = _check_specs(specs, folder, lambda spec: require_own_tables(spec, survey.specs.values(), platform))
    errors += sharing
    if deep and specs:
        specs, misfits = _check_against_source(specs, folder, platform, at.master, shows=stream is not None)
    else:
        specs, misfits = _check_specs(specs, folder, check_sql)
    errors += misfits
    for found in specs:
        typer.echo(f"ok  {found.name}{'' if deep else NOT_LOOKED_AT}")
    if not specs and not errors:
        say(f"no stream spec is in {folder}")
    for error in errors:
        tell(error)
    if errors:
        raise typer.Exit(errors[0].exit_code)


@spec.command()
def schema(
    write: Annotated[
        Path | None, typer.Option(help="File to write instead of printing.", callback=require_local)
    ] = None,
) -> None:
    """Print the JSON Schema of stream specs."""
    if write is None:
        typer.echo(stream_schema_text(), nl=False)
        return
    with writing(write, "the schema"):
        write.write_text(stream_schema_text(), encoding="utf-8")
    typer.echo(f"wrote {write}")


def _check_against_source(
    specs: list[StreamSpec], folder: Path, platform: Path, master: str | None, *, shows: bool
) -> tuple[list[StreamSpec], list[SessionizerError]]:
    """Return the specs that fit their source, and the errors of the others. ``shows``: print what first rows become."""
    from sessionizer.spark.ingest.topics import source_ids  # noqa: PLC0415
    from sessionizer.spark.sinks.examine import examine  # noqa: PLC0415  fast --help

    with working_spark("spec check", "", master, "starting Spark to resolve the expressions") as spark:

        def check_source(found: StreamSpec) -> None:
            with translate_failures(found.name):
                examine(spark, found, platform)
                source_ids(spark, found.name, found.source, platform)
                if shows:
                    print_preview(spark, found, platform)

        return _check_specs(specs, folder, check_source)


def _check_specs(
    specs: list[StreamSpec], folder: Path, check_spec: Callable[[StreamSpec], None]
) -> tuple[list[StreamSpec], list[SessionizerError]]:
    files = {path.stem: path for path in spec_files(folder)}
    passing: list[StreamSpec] = []
    errors: list[SessionizerError] = []
    for found in specs:
        try:
            check_spec(found)
        except InvalidSpec as error:
            errors.append(add_place(error, files[found.name]))
        except SessionizerError as error:
            errors.append(error)
        else:
            passing.append(found)
    return passing, errors


_UNSEEN: Final = ("open sessions", "tables", "settings of the checkpoint", "versions of Python and Java")
_UNSEEN_CODE: Final = ("release", "versions of Spark and Delta", "deciding code")
_NEEDED: Final = (SPECS, PACKAGE, LOCK, "pyproject.toml")


@shares("as_json", "markdown", "streams")
def diff(
    at: Options,
    stream: StreamOrAll = None,
    *,
    against: Annotated[str, typer.Option(help="Git ref of the repository of the specs, or a folder.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment.")] = False,
) -> None:
    """Compare the specs and the code with those of another checkout, without Spark and without a stream's data.

    Exit code: 0 without a difference, 10 if all can be carried out, 11 if one is refused.
    """
    folder = at.specs
    present = _checkout_around(folder)
    with _other_checkout(against, folder) as other:
        unseen = (*_UNSEEN, *(() if present.has_code and other.has_code else _UNSEEN_CODE))
        ours = {file.stem for file in spec_files(folder)}  # also with a broken spec, because it has not gone
        theirs = {file.stem for file in spec_files(other.specs)} if other.specs.is_dir() else set()
        names = [stream] if stream else sorted(ours | theirs)
        found = [_compare(other, present, name, (ours, theirs), unseen) for name in names]
    lines = "\n".join(line for each in found for line in (each.markdown() if markdown else each.lines()))
    at.show([each.to_json() for each in found], [lines])
    raise typer.Exit(max((each.exit_code for each in found), default=NOTHING))


def _compare(
    other: Checkout, present: Checkout, name: str, names: tuple[set[str], set[str]], unseen: tuple[str, ...]
) -> SpecDiff:
    ours, theirs = names
    before = None if name in ours - theirs else other.side(name)
    now = None if name in theirs - ours else present.side(name)
    if before is None:
        return SpecDiff.come_or_gone(name, None, unseen)
    if now is None:
        renamed = (new for new in sorted(ours - theirs) if {**present.side(new).spec, "name": name} == before.spec)
        return SpecDiff.come_or_gone(name, before.spec, unseen, next(renamed, None))
    if not (present.has_code and other.has_code):  # code and versions cannot be compared
        now = replace(before, spec=now.spec)
    return SpecDiff.between(name, before, now, unseen)


def _checkout_around(folder: Path) -> Checkout:
    parents = [each for each in folder.resolve().parents if each / SPECS == folder.resolve()]
    return Checkout(parents[0] if parents else folder)


@contextmanager
def _other_checkout(against: str, folder: Path) -> Iterator[Checkout]:
    if Path(against).is_dir():
        yield _checkout_around(Path(against))
        return
    with tempfile.TemporaryDirectory(prefix="sessionizer-diff-") as place:
        _extract(against, folder, Path(place))
        yield Checkout(Path(place) / _prefix(folder))


def _extract(ref: str, folder: Path, place: Path) -> None:
    found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if found is None:
        raise _unusable(ref, "give a folder, or a git ref of the repository of the specs")
    commit = found.decode().strip()
    listed = _git(folder, "ls-tree", "-z", "--name-only", commit, "--full-tree", "-r") or b""
    inside = [f"{name}/" for name in os.fsdecode(listed).split("\0")]
    wanted = [each for each in (*_NEEDED, _prefix(folder)) if each and any(n.startswith(f"{each}/") for n in inside)]
    words = ("archive", "--format=tar", commit, "--", *dict.fromkeys(wanted))
    archive = _git(_top(folder), *words) if wanted else None
    if archive is None:
        raise _unusable(ref, "it has no specs and no code: give another ref")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        # Python before 3.11.4 has no filters. Git makes no name outside of the folder, so only links are looked at
        tar.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        tar.extractall(place)  # noqa: S202  a commit of the user's own repository
    for each in place.rglob("*"):
        if each.is_symlink() and not Path(os.path.realpath(each)).is_relative_to(os.path.realpath(place)):
            cause = f"{each.relative_to(place)} is a link to a file outside"
            raise _unusable(ref, f"{cause}: give a folder in which it is checked out")


def _prefix(folder: Path) -> str:
    """Return the folder of specs within its repository, empty if it is the usual one of a checkout with code."""
    inside = folder.resolve().relative_to(_top(folder).resolve()).as_posix()
    return "" if inside in {SPECS, "."} else inside


def _top(folder: Path) -> Path:
    found = _git(folder, "rev-parse", "--show-toplevel")
    if found is None:
        raise _unusable(str(folder), "its specs are in no git repository: give a folder")
    return Path(os.fsdecode(found).removesuffix("\n"))


def _unusable(value: str, cause: str) -> typer.BadParameter:
    """Return an error of the option: its exit code, 2, is none of a comparison."""
    return typer.BadParameter(f"{value!r}: {cause}", param_hint="--against")


def _git(folder: Path, *words: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False, timeout=60)  # noqa: S607  a fixed program
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
