"""Measurement of a key group's load from its columns."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from sessionizer.core.key_group.cutting import REASONS, Bools, Cuts, Positions, int64s, whole_column
from sessionizer.core.key_group.group_load import AGE_LIMITS, AGES, GroupLoad, place_of_p99
from sessionizer.core.wire import schema

HEAVIEST: Final = 3
"""Number of keys that a group reports."""

SHOWN_OF_A_KEY: Final = 64
"""Characters of a key that are shown."""

_LIMITS: Final = np.array([*AGE_LIMITS.values()], np.int64)


def load_of(cuts: Cuts, final: Bools, first: Positions, events: pa.Table, now_ms: int) -> GroupLoad:
    """Return the load of a group whose log makes the sessions of ``cuts``, of which the ``final`` ones close.

    ``first`` are the positions of their first events in ``events``. Ages are at ``now_ms`` (epoch ms).
    """
    counts = np.bincount(cuts.reason[final], minlength=len(REASONS)).tolist()
    closed = {str(reason): count for reason, count in zip(REASONS, counts, strict=True) if count}
    length, rows = cuts.length[~final], first[~final]
    if not len(length):
        return GroupLoad(closed=closed, ages=(0,) * len(AGES))
    started = int64s(events, schema.CLOCK)[rows]
    of_age = np.searchsorted(_LIMITS, now_ms - started, side="right")
    candidates = np.argpartition(length, -HEAVIEST)[-HEAVIEST:] if len(length) > HEAVIEST else np.arange(len(length))
    largest, place = candidates[np.argsort(-length[candidates], kind="stable")], place_of_p99(len(length))
    keys = whole_column(events, schema.KEY).take(pa.array(rows[largest])).to_pylist()
    return GroupLoad(
        closed=closed,
        ages=tuple(np.bincount(of_age, minlength=len(AGES)).tolist()),
        heaviest=tuple(
            (str(key)[:SHOWN_OF_A_KEY], count) for key, count in zip(keys, length[largest].tolist(), strict=True)
        ),
        p99_events=int(np.partition(length, place)[place]),
    )
