"""Comparison of the plan that a user approved with the plan now, for the error that they differ."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from sessionizer.control.records.operation_record import read_operations, read_requests
from sessionizer.counts import count_text
from sessionizer.errors import PlanChanged, SessionizerError
from sessionizer.home.clock import moment_text
from sessionizer.home.json_record import typed_digest
from sessionizer.home.stream_home import StreamHome

LISTED: Final = 5
_LONGEST: Final = 60
_CANARY: Final = "canary"
_WORDS: Final = {
    "batch_id": "batch",
    "fingerprint": "spec",
    "leaves": "lineage that is left",
    "excluded_ranges.ranges": "excluded ranges",
    "live_from": "begin of the live source",
    "lost": "lost events",
    "manifest": "manifest of the savepoint",
    "past.format": "format of the history",
    "past.place": "history",
    "past.version": "version of the history",
    "start.at": "moment at which the new source begins",
    "start.edge": "end at which the new source begins",
    "until_ms": "end of the history",
}
"""Names of decided fields for users. Any other field has its own name."""


class Decided(Protocol):
    """Decision of a command."""

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers. Empty if an earlier release wrote them."""

    @property
    def digest(self) -> str:
        """Digest of the decision: 16 hex digits, the same on any machine."""


class DigestOfDecided:
    """Base of a decision whose digest is computed from its ``decided`` fields."""

    __slots__ = ()

    # a subclass has a property, or a field of a dataclass, which would take a property for its default
    if TYPE_CHECKING:

        @property
        def decided(self) -> Mapping[str, Any]:
            """Fields that the digest covers."""

    @property
    def digest(self) -> str:
        """Digest of the decision: 16 hex digits, the same on any machine."""
        return typed_digest(self.decided)


@dataclass(frozen=True)
class DecidedFields(DigestOfDecided):
    """Decision of a command before its plan is made: the fields that are ``decided``."""

    decided: Mapping[str, Any] = field(default_factory=dict)


def require_approved(home: StreamHome, approved: str, now: Decided, known: Mapping[str, Any] | None = None) -> None:
    """Raise PlanChanged unless ``now`` has the ``approved`` digest. ``known``: the approved decided fields."""
    if approved != now.digest:
        before = known or find_decided(home, approved)
        raise PlanChanged(home.name, approved, now.digest, list_differences(before, now.decided))


def find_decided(home: StreamHome, digest: str) -> Mapping[str, Any]:
    """Find the decided fields of a plan by its ``digest``, {} if no record has them. Never raises."""
    with suppress(SessionizerError):
        kept: list[Decided] = [*read_requests(home), *read_operations(home)]
        return next((each.decided for each in kept if each.digest == digest and each.decided), {})
    return {}


def list_differences(approved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a text for each field that differs, ``LISTED`` at most. Empty if one of the plans is unknown. Pure."""
    if not approved or not now:
        return ()
    before, after = (dict(_leaves(json.loads(json.dumps(each)))) for each in (approved, now))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    found = [_describe(name, before.get(name), after.get(name)) for name in names]
    return (*found[:LISTED], *((f"{len(found) - LISTED} more",) if len(found) > LISTED else ()))


def _leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _describe(name: str, before: Any, now: Any) -> str:  # noqa: ANN401  any value of JSON
    """Name the field and both values. Of lists only the parts that differ are shown."""
    if isinstance(before, list) and isinstance(now, list) and name != _CANARY:
        before, now = ([each for each in this if each not in that] for this, that in ((before, now), (now, before)))
    word = _WORDS.get(name, name.replace("_", " ").replace(".", " "))
    return f"{word}: {_cut(_show(name, before))} → {_cut(_show(name, now))}"


def _show(name: str, value: Any) -> str:  # noqa: ANN401  any value of JSON
    if name == _CANARY:
        return _show_canary(value)
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith(("_ms", ".at")):
        return moment_text(value)
    if isinstance(value, list):
        return ", ".join(_show_item(each) for each in value)
    return str(value)


def _show_canary(terms: list[Any] | None) -> str:
    """Describe the terms of a canary as a digest has them: None stands for the usual ones."""
    if terms is None:
        return "the usual one"
    batches, goes_back = terms
    return f"{count_text(batches, 'batch')}{', with a rollback' if goes_back else ''}" if batches else "none"


def _show_item(item: Any) -> str:  # noqa: ANN401  any value of JSON
    if isinstance(item, list):
        return f"{item[0]} = {item[-1]}"
    return str(next(iter(item.values()), "")) if isinstance(item, dict) else str(item)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
