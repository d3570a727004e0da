"""A soak: a stream under a steady feed, with a seeded fault every minute, compared with the definition at its end.

A fault kills or freezes the driver or a part of it, or types a command that changes the stream, which may be killed.
It may also fill the disk, step the clock or kill the broker, if they are not the machine's own.
What the driver and its files use is sampled all the time, so that whatever grows shows as a slope.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.errors import NotAccepted, UpgradeWaits
from sessionizer.home.clock import epoch_ms
from sessionizer_bench.data.soak_feed import MOST_FILES_OF_A_BATCH, SoakFeed
from sessionizer_bench.measuring.machine import load_average
from sessionizer_bench.measuring.soak_figures import count_files, use_of
from sessionizer_bench.soaked_driver import Keeper, parts_of
from sessionizer_bench.surroundings import FULL_S, Surroundings
from support.expected.named_commands import commands_in
from support.histories.typed_moments import Running, TypedProgram, draw_moment
from support.histories.typed_user import ACCEPT
from support.processes.driver_process import kill_process
from support.streams.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sessionizer_bench.soaked_driver import Driver
    from support.histories.typed_moments import Answer

NAME: Final = "clicks"
ENDS_WITHIN_S: Final = 400.0
PROGRESS_WITHIN_S: Final = 240.0
"""Time (s) in which a batch must end after a fault. A stream that takes longer is a finding."""
LATEST_KILL_S: Final = 20.0
AT_ONCE: Final = 0.8
"""Share of the faults that do not wait for a batch, while there were fewer than minutes."""
MOST_TRIES: Final = 8
KILLED_CHANGES: Final = 0.6
"""Share of the commands that are killed."""
COMMAND_ON_FULL_DISK: Final = 0.5
KEPT_SAVEPOINTS: Final = 3
KILLS: Final = ("kill_both", "kill_jvm", "kill_python", "kill_worker")
COMMANDS: Final = {
    "savepoint": 4, "restore": 3, "rescale": 2, "compact": 2, "edit": 3, "migrate": 2, "rollback": 2,
    "edit_after_plan": 1, "install": 1, "freeze": 3,
}  # fmt: skip
SHARE_OF_SURROUNDINGS: Final = 3
SHARE_OF_AIRFLOW: Final = 5
SHARE_OF_KILLS: Final = 0.5


@dataclass(slots=True)
class Soak:
    """A stream that runs for hours. ``done`` counts faults, ``found`` has whatever must not be.

    ``airflow`` keeps its driver. Without one, the soak starts a new driver whenever one has ended.
    """

    stage: Stage
    feed: SoakFeed
    program: TypedProgram
    chance: Random
    say: Callable[[str], None]
    document: dict[str, Any]
    releases: tuple[Path, ...]
    around: Surroundings
    airflow: Keeper | None = None
    driver: Driver | None = None
    done: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)
    commands: int = 0
    faults: int = 0
    since: int = 0

    @property
    def folders(self) -> dict[str, Path]:
        """The folders whose files are counted."""
        return {"home": self.stage.stream_home.root, "temporary": self.stage.root / "tmp"}

    @property
    def kills(self) -> int:
        """The number of processes that were killed on purpose."""
        return sum(count for name, count in self.done.items() if name.startswith("kill"))

    def run(self, hours: float, every_s: float) -> None:
        """Let faults happen until so many hours have passed."""
        began = time.monotonic()
        due = 0.0
        while (passed := time.monotonic() - began) < hours * 3600:
            if passed < due:
                time.sleep(min(1, due - passed))
                self._keep_driver()
                continue
            self._keep_driver()
            is_behind = self.faults * every_s < passed
            due = passed + (every_s / 2 if is_behind else every_s)
            if not (is_behind and self.chance.random() < AT_ONCE):
                self._await_progress()
            name = self._draw()
            self.say(f"{passed / 60:5.1f} min  {name}  faults {self.faults}, load {load_average()}")
            self.done[name] += 1
            self.faults += 1
            self.since = epoch_ms()
            try:
                getattr(self, f"_{name}")()
                self._settle(())
            except (AssertionError, ValueError) as error:  # a command that hangs, or that prints no JSON
                self.found.append(f"{name}: {error}")
            told = {"done": self.done, "codes": self.codes, "found": self.found}
            (self.stage.root / "progress.json").write_text(json.dumps(told, indent=1))

    def finish(self) -> None:
        """Read all files and close all sessions."""
        self._settle(())
        self._keep_driver()
        if self.driver is not None:
            self._ask("stop", NAME)
            self.driver.await_end(ENDS_WITHIN_S)
            self.driver.kill()
            self.driver = None
        if self.airflow is not None:
            self.airflow.end()
        for _ in range(MOST_TRIES):
            answer = self._take(self.program.start("run", NAME, "--until", "drained").end(within_s=7_200))
            if answer.code == 0:
                return
            self._settle(())
        self.found.append(f"the stream does not drain: {answer.said[-1000:]}")

    def sample(self) -> None:
        """Note what the driver, its files and its batches use now."""
        beat, driver = HEARTBEAT_FILE.of(self.stage.stream_home).read(), self.driver
        found: dict[str, float] = {"at": epoch_ms(), "feed_files": self.feed.files, **count_files(self.folders)}
        if beat is not None and beat.batch_id is not None:
            named = ("batch_id", "batch_ms", "input_rows", "open_keys", "state_bytes", "source_lag")
            found |= {name: value for name in named if (value := getattr(beat, name)) is not None}
        if driver is not None and beat is not None and beat.batch_id is not None:
            found |= use_of(parts_of(driver))
        self.samples.append(found)

    def _draw(self) -> str:
        if self.chance.random() < SHARE_OF_KILLS:
            return self.chance.choice(KILLS)
        shares = {**COMMANDS, **dict.fromkeys(self.around.faults, SHARE_OF_SURROUNDINGS)}
        if self.airflow is not None:
            del shares["install"]  # Airflow has one release
            shares["kill_airflow"] = SHARE_OF_AIRFLOW
        return self.chance.choices(list(shares), list(shares.values()))[0]

    # Faults of the driver

    def _kill_both(self) -> None:
        time.sleep(self.chance.uniform(0, LATEST_KILL_S))
        if self.driver is not None:
            self.driver.kill()
            self.driver = None

    def _kill_jvm(self) -> None:
        self._kill_part("jvm")

    def _kill_python(self) -> None:
        self._kill_part("python")

    def _kill_worker(self) -> None:
        """Kill the daemon of Python and its workers."""
        self._kill_part("workers")

    def _kill_part(self, part: str) -> None:
        time.sleep(self.chance.uniform(0, LATEST_KILL_S))
        if self.driver is not None:
            for pid in parts_of(self.driver)[part]:
                kill_process(pid)
            self.driver.await_end(30 if part != "workers" else 3)

    def _freeze(self) -> None:
        if self.driver is not None:
            self.driver.freeze()
            time.sleep(self.chance.uniform(2, 20))
            self.driver.thaw()

    # Faults around it

    def _full_disk(self) -> None:
        """Fill the disk for a while. At times a command is typed meanwhile."""
        ballast = self.around.fill()
        until = time.monotonic() + self.chance.uniform(*FULL_S)
        try:
            if self.chance.random() < COMMAND_ON_FULL_DISK:
                getattr(self, self.chance.choice(("_savepoint", "_compact", "_rescale", "_restore")))()
            while time.monotonic() < until:
                self._keep_driver()
                time.sleep(1)
        finally:
            ballast.unlink()

    def _step(self) -> None:
        if self.around.clock is not None:
            self.say(f"  the clock is {self.around.clock.step(self.chance):+} s ahead")

    def _kill_broker(self) -> None:
        self.around.kill_broker(self.chance)

    def _kill_airflow(self) -> None:
        if self.airflow is not None:
            self.done[f"kill of {self.airflow.kill_part(self.chance)}"] += 1
            self.found += self.airflow.problems()

    # Commands

    def _savepoint(self) -> None:
        self.commands += 1
        name = f"s{self.commands}"
        flags = self.chance.choice([["--native"], [], ["--stop"], ["--hurry"]])
        self._type("savepoint", "create", NAME, "--id", name, *flags)
        if self._ask("savepoint", "verify", NAME, name).code == 0:
            self.saved = [*self.saved, name][-KEPT_SAVEPOINTS:]

    def _restore(self) -> None:
        if not self.saved:
            self._savepoint()
        else:
            self._change("restore", NAME, self.chance.choice(self.saved), *self._canary())

    def _rescale(self) -> None:
        self._change("rescale", NAME, "--key-groups", str(self.chance.choice([2, 4, 8])), *self._canary())

    def _rollback(self) -> None:
        self._change("rollback", NAME)

    def _compact(self) -> None:
        self._type("compact", NAME, "--yes")

    def _edit(self) -> None:
        self._write_edit()
        self._change("upgrade", NAME, *self.chance.choice([[], ["--new-lineage"]]), *self._canary())

    def _migrate(self) -> None:
        """Add a migration that computes each value anew and changes none."""
        self.commands += 1
        migration = {"id": f"turn-{self.commands}", "columns": {"page": "concat(page, '')"}}
        self._write(migrations=[*self.document.get("migrations", []), migration])
        self._change("upgrade", NAME, *self._canary())

    def _edit_after_plan(self) -> None:
        """Edit the file between the plan and its approval, which must be refused."""
        self._write_edit()
        digest = self._digest(self._ask("upgrade", NAME, "--json"))
        self._write_edit()
        if digest:
            lineage = self.stage.lineage
            answer = self._ask("upgrade", NAME, "--approve", digest)
            if answer.code == 0 or self.stage.lineage != lineage:
                self.found.append(f"a plan of another file was carried out: {answer.text[-500:]}")
        self._change("upgrade", NAME)

    def _install(self) -> None:
        """Install one of the releases, and upgrade to it."""
        self.program.jobs = self.chance.choice(self.releases)
        self._change("upgrade", NAME, *self._canary())

    def _write_edit(self) -> None:
        """Write another trigger, delay of results and number of files, none of which changes a session."""
        trigger = self.chance.choice(["500 milliseconds", "1 second", "2 seconds"])
        options = self.around.options(self.chance.randint(2, MOST_FILES_OF_A_BATCH))
        self._write(
            trigger_interval=trigger,
            source={**self.document["source"], "options": options},
            rules={**self.document["rules"], "emit_every": f"{self.chance.randint(2, 12)} seconds"},
        )

    def _write(self, **changes: Any) -> None:
        self.document |= changes
        self.stage.write_spec(self.document)

    def _canary(self) -> list[str]:
        return self.chance.choice([[], ["--canary", "0"], ["--canary", "2"], ["--roll-back-if-failed"]])

    def _change(self, *words: str) -> None:
        """Show a plan and approve it, with whatever it wants accepted. The command may be killed on the way."""
        answer = self._ask(*words, "--json")
        if answer.code == NotAccepted.exit_code or '"accept"' in answer.printed:
            named = dict.fromkeys(ACCEPT.findall(answer.text))
            words = (*words, *(word for name in named for word in ("--accept", name)))
            answer = self._ask(*words, "--json")
        if (digest := self._digest(answer)) is not None:
            self._type(*words, "--approve", digest)

    def _digest(self, plan: Answer) -> str | None:
        return plan.document.get("digest") if plan.code == 0 and plan.printed.startswith("{") else None

    def _type(self, *words: str) -> None:
        """Type a command. At times it is killed, or the driver beside it is, and then the advice is followed."""
        running = self.program.start(*words)
        if self.chance.random() < KILLED_CHANGES:
            moment = draw_moment(self.chance, words)
            if moment is not None and moment.wait_for(running):
                self.done[f"kill of {words[0]}"] += 1
                running.kill()
        elif self.driver is not None and self.chance.random() < KILLED_CHANGES:
            time.sleep(self.chance.uniform(0, 15))
            if self.driver.lives:
                self.done[f"kill of the driver beside {words[0]}"] += 1
                self.driver.kill()
        self._take(running.end())
        self._settle(words)

    def _ask(self, *words: str) -> Answer:
        return self._take(self.program.start(*words).end())

    def _take(self, answer: Answer) -> Answer:
        self.codes[f"{answer.words[0]} {answer.code}"] += 1
        if "Traceback" in answer.said and answer.words[0] != "run":
            self.found.append(f"{answer.words}: {answer.said[-3000:]}")
        return answer

    def _settle(self, words: Sequence[str]) -> None:
        """Follow the advice of `status` until no command is unfinished.

        A command that is killed before its record is written is unfinished, too: its maintenance has begun.
        """
        for _ in range(MOST_TRIES):
            operation = self._ask("status", NAME, "--json").document[0]["operation"]
            if operation is None:
                return
            named = () if operation["is_at_work"] else commands_in(operation["go_on"])
            if named:
                self._ask(*named[0])
            else:
                time.sleep(2)
        if (pending := pending_operation(self.stage.stream_home)) is not None:
            self.found.append(f"{pending.verb} is not over after {MOST_TRIES} tries, after {words}")

    # The driver

    def _keep_driver(self) -> None:
        """Start a driver if none runs, or take the one that Airflow has started."""
        if self.driver is not None and self.driver.lives:
            return
        before, self.driver = self.driver, None
        if self.airflow is not None:
            self.driver = self.airflow.driver()
            self.done["start of a driver"] += self.driver is not None
            return
        if isinstance(before, Running):
            code = before.process.returncode
            self.codes[f"run {'killed' if before.killed else code}"] += 1
            if code == UpgradeWaits.exit_code:  # a restore or a rollback led to a lineage of the other release
                self._change("upgrade", NAME)
        self.driver = self.program.start("run", NAME)
        self.done["start of a driver"] += 1

    def _await_progress(self) -> None:
        """Wait until a batch has ended since the last fault."""
        deadline = time.monotonic() + PROGRESS_WITHIN_S
        while time.monotonic() < deadline:
            beat = HEARTBEAT_FILE.of(self.stage.stream_home).read()
            if beat is not None and beat.batch_at is not None and beat.batch_at > self.since:
                return
            self._keep_driver()
            time.sleep(1)
        said = self.driver.said[-1500:] if self.driver else ""
        self.found.append(f"no batch in {PROGRESS_WITHIN_S:.0f} s: {said}")
