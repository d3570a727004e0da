"""Pages of the documentation: what they name is there."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pyspark
import pytest
import typer

from sessionizer.cli.app import app
from sessionizer.home.record_file import ControlFile, LineageFile
from sessionizer.home.stream_home import Below, LineageHome
from sessionizer.launch.installation import jar_folder
from sessionizer.stream_spec.document.names import variable_of
from sessionizer.stream_spec.spec_text import stream_schema
from support.places import REPOSITORY
from support.record_files import record_files

LINK = re.compile(r"\]\(([^)\s]+)\)")
DOCUMENTS = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    links = [(page, target) for page in DOCUMENTS for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [(page.name, target) for page, target in links if "://" not in target and not leads(page, target)] == []


def leads(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    return found.exists() and (not anchor or found.suffix != ".md" or anchor in anchors(found))


OURS = re.compile(r"`((?:[\w-]+/)*\w+\.py)(?:::\w+)?`")
"""A file of Python between backticks: its name, or the end of its path."""
NOT_OURS = {"pyspark/daemon.py"}


def test_every_file_of_python_that_a_page_names_is_there() -> None:
    named = {(page.name, name) for page in DOCUMENTS for name in OURS.findall(page.read_text(encoding="utf-8"))}
    assert [name for name in named if name[1] not in NOT_OURS and not is_there(name[1])] == []


def is_there(name: str) -> bool:
    return any(path.endswith(f"/{name}") for path in python_files())


@cache
def python_files() -> list[str]:
    roots = ("jobs", "plugins", "dags", "demo", "benchmarks", "tests", "docker", "release")
    return [f"/{path.relative_to(REPOSITORY)}" for root in roots for path in (REPOSITORY / root).rglob("*.py")]


def test_every_decision_is_in_the_index() -> None:
    folder = REPOSITORY / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in folder.glob("0*.md") if f"({path.name})" not in index]
    assert not missing


NO_OPENING = {"README.md", "benchmark-results.md"}
"""The index, and a page that a program writes."""


TIME = re.compile(r"\b(?:seconds?|minutes?|hours?)\b|\d s\b")


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_page_says_when_to_use_it_for_how_long_and_is_in_the_index(page: Path) -> None:
    opening = page.read_text(encoding="utf-8").split("\n\n")[1]
    assert page.name in NO_OPENING or (opening.startswith("Use this when ") and TIME.search(opening))
    index = (REPOSITORY / "docs" / "README.md").read_text(encoding="utf-8")
    assert page.name == "README.md" or f"({page.name})" in index


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    section = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition("## Figures")[2].partition("\n## ")[0]
    pages = ("benchmark-results.md", "develop/benchmarks.md")
    measured = "".join((REPOSITORY / "docs" / page).read_text(encoding="utf-8") for page in pages)
    figures = re.findall(r"(?<= )\d[\d,.]*(?= \|)", section)
    assert len(figures) > 8
    assert [figure for figure in figures if f" {figure} " not in measured] == []


TREE: Final = typer.main.get_command(app)
PAGES: Final = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("examples/*/*.md")]
BLOCK: Final = re.compile(r"^ *```.*?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
TYPED: Final = re.compile(r"^ *(?:\$ )?(?:[\w./-]*/)?sessionizer ((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
INLINE: Final = re.compile(r"(?<!`)`sessionizer ([^`]+)`")
OPTION: Final = re.compile(r"(?<!`)`(--[a-z][\w-]*)[^`]*`")
NO_PAGES_OF_OURS: Final = {"CHANGELOG.md", "CONTRIBUTING.md", "benchmarks.md"}
"""Pages with options of other programs, or of earlier releases."""
OF_OTHERS: Final = {"--flag", "--help", "--jars", "--py-files", "--web"}
"""Options of spark-submit and Prometheus, of every command, and one that stands for any."""
ANY_NAME: Final = ("…", "COMMAND", "commands")
"""Words that stand for every command."""


def commands_of(page: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.findall(text):
        yield from (typed.replace("\\\n", " ") for typed in TYPED.findall(block))
    yield from (inline.replace("\n", " ") for inline in INLINE.findall(BLOCK.sub("", text)))


def words_of(command: str) -> list[str]:
    """Return the words of a command without its comment, and without brackets around a word that may be left out."""
    quoted = command if command.count('"') % 2 == 0 and command.count("'") % 2 == 0 else re.split("[\"']", command)[0]
    return [word.strip("[]") for word in shlex.split(quoted, comments=True) if word not in {"|", "&&"}]


def unknown_words(command: str) -> Iterator[str]:
    """Yield the words that name no command, and the options that the command does not have."""
    group: Any = TREE
    words = words_of(command)
    while hasattr(group, "commands") and words:
        word = words.pop(0)
        if word.startswith("-"):
            known = {name: each for each in group.params for name in each.opts} | {"--help": None}
            if word not in known:
                yield word
            elif known[word] is not None and not known[word].is_flag:
                words.pop(0)
        elif word in ANY_NAME:
            return
        elif word in group.commands:
            group = group.commands[word]
        else:
            yield word
            return
    options = {name for each in group.params for name in each.opts} | {"--help"}
    yield from (word for word in words if word.startswith("--") and word not in options)


def options_of(group: Any) -> set[str]:
    own = {name for each in group.params for name in each.opts}
    return own.union(*(options_of(each) for each in getattr(group, "commands", {}).values()))


def test_the_commands_of_all_pages_exist() -> None:
    found = {(page.name, command): list(unknown_words(command)) for page in PAGES for command in commands_of(page)}
    assert len(found) > 300
    assert {command: words for command, words in found.items() if words} == {}


def test_each_option_between_backticks_is_one_of_a_command() -> None:
    known = options_of(TREE) | OF_OTHERS
    pages = [page for page in PAGES if page.name not in NO_PAGES_OF_OURS]
    named = {page.name: OPTION.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))) for page in pages}
    assert sum(len(options) for options in named.values()) > 150
    assert {page: set(options) - known for page, options in named.items() if set(options) - known} == {}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("restor clicks", ["restor"]),
        ("restore clicks --leave-in x", ["--leave-in"]),
        ("--control hdfs://n:8020/control status", []),
        ("savepoint prune clicks --keep 1 --yes   # deletes", []),
        ("… --home copy", []),
    ],
)
def test_a_wrong_word_is_found(command: str, words: list[str]) -> None:
    assert list(unknown_words(command)) == words


X = Path("/x")
ROOTS = ("jobs", "plugins", "tests")
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def names_of(files: LineageHome) -> list[str]:
    """The names of the files that have no record of one kind."""
    return [getattr(files, name).name for name, place in vars(LineageHome).items() if isinstance(place, Below)]


def test_every_file_of_a_stream_is_on_the_page() -> None:
    records = [file.name.replace("{}", f"<{file.key}>") for file in record_files(ControlFile)]
    of_lineages = [f"lineages/<id>/{file.name}" for file in record_files(LineageFile)]
    missing = [name for name in (*records, *of_lineages, *names_of(LineageHome(X, X))) if name not in PAGE]
    assert len(records) > 10
    assert len(of_lineages) > 8
    assert not missing


def test_every_room_is_on_the_page() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms = {room for contract in contracts for layer in contract.get("layers", []) for room in layer.split(" | ")}
    missing = sorted(room for room in rooms if f"`{room}`" not in PAGE and f"`{room}.py`" not in PAGE)
    assert not missing


def test_every_file_of_ours_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:jobs|plugins|dags|tests|spark|core|cli|control)/[\w/]+(?:\.\w+)?)`", PAGE))
    roots = (REPOSITORY, REPOSITORY / "jobs" / "sessionizer")
    gone = [name for name in named if not any((root / name).exists() for root in roots) and "json" not in name]
    assert not gone


def test_every_file_that_a_paragraph_about_a_folder_names_is_in_it() -> None:
    paragraphs = re.findall(r"^In `(\w+/[\w/]+)`: (.+?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert len(paragraphs) >= 2
    gone = [
        f"{folder}/{name}"
        for folder, text in paragraphs
        for name in re.findall(r"`(\w+\.py)`", text)
        if not (REPOSITORY / folder / name).exists()
    ]
    assert not gone


def test_each_change_begins_in_a_file_that_is_there() -> None:
    """The first file of a row is named in full, or its folder is. A row names the others by the end of their path."""
    table = PAGE.partition("## Where a change begins")[2].partition("### ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    ours = {f"/{file.relative_to(REPOSITORY)}" for root in ROOTS for file in (REPOSITORY / root).rglob("*.py")}
    begins = {row[0]: re.findall(r"`((?:jobs|plugins)/[\w/]+(?:\.py)?)`", row[1]) for row in rows}
    lost = [change for change, named in begins.items() if named and not (REPOSITORY / named[0]).exists()]
    named = {name for row in rows for name in re.findall(r"`([\w/]+\.py)`", " ".join(row))}
    gone = sorted(name for name in named if not any(file.endswith(f"/{name}") for file in ours))
    assert sum(bool(named) for named in begins.values()) >= 19
    assert (lost, gone) == ([], [])


DECISIONS: Final = sorted((REPOSITORY / "docs" / "adr").glob("0*.md"))
QUOTED: Final = re.compile(r"(?<!`)`([^`]+)`")
CLASS_NAME: Final = re.compile(r"(?<![\w.$])(?:([A-Z][a-z]+(?:[A-Z][a-z0-9]*)+)(?:\.(\w+))?|([A-Z][a-z]+)\.([a-z]\w*))")
DOTTED: Final = re.compile(r"[a-z_]+(?:\.\w+)+")
RECORD: Final = re.compile(r"(?:control/)?[\w.]+\.json")
PATH: Final = re.compile(r"\w[\w.-]*(?:/[\w.-]+)+/?")
SETTING: Final = re.compile(r"SESSIONIZER_[A-Z_]+")
SETTINGS: Final = {*SETTING.findall((REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8"))}
COMMANDS: Final = frozenset(getattr(TREE, "commands", ()))
SPEC: Final = stream_schema()
CODE: Final = REPOSITORY / "jobs" / "sessionizer"
PLACES: Final = (REPOSITORY, REPOSITORY / "jobs", CODE, REPOSITORY / "plugins" / "sessionizer_airflow")
MODULES_OF_OTHERS: Final = (
    "builtins", "pyarrow", "pyspark.sql", "pyspark.sql.streaming", "delta.tables", "airflow.sdk.exceptions",
    "airflow.sdk.definitions.callback", "airflow.sdk.definitions.deadline",
)  # fmt: skip
"""Modules of the installed packages whose classes a decision may name."""
JARS_OF_OTHERS: Final = ("spark-core*", "spark-sql*", "spark-catalyst*", "hadoop-client-api*", "delta-spark*")
OTHER_NAMES: Final = {"AlreadyExistsError": "obstore, which is not installed"}


@cache
def sources() -> dict[Path, str]:
    roots = ("jobs", "plugins", "dags", "demo", "benchmarks", "tests")
    return {path: path.read_text("utf-8") for root in roots for path in (REPOSITORY / root).rglob("*.py")}


@cache
def homes_of_classes() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path, text in sources().items():
        for name in re.findall(r"^(?:class|type) (\w+)|^(\w+)(?:: TypeAlias)? = ", text, re.MULTILINE):
            found.setdefault(name[0] or name[1], []).append(path)
    return found


@cache
def classes_in_jars() -> set[str]:
    folders = (Path(pyspark.__file__).parent / "jars", jar_folder())
    jars = [jar for folder in folders for pattern in JARS_OF_OTHERS for jar in folder.glob(f"{pattern}.jar")]
    return {re.split(r"[/$]", name)[-1].removesuffix(".class") for jar in jars for name in ZipFile(jar).namelist()}


def is_of_others(name: str) -> bool:
    found = any(hasattr(import_module(module), name) for module in MODULES_OF_OTHERS)
    return found or name in OTHER_NAMES or name in classes_in_jars()


def unknown_classes(quoted: str) -> Iterator[str]:
    for long, member, short, of_short in CLASS_NAME.findall(quoted):
        name, part = long or short, member or of_short
        homes = homes_of_classes().get(name)
        if homes is None:
            yield from [] if is_of_others(name) else [name]
        elif part and not any(re.search(rf"\b(?:def {part}\b|{part}\b *[:=])", sources()[home]) for home in homes):
            yield f"{name}.{part}"


def has_field(path: str) -> bool:
    """Whether a spec has the dotted field, whichever kind of source it has."""
    nodes: list[Any] = [SPEC]
    for name in path.split("."):
        below = [each for node in nodes for each in unfold(node)]
        nodes = [node["properties"][name] for node in below if name in node.get("properties", ())]
    return bool(nodes)


def unfold(node: Any) -> Iterator[Any]:
    node = SPEC["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    yield node
    for each in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from unfold(each)


def has_module(path: str) -> bool:
    """Whether the dotted path is a module of ours, or a name in one."""
    parts = path.split(".")
    place = CODE.joinpath(*parts)
    owner = place.parent.with_suffix(".py")
    return place.is_dir() or place.with_suffix(".py").exists() or (owner in sources() and parts[-1] in sources()[owner])


def is_gone(name: str) -> bool:
    """Whether it has the form of a record, a field, a module or a path of ours, but is none."""
    head = re.split(r"[./]", name)[0]
    if name.endswith(".py"):
        return False  # another test looks for it
    if RECORD.fullmatch(name):
        ours = (text for path, text in sources().items() if CODE in path.parents)
        return not any(Path(name).name in text for text in (PAGE, *ours))
    if DOTTED.fullmatch(name) and head in SPEC["properties"]:
        return not has_field(name)
    if DOTTED.fullmatch(name):
        return head != "spark" and (CODE / head).is_dir() and not has_module(name)
    if PATH.fullmatch(name) and any((place / head).exists() for place in PLACES):
        return name not in PAGE and not any((place / name).exists() for place in PLACES)
    return False


def unknown_names(quoted: str) -> Iterator[str]:
    """Yield the commands, fields, classes, settings, records, modules and paths of a quotation that are not there."""
    quoted = " ".join(quoted.split())
    if re.match(r"[a-z-]+ .*--", quoted) and quoted.split()[0] in COMMANDS:
        yield from unknown_words(quoted)
    yield from unknown_classes(quoted)
    yield from set(SETTING.findall(quoted)) - SETTINGS
    if is_gone(quoted):
        yield quoted


def test_a_decision_names_only_what_is_there() -> None:
    named = {page.name: QUOTED.findall(page.read_text(encoding="utf-8")) for page in DECISIONS}
    assert sum(map(len, named.values())) > 700
    unknown = {(page, name) for page, quoted in named.items() for each in quoted for name in unknown_names(each)}
    assert sorted(unknown) == []


@pytest.mark.parametrize(
    ("quoted", "unknown"),
    [
        ("run --until drained", []),
        ("switch STREAM --accept-lost", ["--accept-lost"]),
        ("rules.emit_every", []),
        ("rules.idle_timeout", ["rules.idle_timeout"]),
        ("source.registry.url", []),
        ("StreamHome.of", []),
        ("StreamHome.from_path", ["StreamHome.from_path"]),
        ("TryEval(struct(input))", []),
        ("DriverLopp", ["DriverLopp"]),
        ("core.wire.rows.REVISION", []),
        ("state.beginning.reading", ["state.beginning.reading"]),
        (variable_of("house"), [variable_of("house")]),
        ("tests/unit/control", []),
        ("control/rooms", ["control/rooms"]),
        ("lineages.json", ["lineages.json"]),
    ],
)
def test_a_name_that_is_not_there_is_found(quoted: str, unknown: list[str]) -> None:
    assert list(unknown_names(quoted)) == unknown


MOST_WORDS: Final = 450


def test_a_decision_is_short_and_its_file_and_the_index_repeat_its_title() -> None:
    index = (REPOSITORY / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    for page in DECISIONS:
        text = page.read_text(encoding="utf-8")
        number, _, title = text.partition("\n")[0].removeprefix("# ").partition(": ")
        assert len(re.findall(r"[^\s|]+", text)) <= MOST_WORDS, page.name
        slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"['`]", "", title.lower()))
        assert (page.stem, len(title.split()) <= 8) == (f"{number}-{slug}", True)
        assert f"- [{number}]({page.name}) {title}\n" in index
