"""Notices: how a write has other processes look for what it puts in."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import TwoPhaseTransaction

from go_scheduler.clock import ZERO
from go_scheduler.stores.hints import SOON, News

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

# By the table and not by its schema: whoever writes has found it by a search path.
CHANNEL = "concat('go_scheduler ', CAST(CAST('task_definitions' AS regclass) AS oid))"
"""The channel, as SQL; it is one database's, and the table's own."""

# In few letters: they are sent to every node.
NEWS = {b"d": News.DEFINITIONS, b"i": News.INSTANCES}
"""What a notification is about, by what it says; of anything, if that is nothing."""

NOTIFY = f"SELECT pg_notify({CHANNEL}, '')"
"""Others hear of it when the transaction commits, and once."""

NOTIFY_EVERY = timedelta(milliseconds=5)


def may_notify(connection: Connection) -> bool:
    """Whether its transaction may: one that has notified cannot be prepared."""
    return not isinstance(connection.get_transaction(), TwoPhaseTransaction)


def hinted(notifies: bool, news: News, *, made: str, at: str) -> str:
    """The column that says whether others were notified of what was made.

    Args:
        notifies: Whether they are at all.
        news: What of.
        made: The relation of what was made.
        at: Its column that says when that is due.
    """
    if not notifies:
        return "CAST(NULL AS boolean) AS hinted"
    [about] = (word for word, each in NEWS.items() if each is news)
    return f"""(SELECT pg_notify(
                 {CHANNEL},
                 '{about.decode()}') IS NOT NULL
          FROM {made} AS m
         WHERE m.{at} <= now() + CAST(:hint_within AS interval)
         LIMIT 1) AS hinted"""


class Notices:
    """Sees to it that the writes of a process notify others now and then, not each.

    Commits that notify wait for each other. Who has been notified looks twice: what is
    written in silence must have committed by then. So the silence is counted from the
    start of the statement that notified, and where answers take as long there is none.

    Args:
        elapsed: Measures the time in between.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self.elapsed = elapsed
        self._next = ZERO

    def within(self, started: timedelta) -> timedelta | None:
        """How soon it must be due what others are notified of by a write.

        Args:
            started: The elapsed time at which it starts.

        Returns:
            None: they are notified of nothing.
        """
        return SOON if started >= self._next else None

    def note(self, row: Any, started: timedelta) -> None:
        """Take note of whether a write has notified others, as its answer says."""
        if row.hinted:
            self._next = started + NOTIFY_EVERY
