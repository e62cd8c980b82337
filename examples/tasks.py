"""Tasks: a function, when it runs, and what it is given, in one place.

``report`` fires by itself. ``send`` waits to be enqueued: its parameters are what it is
enqueued with, checked by their types at once, and stored as JSON until a worker runs
it, now or later, in this process or in another one. Dataclasses, dates and pydantic
models need pydantic: ``pip install '.[payloads]'`` in a checkout. It prints::

    refused: task 'send': missing a required argument: 'to'
    sent 2 parcels to Ada
    sent 1 parcels to Bob
    a report of Ada and Bob
"""

import threading
from datetime import timedelta

from go_scheduler import (
    ConfigurationError,
    HandlerRegistry,
    IntervalTrigger,
    RetryPolicy,
    Scheduler,
)

handlers = HandlerRegistry()
sent: list[str] = []
reported = threading.Event()


@handlers.task("report", IntervalTrigger(seconds=0.6))
def report() -> None:
    if len(sent) == 2 and not reported.is_set():
        print("a report of", " and ".join(sent), flush=True)
        reported.set()


@handlers.task("send", retry=RetryPolicy(max_attempts=5))
def send(to: str, parcels: int = 1) -> None:
    print(f"sent {parcels} parcels to {to}", flush=True)
    sent.append(to)


def main() -> None:
    with Scheduler(handlers, max_workers=1) as scheduler:
        try:
            scheduler.enqueue("send", parcels=2)
        except ConfigurationError as error:
            print("refused:", error, flush=True)
        # As a type checker sees it, and by its name: now, later, and only once.
        send.enqueue("Ada", parcels=2)
        for _ in range(2):
            later = timedelta(milliseconds=200)
            scheduler.enqueue("send", to="Bob", delay=later, key="Bob's")
        reported.wait()


if __name__ == "__main__":
    main()
