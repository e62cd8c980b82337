"""Timeout: a handler that takes too long is ended, process and all, and runs again.

A thread cannot be ended from outside; a process can. The first run waits for what never
comes, which is logged, with what becomes of it. It prints::

    run 1 begins
    run 2 begins
    completed after 2 runs
"""

import threading
from datetime import UTC, datetime, timedelta

from go_scheduler import (
    ExecuteOnceTrigger,
    ProcessExecutor,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.events import InstanceFinished, hears

finished = threading.Event()


def handler(instance: TaskInstance) -> None:
    print(f"run {instance.runs} begins", flush=True)
    if instance.runs == 1:
        threading.Event().wait()


@hears(InstanceFinished)
def listen(event: InstanceFinished) -> None:
    finished.set()


# Its processes import this module, and must not do all this again.
if __name__ == "__main__":
    executor = ProcessExecutor(2)
    with Scheduler(handler, executor=executor, listeners=[listen]) as scheduler:
        once = TaskDefinition(
            trigger=ExecuteOnceTrigger(datetime.now(UTC)),
            timeout=timedelta(seconds=2),
            retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=0.5)),
        )
        scheduler.schedule(once)
        finished.wait()
        [instance] = scheduler.list_instances(definition_id=once.id)
    print(f"{instance.state} after {instance.runs} runs")
