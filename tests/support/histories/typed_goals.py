"""Kills that a run of typed commands aims at, because drawn commands seldom come to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.lineage.kept_spec import SPEC_FILE
from support.histories.typed_moments import Moment, draw_moment_of_rows, draw_rollback_moment

if TYPE_CHECKING:
    from support.histories.typed_user import TypedUser

NAME: Final = "clicks"
HITS: Final = {
    "roll_back_rows": r"rollback \w+: (?:sessions|quarantine|late_events) ",
    "restore_before_rows": r"restore \w+: (?:sessions|quarantine|late_events) ",
    "apply_in_place": r"apply \w+: lineage: the approved spec ",
    "upgrade_in_place": r"upgrade \w+: lineage: the approved spec ",
    "fail_canary": r"run \w+: [^(]* \(rollback ",
}
"""Goals, and the hits that reach them: see ``Answers.hits``."""
SHARE: Final = 0.5
"""Share of the rounds that go for a goal, while one is not reached."""
MOST_TRIES: Final = 3
"""After so many a goal is left to chance."""
QUERY_STARTS: Final = 2
"""Number of steps that a driver has told when its query starts."""
KILLED_DRIVERS: Final = 3
"""After so many the canary of a lineage has failed."""
GAPS: Final = ("40 seconds", "50 seconds", "60 seconds")


@dataclass(slots=True)
class TypedGoals:
    """The goals of one ``user``. ``tries``: goals that were tried, once for each try."""

    user: TypedUser
    tries: list[str] = field(default_factory=list)

    def next(self) -> str | None:
        """Draw a goal that is not reached. None: this round is for a drawn command."""
        hits = self.user.answers.hits
        open_goals = [
            name
            for name, pattern in HITS.items()
            if self.tries.count(name) < MOST_TRIES and not any(re.match(pattern, hit) for hit in hits)
        ]
        if not open_goals or self.user.chance.random() > SHARE:
            return None
        self.tries.append(self.user.chance.choice(open_goals))
        return self.tries[-1]

    def roll_back_rows(self) -> None:
        """Roll back from a lineage that has written rows."""
        self.user.approve("rescale", NAME, "--key-groups", self._other_groups())
        self._read_more()
        self.user.approve("rollback", NAME, at=draw_moment_of_rows(self.user.chance))

    def restore_before_rows(self) -> None:
        """Restore a savepoint after which rows were written."""
        name = f"g{len(self.tries)}"
        self.user.ask("savepoint", "create", NAME, "--id", name, *self.user.chance.choice([["--native"], []]))
        self._read_more()
        self.user.approve("restore", NAME, name, at=draw_moment_of_rows(self.user.chance))

    def apply_in_place(self) -> None:
        """Apply another gap timeout, which needs no new lineage."""
        self._edit_gap()
        self.user.approve("apply", NAME)

    def upgrade_in_place(self) -> None:
        """Upgrade to a file with another gap timeout, which needs no new lineage."""
        self._edit_gap()
        self.user.approve("upgrade", NAME)

    def fail_canary(self) -> None:
        """Let the canary of a new lineage fail by killed drivers, and kill those that roll back on their own."""
        user = self.user
        user.kill_driver()
        user.approve("rescale", NAME, "--key-groups", self._other_groups(), "--roll-back-if-failed")
        self._read_more()  # it writes rows, so that the rollback has some to delete
        user.stream.bring(KILLED_DRIVERS)
        for _ in range(KILLED_DRIVERS):
            user.cut("run", NAME, at=Moment(QUERY_STARTS, user.chance.uniform(0, 4)))
        for draw in (draw_moment_of_rows, draw_moment_of_rows, draw_rollback_moment):  # the first often only ends
            user.cut("run", NAME, "--until", "caught-up", at=draw(user.chance))

    def _read_more(self) -> None:
        """Read two files more: the later one ends the sessions of the other."""
        self.user.follow_operation()
        self.user.stream.mend_file()
        self.user.stream.bring(2)
        self.user.ask("stop", NAME)
        if self.user.driver is not None:
            self.user.driver.process.wait(120)
        self.user.ask("run", NAME, "--until", "caught-up")

    def _edit_gap(self) -> None:
        """Write the file as the active lineage runs by it, but for another gap timeout."""
        stream = self.user.stream
        kept = SPEC_FILE.of(stream.home, str(stream.stage.lineage)).require()
        assert kept is not None
        now = kept.document
        gap = self.user.chance.choice([gap for gap in GAPS if gap != now["rules"]["gap_timeout"]])
        stream.edit(
            key_groups=now["key_groups"],
            source={**stream.document["source"], "path": now["source"]["path"]},
            mapping={**stream.document["mapping"], "payload": now["mapping"]["payload"]},
            rules={**stream.document["rules"], "gap_timeout": gap},
        )

    def _other_groups(self) -> str:
        kept = SPEC_FILE.of(self.user.stream.home, str(self.user.stream.stage.lineage)).require()
        assert kept is not None
        return str(self.user.chance.choice([groups for groups in (2, 3, 4) if groups != kept.document["key_groups"]]))
