"""The section ``upgrades`` of a spec: what waits for a command, and the hours in which it may begin."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Self, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from sessionizer.home.clock import MINUTE
from sessionizer.stream_spec.document.names import Section, Text, refusal

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY: Final = f"(?:{'|'.join(DAYS)})"
WINDOW_PATTERN: Final = (
    rf"^(?:({_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*) )?"
    r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])(?: ([A-Za-z][A-Za-z0-9_+/-]*))?$"
)
WINDOW_ALLOWED: Final = (
    "days, times and a zone, such as 'Sun 03:00-05:00', 'Mon-Fri 22:00-01:00 Europe/Berlin' or '03:00-05:00' "
    "(every day, UTC)"
)
_LAST_MINUTE: Final = 24 * 60
_WEEK: Final = 7


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """Hours that return on ``days`` (0 is Monday), from ``start`` to ``end`` in minutes of the day in ``zone``.

    An ``end`` at or before ``start`` is on the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: ZoneInfo

    def open_until(self, now_ms: int) -> int | None:
        """Return when the window that is open at ``now_ms`` ends (epoch ms). None while it is closed."""
        return next((end for start, end in self._around(now_ms) if start <= now_ms < end), None)

    def next_start(self, now_ms: int) -> int:
        """Return when the next window after ``now_ms`` begins (epoch ms)."""
        return next(start for start, _ in self._around(now_ms) if start > now_ms)

    def _around(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """Yield the windows of the days from yesterday to the same day of next week, as their starts and ends."""
        today = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        for day in (today + timedelta(days=offset) for offset in range(-1, _WEEK + 2)):
            if day.weekday() in self.days:
                midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001  the zone follows
                length = self.end - self.start if self.end > self.start else self.end - self.start + _LAST_MINUTE
                begin, end = (self._moment(midnight, self.start + after) for after in (0, length))
                # one that lies in the hour that the clocks leave out would have no length, or end before it begins
                yield begin, end if end > begin else begin + length * MINUTE

    def _moment(self, midnight: datetime, minutes: int) -> int:
        local = (midnight + timedelta(minutes=minutes)).replace(tzinfo=self.zone)
        return int(local.astimezone(UTC).timestamp() * 1000)


def parse_window(text: str) -> MaintenanceWindow:
    """Parse ``text`` such as ``Sun 03:00-05:00``. Refuses anything else, an unknown zone and a window of no length."""
    match = re.fullmatch(WINDOW_PATTERN.strip("^$"), text)
    if match is None:
        raise refusal(text, WINDOW_ALLOWED)
    listed, *times, zone = match.groups()
    hour, minute, end_hour, end_minute = map(int, times)
    start, end = 60 * hour + minute, 60 * end_hour + end_minute
    if end > _LAST_MINUTE or start == end:
        raise refusal(text, "an end at 24:00 at the latest, and not at the start")
    try:
        found = ZoneInfo(zone or "UTC")
    except (OSError, ValueError, KeyError):
        raise refusal(text, "a time zone that this machine knows, such as Europe/Berlin") from None
    return MaintenanceWindow(frozenset(_days(listed) if listed else range(_WEEK)), start, end, found)


def _days(listed: str) -> Iterator[int]:
    """Yield the numbers of the listed days. A span may go past Sunday."""
    for span in listed.split(","):
        first, _, last = span.partition("-")
        begin = DAYS.index(first)
        length = (DAYS.index(last or first) - begin) % _WEEK
        yield from ((begin + offset) % _WEEK for offset in range(length + 1))


def _require_window(text: str) -> str:
    parse_window(text)
    return text


Window: TypeAlias = Annotated[
    Text, AfterValidator(_require_window), Field(json_schema_extra={"pattern": WINDOW_PATTERN})
]


class UpgradePolicy(StrEnum):
    """Handling of a waiting upgrade in the maintenance window."""

    APPROVE = "approve"
    """A plan waits on the approval page. Without an answer before the window ends nothing is done."""
    APPLY = "apply"
    """It is carried out without a user, if open sessions lack nothing by it."""
    REFUSE = "refuse"
    """Nothing. Users are told of it, as always."""


class AtRestart(StrEnum):
    """Releases that a driver takes when it starts, without a command. Each value takes those of the one before, too."""

    SAME_CODE = "same_code"
    """A release with the same deciding code."""
    PATCH = "patch"
    """A release of the same line, such as 0.3.1 after 0.3.0."""
    ANY = "any"
    """Every release that can continue the lineage."""


class Upgrades(Section):
    """The handling of a changed spec or an installed release that waits for a command."""

    window: Window | None = Field(
        default=None,
        description="Hours in which a waiting upgrade may begin: days (optional), times, and a time zone (optional, "
        "else UTC). null: never by itself.",
        examples=["Sun 03:00-05:00", "Mon-Fri 22:00-01:00 Europe/Berlin"],
    )
    policy: UpgradePolicy | None = Field(
        default=None,
        strict=False,
        description="Handling in the window: approve (a user is asked for approval), apply (it is carried out if "
        "open sessions lack nothing), or refuse (users are only told). null: refuse.",
    )
    wave: int = Field(
        default=0,
        ge=0,
        le=99,
        description="Place among the streams whose windows are open: an upgrade begins once those of all lower waves "
        "are done.",
    )
    at_restart: AtRestart = Field(
        default=AtRestart.SAME_CODE,
        strict=False,
        description="Releases that a restarted driver takes without an upgrade: same_code (if no code differs that can "
        "change a row), patch (also 0.3.1 after 0.3.0), or any. For others it waits.",
    )
    prove: bool = Field(
        default=False,
        description="Whether an upgrade of the window is proven first: recorded batches are replayed, and nothing is "
        "changed if a row is unexplained.",
    )
    canary: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Number of first batches of a new lineage that are compared with the lineage before. With a number "
        "an upgrade of the window always makes a new lineage. null: only if it needs one.",
    )
    roll_back_if_failed: bool = Field(
        default=False,
        description="Whether an upgrade of the window makes a new lineage and rolls back without asking, if that fails "
        "its canary.",
    )
    replay: bool = Field(
        default=False,
        description="Whether an upgrade of the window makes a new lineage while the stream runs. It is stopped for "
        "seconds, and reads again what came meanwhile.",
    )

    @model_validator(mode="after")
    def _has_a_window(self) -> Self:
        if self.begins_something and self.window is None:
            raise refusal(None, f"hours such as 'Sun 03:00-05:00', because policy is {self.policy}", "window")
        return self

    @property
    def begins_something(self) -> bool:
        """Whether the policy lets an upgrade begin in the window."""
        return self.policy in {UpgradePolicy.APPROVE, UpgradePolicy.APPLY}

    @property
    def hours(self) -> MaintenanceWindow | None:
        """The parsed window."""
        return None if self.window is None else parse_window(self.window)

    def open_until(self, now_ms: int) -> int | None:
        """Return when the open window ends (epoch ms). None while it is closed, or if there is none."""
        return None if self.hours is None else self.hours.open_until(now_ms)
