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

    Args:
        clock: Measures elapsed time.
        silence: Longer than this without contact counts as broken.
    """

    def __init__(self, clock: Clock, *, silence: timedelta) -> None:
        self._clock = clock
        self._silence = silence
        self._since: timedelta | None = None
        self._last = ZERO

    @property
    def unbroken(self) -> timedelta:
        """For how long it has been; zero before the first."""
        # Read once, and first: other threads note what they meet.
        since = self._since
        now = self._clock.elapsed()
        # After a long freeze nothing has been noted yet, and it is broken all the same.
        if since is None or self._is_silent(now):
            return ZERO
        return now - since

    def broken_since(self, elapsed: timedelta) -> bool:
        """Whether it has been broken since then."""
        since = self._since
        return (
            since is None or self._is_silent(self._clock.elapsed()) or since > elapsed
        )

    def made(self) -> None:
        """The store has answered."""
        now = self._clock.elapsed()
        if self._since is None or self._is_silent(now):
            self._since = now
        self._last = now

    def broke(self) -> None:
        """The store has not answered, or not well."""
        self._since = None

    def _is_silent(self, now: timedelta) -> bool:
        return now - self._last > self._silence


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
