"""The errors that this package raises on purpose. docs/command-line.md lists them by exit code.

A class says each thing once: exit code and the effect of a retry in its head, then title, message, remedy, and the
fields that these name. A new class needs its row in that page, and an example in
``tests/support/expected/error_examples.py``.
"""

from sessionizer.errors.driver_errors import *
from sessionizer.errors.state_errors import *
from sessionizer.errors.table_errors import *
from sessionizer.errors.tree import *

DECIDES_NO_ROW = "an error ends a driver or a command"
