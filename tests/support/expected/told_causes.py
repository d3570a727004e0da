"""What must reach people of a cause, by its verdict; and of which causes some test makes the real one."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import CAUSES
from sessionizer.control.records.supervision_records import SupervisionRecord
from sessionizer.errors import RetryEffect
from sessionizer.fleet.finding import HealthWord
from sessionizer_airflow.supervision.failures import GO_ON
from support.expected.driver_statuses import Heard

Test = TypeVar("Test", bound=Callable[..., object])


KINDS: Final = {RetryEffect.TERMINAL: "gave_up", RetryEffect.TRANSIENT: "waiting", RetryEffect.UNCLEAR: "replaced"}
WORDS: Final = {
    RetryEffect.TERMINAL: (HealthWord.DOWN, {"given_up"}),
    RetryEffect.TRANSIENT: (HealthWord.WARNING, {"waiting", "restarting"}),
    RetryEffect.UNCLEAR: (HealthWord.WARNING, {"backing_off", "restarting"}),
}
"""The word and the rules of each verdict, while the supervisor acts."""
MADE: Final[set[str]] = set()


def made(*causes: str) -> Callable[[Test], Test]:
    """Mark a test that makes the real `causes` and reads what people are told of them."""
    assert set(causes) <= set(CAUSES), "a cause that is not in the table"
    MADE.update(causes)
    return lambda test: test


def check_alert(
    name: str, told: Sequence[dict[str, Any]], said: Heard, /, *, names: str = "", **fields: object
) -> None:
    """One alert, of the right kind, with the cause in words, what it `names` and its remedy.

    `fields` are those of an error that the remedy in the table names.
    """
    cause = CAUSES[name]
    remedy = cause.remedy.format(SimpleNamespace(**fields)) if fields else cause.remedy
    remedy = name_stream(remedy, "clicks")
    (alert,) = told
    assert (alert["kind"], alert["stream"]) == (KINDS[cause.verdict], "clicks"), alert
    assert remedy in alert["what_to_do"], alert
    assert all(part in alert["text"] for part in (remedy, cause.called, names)), alert
    assert (GO_ON in alert["text"]) == (cause.verdict is RetryEffect.TERMINAL and not cause.for_good), alert
    assert "\n" not in alert["text"]
    assert any(remedy in line for line in said), "the task log says it, too"


def check_record(name: str, record: SupervisionRecord, said: Heard) -> None:
    """What is terminal was tried once and is given up; what is transient uses up no restart."""
    verdict = CAUSES[name].verdict
    assert record.cause == name, record
    assert record.given_up == (verdict is RetryEffect.TERMINAL), record
    assert record.failures == (1 if verdict is RetryEffect.UNCLEAR else 0), record
    if verdict is RetryEffect.TERMINAL:
        assert sum("launching a driver" in line for line in said) <= 1, said
