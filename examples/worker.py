"""A process to deploy: it runs what is due until SIGTERM, and answers probes.

``/live`` says 503 if only another process would help: too many handlers hang, say.
``/ready`` says 503 as long as anything is wrong, such as a database that is away. In
production ``serve`` is all of it, with the URL and the port from the environment.

Here a handler asks the probes, and ends the process as systemd or Kubernetes would. A
URL on the command line names the store. It prints::

    /live 200 well
    /ready 200 well
    /other 404 not here
    stopped, 1 completed
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from go_scheduler import (
    ExecuteOnceTrigger,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.stores import open_store


class Probes(ThreadingHTTPServer):
    """Answers on a port whether a scheduler is well."""

    def __init__(self, scheduler: Scheduler, port: int) -> None:
        super().__init__(("", port), Probe)
        self.scheduler = scheduler
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def server_close(self) -> None:
        self.shutdown()
        super().server_close()


class Probe(BaseHTTPRequestHandler):
    server: Probes

    def do_GET(self) -> None:
        health = self.server.scheduler.health()
        answers = {"/live": health.trouble is None, "/ready": health.ok}
        if (well := answers.get(self.path)) is None:
            self.answer(404, "not here")
        else:
            self.answer(200 if well else 503, "well" if well else str(health))

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Keep the probes out of the log."""


def serve(scheduler: Scheduler, port: int) -> None:
    """What a process in production does, and nothing else."""
    with Probes(scheduler, port):
        scheduler.run()


def asks(port: int) -> Callable[[TaskInstance], None]:
    """A handler that asks the probes, and then ends the process."""

    def ask(instance: TaskInstance) -> None:
        for path in ("/live", "/ready", "/other"):
            connection = HTTPConnection("localhost", port)
            connection.request("GET", path)
            answer = connection.getresponse()
            print(path, answer.status, answer.read().decode(), flush=True)
            connection.close()
        os.kill(os.getpid(), signal.SIGTERM)

    return ask


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        port: int = server.getsockname()[1]
        return port


if __name__ == "__main__":
    port = free_port()
    store = open_store(sys.argv[1] if len(sys.argv) > 1 else "memory://")
    scheduler = Scheduler(asks(port), store)
    now = ExecuteOnceTrigger(datetime.now(UTC))
    asked = scheduler.schedule(TaskDefinition(trigger=now))
    serve(scheduler, port)
    ended = scheduler.list_instances(definition_id=asked.id, state=State.COMPLETED)
    print(f"stopped, {len(ended)} completed")
