"""What starts a driver as a process of this machine."""

import sys

from sessionizer_airflow.launching.spark_submit import DriverCall
from support.places import REPOSITORY, SUPPORT


def real_driver(call: DriverCall) -> list[str]:
    return [sys.executable, str(REPOSITORY / "jobs" / "main.py"), *call.argv()]


def scripted_driver(call: DriverCall) -> list[str]:
    """One that lives in the control directory only."""
    return [sys.executable, str(SUPPORT / "processes" / "scripted_driver.py"), *call.argv()]
