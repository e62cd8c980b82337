"""Outcomes that the store did not take, and why: they were lost, or there already."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError, TaskInstanceNotFoundError
from go_scheduler.events.bounded_log import BoundedLog
from go_scheduler.models import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.entry import Entry
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claim, RunOutcome

# So many lines say enough, and each costs a way to the store while others wait.
_MOST_ASKED = 10


class Untaken:
    """Finds out about outcomes that the store did not take.

    Args:
        store: Where to look.
        rolled_back: Told of failures that are known only now: the transaction of
            ``complete_in`` has not committed.
    """

    def __init__(
        self, store: Store, *, rolled_back: Callable[[HeldRun, RunOutcome], None]
    ) -> None:
        self._store = store
        self._rolled_back = rolled_back
        self._asked = 0
        self._log = BoundedLog(logging.getLogger(__name__))

    def begin(self) -> None:
        """Begin anew, as at a tick: of some more the store may be asked."""
        self._asked = 0
        self._log.begin()

    def explain(self, entry: Entry, outcome: RunOutcome) -> None:
        """Say that a result was discarded, unless it has been recorded before.

        That was by the transaction in which the run called ``complete_in``, or by an
        earlier write whose answer was lost.
        """
        claim, found = outcome.claim, None
        if entry.joined or entry.unsure:
            if self._asked == _MOST_ASKED:
                return
            self._asked += 1
            found = self._find(claim)
        if found is not None and entry.joined and _is_completed_by(found, claim):
            self._report_raised(claim, entry.raised)
        elif found is not None and entry.unsure and _is_recorded(found, outcome):
            if entry.joined:
                self._rolled_back(entry.run, outcome)
        # That it hangs was a presumption, and has been reported.
        elif not outcome.hung:
            self._log.write(
                logging.WARNING,
                "instance %s: the result of attempt %d is discarded, its claim is lost",
                claim.instance_id,
                claim.attempt,
                ids=_ids(claim),
            )

    def _report_raised(self, claim: Claim, error: str | None) -> None:
        """Say what a handler raised after its transaction had committed."""
        if error is not None:
            self._log.write(
                logging.ERROR,
                "instance %s: attempt %d is completed, but failed afterwards: %s",
                claim.instance_id,
                claim.attempt,
                error,
                ids=_ids(claim),
            )

    def _find(self, claim: Claim) -> TaskInstance | None:
        try:
            return self._store.get_instance(claim.instance_id)
        # Gone, or unreadable: it is only about a line in the log.
        except (StoreError, TaskInstanceNotFoundError):
            return None


def _is_completed_by(instance: TaskInstance, claim: Claim) -> bool:
    completed = instance.outcome is Outcome.COMPLETED
    return completed and instance.ended_attempt == claim.attempt


def _is_recorded(instance: TaskInstance, outcome: RunOutcome) -> bool:
    ends = outcome.outcome is not None
    attempt = instance.ended_attempt if ends else instance.attempt
    return attempt == outcome.claim.attempt


def _ids(claim: Claim) -> dict[str, object]:
    return {"instance_id": claim.instance_id, "attempt": claim.attempt}
