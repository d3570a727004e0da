"""Each command that a remedy names can be pasted. Each terminal cause of a source names one."""

import re
from pathlib import Path
from typing import Final

import pytest

from sessionizer import errors
from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import CAUSES, remedy_for
from sessionizer.control.history.straggler import STRAGGLER_REMEDIES
from sessionizer.errors import RetryEffect
from sessionizer.lineage.canary.judge import backfill_command
from sessionizer.stream_spec.spec_text import stream_schema
from support.expected.error_examples import EXAMPLES
from support.expected.named_commands import commands_in, faults
from support.places import REPOSITORY
from support.sentences import refusals_in, texts_in

OF_SOURCES: Final = (
    "source_data_loss", "source_rewritten", "source_forbidden", "source_missing", "schema_change", "bad_data",
    "SourceMissing", "SourceForbidden", "SourceReplaced",
)  # fmt: skip
"""Causes by which a source ends a driver until a person does something."""
WITH_MORE: Final = (
    errors.InvalidSpec("mapping.key", "user", "an expression over u"),
    errors.InvalidSpec("rules.older", 1, "a known key", file=Path("/home/lineages/a/spec.json")),
    errors.LineageUnfit("clicks", "b", "a", "80% of its rows were refused, 1% before"),
    errors.LineageUnfit("clicks", "b", None, "80% of its rows were refused, 1% before"),
)
"""Errors of which the command line says more than the cause."""
REMEDIES: Final = {
    **{name: name_stream(cause.remedy, "clicks") for name, cause in CAUSES.items()},
    **{f"{number}: {type(error).__name__}": remedy_for(error) for number, error in enumerate([*WITH_MORE, *EXAMPLES])},
    "a late backlog": f"run `{backfill_command('clicks')}`",
    **{f"a straggler: {kind}": name_stream(remedy, "clicks") for kind, remedy in STRAGGLER_REMEDIES.items()},
}

REFUSALS: Final = sorted(
    text
    for text in {*refusals_in((REPOSITORY / "jobs").rglob("*.py")), *map(str, [*WITH_MORE, *EXAMPLES])}
    if commands_in(text)
)
"""The values to use instead, and the errors, that name a command."""
SECTIONS: Final = stream_schema()["properties"]
FIELD: Final = re.compile(rf"(?<![\w./{{])({'|'.join(SECTIONS)})\.((?!json\b)[a-z_]+)(?!\w)")
"""A field of a spec, as a sentence names it: `rules.idle_after`."""
VARIABLE: Final = re.compile(r"SESSIONIZER_[A-Z_]+")
FILLED_IN: Final = re.compile(r"\{[^{}]*\}|<[a-z]+>|[A-Z]{3,}|…")


def fields_of(section: str) -> set[str]:
    """Return the names of all fields in a section of a spec, whichever kind of source it is."""
    schema, found, todo = stream_schema(), set[str](), [SECTIONS[section]]
    while todo:
        node = todo.pop()
        node = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        found |= set(node.get("properties", ()))
        todo += [*node.get("anyOf", ()), *node.get("oneOf", ())]
    return found


def test_the_commands_of_a_remedy_and_of_a_refusal_can_be_pasted() -> None:
    texts = [*REMEDIES.items(), *((text, text) for text in REFUSALS)]
    found = [(name, words) for name, text in texts for words in commands_in(text)]
    assert [(name, words) for name, words in found if list(faults(words))] == []
    assert [name for name, words in found if name in REMEDIES and "…" in words] == []


def test_what_a_text_names_exists() -> None:
    """A remedy once named the field `rules.idle_timeout`, which no spec has."""
    texts = list(texts_in(file for folder in ("jobs", "plugins") for file in (REPOSITORY / folder).rglob("*.py")))
    scripts = [file.read_text(encoding="utf-8") for file in (REPOSITORY / "jobs/sessionizer/page").rglob("*.js")]
    settings = set(VARIABLE.findall((REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")))
    fields = {section: fields_of(section) for section in SECTIONS}
    named = [found for text in texts for found in FIELD.findall(text)]
    typed = [words for text in (*texts, *scripts) for words in commands_in(FILLED_IN.sub("X", text))]
    commands = [words for words in typed if words[0] != "X" and words[0].isalpha()]
    assert (len(named) > 50, len(commands) > 80) == (True, True)
    assert [".".join(found) for found in named if found[1] not in fields[found[0]]] == []
    assert {name for text in texts for name in VARIABLE.findall(text)} - settings - {"SESSIONIZER_SUBMITTED"} == set()
    assert [words for words in commands if list(faults([*words, "X", "X"]))] == []


@pytest.mark.parametrize("name", OF_SOURCES)
def test_what_is_wrong_with_a_source_has_a_command(name: str) -> None:
    assert CAUSES[name].verdict is not RetryEffect.TRANSIENT
    assert commands_in(CAUSES[name].remedy)


def test_what_is_wrong_with_a_command_is_found() -> None:
    assert list(faults(["switsch"])) == ["switsch"]
    assert list(faults(["switch", "--accept-lost", "clicks"])) == ["--accept-lost"]
    assert list(faults(["spec", "check", "--deep", "clicks"])) == []
    assert list(faults(["savepoint", "list"])) == ["stream"]
    assert list(faults(["run", "--until", "caught-up"])) == ["stream"]
