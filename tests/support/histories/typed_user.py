"""A user at a terminal: types commands that may be killed, follows what `status` advises, and checks each answer."""

from __future__ import annotations

import logging
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.lease.ledger import read_lease
from sessionizer.control.records.exit_record import EXIT_FILE
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.errors import NotAccepted
from support.expected.named_commands import commands_in, faults
from support.places import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from support.histories.typed_program import Answer, Running, TypedProgram
    from support.histories.typed_stream import TypedStream

LOG: Final = logging.getLogger(__name__)
KILLED: Final = 0.3
"""Share of the commands that are killed."""
QUICK: Final = frozenset({"status", "diff", "spec", "abandon", "promote", "stop", "seed", "tables"})
"""Commands that start no Spark."""
MOST_TRIES: Final = 8
"""After so many pieces of advice a stream must go on."""
SAYS_NO: Final = frozenset({"diff", "doctor", "status", "spec"})
"""Commands whose exit code is their answer: they need no remedy."""
ACCEPT: Final = re.compile(r"--accept ([\w.]+)")
"""A difference that a plan or a refusal wants accepted by name."""
_ROW: Final = re.compile(r"^\| (\d+) \|", re.MULTILINE)
CODES: Final = frozenset(map(int, _ROW.findall((REPOSITORY / "docs" / "command-line.md").read_text()))) - {1, 2}
"""Exit codes that the page names, but for those of errors without a name and of mistyped options."""


@dataclass(slots=True)
class TypedUser:
    """A user of ``stream`` who types into ``program``, with a ``driver`` that may run in another terminal."""

    program: TypedProgram
    stream: TypedStream
    chance: Random
    driver: Running | None = None
    typed: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    advised: Counter[str] = field(default_factory=Counter)

    def ask(self, *words: str) -> Answer:
        """Type a command that the test does not kill, and check its answer."""
        return self._told(self.program.type(*words))

    def type(self, *words: str) -> Answer:
        """Type a command that may be killed. If it is, follow the advice and type it again."""
        answer = self._told(self.program.type(*words, killed_after_s=self._moment_of_death(words)))
        if answer.code is not None and pending_operation(self.stream.home) is None:
            return answer
        self.follow_operation(words)
        return self.ask(*words) if answer.code is None else answer

    def approve(self, *words: str) -> Answer:
        """Show a plan and approve it. What it wants accepted is accepted."""
        plan = self.type(*words, "--json")
        answer = self._approve(words, plan)
        wanted = dict.fromkeys(ACCEPT.findall(answer.text)) if answer.code == NotAccepted.exit_code else {}
        if wanted:
            words = (*words, *(word for name in wanted for word in ("--accept", name)))
            answer = self._approve(words, self.type(*words, "--json"))
        return answer

    def _approve(self, words: tuple[str, ...], plan: Answer) -> Answer:
        digest = plan.document.get("digest") if plan.code == 0 and plan.printed.startswith("{") else None
        return self.type(*words, "--approve", digest) if digest else plan

    def follow_operation(self, words: Sequence[str] = ()) -> None:
        """Do what `status` says until no command is unfinished. ``words``: the command that was killed, if any.

        A command that was killed before it had a record can only be typed again as it was, or given up.
        """
        for number in range(MOST_TRIES):
            view = self.status()
            operation = view["operation"]
            if operation is None:
                assert pending_operation(self.stream.home) is None
                return
            assert not operation["is_at_work"], operation
            self.look()
            named = commands_in(operation["go_on"])
            assert named, operation
            choices = [words, *named] if words and pending_operation(self.stream.home) is None else named
            chosen = choices[0] if self.chance.random() < 0.7 else choices[-1]  # the last one gives it up, if it may
            self.advised[chosen[0]] += 1
            died = self._moment_of_death(chosen) if number < MOST_TRIES // 2 else None
            self._told(self.program.type(*chosen, killed_after_s=died))
        raise AssertionError(f"the command is not over after {MOST_TRIES} pieces of advice: {self.status()}")

    def follow_advice(self) -> bool:
        """Type the first command that `status` advises for the state of the stream. Returns whether there was one."""
        self.follow_operation()
        view = self.status()
        advice = [view["advice"] or "", *(each["what_to_do"] for each in view["health"]["findings"])]
        commands = [words for line in advice for words in commands_in(line)]
        if not commands:
            return False
        words = commands[0]
        self.advised[words[0]] += 1
        self.type(*words, *(("--until", "caught-up") if words[0] == "run" else ()))
        return True

    def status(self) -> dict[str, Any]:
        """Ask for the status as JSON. Checks every command that it names."""
        answer = self.ask("status", self.stream.stage.name, "--json")
        self._require_pasteable(answer.text)
        found: list[dict[str, Any]] = answer.document
        return found[0]

    def look(self) -> None:
        """Ask for the status in words. Checks every command that it names."""
        self._require_pasteable(self.ask("status", self.stream.stage.name).text)

    def start(self) -> None:
        """Start a driver in another terminal."""
        self.look_at_driver()
        if self.driver is None:
            self.typed["run"] += 1
            self.driver = self.program.start("run", self.stream.stage.name)

    def look_at_driver(self) -> None:
        """Check what the driver said, if it has ended."""
        if self.driver is not None and self.driver.process.poll() is not None:
            self._told(self.driver.end(), counted=False)
            self.driver = None

    def kill_driver(self) -> None:
        """SIGKILL to the driver, if one runs."""
        if self.driver is not None and self.driver.process.poll() is None:
            self._told(self.driver.kill().end(), counted=False)
            self.driver = None

    def require_settled(self) -> None:
        """Assert that the lease is free or a living driver's, and that nothing is twice in the tables."""
        self.look_at_driver()
        lease = read_lease(self.stream.home)
        if lease is not None and lease.uid is not None:
            at_work = lease.may_be_at_work(EXIT_FILE.of(self.stream.home, lease.uid).read())
            assert not at_work or (self.driver is not None and lease.pid == self.driver.process.pid), lease
        self.stream.note_source()
        self.stream.require_none_doubled()

    def _moment_of_death(self, words: Sequence[str]) -> float | None:
        share = KILLED / 3 if "--json" in words else KILLED  # a plan writes nothing
        if self.chance.random() >= share:
            return None
        return self.chance.uniform(0.05, 2) if words[0] in QUICK else self.chance.uniform(0.5, 20)

    def _require_pasteable(self, text: str) -> None:
        wrong = [words for words in commands_in(text) if list(faults(words))]
        assert wrong == [], text

    def _told(self, answer: Answer, *, counted: bool = True) -> Answer:
        """Check an answer, and keep count of it."""
        words, code = answer.words, answer.code
        end = "killed" if code is None else str(code)
        LOG.warning("  %6s %5.1f s  sessionizer %s", end, answer.seconds, shlex.join(words))
        self.typed[words[0]] += counted
        if code is None:
            self.killed[words[0]] += 1
        else:
            self.codes[words[0], code] += 1
            self._require_named(answer)
        assert "Traceback" not in answer.text, answer.text
        return answer

    def _require_named(self, answer: Answer) -> None:
        code = answer.code
        if answer.words[0] == "diff":
            assert code in {0, 10, 11, 12}, answer.text
            return
        assert code in CODES, f"{answer.words}: {code}: {answer.text}"
        if code and answer.words[0] not in SAYS_NO:
            LOG.warning("         %s", [line for line in answer.said.splitlines() if line.startswith("error: ")])
            assert "remedy: " in answer.said or code == 3, answer.text
