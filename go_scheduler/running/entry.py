"""An entry of the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.messages import Release, RunOutcome
from go_scheduler.stores.slots import takes_slot

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.stores.messages import Renewal


class Entry:
    """What is to be recorded of one run, until the store has taken it.

    Args:
        run: The run.
        record: What is to be recorded of it.
        raised: What its handler raised, if that is not all of the record's error.
        took: How long the run took; None: its handler was not called, or nobody asks.
    """

    __slots__ = ("joined", "raised", "record", "run", "took", "unsure")

    def __init__(
        self,
        run: HeldRun,
        record: RunOutcome | Release | Renewal,
        *,
        raised: str | None = None,
        took: timedelta | None = None,
    ) -> None:
        self.run = run
        self.record = record
        self.raised = raised
        self.took = took
        # Whether the run called complete_in before this was decided.
        self.joined = run.joined
        # Whether it has been sent and the answer was lost.
        self.unsure = False

    @property
    def frees_slot(self) -> bool:
        """Whether a slot may be free when this has been recorded."""
        record, instance = self.record, self.run.instance
        if isinstance(record, RunOutcome):
            return record.has_slot and (record.outcome is not None or self.joined)
        is_uncalled = isinstance(record, Release) and instance.started_at is not None
        return is_uncalled and takes_slot(instance)
