"""Number of open sessions and their latest end. Each key group reports its changes, the driver keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionizer.core.key_group.group_load import NOTHING_OPEN, OpenInGroup, latest, sum_loads
from sessionizer.home.json_record import add_stamp, content_of
from sessionizer.home.record_file import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sessionizer.core.key_group.group_load import GroupLoad, OpenLoad
    from sessionizer.home.roots import ControlPath

_BATCH, _GROUPS, _UNMERGED = "batch_id", "groups", "unmerged"


class OpenSessions:
    """The open sessions per key group, kept for a restart. The file is there from the first batch on.

    If a group has only appended since it merged, its figures are upper bounds: its sessions and the end of the last
    one.
    """

    def __init__(self, file: ControlPath) -> None:
        self._file = file
        kept: dict[str, Any] = read_json(file) or {}
        groups = content_of(file, kept, _GROUPS)
        self._of_group = {int(group): OpenInGroup(**said) for group, said in groups.items()}
        self._unmerged = {int(group): int(events) for group, events in kept.get(_UNMERGED, {}).items()}
        self._batch_id = kept.get(_BATCH)

    @property
    def total(self) -> int:
        """Open sessions of all groups, at most."""
        return sum(open_in_group.sessions for open_in_group in self._of_group.values())

    @property
    def most(self) -> int:
        """Upper bound of open sessions.

        A key that came several times since its group merged may have as many sessions.
        """
        return self.total + sum(self._unmerged.values())

    @property
    def latest_due_ms(self) -> int | None:
        """Watermark (epoch ms) at which the last open session is emitted, None if none ever is."""
        return latest(*(open_in_group.latest_due_ms for open_in_group in self._of_group.values()))

    @property
    def held_bytes(self) -> int:
        """Upper bound of the decoded size of all groups' open events, in bytes."""
        return sum(open_in_group.held_bytes for open_in_group in self._of_group.values())

    @property
    def load(self) -> OpenLoad:
        """Sizes and ages of the open sessions. A restart forgets those of keys until their groups merge again."""
        held = (open_in_group.held_bytes for open_in_group in self._of_group.values())
        return sum_loads(held, self.loads)

    @property
    def loads(self) -> Mapping[int, GroupLoad]:
        """The load of each group, of its last merge if it has only appended since."""
        return {group: open_in_group.load for group, open_in_group in self._of_group.items()}

    @property
    def heaviest(self) -> tuple[int | None, int | None]:
        """Group that holds the most, and its bytes."""
        held = {group: open_in_group.held_bytes for group, open_in_group in self._of_group.items()}
        group = max(held, key=held.__getitem__, default=None)
        return group, None if group is None else held[group]

    def learn(self, batch_id: int, open_in_groups: Iterable[tuple[int, OpenInGroup]]) -> None:
        """Take over the reports of groups in this batch. If the batch runs again, its additions count once."""
        of_group, unmerged = dict(self._of_group), dict(self._unmerged)
        for group, open_in_group in open_in_groups:
            if open_in_group.merged or batch_id != self._batch_id:
                of_group[group] = open_in_group.combine(of_group.get(group, NOTHING_OPEN))
                came = 0 if open_in_group.merged else open_in_group.admitted
                unmerged[group] = came and unmerged.get(group, 0) + came
        is_news = of_group != self._of_group or unmerged != self._unmerged or self._batch_id is None
        self._of_group = of_group  # with loads, which no file keeps
        if is_news:
            self._unmerged, self._batch_id = unmerged, batch_id
            told = {str(group): open_in_group.as_dict() for group, open_in_group in of_group.items()}
            events = {str(group): came for group, came in unmerged.items() if came}
            write_json(self._file, add_stamp({_BATCH: batch_id, _GROUPS: told, _UNMERGED: events}), durable=False)
