"""Claims whose answer was lost: the instances that they took are given back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import ClaimAnswerLost
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.ticking.batches import write_in_halves

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.held import Held
    from go_scheduler.running.recorder import Recorder
    from go_scheduler.stores.base import Store

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
        unknown = self._list_unknown()
        left = self._release(unknown)
        if not left and self._clock.elapsed() - self._lost_at >= _MAY_STILL_COME:
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
