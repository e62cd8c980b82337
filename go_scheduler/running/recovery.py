"""Recovery: what nodes tell each other, and whether lapsed claims may be taken."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.running.state import NodeState, Part
from go_scheduler.stores.messages import (
    Announcement,
    Claimant,
    NodeContact,
)
from go_scheduler.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from go_scheduler.running.calling.workers import Handling
    from go_scheduler.running.metrics import Objective


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


# No store keeps contacts for longer.
_CONTACTS_KEPT = timedelta(hours=1)
# Of more it is not told which they are: each node writes all of it every few seconds.
_MOST_NAMES = 1000


class Presence(Part):
    """Tells other nodes of this one, and by what they tell decides on lapsed claims.

    After an outage every node must have had the time to renew what it runs before any
    node takes over claims that have lapsed meanwhile. A node knows that there was none
    from its own contact with the store, once that has lasted for a lease. One that has
    just started knows it from what all nodes, living and dead, have noted of theirs.

    Args:
        state: What the node's parts share.
        handling: What it calls, if anything.
        objective: How late its runs may be.

    Attributes:
        pause: How long to wait after a look for what has lapsed that met nothing.
        ticker: Lets it tick.
    """

    def __init__(
        self, state: NodeState, handling: Handling, objective: Objective
    ) -> None:
        super().__init__(state)
        self._handling = handling
        self._objective = objective
        self._host = socket.gethostname()
        self._pid = os.getpid()
        self._stopping = False
        # As often as the contact is noted: it has waited for six times as long.
        self.pause = self._lease / 6
        self._covered_at: timedelta | None = None
        self._has_left = False
        # So often that a node which dies and starts again leaves no gap that counts.
        self.ticker = state.ticker("recovery", self.tick, self.pause)

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
        self._stopping = True
        self.ticker.wake()

    def tick(self) -> timedelta | None:
        """Note this node's contact; read that of the others while it is young.

        It is read as well if nodes share what the store has.

        With it goes what the node has counted, once a minute.
        """
        announced = self._announcement()
        try:
            self._objective.look()
            self._clock.refresh()
            self._store.note_contact(announced, unbroken=self._contact.unbroken)
            self._has_left = announced.stopping
            self._contact.made()
            if self._contact.unbroken < self._lease or self._shares.are_any:
                self._read_others()
        except BaseException:
            self._contact.broke()
            raise
        # Apart from the contact: nothing depends on it.
        self.write_stats()
        return None

    @property
    def claimant(self) -> Claimant:
        """The node as a store needs to know it, with the names that it can run now."""
        return replace(self._state.claimant, names=self._names())

    def write_stats(self, *, last: bool = False) -> None:
        """Write what was counted, if a minute is over in which anything was.

        Args:
            last: Whether to write all there is: nothing more is counted.

        Raises:
            StoreError: It could not be written, and is written the next time.
        """
        taken = self._metrics.take(last=last)
        if taken:
            try:
                self._store.note_stats(self._state.node, taken)
            except BaseException:
                self._metrics.put_back()
                raise

    def _announcement(self) -> Announcement:
        """What there is to tell now: names may be registered at any time."""
        claimant = self._state.claimant
        return Announcement(
            node=claimant.node,
            host=self._host,
            pid=self._pid,
            version=__version__,
            queues=claimant.queues,
            names=self._names(),
            lease=claimant.lease,
            stopping=self._stopping,
        )

    def _names(self) -> tuple[str, ...] | None:
        """The names of what it can run; None: any, or too many to say."""
        if not self._handling.claims:
            return ()
        if not isinstance(self._handling.handler, HandlerRegistry):
            return None
        names = self._handling.handler.names
        return names if len(names) <= _MOST_NAMES else None

    def _read_others(self) -> None:
        contacts = self._store.list_contacts(within=min(self._lease, _CONTACTS_KEPT))
        if self._shares.are_any:
            self._shares.know(each.announced for each in contacts)
        now = self._clock.now()
        before = self.lapsed
        self._covered_at = None
        if cover(contacts, since=now - self._lease, until=now, gap=self._lease / 3):
            self._covered_at = self._clock.elapsed()
        if before is None and self.lapsed is not None:
            self._state.work_found()
