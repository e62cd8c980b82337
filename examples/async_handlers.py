"""Handlers by name, sync and async, and what a handler knows of its run.

The async handlers share one event loop, so that the two downloads overlap; the sync one
has a thread of its own. It fails at first, which is logged, and is run again when its
``expire_after`` has passed. It prints::

    download b.txt
    download a.txt
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
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
    current_run,
)

handlers = HandlerRegistry()
reported = threading.Event()


@handlers.register("download")
async def download(instance: TaskInstance) -> None:
    seconds = instance.metadata["seconds"]
    assert isinstance(seconds, float)
    await asyncio.sleep(seconds)
    print("download", instance.metadata["file"], flush=True)


@handlers.register("report")
def report(instance: TaskInstance) -> None:
    _, attempt = current_run().token  # the fencing token
    if attempt == 1:
        print("report, attempt 1: fails", flush=True)
        raise RuntimeError("the first attempt fails")
    print(f"report, attempt {attempt}: done", flush=True)
    reported.set()


def main() -> None:
    at_once = ExecuteOnceTrigger(datetime.now(UTC))
    with Scheduler(handlers) as scheduler:
        for file, seconds in (("a.txt", 0.4), ("b.txt", 0.2)):
            scheduler.schedule(
                TaskDefinition(
                    trigger=at_once,
                    name="download",
                    metadata={"file": file, "seconds": seconds},
                )
            )
        later = ExecuteOnceTrigger(datetime.now(UTC) + timedelta(seconds=0.8))
        scheduler.schedule(
            TaskDefinition(
                trigger=later, name="report", expire_after=timedelta(seconds=1)
            )
        )
        reported.wait()
    print(f"{scheduler.counts()[State.COMPLETED]} completed")


if __name__ == "__main__":
    main()
