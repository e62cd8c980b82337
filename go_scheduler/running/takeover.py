"""Takeover: whether a node may take claims that have lapsed, and since when."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.running.contact import cover
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.announcing import Announcing
    from go_scheduler.running.contact import Contact
    from go_scheduler.stores.base import Store


# No store keeps contacts for longer.
_KEPT = timedelta(hours=1)


class Takeover:
    """Decides on lapsed claims, and tells other nodes of the contact with the store.

    After an outage every node must have had the time to renew what it runs before any
    node takes over claims that have lapsed meanwhile. A node knows that there was none
    from its own contact with the store, once that has lasted for a lease. One that has
    just started knows it from what all nodes, living and dead, have noted of theirs.

    Args:
        store: Where contacts are noted.
        clock: The store's time, as this node has it.
        announcing: What this node tells of itself.
        lease: How long claims hold.
        contact: The node's own contact.
        look: Called when there may be something to take over, for the first time.
        events: Told of what fails.

    Attributes:
        pause: How long to wait after a look for what has lapsed that met nothing.
        ticker: Lets it tick.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        announcing: Announcing,
        *,
        lease: timedelta,
        contact: Contact,
        look: Callable[[], None],
        events: Events = LOG_ALONE,
    ) -> None:
        self._store = store
        self._clock = clock
        self._announcing = announcing
        self._lease = lease
        # As often as the contact is noted: it has waited for six times as long.
        self.pause = lease / 6
        self._contact = contact
        self._look = look
        self._covered_at: timedelta | None = None
        self._has_left = False
        # So often that a node which dies and starts again leaves no gap that counts.
        self.ticker = Ticker(
            "takeover",
            self.tick,
            interval=lease / 6,
            clock=clock.base,
            events=events,
        )

    @property
    def lapsed(self) -> timedelta | None:
        """How long ago claims must have lapsed to be taken over; None: none may be."""
        unbroken = self._contact.unbroken
        if unbroken >= self._lease:
            return ZERO
        # The contacts of the others say nothing of an outage since.
        if self._covered_at is None or self._contact.broken_since(self._covered_at):
            return None
        return self._lease

    @property
    def has_left(self) -> bool:
        """Whether others know that this node takes nothing more, or cannot be told."""
        return self._has_left or self.ticker.error is not None

    def leave(self) -> None:
        """Tell the others that this node takes nothing more."""
        self._announcing.stopping = True
        self.ticker.wake()

    def tick(self) -> timedelta | None:
        """Note this node's contact, and read that of the others while it is young.

        With it goes what the node has counted, once a minute.
        """
        announced = self._announcing.announcement()
        try:
            self._announcing.look()
            self._clock.refresh()
            self._store.note_contact(announced, unbroken=self._contact.unbroken)
            self._has_left = announced.stopping
            self._contact.made()
            if self._contact.unbroken < self._lease:
                self._read_others()
        except BaseException:
            self._contact.broke()
            raise
        # Apart from the contact: nothing depends on it.
        self._announcing.write_stats(self._store)
        return None

    def _read_others(self) -> None:
        contacts = self._store.list_contacts(within=min(self._lease, _KEPT))
        now = self._clock.now()
        before = self.lapsed
        self._covered_at = None
        if cover(contacts, since=now - self._lease, until=now, gap=self._lease / 3):
            self._covered_at = self._clock.elapsed()
        if before is None and self.lapsed is not None:
            self._look()
