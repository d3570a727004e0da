"""Kills that a run of typed commands aims at, because drawn commands seldom come to them."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sessionizer.control.records.erasure_record import read_unswept
from sessionizer.errors import UpgradeWaits
from sessionizer.lineage.active import examine_drain
from support.histories.typed_moments import Moment, draw_moment_of_rows, draw_rollback_moment
from support.histories.typed_user import GAPS, TypedUser, edit_rules

NAME: Final = "clicks"
HITS: Final = {
    "roll_back_rows": r"rollback \w+: (?:sessions|quarantine|late_events) ",
    "restore_before_rows": r"restore \w+: (?:sessions|quarantine|late_events) ",
    "apply_in_place": r"apply \w+: lineage: the approved spec ",
    "upgrade_in_place": r"upgrade \w+: lineage: the approved spec ",
    "fail_canary": r"run \w+: [^(]* \(rollback ",
}
"""Goals, and the hits that reach them: see ``Answers.hits``."""
KILLED_DRIVERS: Final = 3
"""After so many the canary of a lineage has failed."""


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
            if self.tries.count(name) < 3 and not any(re.match(pattern, hit) for hit in hits)
        ]
        if not open_goals or self.user.chance.random() > 0.5:
            return None
        self.tries.append(self.user.chance.choice(open_goals))
        return self.tries[-1]

    def roll_back_rows(self) -> None:
        self.user.approve("rescale", NAME, "--key-groups", self._other_groups())
        self._read_more()
        self.user.approve("rollback", NAME, at=draw_moment_of_rows(self.user.chance))

    def restore_before_rows(self) -> None:
        name = f"g{len(self.tries)}"
        self.user.ask("savepoint", "create", NAME, "--id", name, *self.user.chance.choice([["--native"], []]))
        self._read_more()
        self.user.approve("restore", NAME, name, at=draw_moment_of_rows(self.user.chance))

    def apply_in_place(self) -> None:
        self._edit_gap()
        self.user.approve("apply", NAME)

    def upgrade_in_place(self) -> None:
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
            user.cut("run", NAME, at=Moment(2, user.chance.uniform(0, 4)))  # it starts its query
        for draw in (draw_moment_of_rows, draw_moment_of_rows, draw_rollback_moment):  # the first often only ends
            user.cut("run", NAME, "--until", "caught-up", at=draw(user.chance))

    def _read_more(self) -> None:
        self.user.follow_operation()
        self.user.stream.mend_file()
        self.user.stream.bring(2)
        self.user.stop_driver()
        self.user.ask("run", NAME, "--until", "caught-up")

    def _edit_gap(self) -> None:
        """Write the file as the active lineage runs by it, but for another gap timeout."""
        stream = self.user.stream
        now = stream.kept_document()
        gap = self.user.chance.choice([gap for gap in GAPS if gap != now["rules"]["gap_timeout"]])
        stream.edit(
            key_groups=now["key_groups"],
            source={**stream.document["source"], "path": now["source"]["path"]},
            mapping={**stream.document["mapping"], "payload": now["mapping"]["payload"]},
            rules={**stream.document["rules"], "gap_timeout": gap},
        )

    def _other_groups(self) -> str:
        now = self.user.stream.kept_document()["key_groups"]
        return str(self.user.chance.choice([groups for groups in (2, 3, 4) if groups != now]))


CHANGED_BEFORE: Final = 0.7
"""Share of the upgrades of a spec that is changed before. The others mostly find nothing to do."""
WEIGHTS: Final = {
    "bring": 4, "read": 3, "start": 3, "stop": 0.5, "save": 3, "restore": 6, "exclude": 2, "rollback": 8, "rescale": 4,
    "apply": 6, "upgrade": 3, "switch": 3, "start_over": 3, "promote": 1, "compact": 2, "install": 2,
    "seed": 0.1, "erase": 2, "abandon": 0.3, "look": 0.3, "doctor": 0.1, "edit": 4, "break": 0.5, "advice": 0.5,
}  # fmt: skip

TYPED: Final = {
    "seed": ("seed", NAME, "--history", "source"),
    "compact": ("compact", NAME, "--yes"),
    "promote": ("promote", NAME),
    "abandon": ("abandon", NAME),
    "doctor": ("doctor",),
}
"""Draws that are one command, without a plan."""
COMBINED: Final = (
    (), (), ("--with-file",), ("--with-file", "--key-groups", "3", "--partitions", "2"), ("--partitions", "1"),
)  # fmt: skip
"""Options of a restore that continues otherwise than the savepoint."""


@dataclass(slots=True)
class TypedDraws:
    """The commands of one ``user``. ``saved``: names of the savepoints that were asked for.

    ``releases``: folders of the code that may be installed.
    """

    user: TypedUser
    releases: tuple[Path, ...]
    saved: list[str] = field(default_factory=list)
    broken_for: int = 0
    people: int = 0
    """Files of people that were written."""
    goals: TypedGoals = field(init=False)

    def __post_init__(self) -> None:
        self.goals = TypedGoals(self.user)

    def one(self) -> str:
        """Draw a command and type it. Returns its name."""
        self._mend_in_time()
        draw: Callable[[], None]
        goal = self.goals.next()
        if goal is not None:
            draw = getattr(self.goals, goal)
            draw()
            return goal
        name = self.user.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if name in TYPED:
            self.user.type(*TYPED[name])
        else:
            draw = getattr(self, f"_{name}")
            draw()
        return name

    def finish(self) -> None:
        """Read all files and close all sessions, with whatever the advice is on the way."""
        user = self.user
        user.stream.mend_file()
        if user.driver is not None:
            user.stop_driver()
        user.follow_operation()
        user.require_settled()
        user.stream.bring(1)
        if user.chance.random() < 0.5:
            self._cut_drain()
        for _ in range(8):
            answer = user.type("run", NAME, "--until", "drained")
            drain = examine_drain(user.stream.home)
            if drain is not None and drain.is_over:
                return
            if answer.code == UpgradeWaits.exit_code:
                user.approve("upgrade", NAME)
            user.follow_advice()
            user.require_settled()
        raise AssertionError(answer.text)

    def _cut_drain(self) -> None:
        """Kill a driver that drains, and type a command that changes the state."""
        user = self.user
        user.cut("run", NAME, "--until", "drained", at=Moment(3, user.chance.uniform(0, 2)))
        draw: Callable[[], None] = user.chance.choice([self._restore, self._rescale, self._rollback, self._upgrade])
        draw()
        user.follow_operation()

    def _bring(self) -> None:
        self.user.stream.bring(self.user.chance.randint(1, 3))

    def _read(self) -> None:
        flags = ["--apply"] if self.user.chance.random() < 0.3 else []
        self.user.type("run", NAME, "--until", "caught-up", *flags)

    def _start(self) -> None:
        self.user.start()
        time.sleep(self.user.chance.uniform(0, 15))
        if self.user.chance.random() < 0.3:
            self.user.kill_driver()

    def _stop(self) -> None:
        if self.user.chance.random() < 0.3:
            self.user.kill_driver()
        self.user.type("stop", NAME)

    def _save(self) -> None:
        self.saved.append(f"s{len(self.saved)}")
        flags = self.user.chance.choice([["--native"], [], ["--stop"], ["--hurry"]])
        self.user.type("savepoint", "create", NAME, "--id", self.saved[-1], *flags)

    def _restore(self, *options: str) -> None:
        if not self.saved:
            self._save()
        else:
            combined = self.user.chance.choice(COMBINED)
            self.user.approve(
                "restore", NAME, self.user.chance.choice(self.saved), *options, *combined, *self._canary()
            )

    def _exclude(self) -> None:
        if self.user.stream.files:
            self._restore("--exclude", f"f{self.user.chance.randrange(self.user.stream.files):03}.json")

    def _rollback(self) -> None:
        self.user.approve("rollback", NAME)

    def _rescale(self) -> None:
        groups = self.user.chance.choice([2, 3, 4])
        self.user.approve("rescale", NAME, "--key-groups", str(groups), *self._canary())

    def _apply(self) -> None:
        if self.user.chance.random() < CHANGED_BEFORE:
            self._edit()
        new = ["--new-lineage"] if self.user.chance.random() < 0.4 else []
        self.user.approve("apply", NAME, *new)

    def _upgrade(self) -> None:
        if self.user.chance.random() < CHANGED_BEFORE:
            self._edit()
        new = ["--new-lineage"] if self.user.chance.random() < 0.5 else []
        divided = self.user.chance.choice([(), (), ("--partitions", "1"), ("--key-groups", "4", "--partitions", "2")])
        self.user.approve("upgrade", NAME, *new, *divided, *self._canary())

    def _switch(self) -> None:
        user, before = self.user, self.user.stream.folder
        user.type("run", NAME, "--until", "caught-up")
        folder = f"feed{len(user.stream.sources)}"
        (user.stream.stage.home / folder).mkdir(exist_ok=True)
        self._point_at(folder)
        user.approve("switch", NAME, "--start-at", "earliest", *self._canary())
        if user.stream.folder == before:
            self._point_at(before)

    def _start_over(self) -> None:
        self.user.approve("seed", NAME, "--history", "source", "--backfill", "--start-over")

    def _erase(self) -> None:
        """Erase one user or two. The others stay, so that there is something to lose."""
        self.user.approve("erase", NAME, "--keys", self._write_people(self.user.chance.choice(["u1", "u2", "u1 u2"])))

    def _write_people(self, users: str) -> str:
        self.people += 1
        file = self.user.stream.stage.root / f"people-{self.people}"
        file.write_text("\n".join(users.split()))
        return str(file)

    def require_erased(self) -> None:
        """Finish each sweep, and assert that a search of every file finds none of the erased users."""
        erased, unswept = self.user.stream.erased, read_unswept(self.user.stream.home)
        for each in unswept:
            self.user.type("carry-out", NAME, each.operation)
        assert not read_unswept(self.user.stream.home)
        if erased:
            answer = self.user.ask("erase", NAME, "--keys", self._write_people(" ".join(erased)), "--verify")
            assert answer.code == 0, answer.text

    def _install(self) -> None:
        """Install the other release, and upgrade to it. A driver that runs goes on by the one before."""
        self.user.program.jobs = self.user.chance.choice(self.releases)
        self._upgrade()

    def _look(self) -> None:
        user = self.user
        user.look()
        against = ("diff", NAME, "--against", str(user.stream.stage.root / "first"))
        looks = [("spec", "check"), ("status",), ("savepoint", "list", NAME), ("tables", NAME), against]
        user.type(*user.chance.choice(looks))

    def _edit(self) -> None:
        stream, chance = self.user.stream, self.user.chance
        self._point_at(stream.folder)  # a rollback or a restore may have led back to an earlier source
        match chance.randrange(3):
            case 0:
                edit_rules(self.user)
            case 1:
                payload = chance.choice([{}, {"who": "u"}, {"who": "u", "at": "ts"}])
                stream.edit(mapping={**stream.document["mapping"], "payload": payload})
            case _:
                stream.edit(key_groups=chance.choice([2, 3]))

    def _break(self) -> None:
        self.broken_for = self.user.chance.randint(1, 2)
        self.user.stream.break_file()

    def _advice(self) -> None:
        self.user.follow_advice()

    def _mend_in_time(self) -> None:
        self.broken_for -= 1
        if self.broken_for == 0:
            self.user.stream.mend_file()

    def _canary(self) -> list[str]:
        return self.user.chance.choice([[], [], ["--canary", "0"], ["--canary", "1"], ["--roll-back-if-failed"]])

    def _point_at(self, folder: str) -> None:
        stream = self.user.stream
        stream.edit(source={**stream.document["source"], "path": folder})
