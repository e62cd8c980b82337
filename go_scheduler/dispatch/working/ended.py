"""What has ended lately, and what was said of it at last."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.dispatch.messages.statuses import Status
    from go_scheduler.dispatch.working.taken import Key

_MOST = 1000
_MOST_BYTES = 4 * 1024 * 1024


class Ended:
    """The last statuses of the runs that have ended last: some, and not too large.

    Args:
        most: The most of them.
        most_bytes: The most bytes that their messages may have together.
    """

    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._last: OrderedDict[Key, tuple[Status, int]] = OrderedDict()

    def add(self, key: Key, status: Status) -> None:
        """Remember what was said of one at last."""
        size = len(status.to_bytes())
        self._last[key] = status, size
        self._bytes += size
        while len(self._last) > self._most or self._bytes > self._most_bytes:
            _, (_, dropped) = self._last.popitem(last=False)
            self._bytes -= dropped

    def get(self, key: Key) -> Status | None:
        """What was said of one at last; None: it has not ended here, or long ago."""
        found = self._last.get(key)
        return None if found is None else found[0]
