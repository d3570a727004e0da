"""Counts as messages write them: ``1 file``, ``2,000 files``."""

DECIDES_NO_ROW = "it words numbers"


def count_text(count: int, thing: str) -> str:
    """Format a ``count`` with the noun of one ``thing``, such as ``1 file``, ``2 batches``."""
    plural = "es" if thing.endswith(("ch", "ss")) else "s"
    return f"{count:,} {thing}{'' if count == 1 else plural}"


def count_is(count: int, thing: str) -> str:
    """Format a ``count`` as a subject with its verb, such as ``1 file is``, ``2 files are``."""
    return f"{count_text(count, thing)} {'is' if count == 1 else 'are'}"


def number_is(count: int) -> str:
    """Format a ``count`` whose noun was named before, as a subject with its verb: ``1 is``, ``2 are``."""
    return f"{count:,} {'is' if count == 1 else 'are'}"


def state_text(events: int, keys: int, sessions: int) -> str:
    """Format the contents of a state, such as ``3 events of 1 key in 2 sessions``."""
    return f"{count_text(events, 'event')} of {count_text(keys, 'key')} in {count_text(sessions, 'session')}"
