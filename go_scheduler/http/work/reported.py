"""What workers report of their runs, on its way to the store, many in one write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.http.work.gathered import GatheredWrites
from go_scheduler.models import Extension
from go_scheduler.running.desks import Desks, lets_others_run
from go_scheduler.running.elsewhere import Extending, Failing, Success

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from go_scheduler.errors import StoreError
    from go_scheduler.scheduler import Scheduler


class Reported:
    """Has what workers report written, each kind apart from the others.

    Args:
        scheduler: That of whose store the runs are; its settings say what follows.
        threads: Where it is written.
    """

    def __init__(self, scheduler: Scheduler, threads: Executor) -> None:
        self._scheduler = scheduler
        self._desks = Desks(
            scheduler._ready,
            scheduler._clock,
            defaults=scheduler._defaults,
            tell=scheduler._events.tell,
            count=scheduler._count_end,
        )
        self._extend = GatheredWrites[Extending, Extension](self._extend_all, threads)
        self._complete = GatheredWrites[Success, bool](self._complete_all, threads)
        self._fail = GatheredWrites[Failing, bool](self._fail_all, threads)
        self.extend, self.complete = self._extend.ask, self._complete.ask
        self.fail = self._fail.ask

    async def close(self) -> None:
        """Wait until all is written."""
        for each in (self._extend, self._complete, self._fail):
            await each.close()

    def _extend_all(
        self, runs: Sequence[Extending]
    ) -> Sequence[Extension | StoreError]:
        answers = self._desks.desk().extend_all(runs)
        # One that has timed out may run again at once.
        if Extension.LOST in answers:
            self._scheduler._look_at_all()
        return answers

    def _complete_all(self, runs: Sequence[Success]) -> Sequence[bool | StoreError]:
        answers = self._desks.desk().complete_all(runs)
        ended = [run for run, it in zip(runs, answers, strict=True) if it is True]
        if any(lets_others_run(each) for each in ended):
            self._scheduler._look_at_all()
        return answers

    def _fail_all(self, runs: Sequence[Failing]) -> Sequence[bool | StoreError]:
        answers = self._desks.desk().fail_all(runs)
        # They may run again at once.
        if True in answers:
            self._scheduler._look_at_all()
        return answers
