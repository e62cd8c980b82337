"""Takeover: whether lapsed claims may be taken, and claims whose answer was lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.events.instance_events import ClaimAnswerLost
from go_scheduler.running.keeper import cover
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.ticking.retry_later import write_in_halves
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.announcing import Announcing
    from go_scheduler.running.held import Held
    from go_scheduler.running.keeper import Contact
    from go_scheduler.running.recorder import Recorder
    from go_scheduler.stores.base import Store

# No store keeps contacts for longer.
_CONTACTS_KEPT = timedelta(hours=1)


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
        contacts = self._store.list_contacts(within=min(self._lease, _CONTACTS_KEPT))
        now = self._clock.now()
        before = self.lapsed
        self._covered_at = None
        if cover(contacts, since=now - self._lease, until=now, gap=self._lease / 3):
            self._covered_at = self._clock.elapsed()
        if before is None and self.lapsed is not None:
            self._look()


_PAGE = 500
# For so long the store may still be at work on a claim whose answer was lost.
_MAY_STILL_COME = timedelta(seconds=5)


class Unanswered:
    """Looks for what the store says this node has, and the node knows nothing of.

    Args:
        store: Where to look.
        clock: Measures elapsed time.
        node: This node.
        held: The node's runs.
        recorder: Knows those whose outcome is not recorded yet.
        under_way: Whether more may come that is not among these yet.
        events: Told of what is given back.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        node: UUID,
        *,
        held: Held,
        recorder: Recorder,
        under_way: Callable[[], bool],
        events: Events = LOG_ALONE,
    ) -> None:
        self._store = store
        self._clock = clock
        self._node = node
        self._held = held
        self._recorder = recorder
        self._under_way = under_way
        self._lost_at: timedelta | None = None
        self._events = events.teller("running", bounded=True)

    @property
    def any(self) -> bool:
        """Whether a claim may have taken what this node does not know of."""
        return self._lost_at is not None

    def note(self) -> None:
        """Note that the answer to a claim was lost."""
        self._lost_at = self._clock.elapsed()

    def give_back(self) -> bool:
        """Give back what such a claim has taken; true if there was something."""
        # In this order: none comes under way once an answer is lost.
        if self._lost_at is None or self._under_way():
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
        known = {*self._held.claims(), *self._recorder.claims()}
        unknown: list[Claim] = []
        page = self._list_claimed(None)
        while page:
            claims = [Claim.of(each) for each in page]
            unknown += [each for each in claims if each not in known]
            page = self._list_claimed(page[-1])
        return unknown

    def _list_claimed(self, after: TaskInstance | None) -> Sequence[TaskInstance]:
        return self._store.list_claimed(self._node, after=after, limit=_PAGE)

    def _release(self, claims: Sequence[Claim]) -> int:
        """Give back, and answer how many could not be."""
        failed: list[Release] = []
        answers = write_in_halves(
            [Release(claim=claim) for claim in claims],
            self._store.release_instances,
            lambda release, _: failed.append(release),
        )
        if claims:
            self._events.tell(ClaimAnswerLost(node=self._node, count=len(claims)))
        return len(failed) + sum(len(answer.busy) for answer in answers)
