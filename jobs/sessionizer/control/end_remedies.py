"""What to do about the end of a driver, by what its exit record calls it.

How to go on afterwards is said where it is known: the command line says ``sessionizer run``, Airflow says unpause.
"""

from __future__ import annotations

from typing import Final

CAUSES: Final = {
    "disk_full": "free some space; the stream then goes on where it was",
    "memory": "give the driver more memory (spark.driver.memory) or let a batch bring less (source.options)",
    "lease_lost": "nothing to do: another driver took over",
    "source_data_loss": "events are gone from the source: decide what to do about them before you start it again",
    "source_rewritten": "the source is no longer only added to; if that is meant, say so in source.options "
    "(skipChangeCommits: true), else seed a new lineage",
    "state_not_at_head": "the checkpoint lacks state; do not edit it: seed a new lineage from what is known",
    "schema_change": "undo the change of the columns, or start a new lineage with it",
    "bad_option": "correct the option in source.options",
    "bad_data": "remove or repair the file that the message names",
    "driver_jvm_died": "look for the JVM's last words (memory, kill) in the driver's log",
    "state_silent": "look for a full disk in the driver's log; a restart continues where it was",
    "executor_lost": "look for memory or machine trouble in the driver's log; a restart continues where it was",
    "unknown": "the driver's log has the whole story; a restart continues where it was",
}
"""The death of a query, by its cause (``sessionizer.spark.failure``)."""

CLASSES: Final = {
    "InvalidSpec": "correct the spec; `sessionizer spec check --deep` proves it",
    "UnknownStream": "put the spec back into the folder of streams",
    "UnwritablePath": "make the path in the message writable",
    "DamagedFile": "restore the file in the message from a copy; nothing else knows what it said",
    "SourceUnreachable": "start what should answer at the address in the message, or correct source in the spec",
    "ControlUnreachable": "check the mount and the limit of open files",
}
"""What ended a driver that had no query yet, by the name of the error's class."""

KILLED: Final = "find out who ended it: the machine's memory killer, a person, a reboot"
"""For a driver that left no exit record."""

OTHER: Final = "correct what the message says"


def remedy_of_end(error_type: str | None) -> str:
    """One line of advice about an exit record's ``error_type``: a cause, or the name of a class."""
    return CAUSES.get(error_type or "") or CLASSES.get(error_type or "") or OTHER
