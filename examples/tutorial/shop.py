"""The jobs of a small shop, as the tutorial in the documentation builds them."""

import threading
from datetime import timedelta

from go_scheduler import (
    CronTrigger,
    HandlerRegistry,
    IntervalTrigger,
    RetryPolicy,
    TaskInstance,
)

handlers = HandlerRegistry(owner="shop", version=1)


@handlers.task(
    "welcome",
    retry=RetryPolicy(max_attempts=5, delay=timedelta(seconds=1), factor=2),
)
def welcome(instance: TaskInstance, to: str) -> None:
    if instance.runs == 1:
        raise ConnectionError("the mail server is away")
    print("welcome,", to, flush=True)


@handlers.task("report", CronTrigger(hour=4, timezone="Europe/Berlin"))
def report() -> None:
    print("the report of the night", flush=True)


@handlers.task("labels", IntervalTrigger(seconds=4), lock="printer")
def labels() -> None:
    print_pages("labels")


@handlers.task("invoices", IntervalTrigger(seconds=6), lock="printer")
def invoices() -> None:
    print_pages("invoices")


def print_pages(name: str) -> None:
    print("printing", name, flush=True)
    threading.Event().wait(1)  # as long as the printer takes
