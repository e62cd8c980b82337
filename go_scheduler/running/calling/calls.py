"""The calls of handlers, each from the last look at its claim to what came of it."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.errors import ConfigurationError
from go_scheduler.events import InstanceStarted
from go_scheduler.events.event import of_instance
from go_scheduler.handlers.registry import (
    Handler,
    HandlerRegistry,
    async_test,
    find_handler,
    refuse_generator,
)
from go_scheduler.run import HandedOn, enter_run, leave_run
from go_scheduler.running.calling.child import described_there
from go_scheduler.running.calling.process_executor import (
    ProcessExecutor,
    check_sendable,
)
from go_scheduler.running.intake import dropped
from go_scheduler.running.outcomes import Failure, failure_of, not_run
from go_scheduler.running.state import NodeState, Part

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import ProcessPoolExecutor

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.held import HeldRun
    from go_scheduler.running.result_writer import ResultWriter

_MARGIN = timedelta(seconds=2)
_FromProcess: TypeAlias = Failure | HandedOn | None
_DIED = "a process of the pool died while it ran this"


class Calls(Part):
    """Calls a handler for one run at a time, here or in a process of a pool.

    Args:
        state: What the node's parts share.
        handler: What is called.
        writer: Takes what became of them.
    """

    def __init__(
        self, state: NodeState, handler: Handler, writer: ResultWriter
    ) -> None:
        super().__init__(state)
        self._handler = handler
        self._writer = writer
        self._events = state.events.teller("running")
        # Bound once: each run that is called keeps it.
        self._complete_in = writer.complete_in
        self._count = state.metrics.begun
        instrument = state.events.instrument
        surrounds = instrument is not None and instrument.surrounds
        self._around = instrument.around if instrument and surrounds else _alone
        self._margin = min(_MARGIN, state.settings.lease / 4)
        self._tells_started = self._events.wanted(InstanceStarted)
        self.is_async = async_test(handler)

    def call(
        self, run: HeldRun, await_result: Callable[[object, HeldRun], object]
    ) -> None:
        """Call the handler in this thread.

        Args:
            run: The run.
            await_result: Takes what the handler returned, if that is something, and
                answers what came of it; what it raises is an error of the handler.
        """
        if not self.begin(run):
            return
        token = enter_run(run)
        try:
            with self._around(run.instance):
                result = self._handler(run.instance)
                if result is not None:
                    result = await_result(result, run)
                    _refuse_class(result)
        # Whatever a handler raises is a failed run and must not cost the thread.
        except BaseException as error:
            # Described first: the exception's own code may hang, and until the outcome
            # is decided the heartbeat looks after the run.
            self._end(run, _failure_of(error))
        else:
            self._end(run, None, result)
        finally:
            leave_run(token)

    async def call_async(self, run: HeldRun) -> None:
        """Call an ``async def`` handler in this task."""
        if not self.begin(run):
            return
        enter_run(run)
        try:
            with self._around(run.instance):
                awaited = self._handler(run.instance)
                assert inspect.isawaitable(awaited)
                result = await awaited
                _refuse_class(result)
        # SystemExit would end the event loop, and with it every other handler.
        except BaseException as error:
            self._end(run, _failure_of(error))
        else:
            self._end(run, None, result)

    def call_in_process(
        self, executor: ProcessExecutor | ProcessPoolExecutor, run: HeldRun
    ) -> Future[_FromProcess] | None:
        """Have the handler called in another process; None: it is not to be.

        One of ours begins the run once there is a process for it.
        """
        # No other handler that a registry has goes there.
        sent = find_handler(self._handler, run.instance)
        assert sent is not None
        if isinstance(executor, ProcessExecutor):
            begin = partial(self.begin, run)
            future = executor.submit_if(begin, _call, sent, run.instance)
        elif self.begin(run):
            try:
                future = executor.submit(_call, sent, run.instance)
            except Exception:
                # Before it is let go of: what is in none of the two is taken for lost.
                if run.settle() and not run.lost:
                    self._writer.release(run, "the process pool does not take it")
                self._held.end(run)
                raise
        else:
            return None
        check = partial(check_sendable, sent, executor)
        future.add_done_callback(partial(self._end_of_process, run, check))
        return future

    def begin(self, run: HeldRun) -> bool:
        """Look once more at the lease, without the store; false: do not call."""
        elapsed = self._clock.elapsed()
        now = self._clock.at(elapsed)
        left = run.expires_at - now - self._clock.round_trip
        if run.lost or (left <= self._margin and left <= run.expire_after / 4):
            if self._held.drop(run):
                self._writer.release_lapsing(run)
            return False
        reason = dropped(run.instance, self._defaults, now=now)
        if reason is not None:
            if self._held.drop(run):
                self._writer.refuse(run, not_run(run.instance, reason, now=now))
            return False
        if (refusal := self._held.refusal(run.instance)) is not None:
            self._writer.give_back(run, refusal)
            return False
        if not self._held.call(run):
            return False
        run.begin(elapsed, now, self._state.beat_wanted, complete=self._complete_in)
        # Its claim was made before it waited for a worker: so much is left of it.
        soon, timeout = self._state.next_beat - elapsed, run.timeout
        if left < soon or run.allowed < soon or (timeout and timeout < soon):
            self._state.beat_wanted()
        instance = run.instance
        assert run.called_at is not None
        late = run.called_at - instance.due_at
        self._count(instance.definition, late, run.called_at)
        # Before anybody is told, who may edit: an edit waits for this.
        run.begun = True
        if self._tells_started:
            self._events.tell(
                InstanceStarted(
                    **of_instance(instance),
                    fire_time=instance.fire_time,
                    execute_at=instance.execute_at,
                    started_at=run.called_at,
                    late=late,
                )
            )
        return True

    def hand_on(self, run: HeldRun, to: HandedOn) -> None:
        """Note that a run which has begun goes on elsewhere."""
        self._end(run, None, to)

    def leave(self, run: HeldRun, why: str) -> None:
        """Give back a run that was called and never goes on."""
        if run.settle():
            self._writer.give_back_called(run, why)
            self._held.end(run)

    def _end_of_process(
        self, run: HeldRun, check: Callable[[], None], future: Future[_FromProcess]
    ) -> None:
        # One that has not been called is given back by whoever has it.
        if run.called is None:
            return
        result = _result_of(future, check)
        if isinstance(result, Failure):
            self._end(run, result)
        else:
            self._end(run, None, result)

    def _end(
        self, run: HeldRun, failure: Failure | None, result: object = None
    ) -> None:
        try:
            # Recorded first: it counts twice for a moment, which claims too little.
            owned = run.settle() and not run.lost
            # A success counts whoever has the claim by now, if it is the first; one
            # that was to be committed with complete_in() did or did not count there.
            if failure is not None:
                if owned:
                    why = run.because(failure.error)
                    self._writer.fail(run, failure._replace(error=why))
            elif isinstance(result, HandedOn) and not run.joined:
                if owned:
                    self._writer.hand_on(run, result)
            elif owned or not run.joined:
                self._writer.succeed(run)
        finally:
            self._held.end(run)


_NOTHING = nullcontext()


def _alone(_: TaskInstance) -> AbstractContextManager[None]:
    """Nothing surrounds a call."""
    return _NOTHING


def _call(handler: Handler, instance: TaskInstance) -> _FromProcess:
    """Call a handler in the process of a process pool, which has no event loop."""
    try:
        result = handler(instance)
        refuse_generator(result)
        if inspect.isawaitable(result):
            result = asyncio.run(await_here(result))
        _refuse_class(result)
    # One that cannot be pickled, or made anew, would break the pool.
    except BaseException as error:
        return _failure_of(error)
    # Nothing else need be one that can be pickled.
    return result if isinstance(result, HandedOn) else None


async def await_here(result: Awaitable[object]) -> object:
    """Await what a sync handler returned, as the one task of an event loop."""
    return await result


def _result_of(future: Future[_FromProcess], check: Callable[[], None]) -> _FromProcess:
    """What came of a call; if there was none, the handler is checked."""
    error = CancelledError() if future.cancelled() else future.exception()
    if error is None:
        return future.result()
    failure = failure_of(error)
    if (there := described_there(error)) is not None:
        return failure._replace(error=there)
    if isinstance(error, BrokenExecutor):
        return failure._replace(error=f"{_DIED}\n\n{failure.error}")
    try:
        check()
    except ConfigurationError as refusal:
        # At each further run it would be the same.
        return failure_of(refusal)._replace(is_final=True)
    return failure


def _failure_of(error: BaseException) -> Failure:
    return failure_of(error, callers=_CALLERS)


def _refuse_class(result: object) -> None:
    """Refuse what would count as success, and was meant to hand the work on."""
    if result is HandedOn:
        raise ConfigurationError("the handler returned a class: return HandedOn()")


_CALLERS = {
    each.__code__
    for each in (
        Calls.call,
        Calls.call_async,
        _call,
        HandlerRegistry.__call__,
    )
}
