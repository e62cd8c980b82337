"""What follows from a run: its instance has ended, or runs again, and when.

Decisions alone: facts in, what is to be written out. No store, no clock, no thread.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.models import Outcome, TaskDefinition, TaskInstance
from go_scheduler.models.values import trusted
from go_scheduler.policies import names_of
from go_scheduler.run import Fail, GiveBack, RetryAfter
from go_scheduler.running.calling.error_text import (
    describe_error,
    kept_text,
    message_of,
)
from go_scheduler.stores.messages import Claim, Release, RunOutcome
from go_scheduler.stores.rules import takes_slot
from go_scheduler.triggers.base import next_fire_time_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import CodeType

    from go_scheduler.running.defaults import Defaults
    from go_scheduler.running.held import HeldRun


class Failure(NamedTuple):
    """Why a run did not succeed. It can be pickled, as what was raised need not be.

    Attributes:
        error: For a person to read; every store can keep it.
        kinds: The names of what was raised, as ``stop_on`` knows them.
        is_final: Whether another run is out of the question.
        retry_in: After how long another is asked for; None: that is the policy's.
        given_back_for: It has not begun anything: for how long its instance is given
            back, and ``error`` is but the reason; None: it has failed.
    """

    error: str
    kinds: tuple[str, ...] = ()
    is_final: bool = False
    retry_in: timedelta | None = None
    given_back_for: timedelta | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether the policy has nothing to say, unless there have been enough runs."""
        return self.is_final or self.retry_in is not None


def failure_of(error: BaseException, *, callers: Collection[CodeType] = ()) -> Failure:
    """What is known of a run in which this was raised.

    Of a group, such as that of a ``TaskGroup``, what all in it have in common counts.

    Args:
        error: What was raised.
        callers: The code that calls handlers: a ``TypeError`` that comes out of a call
            made there, and not from within the handler, will come at each call.
    """
    raised = _members(error)
    if (delay := _longest(raised, GiveBack)) is not None:
        reasons = dict.fromkeys(map(message_of, raised))
        return Failure("; ".join(reasons), given_back_for=delay)
    fails = all(isinstance(each, Fail) for each in raised)
    return Failure(
        error=describe_error(error),
        kinds=_kinds(error, raised),
        is_final=fails or _is_wrong_call(error, callers),
        retry_in=_longest(raised, RetryAfter),
    )


def _members(error: BaseException) -> list[BaseException]:
    """What is in a group, and in groups in it; of any other error itself."""
    rest, found = [error], []
    while rest:
        each = rest.pop()
        if isinstance(each, BaseExceptionGroup):
            rest.extend(each.exceptions)
        else:
            found.append(each)
    return found


def _kinds(error: BaseException, raised: list[BaseException]) -> tuple[str, ...]:
    """The names of what was raised, and of all in it alike."""
    first, *others = (names_of(type(each)) for each in raised)
    alike = (name for name in first if all(name in each for each in others))
    return tuple(dict.fromkeys((*names_of(type(error)), *alike)))


def _longest(
    raised: list[BaseException], kind: type[RetryAfter | GiveBack]
) -> timedelta | None:
    """The longest of the times that are asked for, if all ask for one so."""
    delays = [each.delay for each in raised if isinstance(each, kind)]
    return max(delays) if len(delays) == len(raised) else None


def _is_wrong_call(error: BaseException, callers: Collection[CodeType]) -> bool:
    """Whether the call itself was wrong: it would fail each time."""
    if not isinstance(error, TypeError):
        return False
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    return innermost is not None and innermost.tb_frame.f_code in callers


_record = trusted(RunOutcome)
_NOT_COMMITTED = "the transaction of complete_in() was not committed"
_UNCOMMITTED = Failure(_NOT_COMMITTED)
_NO_END = "its last run came to no end"
_FAILED_TRIGGER = timedelta(minutes=1)


class EndedRun(NamedTuple):
    """A run that is over, as far as what follows depends on it.

    Attributes:
        claim: The right by which it ran.
        instance: What was run, as the store had it when the run started.
        started_at: When its handler was called.
        ran_for: How long ago that was.
        defaults: What holds for definitions that do not say.
        now: The store's time.
        cancel_requested: Whether somebody has asked it to stop.
        joined: Whether it has called ``complete_in``: it has succeeded by that
            transaction or not at all.
        client: What whoever ran it elsewhere says of it, as JSON text.
    """

    claim: Claim
    instance: TaskInstance
    started_at: datetime
    ran_for: timedelta
    defaults: Defaults
    now: datetime
    cancel_requested: bool = False
    joined: bool = False
    client: str | None = None


class Decision(NamedTuple):
    """What is to be written, and what came of asking the trigger for it.

    Attributes:
        record: For the store.
        trigger_error: What the trigger raised when it was asked for the next fire time
            of a definition that waited for this; None: it was not asked, or answered.
        asked_for: Whether it runs again because its handler has asked for that.
    """

    record: RunOutcome
    trigger_error: BaseException | None = None
    asked_for: bool = False


def completed(run: EndedRun, *, result: str | None = None) -> Decision:
    """It has succeeded, or will have with the transaction in which this is written.

    Args:
        run: The run.
        result: What came of it, as JSON text.
    """
    return _end(run, Outcome.COMPLETED, result=result)


def success_of(run: HeldRun, *, deletes: bool) -> RunOutcome:
    """The same of one that nothing else follows from, as of most."""
    return _record(
        claim=run.claim,
        started_at=run.called_at,
        outcome=Outcome.COMPLETED,
        has_slot=takes_slot(run.instance),
        deletes=deletes,
    )


def returned(run: EndedRun) -> Decision:
    """Its handler has returned.

    Only the store knows whether the transaction of ``complete_in`` has committed: if
    so, it refuses this.
    """
    if not run.joined:
        return completed(run)
    return _fail(run, _NOT_COMMITTED, _retry_in(run, _UNCOMMITTED))


def raised(run: EndedRun, failure: Failure) -> Decision:
    """Its handler has raised, or was ended by something else than itself."""
    decision = _fail(run, _reason(run, failure.error), _retry_in(run, failure))
    asked_for = failure.retry_in is not None and decision.record.outcome is None
    return decision._replace(asked_for=asked_for)


def hung(run: EndedRun, error: str, *, max_hangs: int | None) -> Decision:
    """It is presumed hung.

    Args:
        run: The run.
        error: How that shows.
        max_hangs: How many runs in a row may hang before their instance has *failed*;
            None: no end.
    """
    error = _reason(run, error)
    hangs = run.instance.hangs + 1
    if max_hangs is None or hangs < max_hangs or run.cancel_requested:
        retry_in = _retry_in(run, Failure(error))
        # If it has taken all of its time, there is nothing more to wait for.
        most = run.defaults.expire_after_of(run.instance)
        if retry_in is not None and run.ran_for >= most:
            retry_in = timedelta()
        return _fail(run, error, retry_in, hung=True)
    error = f"hanging: {hangs} runs in a row had no end; {error}"
    return _end(run, Outcome.FAILED, error, hung=True)


def left_behind(run: EndedRun, error: str) -> Decision | Release:
    """It could not come to its end, for a reason that is none of its handler's.

    It does not count, unless it was the last or is not wanted any more: a handler that
    is to be called once is not to be called again.
    """
    retry_in = _retry_in(run, Failure(error))
    if run.cancel_requested or retry_in is None:
        return _fail(run, error, retry_in)
    return Release(claim=run.claim, reason=kept_text(error))


def cancelled(instance: TaskInstance, *, now: datetime) -> Decision:
    """What follows for an instance that was cancelled before it was called."""
    return ends_uncalled(instance, Outcome.CANCELLED, None, now=now)


def fell_silent(
    instance: TaskInstance, error: str, defaults: Defaults, *, now: datetime
) -> Decision:
    """What follows for a claimed instance whose last run fell silent on a bus.

    Args:
        instance: The instance, claimed or started.
        error: How that shows.
        defaults: What holds for definitions that do not say.
        now: The store's time.
    """
    runs, retry = runs_before(instance), defaults.retry_of(instance)
    if not retry.allows(runs):
        return ends_uncalled(instance, Outcome.FAILED, error, now=now)
    expire_after = defaults.expire_after_of(instance)
    retry_in = retry.retry_in(
        instance_id=instance.id,
        runs=runs,
        # It has been waited for.
        ran_for=expire_after,
        expire_after=expire_after,
    )
    return Decision(
        RunOutcome(
            claim=Claim.of(instance),
            retry_in=retry_in,
            error=error,
            has_slot=takes_slot(instance),
        )
    )


def ends_uncalled(
    instance: TaskInstance, outcome: Outcome, error: str | None, *, now: datetime
) -> Decision:
    """What follows for an instance that ends so, and is not to be called."""
    next_fire_time, trigger_error = _next_fire_time(instance.definition, now)
    record = RunOutcome(
        claim=Claim.of(instance),
        outcome=outcome,
        error=error,
        next_fire_time=next_fire_time,
        has_slot=takes_slot(instance),
    )
    return Decision(record, trigger_error)


def not_run(instance: TaskInstance, reason: str, *, now: datetime) -> Decision:
    """What follows for an instance that comes too late: it is skipped.

    If it ran before it has failed, and says what its last run did.
    """
    outcome = Outcome.SKIPPED
    if runs_before(instance):
        outcome = Outcome.FAILED
        reason = f"not run again: {reason}\n\n{instance.error or _NO_END}"
    return ends_uncalled(instance, outcome, reason, now=now)


def runs_before(instance: TaskInstance) -> int:
    """How many runs an instance had before the one it is claimed for."""
    return instance.runs - (instance.started_at is not None)


def is_completed_by(instance: TaskInstance, claim: Claim) -> bool:
    """Whether it was the run of this claim that has completed an instance."""
    completed = instance.outcome is Outcome.COMPLETED
    return completed and instance.ended_attempt == claim.attempt


def _reason(run: EndedRun, error: str) -> str:
    return f"{_NOT_COMMITTED}\n\n{error}" if run.joined else error


def _fail(
    run: EndedRun, error: str, retry_in: timedelta | None, *, hung: bool = False
) -> Decision:
    """It did not succeed: its instance is cancelled, runs again, or has failed."""
    if run.cancel_requested:
        return _end(run, Outcome.CANCELLED, error, hung=hung)
    if retry_in is None:
        return _end(run, Outcome.FAILED, error, hung=hung)
    record = RunOutcome(
        claim=run.claim,
        started_at=run.started_at,
        retry_in=retry_in,
        hung=hung,
        error=error,
        client=run.client,
    )
    return Decision(record)


def _end(
    run: EndedRun,
    outcome: Outcome,
    error: str | None = None,
    *,
    hung: bool = False,
    result: str | None = None,
) -> Decision:
    next_fire_time, trigger_error = _next_fire_time(run.instance.definition, run.now)
    record = RunOutcome(
        claim=run.claim,
        started_at=run.started_at,
        outcome=outcome,
        hung=hung,
        error=error,
        next_fire_time=next_fire_time,
        has_slot=takes_slot(run.instance),
        result=result,
        client=run.client,
        deletes=run.defaults.deletes_successes,
    )
    return Decision(record, trigger_error)


def _retry_in(run: EndedRun, failure: Failure) -> timedelta | None:
    """After how long it runs again; None: never."""
    retry, runs = run.defaults.retry_of(run.instance), run.instance.runs
    if failure.is_final or not retry.allows(runs):
        return None
    if failure.retry_in is not None:
        return failure.retry_in
    if retry.stops_on(failure.kinds):
        return None
    return retry.retry_in(
        instance_id=run.instance.id,
        runs=runs,
        ran_for=run.ran_for,
        expire_after=run.defaults.expire_after_of(run.instance),
    )


def _next_fire_time(
    definition: TaskDefinition, now: datetime
) -> tuple[datetime | None, BaseException | None]:
    """When a definition fires next, if it waited for the end of an instance."""
    if not definition.trigger.waits:
        return None, None
    try:
        return next_fire_time_of(definition.trigger, now), None
    # Foreign code: SystemExit would end the thread that asks.
    except BaseException as error:
        return now + _FAILED_TRIGGER, error
