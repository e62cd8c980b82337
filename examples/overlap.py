"""Overlap and lock: what is due while another one runs, here and on every other node.

A poll that takes longer than the time to the next one skips what it would miss, and two
definitions that share a lock never run at once. It prints::

    poll: 1 ran, and some were skipped
    backup, report: one after the other
"""

import threading
from collections import Counter
from datetime import UTC, datetime

from go_scheduler import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    Overlap,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)

polled, ended = threading.Event(), threading.Semaphore(0)
at_once, most_at_once = 0, 0


def handler(instance: TaskInstance) -> None:
    global at_once, most_at_once
    if instance.definition.name == "poll":
        polled.wait()
        return
    # Nothing else that holds the lock runs meanwhile: there is nothing to guard here.
    at_once += 1
    most_at_once = max(most_at_once, at_once)
    threading.Event().wait(0.05)
    at_once -= 1
    ended.release()


now = datetime.now(UTC)
poll = TaskDefinition(
    name="poll",
    trigger=IntervalTrigger(seconds=0.1),
    overlap=Overlap.SKIP,
)
backup = TaskDefinition(name="backup", trigger=ExecuteOnceTrigger(now), lock="disk")
report = TaskDefinition(name="report", trigger=ExecuteOnceTrigger(now), lock="disk")

with Scheduler(handler) as scheduler:
    scheduler.schedule_all([poll, backup, report])
    ended.acquire()
    ended.acquire()
    states: Counter[str] = Counter()
    while not (states["running"] and states["skipped"]):
        threading.Event().wait(0.05)
        polls = scheduler.list_instances(definition_id=poll.id)
        states = Counter(each.state for each in polls)
    polled.set()
print(f"poll: {states['running']} ran, and some were skipped")
print(f"backup, report: {'one after the other' if most_at_once == 1 else 'at once'}")
