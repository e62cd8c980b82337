"""Contact with the store: how long a node has had it, and when any node has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from go_scheduler.clock import Clock
    from go_scheduler.stores.messages import NodeContact


class Contact:
    """How long a node's contact with its store has been unbroken.

    After an outage every node must have had the time to renew what it runs before any
    node takes over claims that have lapsed meanwhile.

    A call that fails is no outage, for one of many may be lost at any time: it is one
    if nothing is answered for longer than nodes let pass between two renewals.

    Args:
        clock: Measures elapsed time.
        lease: It is broken by a third of this with failures alone, or by all of it
            without any call.
    """

    def __init__(self, clock: Clock, *, lease: timedelta) -> None:
        self._clock = clock
        self._lease = lease
        self._since: timedelta | None = None
        self._last = ZERO
        self._fails = False

    @property
    def unbroken(self) -> timedelta:
        """For how long it has been; zero before the first."""
        now = self._clock.elapsed()
        # After a long freeze nothing has been noted yet, and it is broken all the same.
        if self._since is None or self._is_silent(now):
            return ZERO
        return now - self._since

    def broken_since(self, elapsed: timedelta) -> bool:
        """Whether it has been broken since then."""
        is_silent = self._is_silent(self._clock.elapsed())
        return self._since is None or is_silent or self._since > elapsed

    def made(self) -> None:
        """The store has answered."""
        now = self._clock.elapsed()
        if self._since is None or self._is_silent(now):
            self._since = now
        self._last = now
        self._fails = False

    def broke(self) -> None:
        """The store has not answered, or not well."""
        self._fails = True

    def _is_silent(self, now: timedelta) -> bool:
        most = self._lease / 3 if self._fails else self._lease
        return now - self._last > most


def cover(
    contacts: Iterable[NodeContact],
    *,
    since: datetime,
    until: datetime,
    gap: timedelta,
) -> bool:
    """Whether some node was in contact with the store all of that time.

    Args:
        contacts: When nodes were.
        since: From when on.
        until: Up to when.
        gap: For so long none need have been, at a time.
    """
    covered = since
    for contact in sorted(contacts, key=lambda each: each.since):
        if contact.since - covered > gap:
            return False
        covered = max(covered, contact.until)
    return until - covered <= gap
