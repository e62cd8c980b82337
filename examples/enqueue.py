"""Work on demand: mails to be sent, now or later, each enqueued once.

A task is a definition that fires only when it is asked to. Each time is one row with a
payload of its own. It prints::

    mail to ada: hello
    mail to bob: hello
    mail to ada: 7 has been paid
    the key is taken: True
    mail to bob: still there?
"""

import threading
from datetime import timedelta

from go_scheduler import (
    HandlerRegistry,
    OnDemandTrigger,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)

handlers = HandlerRegistry()
sent = threading.Semaphore(0)


@handlers.register("send")
def send(instance: TaskInstance) -> None:
    assert instance.payload is not None
    print(f"mail to {instance.payload['to']}: {instance.payload['text']}", flush=True)
    sent.release()


# How it is tried again, where it runs and for how long, is said once for all.
task = TaskDefinition(
    trigger=OnDemandTrigger(),
    id=TaskDefinition.id_for("task send"),
    name="send",
    retry=RetryPolicy(max_attempts=5, delay=timedelta(seconds=10), factor=2),
)

with Scheduler(handlers, max_workers=1) as scheduler:
    scheduler.schedule(task)
    for to in ("ada", "bob"):
        scheduler.enqueue("send", to=to, text="hello")
        sent.acquire()

    # Whoever reports a payment may do so twice: the key is that of the first time.
    paid = scheduler.enqueue("send", key="paid 7", to="ada", text="7 has been paid")
    sent.acquire()
    again = scheduler.enqueue("send", key="paid 7", to="ada", text="7 has been paid")
    print(f"the key is taken: {again.id == paid.id}", flush=True)

    soon = timedelta(seconds=0.5)
    scheduler.enqueue("send", delay=soon, to="bob", text="still there?")
    sent.acquire()
