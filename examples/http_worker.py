"""A worker elsewhere: it asks a server for work over HTTP, and says what came of it.

In production the server is another process, such as ``go_scheduler serve``, and the
worker is all of this one: ``Worker(url, handle).run()``. Here both are in one, on a
port that is free. It needs the extra ``http``. It prints::

    greet of {'name': 'Ada'}
    completed {'greeted': 'Ada'}
"""

import socket
import threading
from queue import SimpleQueue

import uvicorn

from go_scheduler import MemoryStore, OnDemandTrigger, Scheduler, TaskDefinition
from go_scheduler.http import Work, Worker, create_app
from go_scheduler.http.work.long_poll import LongPoll

handled: SimpleQueue[Work] = SimpleQueue()


def handle(work: Work) -> object:
    """What a worker does; what it returns is the result."""
    print(work.type, "of", work.payload)
    handled.put(work)
    return {"greeted": (work.payload or {})["name"]}


def main() -> None:
    scheduler = Scheduler(None, MemoryStore())
    app = create_app(scheduler, work=LongPoll(scheduler))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = threading.Thread(target=server.run, args=([listening],))
        serving.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        task = scheduler.schedule(
            TaskDefinition(name="greet", trigger=OnDemandTrigger())
        )
        made = scheduler.run_now(task.id, payload={"name": "Ada"})
        with Worker(url, handle):
            handled.get()
        server.should_exit = True
        serving.join()
    instance = scheduler.get_instance(made.id)
    print(instance.state, instance.result)


if __name__ == "__main__":
    main()
