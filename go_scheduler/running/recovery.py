"""Recovery: whether lapsed claims may be taken, and claims whose answer was lost."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConflictError,
    QueueFullError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events.instance_events import ClaimAnswerLost
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.ticking.retry_later import write_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.presence import Presence
    from go_scheduler.running.result_writer import ResultWriter
    from go_scheduler.running.state import NodeState
    from go_scheduler.stores.messages import NodeContact


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


class Takeover:
    """Decides on lapsed claims, and tells other nodes of the contact with the store.

    After an outage every node must have had the time to renew what it runs before any
    node takes over claims that have lapsed meanwhile. A node knows that there was none
    from its own contact with the store, once that has lasted for a lease. One that has
    just started knows it from what all nodes, living and dead, have noted of theirs.

    Args:
        state: What the node's parts share.
        presence: What this node tells of itself.

    Attributes:
        pause: How long to wait after a look for what has lapsed that met nothing.
        ticker: Lets it tick.
    """

    def __init__(self, state: NodeState, presence: Presence) -> None:
        self._state = state
        self._store = state.store
        self._clock = state.clock
        self._contact = state.contact
        self._lease = lease = state.settings.lease
        self._presence = presence
        # As often as the contact is noted: it has waited for six times as long.
        self.pause = lease / 6
        self._covered_at: timedelta | None = None
        self._has_left = False
        # So often that a node which dies and starts again leaves no gap that counts.
        self.ticker = state.ticker("recovery", self.tick, lease / 6)

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
        self._presence.stopping = True
        self.ticker.wake()

    def tick(self) -> timedelta | None:
        """Note this node's contact; read that of the others while it is young.

        It is read as well if nodes share what the store has.

        With it goes what the node has counted, once a minute.
        """
        announced = self._presence.announcement()
        try:
            self._presence.look()
            self._clock.refresh()
            self._store.note_contact(announced, unbroken=self._contact.unbroken)
            self._has_left = announced.stopping
            self._contact.made()
            if self._contact.unbroken < self._lease or self._state.shares.are_any:
                self._read_others()
        except BaseException:
            self._contact.broke()
            raise
        # Apart from the contact: nothing depends on it.
        self._presence.write_stats()
        return None

    def _read_others(self) -> None:
        contacts = self._store.list_contacts(within=min(self._lease, _CONTACTS_KEPT))
        if self._state.shares.are_any:
            self._state.shares.know(each.announced for each in contacts)
        now = self._clock.now()
        before = self.lapsed
        self._covered_at = None
        if cover(contacts, since=now - self._lease, until=now, gap=self._lease / 3):
            self._covered_at = self._clock.elapsed()
        if before is None and self.lapsed is not None:
            self._state.work_found()


_PAGE = 500
# For so long the store may still be at work on a claim whose answer was lost.
_MAY_STILL_COME = timedelta(seconds=5)


class Unanswered:
    """Gives back what a claim has taken whose answer was lost.

    Args:
        state: What the node's parts share.
        writer: Knows what is not recorded yet.
    """

    def __init__(self, state: NodeState, writer: ResultWriter) -> None:
        self._state = state
        self._store = state.store
        self._clock = state.clock
        self._writer = writer
        self._lost_at: timedelta | None = None
        self._events = state.events.teller("running", bounded=True)

    @property
    def any(self) -> bool:
        """Whether a claim may have taken what this node does not know of."""
        return self._lost_at is not None

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note that what is claimed meanwhile may not be answered."""
        try:
            yield
        except (ConflictError, QueueFullError, TaskDefinitionNotFoundError):
            raise
        except BaseException:
            self.note()
            raise

    def note(self) -> None:
        """Note that the answer to a claim was lost."""
        self._lost_at = self._clock.elapsed()

    def give_back(self) -> bool:
        """Give back what such a claim has taken; true if there was something."""
        # In this order: none comes under way once an answer is lost.
        if self._lost_at is None or self._state.in_flight.count:
            return False
        self._events.begin()
        # Before the list is asked for: what comes behind it is not in it.
        has_come = self._clock.elapsed() - self._lost_at >= _MAY_STILL_COME
        unknown = self._list_unknown()
        left = self._release(unknown)
        if has_come and not left:
            self._lost_at = None
        return bool(unknown)

    def _list_unknown(self) -> Sequence[Claim]:
        # Before the list is read: what ends meanwhile is in both or in neither, and
        # only the thread that claims comes here.
        known = {*self._state.held.claims(), *self._writer.claims()}
        unknown: list[Claim] = []
        page = self._list_claimed(None)
        while page:
            claims = [Claim.of(each) for each in page]
            unknown += [each for each in claims if each not in known]
            page = self._list_claimed(page[-1])
        return unknown

    def _list_claimed(self, after: TaskInstance | None) -> Sequence[TaskInstance]:
        return self._store.list_claimed(self._state.node, after=after, limit=_PAGE)

    def _release(self, claims: Sequence[Claim]) -> int:
        """Give back, and answer how many could not be."""
        releases = [Release(claim=claim) for claim in claims]
        written = write_each(releases, self._store.release_instances)
        if claims:
            lost = ClaimAnswerLost(node=self._state.node, count=len(claims))
            self._events.tell(lost)
        return len(written.failed) + len(written.busy)
