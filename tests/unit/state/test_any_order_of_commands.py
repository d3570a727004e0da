"""Whatever commands come one after another, killed and given up ones among them: the tables hold each event once."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sessionizer.state.lineages.origin import Origin, Path
from sessionizer.state.restores.row_changes import RowChanges
from support.histories.model_stream import HISTORIES, KEYS, Command, ModelStream, Refused, play

_DEATHS = st.one_of(st.none(), st.none(), st.integers(0, 12))


class AnyOrder(RuleBasedStateMachine):
    """Commands of an operator who has a bad night."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = ModelStream()
        self.done = 0

    @rule(events=st.integers(1, 4))
    def feed(self, events: int) -> None:
        self.stream.feed(events)

    @rule(most=st.integers(1, 3), dies_after=st.one_of(st.none(), st.none(), st.integers(0, 2)))
    def run_driver(self, most: int, dies_after: int | None) -> None:
        self._try(lambda: self.stream.run(most=most, dies_after=dies_after))

    @rule(native=st.booleans())
    def save(self, native: bool) -> None:
        self._try(lambda: self.stream.save(native=native))

    @rule(native=st.booleans())
    def begin_save(self, native: bool) -> None:
        """A savepoint that is slow, or frozen: any command may come before its manifest."""
        self._try(lambda: self.stream.begin_save(native=native))

    @rule()
    def finish_save(self) -> None:
        self._try(self.stream.finish_save)

    @rule()
    def back_up(self) -> None:
        self._try(self.stream.back_up)

    @rule(which=st.integers(0, 7))
    def put_back_and_restore(self, which: int) -> None:
        if self.stream.savepoints:
            self._try(lambda: self.stream.put_back_and_restore(which % len(self.stream.savepoints)))

    @rule()
    def put_back(self) -> None:
        self._try(self.stream.put_back)

    @rule(dies_after=st.integers(0, 2))
    def save_and_crash(self, dies_after: int) -> None:
        """A driver that dies in its first batch after a savepoint: rare by chance, common at night."""
        self._try(self.stream.save)
        self.stream.feed(1)
        self._try(lambda: self.stream.run(most=1, dies_after=dies_after))

    @rule(dies_at=_DEATHS)
    def restore_the_newest(self, dies_at: int | None) -> None:
        self.restore(len(self.stream.savepoints) - 1, dies_at)

    @rule(which=st.integers(0, 7), dies_at=_DEATHS)
    def restore(self, which: int, dies_at: int | None) -> None:
        if self.stream.savepoints:
            number = which % len(self.stream.savepoints)
            self._try(lambda: self.stream.begin(Command("restore", number), dies_at=dies_at))

    @rule(name=st.sampled_from(["rollback", "rescale", "start_over"]), dies_at=_DEATHS)
    def command(self, name: str, dies_at: int | None) -> None:
        self._try(lambda: self.stream.begin(Command(name), dies_at=dies_at))

    @rule(key=st.integers(0, KEYS - 1), dies_at=_DEATHS)
    def erase(self, key: int, dies_at: int | None) -> None:
        self._try(lambda: self.stream.begin(Command("erase", key=key), dies_at=dies_at))

    @rule(steps=st.integers(1, 12), is_killed=st.booleans())
    def sweep(self, steps: int, is_killed: bool) -> None:
        """A part of the sweep, beside all else. If it is killed, it begins anew."""
        self._try(lambda: self.stream.sweep(steps))
        if is_killed:
            self.stream.sweeping = None

    @rule(dies_at=_DEATHS)
    def resume(self, dies_at: int | None) -> None:
        self._try(lambda: self.stream.resume(dies_at=dies_at))

    @rule()
    def give_up(self) -> None:
        self._try(self.stream.give_up)

    @rule(home=st.booleans())
    def move_sink(self, home: bool) -> None:
        self._try(lambda: self.stream.move_sink(home=home))

    @rule(chance=st.integers(0, 5))
    def vacuum(self, chance: int) -> None:
        if chance == 0 and self.stream.pending is None:  # Delta keeps what it removes for a week
            self.stream.vacuum()

    @invariant()
    def tables_and_state_agree(self) -> None:
        if self.stream.pending is None and not self.stream.unknown_changes():
            self.stream.require_exact()

    def teardown(self) -> None:
        if self.stream.pending is not None:
            self.stream.resume()
        if self.stream.unknown_changes():
            return  # a home from a backup, which no restore has brought up to its tables
        self.stream.run(most=2)
        self.stream.sweeping = None
        while not all(each.is_swept for each in self.stream.erasures.values()):
            self.stream.sweep(1_000)
        self.stream.require_exact()

    def _try(self, act: Callable[[], None]) -> None:
        with suppress(Refused):
            act()


@pytest.mark.parametrize(("examples", "steps"), [(150, 30), pytest.param(10_000, 40, marks=pytest.mark.long)])
def test_any_order_of_commands_is_exact(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        AnyOrder,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


COMMANDS = {
    "restore": Command("restore", 0), "restore the newest": Command("restore", -1), "rescale": Command("rescale"),
    "start over": Command("start_over"), "rollback": Command("rollback"),
}  # fmt: skip
"""A switch, an apply and an upgrade with a new lineage take over the state as a rescale does."""


@pytest.mark.parametrize("ran", [False, True])
@pytest.mark.parametrize("undone", COMMANDS)
@pytest.mark.parametrize("earlier", COMMANDS)
def test_a_rollback_leads_to_the_lineage_that_was_active(earlier: str, undone: str, ran: bool) -> None:
    stream = ModelStream()
    stream.feed(3)
    stream.run(most=2)
    stream.save()
    left: list[tuple[str, str]] = []
    for name in ("rescale", earlier, undone, "rollback"):
        active = stream.active
        if name in {"rescale", "start over"}:
            stream.run(most=2)  # they are refused while a batch is cut short
        if name != "rollback":
            stream.begin(COMMANDS[name])
            left.append((active, name))
        elif left and left[-1][1] != "start over":
            stream.begin(COMMANDS[name])
            assert stream.active == left.pop()[0]
        else:
            with pytest.raises(Refused):
                stream.begin(COMMANDS[name])
        stream.require_exact()
        stream.feed(2)
        if ran:
            stream.run(most=1)
            stream.save()
            stream.feed(1)
            stream.run(most=1, dies_after=1)
    stream.run(most=2)
    stream.require_exact()


def rule_of_old(target: Path, _: Path, origins: dict[str, Origin | None]) -> RowChanges:
    """As it was: what ancestors wrote after the branch stays, and nothing ever comes back."""
    last = target[-1]
    on_path = {segment.lineage for segment in target}
    return RowChanges((last,), tuple(sorted(name for name in origins if name not in on_path)))


def acts_of(stream: ModelStream) -> dict[str, Callable[..., object]]:
    commands = {name: partial(stream.begin, Command(name)) for name in ("rescale", "rollback", "start_over")}
    return commands | {
        "feed": stream.feed,
        "run": partial(stream.run, most=1),
        "save": stream.save,
        "restore": lambda number: stream.begin(Command("restore", number)),
        "move_sink": partial(stream.move_sink, home=False),
        "back_up": stream.back_up,
        "put_back_and_restore": stream.put_back_and_restore,
    }


def test_a_savepoint_that_a_command_overtook_is_not_completed() -> None:
    stream = ModelStream()
    play("feed 3, run, save, feed 3, run", acts_of(stream))
    stream.begin_save()
    stream.begin(Command("restore", 0), dies_at=2)
    for save in (stream.finish_save, stream.begin_save):
        with pytest.raises(Refused):
            save()
    stream.resume()
    stream.feed(1)
    stream.run(most=1)
    stream.begin_save()
    stream.begin(Command("restore", 0))
    with pytest.raises(Refused):
        stream.finish_save()


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_the_histories_that_lost_or_doubled_sessions(history: str) -> None:
    stream = ModelStream()
    play(f"{history}, feed 1, run", acts_of(stream))
    stream.require_exact()


@pytest.mark.parametrize("history", [*HISTORIES.values()][:3], ids=[*HISTORIES][:3])
def test_they_tell_the_rule_of_old_from_the_new_one(history: str) -> None:
    stream = ModelStream(rule_of_old)
    play(history, acts_of(stream))
    with pytest.raises(AssertionError, match="instead of"):
        stream.require_exact()
