"""Recording: what workers have said goes to the store, many in one write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.dispatch.statuses import SortedStatuses
from go_scheduler.dispatch.timeouts import offered_again_after
from go_scheduler.errors import (
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
    TaskInstanceNotFoundError,
)
from go_scheduler.events.bus_events import StatusRefused
from go_scheduler.models import Extension, Stage
from go_scheduler.models.changed import changed
from go_scheduler.running.desks import Desks, lets_others_run
from go_scheduler.running.elsewhere import (
    Failing,
    Reporting,
    Success,
    progress_text,
    result_text,
    times_text,
)
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from go_scheduler.dispatch.cancelling import Cancelling
    from go_scheduler.dispatch.statuses import Going, Heard
    from go_scheduler.dispatch.timeouts import Timeouts
    from go_scheduler.events.event import Event
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.desk import Desk
    from go_scheduler.running.handed_out import HandedOut
    from go_scheduler.scheduler import Scheduler
    from go_scheduler.stores.messages import Claim

_MOST_TOLD = 500
_UNSAID = "the worker did not say why"
_NOBODYS = (
    "the store has no such instance: it has been deleted, or a scheduler with another"
    " store publishes in the same namespace, so that each hears what is for the other"
)


class Recording:
    """Has the desk record what was said, and workers told what is to end.

    Args:
        scheduler: By whose store and settings.
        timeouts: How long runs are kept by what they say.
        handed_out: What was published here, and so need not be read.
        cancelling: Tells workers.
        tell: Told of what is not recorded.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        timeouts: Timeouts,
        handed_out: HandedOut,
        cancelling: Cancelling,
        tell: Callable[[Event], None],
    ) -> None:
        self._scheduler = scheduler
        self._timeouts = timeouts
        self._handed_out = handed_out
        self._cancelling = cancelling
        self._tell = tell
        self._desks = Desks(
            scheduler._ready,
            scheduler._clock,
            defaults=scheduler._defaults,
            tell=scheduler._events.tell,
            count=scheduler._count_end,
        )

    def record(
        self, statuses: Iterable[Heard], settle: Callable[[Heard], None]
    ) -> None:
        """Record statuses; what is not settled after it is to be tried again.

        Args:
            statuses: In the order in which they came.
            settle: Called with each that needs nothing more.

        Raises:
            StoreUnavailableError: The store is away.
        """
        by_kind = SortedStatuses.of(statuses)
        desk = self._desks.desk()
        look = self._report(desk, by_kind.going, settle)
        look |= self._complete(desk, by_kind.succeeded, settle)
        look |= self._fail(desk, by_kind.failed, settle)
        look |= self._release(desk, by_kind.released, settle)
        # It may run again at once, or another instead.
        if look:
            self._scheduler._look_at_all()

    def _report(
        self, desk: Desk, going: Sequence[Going], settle: Callable[[Heard], None]
    ) -> bool:
        asked: list[tuple[Going, Reporting]] = []
        known = {each.claim: self._handed_out.get(each.claim) for each in going}
        others = {each.instance_id for each, instance in known.items() if not instance}
        found = self._scheduler._ready().find_instances(others) if others else {}
        for each in going:
            instance = known[each.claim] or found.get(each.claim.instance_id)
            if instance is None:
                self._refuse(each.heard[-1], _NOBODYS)
                self._answer(each, Extension.LOST, settle)
            else:
                asked.append((each, self._reporting(each, instance)))
        answers = desk.extend_all([reporting for _, reporting in asked])
        for (each, _), answer in zip(asked, answers, strict=True):
            if each.stage is Stage.STARTED and isinstance(answer, Extension):
                self._handed_out.begin(each.claim, desk.now())
            self._answer(each, answer, settle)
        return Extension.LOST in answers

    def _reporting(self, each: Going, instance: TaskInstance) -> Reporting:
        last = each.heard[-1]
        return Reporting(
            claim=each.claim,
            stage=each.stage,
            worker=each.worker,
            by=self._timeouts.kept(instance, each.stage),
            instance=instance,
            progress=self._kept(last, progress_text, each.progress),
        )

    def _answer(
        self,
        each: Going,
        answer: Extension | StoreError,
        settle: Callable[[Heard], None],
    ) -> None:
        if answer is Extension.LOST:
            self._cancelling.ask(each.worker, each.claim, "lost")
        elif answer is Extension.STOP:
            self._cancelling.ask(each.worker, each.claim, "cancelled")
        for heard in each.heard:
            self._settle(heard, answer, settle)

    def _complete(
        self, desk: Desk, ended: Sequence[Heard], settle: Callable[[Heard], None]
    ) -> bool:
        runs = [
            Success(
                claim=each.claim,
                result=self._kept(each, result_text, each.status.result),
                instance=self._popped(each, desk),
                client=_times(each),
            )
            for each in ended
        ]
        answers = desk.complete_all(runs)
        for each, answer in zip(ended, answers, strict=True):
            self._settle(each, answer, settle)
        pairs = zip(runs, answers, strict=True)
        return any(it is True and lets_others_run(run) for run, it in pairs)

    def _popped(self, each: Heard, desk: Desk) -> TaskInstance | None:
        """What was published here; without the time that it was on the bus."""
        instance, status = self._handed_out.pop(each.claim), each.status
        if instance is None or instance.accepted_at is not None:
            return instance
        # That it has begun nobody has said, or another has heard.
        if status.started_at is None or status.ended_at is None:
            return instance
        published, now = instance.started_at, desk.now()
        assert published is not None
        # A worker may say anything, such as that it took thousands of years.
        ran = min(status.ended_at - status.started_at, now - published)
        return changed(instance, started_at=max(published, now - max(ZERO, ran)))

    def _fail(
        self, desk: Desk, ended: Sequence[Heard], settle: Callable[[Heard], None]
    ) -> bool:
        answers = desk.fail_all([_failing(each) for each in ended])
        for each, answer in zip(ended, answers, strict=True):
            self._settle(each, answer, settle)
        return True in answers

    def _release(
        self, desk: Desk, ended: Sequence[Heard], settle: Callable[[Heard], None]
    ) -> bool:
        released = False
        for each in ended:
            answer: bool | StoreError
            try:
                answer = self._released(desk, each)
            except StoreError as error:
                answer = error
            released |= answer is True
            self._settle(each, answer, settle)
        return released

    def _released(self, desk: Desk, each: Heard) -> bool:
        found = self._find(each.claim)
        if found is None or found.worker not in (None, each.status.worker):
            return False
        delay = each.status.delay
        if delay is None:
            # At once it would come back to whoever cannot begin it, again and again.
            delay = offered_again_after(each.claim.attempt)
        reason = f"worker {each.status.worker} gave it back"
        if each.status.error:
            reason += f": {each.status.error:.{_MOST_TOLD}}"
        return desk.release(each.claim, delay=delay, reason=reason)

    def _settle(
        self,
        heard: Heard,
        answer: Extension | bool | StoreError,
        settle: Callable[[Heard], None],
    ) -> None:
        # Somebody has locked it, or the store went away in between.
        if isinstance(answer, StoreUnavailableError):
            return
        if isinstance(answer, StoreError):
            self._refuse(heard, shown(answer))
        settle(heard)

    def _refuse(self, heard: Heard, reason: str) -> None:
        self._tell(
            StatusRefused(
                instance_id=heard.claim.instance_id,
                attempt=heard.claim.attempt,
                worker=heard.status.worker,
                reason=reason,
            )
        )

    def _kept(
        self, heard: Heard, write: Callable[[object], str | None], value: object
    ) -> str | None:
        """What goes with a status, as it is kept; nothing, if it cannot be."""
        try:
            return write(value)
        except ConfigurationError as error:
            self._refuse(heard, f"{error}; the rest of the status counts")
            return None

    def _find(self, claim: Claim) -> TaskInstance | None:
        try:
            return self._scheduler._ready().get_instance(claim.instance_id)
        except TaskInstanceNotFoundError:
            return None


def _failing(each: Heard) -> Failing:
    status = each.status
    return Failing(
        claim=each.claim,
        error=status.error or _UNSAID,
        retry=status.retry is not False,
        retry_in=status.retry_in,
        client=_times(each),
        worker=status.worker,
    )


def _times(each: Heard) -> str | None:
    """When it was by the worker's clock; nothing, if that makes no sense."""
    try:
        return times_text(each.status.started_at, each.status.ended_at)
    except ConfigurationError:
        return None
