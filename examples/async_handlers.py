"""Handlers by name, sync and async, and what a handler knows of its run.

The async handlers share one event loop, so that the two downloads overlap: the large
one ends last, wherever it begins. The sync handler has a thread of its own. It fails at
first, which is logged, and is run again after the delay of its policy. It prints::

    download small.txt
    download large.txt
    report, attempt 1: fails
    report, attempt 2: done
    3 completed
"""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
    current_run,
)

handlers = HandlerRegistry()
small_is_here = asyncio.Event()
ended = threading.Semaphore(0)


@handlers.register("download")
async def download(instance: TaskInstance) -> None:
    file = instance.metadata["file"]
    if file == "large.txt":
        await small_is_here.wait()
    print("download", file, flush=True)
    small_is_here.set()
    ended.release()


@handlers.register("report")
def report(instance: TaskInstance) -> None:
    _, attempt = current_run().token  # the fencing token
    if attempt == 1:
        print("report, attempt 1: fails", flush=True)
        raise RuntimeError("the first attempt fails")
    print(f"report, attempt {attempt}: done", flush=True)
    ended.release()


def main() -> None:
    at_once = ExecuteOnceTrigger(datetime.now(UTC))
    with Scheduler(handlers) as scheduler:
        for file in ("large.txt", "small.txt"):
            scheduler.schedule(
                TaskDefinition(
                    trigger=at_once, name="download", metadata={"file": file}
                )
            )
        for _ in range(2):
            ended.acquire()
        again = RetryPolicy(max_attempts=2, delay=timedelta(seconds=0.5))
        scheduler.schedule(TaskDefinition(trigger=at_once, name="report", retry=again))
        ended.acquire()
    print(f"{scheduler.counts()[State.COMPLETED]} completed")


if __name__ == "__main__":
    main()
