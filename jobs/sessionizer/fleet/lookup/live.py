"""Figures of a stream's open sessions and its source as they are now, by the driver's records. Light: two small files.

JSON (times are epoch ms)::

    {"open_ages": {"1m": 7, "10m": 3, "1h": 0, "6h": 0, "1d": 0, "older": 1},
     "heaviest_keys": [{"key": "bot", "group": 7, "events": 90000}],
     "straggler": STRAGGLER or null, "positions": POSITIONS or null}

``open_ages`` counts open sessions below each age, and ``heaviest_keys`` has the largest ones, both as of the last merge
of each key group. They are empty until the groups have merged once in the driver's life. STRAGGLER is described in
``control.history.straggler``, POSITIONS in ``control.records.positions_record``: null unless the source is Kafka.

A key may name a person, so a reader needs the right to see the stream's rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.positions_record import POSITIONS_FILE

if TYPE_CHECKING:
    from sessionizer.fleet.stream_view import StreamView
    from sessionizer.home.json_record import JsonObject


def live_figures(view: StreamView) -> JsonObject:
    """Return the figures of the stream. Those that are unknown are empty. Never raises."""
    beat = view.driver.heartbeat if view.driver is not None else None
    positions = POSITIONS_FILE.of(view.home).read() if view.home is not None else None
    return {
        "open_ages": dict(beat.open_ages) if beat else {},
        "heaviest_keys": [each.to_json() for each in beat.heaviest_keys] if beat else [],
        "straggler": beat.straggler.to_json() if beat and beat.straggler else None,
        "positions": positions.to_json() if positions else None,
    }
