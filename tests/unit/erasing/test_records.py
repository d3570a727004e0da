"""Records and logs without the values of erased people: still records, and each other byte as it was."""

import json
from pathlib import Path

import pytest

from sessionizer.control.lease import acquire
from sessionizer.control.operation import new_operation
from sessionizer.control.records.erasure_record import (
    SECRET,
    ErasureRecord,
    note_erasure,
    note_swept,
    read_erased,
    read_erasures,
    read_secret,
)
from sessionizer.core.definition.erasure import ErasedOnce, digest_key
from sessionizer.core.wire.erased_keys import NOBODY_ERASED
from sessionizer.erasing.records import cross_out_records, find_left
from sessionizer.errors import DamagedFile, InvalidSpec
from sessionizer.home.stream_home import StreamHome
from support.places import opened

ANN = "ann@example.org"
ENVIRONMENT = {SECRET: "a secret of the tests"}


def write(home: StreamHome, name: str, text: str) -> Path:
    file = opened(home.root / name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_values_are_replaced_in_records_and_logs_and_nothing_else(home: StreamHome) -> None:
    beat = write(home, "control/heartbeat.json", json.dumps({"heaviest_keys": [{"key": ANN}, {"key": f"jo{ANN}"}]}))
    log = write(home, "logs/driver.one.log", f"key {ANN} is large\nkey bob is\n")
    other = write(home, "control/launch.json", '{"uid": "one"}')
    changed = sorted(str(file) for file in cross_out_records(home, [ANN]))
    assert changed == sorted([str(beat), str(log)])
    assert json.loads(beat.read_text()) == {"heaviest_keys": [{"key": "erased"}, {"key": f"jo{ANN}"}]}
    assert log.read_text() == "key erased is large\nkey bob is\n"
    assert other.read_text() == '{"uid": "one"}'
    assert [*cross_out_records(home, [ANN])] == []
    assert [*find_left(home, [ANN], ())] == []


def test_a_record_in_which_a_value_means_something_else_stays(home: StreamHome) -> None:
    lineage = write(home, "control/lineage.json", '{"lineage": "RUNNING", "batch": 12345}')
    beat = write(home, "control/heartbeat.json", '{"batch_id": 12345, "heaviest_keys": [{"key": "12345"}]}')
    assert [*cross_out_records(home, ["12345", "RUNNING"])] == [beat]
    assert json.loads(beat.read_text()) == {"batch_id": 12345, "heaviest_keys": [{"key": "erased"}]}
    assert json.loads(lineage.read_text()) == {"lineage": "RUNNING", "batch": 12345}
    assert [*find_left(home, ["12345", "RUNNING"], ())] == [], "each is there for another reason"
    write(home, "control/lineages/one/announced_timeouts.json", '{"timeouts": {"12345": 60000}}')
    (left,) = find_left(home, ["12345", "60000"], ())
    assert left.counts == {"12345": 1}


def test_the_log_of_the_driver_that_runs_is_left_and_told(home: StreamHome) -> None:
    acquire(home, "one")
    log = write(home, "logs/driver.one.log", f"key {ANN}\n")
    assert [*cross_out_records(home, [ANN])] == []
    assert [(each.file, dict(each.counts)) for each in find_left(home, [ANN], ())] == [(f"logs/{log.name}", {ANN: 1})]


def erased_once(*values: str, until_ms: int = 7) -> ErasedOnce:
    return ErasedOnce("key", until_ms, b"".join(digest_key(read_secret(ENVIRONMENT), "key", each) for each in values))


def test_the_ledger_has_digests_and_is_read_by_the_secret_that_made_it(home: StreamHome) -> None:
    assert read_erased(home, {}) == NOBODY_ERASED
    operation = new_operation(home, "erase", "0" * 16, "ann", ("one", 7))
    record = ErasureRecord.of(operation, read_secret(ENVIRONMENT), erased_once(ANN, "bob"))
    note_erasure(home, record)
    note_erasure(home, ErasureRecord.of(operation, read_secret(ENVIRONMENT), erased_once("eve")))
    (kept,) = read_erasures(home)
    assert kept == record, "a later try changes nothing"
    assert [*find_left(home, [ANN, "bob"], ())] == []
    erased = read_erased(home, ENVIRONMENT)
    assert [each for each in (ANN, "bob", "eve") if erased.has(record.erasure, each)] == [ANN, "bob"]
    note_swept(home, record, 9)
    assert read_erasures(home)[0].swept_at == 9


@pytest.mark.parametrize("environment", [{}, {SECRET: "short"}, {SECRET: "another secret of the tests"}])
def test_without_its_secret_a_ledger_is_refused(home: StreamHome, environment: dict[str, str]) -> None:
    operation = new_operation(home, "erase", "0" * 16, "ann", ("one", 7))
    note_erasure(home, ErasureRecord.of(operation, read_secret(ENVIRONMENT), erased_once(ANN)))
    with pytest.raises(InvalidSpec) as refused:
        read_erased(home, environment)
    assert refused.value.field == SECRET


def test_a_damaged_ledger_lets_nobody_in(home: StreamHome) -> None:
    write(home, "control/erasures/erase-1.json", "{")
    with pytest.raises(DamagedFile):
        read_erased(home, ENVIRONMENT)
