"""Checks of what each typed command answers, and counts of the commands by how they ended."""

from __future__ import annotations

import logging
import re
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from sessionizer.control.lease import read_lease
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import NotAccepted, OperationPending
from support.expected.named_commands import commands_in, faults
from support.histories.typed_moments import Answer, Moment, Running, TypedProgram, draw_moment, is_approved, told_steps
from support.histories.typed_stream import TypedStream
from support.places import REPOSITORY

LOG: Final = logging.getLogger(__name__)
SAYS_NO: Final = frozenset({"diff", "doctor", "status", "spec"})
"""Commands whose exit code is their answer: they need no remedy."""
_PAGE: Final = (REPOSITORY / "docs" / "command-line.md").read_text()
CODES: Final = frozenset(map(int, re.findall(r"^\| (\d+) \|", _PAGE, re.MULTILINE))) - {1, 2}
"""Exit codes that the page names, but for those of errors without a name and of mistyped options."""


@dataclass(slots=True)
class Answers:
    """Counts of the answers. ``hits``: kills and freezes of approved commands, by command, step and stage of record."""

    typed: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def take(self, answer: Answer, *, counted: bool = True) -> Answer:
        words, code = answer.words, answer.code
        end = "killed" if code is None else str(code)
        LOG.warning("  %6s %5.1f s  sessionizer %s", end, answer.seconds, shlex.join(words))
        self.typed[words[0]] += counted
        if code is None:
            self.killed[words[0]] += 1
        else:
            self.codes[words[0], code] += 1
            _require_named(answer)
        # of a batch that a stop refused Spark logs the traceback, and the driver says so
        assert "Traceback" not in answer.text, answer.text
        return answer

    def note_hit(self, how: str, answer_to: tuple[str, ...], step: str, stage: str) -> None:
        LOG.warning("         %s at %r, record: %s", how, step, stage)
        self.hits[f"{answer_to[0]} {how}: {step} ({stage})"] += 1

    def log(self) -> None:
        LOG.warning("typed: %s, killed: %s, exit codes: %s", dict(self.typed), dict(self.killed), dict(self.codes))
        for hit, count in sorted(self.hits.items()):
            LOG.warning("HIT %3d %s", count, hit)


def require_pasteable(text: str) -> None:
    wrong = [words for words in commands_in(text) if list(faults(words))]
    assert wrong == [], text


def _require_named(answer: Answer) -> None:
    code = answer.code
    if answer.words[0] == "diff":
        assert code in {0, 10, 11, 12}, answer.text
        return
    assert code in CODES, f"{answer.words}: {code}: {answer.text}"
    if code and answer.words[0] not in SAYS_NO:
        LOG.warning("         %s", [line for line in answer.said.splitlines() if line.startswith("error: ")])
        assert "remedy: " in answer.said or code == 3, answer.text


NAME: Final = "clicks"
GAPS: Final = ("40 seconds", "50 seconds", "60 seconds")
SHORT_WAIT: Final = ("--wait", "5")
"""A frozen command or driver does not end when it is asked to."""
OTHERS: Final = (
    ("rollback", NAME),
    ("rescale", NAME, "--key-groups", "3"),
    ("apply", NAME, "--new-lineage"),
    ("upgrade", NAME, "--new-lineage"),
    ("seed", NAME, "--history", "source", "--backfill", "--start-over"),
)


def act_while_frozen(user: TypedUser, words: Sequence[str]) -> None:
    """Type another command while that of ``words`` stands still. It is refused, or does all of its work."""
    elsewhere = user.chance.random() < 0.4  # there the lease is taken over once its owner has been silent for long
    match user.chance.randrange(6):
        case 0 | 1:
            user.ask(*words, *SHORT_WAIT, elsewhere=elsewhere)
        case 2:
            user.ask("run", NAME, "--until", "caught-up", elsewhere=elsewhere)
        case 3:
            user.ask("abandon", NAME, elsewhere=elsewhere)
        case 4:
            user.ask("stop", NAME, *SHORT_WAIT)
        case _:
            approve_other(user)


def act_after_kill(user: TypedUser) -> None:
    """Do something that a user may do before the killed command is resumed, or nothing."""
    match user.chance.randrange(8):
        case 0 | 1:
            edit_rules(user)
        case 2:
            user.ask("run", NAME, "--until", "caught-up")
        case 3:
            approve_other(user)
        case 4:
            user.ask("stop", NAME, *SHORT_WAIT)
        case 5:
            user.stream.bring(1)


def approve_other(user: TypedUser) -> None:
    words = user.chance.choice(OTHERS)
    digest = user.digest_of(user.ask(*words, "--json"))
    if digest is not None:
        user.ask(*words, "--approve", digest, *SHORT_WAIT)


def edit_rules(user: TypedUser) -> None:
    stream = user.stream
    stream.edit(rules={**stream.document["rules"], "gap_timeout": user.chance.choice(GAPS)})


def freeze_driver_for(user: TypedUser, words: Sequence[str]) -> tuple[str, ...]:
    """Freeze a running driver before an approved command at times. Returns the words of the command."""
    if user.driver is None or not is_approved(words) or user.chance.random() < 0.7:
        return tuple(words)
    user.driver.freeze()
    return (*words, *SHORT_WAIT)


MOST_TRIES: Final = 8
"""After so many pieces of advice a stream must go on."""
ACCEPT: Final = re.compile(r"--accept ([\w.]+)")
"""A difference that a plan or a refusal wants accepted by name."""


@dataclass(slots=True)
class TypedUser:
    """A user of ``stream`` who types into ``program``, with a ``driver`` that may run in another terminal."""

    program: TypedProgram
    stream: TypedStream
    chance: Random
    driver: Running | None = None
    answers: Answers = field(default_factory=Answers)
    advised: Counter[str] = field(default_factory=Counter)

    def ask(self, *words: str, elsewhere: bool = False) -> Answer:
        """Type a command that the test does not kill, and check its answer. ``elsewhere``: on another host."""
        return self._take(self.program.start(*words, elsewhere=elsewhere))

    def type(self, *words: str, at: Moment | None = None) -> Answer:
        """Type a command that may be killed. If it is, follow the advice and type it again. ``at``: hit it then."""
        answer = self._try(words, at or draw_moment(self.chance, words))
        if answer.code is not None and pending_operation(self.stream.home) is None:
            return answer
        self.follow_operation(words)
        return self.ask(*words) if answer.code is None else answer

    def cut(self, *words: str, at: Moment) -> None:
        running = self.program.start(*words)
        if at.wait_for(running):
            running.kill()
            self._note_hit("killed", running)
        self._take(running)

    def approve(self, *words: str, at: Moment | None = None) -> Answer:
        """Show a plan and approve it. What it wants accepted is accepted. ``at``: hit the approved command then."""
        answer = self._approve(words, self.type(*words, "--json"), at)
        wanted = dict.fromkeys(ACCEPT.findall(answer.text)) if answer.code == NotAccepted.exit_code else {}
        if wanted:
            words = (*words, *(word for name in wanted for word in ("--accept", name)))
            answer = self._approve(words, self.type(*words, "--json"), at)
        return answer

    def digest_of(self, plan: Answer) -> str | None:
        return plan.document.get("digest") if plan.code == 0 and plan.printed.startswith("{") else None

    def follow_operation(self, words: Sequence[str] = ()) -> None:
        """Do what `status` says until no command is unfinished. ``words``: the command that was killed, if any.

        A command that was killed before it had a record can only be typed again as it was, or given up.
        """
        for number in range(MOST_TRIES):
            operation = self._operation_at_rest()
            if operation is None:
                assert pending_operation(self.stream.home) is None
                return
            if number < MOST_TRIES // 2 and self.chance.random() < 0.5:
                act_after_kill(self)
                continue
            self.look()
            named = commands_in(operation["go_on"])
            assert named, operation
            choices = [words, *named] if words and pending_operation(self.stream.home) is None else named
            chosen = choices[0] if self.chance.random() < 0.7 else choices[-1]  # the last one gives it up, if it may
            self.advised[chosen[0]] += 1
            self._try(tuple(chosen), draw_moment(self.chance, chosen) if number < MOST_TRIES // 2 else None)
        raise AssertionError(f"the command is not over after {MOST_TRIES} pieces of advice: {self.status()}")

    def follow_advice(self) -> bool:
        """Type the first command that `status` advises for the state of the stream. Returns whether there was one."""
        self.follow_operation()
        view = self.status()
        findings = [f"{each['what_to_do']} `{each['command']}`" for each in view["health"]["findings"]]
        commands = [words for line in (*findings, *view["notes"]) for words in commands_in(line)]
        if not commands:
            return False
        words = commands[0]
        self.advised[words[0]] += 1
        self.type(*words, *(("--until", "caught-up") if words[0] == "run" else ()))
        return True

    def status(self) -> dict[str, Any]:
        answer = self.ask("status", self.stream.stage.name, "--json")
        require_pasteable(answer.text)
        found: list[dict[str, Any]] = answer.document
        return found[0]

    def look(self) -> None:
        require_pasteable(self.ask("status", self.stream.stage.name).text)

    def start(self) -> None:
        self.look_at_driver()
        if self.driver is None:
            self.driver = self.program.start("run", self.stream.stage.name)

    def look_at_driver(self) -> None:
        if self.driver is not None and self.driver.process.poll() is not None:
            self.answers.take(self.driver.end())
            self.driver = None

    def stop_driver(self) -> None:
        self.ask("stop", self.stream.stage.name)
        if self.driver is not None:
            self.driver.process.wait(120)

    def kill_driver(self) -> None:
        if self.driver is not None and self.driver.process.poll() is None:
            self.answers.take(self.driver.kill().end())
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

    def _approve(self, words: tuple[str, ...], plan: Answer, at: Moment | None) -> Answer:
        digest = self.digest_of(plan)
        if digest and words[0] in {"apply", "upgrade", "switch"} and self.chance.random() < 0.2:
            self._require_refused(*words, "--approve", digest)
            digest = self.digest_of(self.type(*words, "--json"))
        return self.type(*words, "--approve", digest, at=at) if digest else plan

    def _require_refused(self, *words: str) -> None:
        """Edit the file after its plan was shown, and approve that plan. Asserts that it is not carried out."""
        before = self.stream.document
        edit_rules(self)
        if self.stream.document != before:
            self.answers.note_hit("edited", words, "between plan and approval", "no record")
            assert self.ask(*words).code != 0, words

    def _try(self, words: tuple[str, ...], moment: Moment | None) -> Answer:
        running = self.program.start(*freeze_driver_for(self, words))
        if moment is not None and moment.wait_for(running):
            if is_approved(words) and self.chance.random() < 0.25:
                running.freeze()
                self._note_hit("frozen", running)
                act_while_frozen(self, words)
                running.thaw()
            else:
                running.kill()
                self._note_hit("killed", running)
        running.end()
        if self.driver is not None:
            self.driver.thaw()
        return self._take(running)

    def _take(self, running: Running) -> Answer:
        """Wait for the end of a command, and check its answer. The stream may be in another lineage by then."""
        answer = self.answers.take(running.end())
        self.stream.note_source()
        pending = pending_operation(self.stream.home)
        if answer.code == OperationPending.exit_code and pending is not None:
            assert ("sessionizer abandon" in answer.said) is not pending.is_past_return, answer.said
        return answer

    def _operation_at_rest(self) -> dict[str, Any] | None:
        """The unfinished command of the stream. A driver that was asked to stop may still be at work for a while."""
        deadline = time.monotonic() + 120
        while True:
            operation: dict[str, Any] | None = self.status()["operation"]
            if operation is None or not operation["is_at_work"]:
                return operation
            assert time.monotonic() < deadline, operation
            time.sleep(1)

    def _note_hit(self, how: str, running: Running) -> None:
        pending, told = pending_operation(self.stream.home), told_steps(running.said)
        if is_approved(running.words) or running.words[0] in {"run", "savepoint"}:
            stage = "no record" if pending is None else f"{pending.verb} {pending.step}"
            self.answers.note_hit(how, running.words, told[-1].strip() if told else "nothing told", stage)
