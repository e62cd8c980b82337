"""Listeners: what a scheduler tells of its runs, for metrics.

The first run fails, which is logged, and is followed by another after the delay of its
policy. It prints, with other numbers::

    import: called 0.42 ms late
    import: failed after 0.42 ms, runs again in 200.42 ms
    import: called 0.42 ms late
    import: completed after 0.42 ms
"""

from datetime import UTC, datetime, timedelta

from go_scheduler import (
    ExecuteOnceTrigger,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.events import (
    Event,
    InstanceFinished,
    InstanceRetried,
    InstanceStarted,
    hears,
)


def handler(instance: TaskInstance) -> None:
    if instance.runs == 1:
        raise ConnectionError("no route to the shop")


@hears(InstanceStarted, InstanceRetried, InstanceFinished)
def measure(event: Event) -> None:
    match event:
        case InstanceStarted():
            print(f"{event.name}: called {shown(event.late)} late")
        case InstanceRetried():
            after, again = shown(event.took), shown(event.retry_in)
            print(f"{event.name}: failed after {after}, runs again in {again}")
        case InstanceFinished():
            print(f"{event.name}: {event.outcome} after {shown(event.took)}")
            scheduler.stop()  # called from a listener, it returns at once


def shown(duration: timedelta | None) -> str:
    assert duration is not None, "what was never called took no time"
    return f"{duration / timedelta(milliseconds=1):.2f} ms"


scheduler = Scheduler(handler, listeners=[measure])
scheduler.schedule(
    TaskDefinition(
        trigger=ExecuteOnceTrigger(datetime.now(UTC)),
        name="import",
        retry=RetryPolicy(max_attempts=2, delay=timedelta(milliseconds=200)),
    )
)
scheduler.run()
