"""The driver: the process that owns a stream's lease and runs its query until told to stop.

It refuses to start without the lease, beats every few seconds, stops at a batch boundary when asked to, writes nothing
once the lease is lost, and leaves an exit record however it ends, after the query's own end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.failed_exit import record_failure, record_false_start
from sessionizer.control.history.mark import Mark, MarkKind, add_mark
from sessionizer.control.lease import acquire
from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.control.records.process_records import ExitRecord, write_exit
from sessionizer.deployment.releases import require_release
from sessionizer.deployment.running_spec import choose_spec
from sessionizer.errors import LeaseHeld, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.local_files import Reserve
from sessionizer.home.roots import is_local
from sessionizer.lineage.active import active_lineage, require_no_history
from sessionizer.lineage.checkpoint_record import require_checkpoint, require_readable_lineage
from sessionizer.lineage.data_owner import claim_data, require_own_data, require_own_home
from sessionizer.lineage.drained import require_not_drained
from sessionizer.lineage.fingerprint import require_same_engine
from sessionizer.spark.driver.auto_rollback import roll_back_if_due
from sessionizer.spark.driver.driver_loop import DriverLoop
from sessionizer.spark.driver.out_of_memory import words_of_this_jvm
from sessionizer.spark.driver.stop_gate import StopSignals
from sessionizer.spark.failures.query_failure import classify_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.lease import Lease
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.driver.options import DriverOptions
    from sessionizer.stream_spec.loading.spec_file import SpecFile


def drive(home: StreamHome, file: SpecFile, options: DriverOptions, say: Callable[[str], None]) -> ExitRecord:
    """Run the stream at ``home`` whose spec ``file`` holds, and return how it ended.

    Raises the error that kept it from starting or running on, after recording it. ``say`` gets one line for each event
    that a user would want to know.
    """
    home.prepare()
    lease = _acquire_lease(home, options.uid, say)
    reserve = Reserve(home.reserve(lease.uid))
    if is_local(home.control_base):
        reserve.take()
    driver: DriverLoop | None = None
    add_mark(home, Mark(kind=MarkKind.START, uid=lease.uid))
    try:
        with StopSignals() as signals:
            roll_back_if_due(home, lease, options, say)
            require_no_operation(home)
            require_not_drained(home)
            _require_readable(home)
            require_release(home, file)
            _prepare_data(home)
            running = choose_spec(home, file, apply=options.apply)
            require_own_home(home, running.spec.sink.path)
            driver = DriverLoop(running, options, home, lease, signals, say)
            outcome, batch_id = driver.run()
    except BaseException as error:
        cause = classify_failure(home.name, error, words_of_this_jvm) if isinstance(error, Exception) else error
        if driver is None or driver.query_has_ended():
            reserve.give_up()
            if driver is not None and isinstance(cause, SessionizerError):
                cause = driver.ends_with(cause)
            record_failure(home, lease.uid, cause)
            lease.release()
        else:
            # a record would free the lease: only the end of this process ends what the query may still do
            say("the query did not end in time, so this driver leaves no exit record")
        raise cause from error
    reserve.give_up()
    add_mark(home, Mark(kind=MarkKind.STOP, what=str(outcome), uid=lease.uid, batch_id=batch_id))
    record = ExitRecord(uid=options.uid, at=epoch_ms(), outcome=outcome, batch_id=batch_id)
    write_exit(home, record)
    lease.release()
    return record


def _require_readable(home: StreamHome) -> None:
    lineage = active_lineage(home)
    if lineage is not None:
        require_readable_lineage(home, lineage)
        require_same_engine(home, lineage)


def _prepare_data(home: StreamHome) -> None:
    """Prepare the stream's data. Raises DataOwned, and DamagedFile if there are checkpoints that control does not know.

    Raises DataAway, before it makes a folder, if the checkpoint of the active lineage is missing. Raises
    StoreUnreachable, DiskFull, UnwritablePath.
    """
    lineage = active_lineage(home)
    if lineage is not None:
        require_checkpoint(home, lineage)
    home.prepare_data()
    require_own_data(home)
    if lineage is None:
        require_no_history(home)
    claim_data(home)


def _acquire_lease(home: StreamHome, uid: str, say: Callable[[str], None]) -> Lease:
    try:
        return acquire(home, uid, say=say)
    except LeaseHeld as error:
        record_false_start(home, uid, error)
        raise
