"""Retries: after delays that grow, when a handler asks for it, and by hand.

The connection fails at first and is tried again, a little later each time; the server
then asks to be left alone for a moment. A payment to nobody is not tried again: it
fails for good, is repaired, and run again by hand. What failed is logged, too. It
prints::

    fetch, run 1: no connection
    fetch, run 2: no connection
    fetch, run 3: asked to come back later
    fetch, run 4: completed
    pay, run 1: there is no account of Lynn
    pay has failed after 1 run
    pay, run 1: completed
    kept of pay: attempt 1, failed
"""

from datetime import UTC, datetime, timedelta
from queue import SimpleQueue

from go_scheduler import (
    ExecuteOnceTrigger,
    Fail,
    HandlerRegistry,
    RetryAfter,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.events import Event, InstanceFinished, hears

handlers = HandlerRegistry()
accounts = {"Kim"}
ended: SimpleQueue[Event] = SimpleQueue()

patient = RetryPolicy(
    max_attempts=5, delay=timedelta(milliseconds=50), factor=2, jitter=0.1
)


@handlers.register("fetch")
def fetch(instance: TaskInstance) -> None:
    run = f"fetch, run {instance.runs}"
    if instance.runs <= 2:
        print(f"{run}: no connection", flush=True)
        raise ConnectionError("no connection")
    if instance.runs == 3:
        print(f"{run}: asked to come back later", flush=True)
        raise RetryAfter(timedelta(milliseconds=100), "too many requests")
    print(f"{run}: completed", flush=True)


@handlers.register("pay")
def pay(instance: TaskInstance) -> None:
    run, name = f"pay, run {instance.runs}", instance.metadata["to"]
    if name not in accounts:
        print(f"{run}: there is no account of {name}", flush=True)
        raise Fail(f"there is no account of {name}")
    print(f"{run}: completed", flush=True)


def main() -> None:
    listener = hears(InstanceFinished)(ended.put)
    now = ExecuteOnceTrigger(datetime.now(UTC))
    with Scheduler(handlers, retry=patient, listeners=[listener]) as scheduler:
        scheduler.schedule(TaskDefinition(trigger=now, name="fetch"))
        ended.get()
        payment = TaskDefinition(trigger=now, name="pay", metadata={"to": "Lynn"})
        scheduler.schedule(payment)
        ended.get()
        [failed] = scheduler.list_instances(state="failed")
        print(f"{failed.definition.name} has failed after {failed.runs} run")
        accounts.add("Lynn")
        scheduler.retry(failed.id)
        ended.get()
        for run in scheduler.list_runs(failed.id):
            print(f"kept of pay: attempt {run.attempt}, {run.outcome}")


if __name__ == "__main__":
    main()
