"""A web application with Flask: requests schedule, and a process of its own runs.

What serves requests has a scheduler without a handler, which is never started: it needs
no thread, and does not care how often the server forks or reloads. What runs is a
command. Both have the same database, and there may be any number of each::

    gunicorn "web_flask:create_app()"
    flask --app web_flask run-scheduler

Here it is its own client, on the database whose URL is on the command line, or in
memory. The command is ended by SIGTERM, as it would be by systemd or Docker. It
prints::

    well: 200
    201 water the plants
    web_flask reminds: water the plants
    1 completed
"""

import os
import signal
import sys
from datetime import UTC, datetime, timedelta

from flask import Flask, current_app, request

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.stores import open_store


def create_app(url: str | None = None) -> Flask:
    app = Flask("web_flask")
    store = open_store(url or os.environ["DATABASE_URL"])
    scheduler = app.extensions["scheduler"] = Scheduler(None, store)

    @app.post("/reminders")
    def add() -> tuple[str, int]:
        at = datetime.now(UTC) + timedelta(seconds=float(request.form["seconds"]))
        text = request.form["text"]
        scheduler.schedule(
            TaskDefinition(
                trigger=ExecuteOnceTrigger(at), name="remind", metadata={"text": text}
            )
        )
        return text, 201

    @app.get("/health")
    def health() -> str:
        scheduler.check()  # raises if the database cannot be used: 500
        return "well"

    @app.cli.command("run-scheduler")
    def run_scheduler() -> None:
        """Run what is due, until SIGTERM."""
        Scheduler(handlers_of(app), store).run()

    return app


def handlers_of(app: Flask) -> HandlerRegistry:
    handlers = HandlerRegistry()

    @handlers.register("remind")
    def remind(instance: TaskInstance) -> None:
        with app.app_context():  # a handler is no request, and has none of its own
            print(f"{current_app.name} reminds: {instance.metadata['text']}")
        if app.testing:
            os.kill(os.getpid(), signal.SIGTERM)

    return handlers


def main(url: str) -> None:
    app = create_app(url)
    app.testing = True
    client = app.test_client()
    print("well:", client.get("/health").status_code)
    body = {"text": "water the plants", "seconds": "0.2"}
    answer = client.post("/reminders", data=body)
    print(answer.status_code, answer.text)
    ran = app.test_cli_runner().invoke(args=["run-scheduler"])
    print(ran.output, end="")
    counts = app.extensions["scheduler"].counts()
    print(counts[State.COMPLETED], "completed")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "memory://")
