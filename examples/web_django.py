"""A web application with Django: views schedule, and a management command runs.

A scheduler without a handler, which is never started, is for the views. What runs is a
command of its own, in one process or in several::

    python manage.py run_scheduler

In a project ``Command`` is in a file ``management/commands/run_scheduler.py``. Here all
of it is in one file, which is its own client, on the database whose URL is on the
command line, or in memory. It prints::

    201 {"text": "water the plants"}
    remind: water the plants
    1 completed
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial, wraps

import django
from django.conf import settings
from django.core.management import BaseCommand, call_command
from django.db import close_old_connections, transaction
from django.http import HttpRequest, JsonResponse
from django.test import Client
from django.urls import path

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.stores import open_store

sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": sqlite},
    ROOT_URLCONF=__name__,
    SCHEDULER_URL=sys.argv[1] if len(sys.argv) > 1 else "memory://",
)
django.setup()

store = open_store(settings.SCHEDULER_URL)
scheduler = Scheduler(None, store)
handlers = HandlerRegistry()


def with_database(
    handler: Callable[[TaskInstance], None],
) -> Callable[[TaskInstance], None]:
    """Do for a handler what Django does for a request: it runs on another thread."""

    @wraps(handler)
    def call(instance: TaskInstance) -> None:
        close_old_connections()
        try:
            handler(instance)
        finally:
            close_old_connections()

    return call


@handlers.register("remind")
@with_database
def remind(instance: TaskInstance) -> None:
    print("remind:", instance.metadata["text"], flush=True)
    os.kill(os.getpid(), signal.SIGTERM)  # the example ends here


def add(request: HttpRequest) -> JsonResponse:
    asked = json.loads(request.body)
    at = datetime.now(UTC) + timedelta(seconds=asked["seconds"])
    reminder = TaskDefinition(
        trigger=ExecuteOnceTrigger(at), name="remind", metadata={"text": asked["text"]}
    )
    with transaction.atomic():
        # Your rows are written here.
        transaction.on_commit(partial(scheduler.schedule, reminder))
    return JsonResponse({"text": asked["text"]}, status=201)


urlpatterns = [path("reminders", add)]


class Command(BaseCommand):
    help = "Run what is due, until SIGTERM."

    def handle(self, *_: object, **__: object) -> None:
        Scheduler(handlers, store).run()


def main() -> None:
    body = {"text": "water the plants", "seconds": 0.2}
    answer = Client().post("/reminders", body, content_type="application/json")
    print(answer.status_code, answer.content.decode(), flush=True)
    call_command(Command())
    print(scheduler.counts()[State.COMPLETED], "completed")


if __name__ == "__main__":
    main()
