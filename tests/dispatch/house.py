"""A scheduler on a manual clock that publishes its runs on a bus within the test."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from go_scheduler import MemoryStore, OnDemandTrigger, TaskDefinition
from go_scheduler.dispatch.dispatcher import Dispatcher
from go_scheduler.dispatch.messages.message import (
    Cancel,
    Run,
    Said,
    Status,
    many_to_bytes,
    read_action,
)
from go_scheduler.stores.messages import Claim
from go_scheduler.testing.builders import SECOND
from tests.dispatch.direct_bus import DirectBus
from tests.events import house

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.testing import ManualClock
    from tests.dispatch.direct_bus import Message


class House(house.House):
    """What is told, published and said."""

    def __init__(
        self,
        clock: ManualClock,
        handler: Handler | None = None,
        **dispatcher: Any,
    ) -> None:
        self.clock, self.store = clock, MemoryStore(clock)
        self.bus = DirectBus()
        self.dispatcher = Dispatcher(self.bus, clock=clock, **dispatcher)
        super().__init__(clock, self.store, handler or self.dispatcher)

    @contextmanager
    def runs(self) -> Iterator[House]:
        """It runs, and hears what is said."""
        with ExitStack() as stack:
            stack.enter_context(self.scheduler)
            stack.enter_context(self.dispatcher.hearing(self.scheduler))
            yield self

    def put(self, **definition: Any) -> TaskDefinition:
        """A definition of what is run on demand."""
        given = {"trigger": OnDemandTrigger(), "name": "resize", **definition}
        return self.scheduler.schedule(TaskDefinition(**given))

    def publish(self, **definition: Any) -> Run:
        """Have an instance run; what is published of it."""
        self.scheduler.run_now(self.put(**definition).id, payload={"width": 7})
        self.clock.advance(SECOND)
        return self.run()

    def run(self, topic: str = "go_scheduler.run.default") -> Run:
        """The last run that has been published since."""
        *_, message = self.bus.published.pop(topic)
        run = read_action(message.body)
        assert isinstance(run, Run)
        return run

    def say(self, run: Run, said: str, worker: str = "anna", **more: Any) -> Message:
        """Say something of a run, as a worker."""
        body = self._status(run, said, worker=worker, **more)
        return self.bus.deliver("go_scheduler.statuses", body)

    def say_all(self, *said: tuple[Run, str], more: bytes = b"") -> Message:
        """Say several things in one message, and this besides."""
        bodies = [self._status(*each, worker="anna") for each in said]
        body = many_to_bytes([*bodies, more] if more else bodies)
        return self.bus.deliver("go_scheduler.statuses", body)

    def _status(self, run: Run, said: str, **more: Any) -> bytes:
        status = Status(
            instance_id=run.instance_id,
            attempt=run.attempt,
            status=Said(said),
            at=self.clock.now(),
            **more,
        )
        return status.to_bytes()

    def tell(self, run: Run, said: str, worker: str = "anna", **more: Any) -> Message:
        """The same, until it has been looked at."""
        message = self.say(run, said, worker, **more)
        self.look()
        return message

    def look(self) -> None:
        """What has been said is recorded, and what follows from that is written."""
        self.clock.advance(SECOND / 10)

    def cancels(self, worker: str = "anna") -> Sequence[Cancel]:
        """What a worker was told to cancel since it was asked last."""
        found = self.bus.published.pop(f"go_scheduler.control.{worker}", ())
        cancels = [read_action(each.body) for each in found]
        return [each for each in cancels if isinstance(each, Cancel)]

    def forget(self, run: Run) -> None:
        """It is as if it had been published by another process."""
        claim = Claim(instance_id=run.instance_id, attempt=run.attempt)
        assert self.dispatcher._handed_out.pop(claim)

    def instance(self, run: Run) -> TaskInstance:
        """What is stored of a run's instance."""
        return self.scheduler.get_instance(run.instance_id)
