"""Has a command take what its machine has to spare, beside a driver that is to feel nothing of it.

Linux weighs niceness among the processes of one session; among sessions, where the kernel groups by them
(``sched_autogroup_enabled``), it weighs that of the group, which only a whole session can be given (man 7 sched).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

NICENESS: Final = 10
"""A tenth of the claim of others: with the lowest, 19, it would get next to nothing on a machine that is never idle."""
_GROUP: Final = Path("/proc/self/autogroup")


def give_way() -> None:
    """Lower the priority of this process and of all that it starts, and that of its session if it leads one.

    In a terminal the session is the shell's, which is not ours to slow down: ``setsid`` before the command gives it one
    of its own. Schedulers and services start each command in one. Harmless where there is no such thing.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            _GROUP.write_text(str(NICENESS))
