"""The errors that this package raises on purpose. docs/command-line.md lists them by exit code.

A class carries what is said of its errors: title, remedy, exit code, and whether a retry helps. The facts of an error
are its fields, and its message is composed from them. A new class needs its row in that page, and an example in
``tests/support/expected/error_examples.py``.
"""

from __future__ import annotations

from sessionizer.errors.driver_errors import *
from sessionizer.errors.state_errors import *
from sessionizer.errors.table_errors import *
from sessionizer.errors.tree import *

DECIDES_NO_ROW = "an error ends a driver or a command"
