"""A process with several workers, which write each run that begins into a table.

``python chaos_workers.py SERVER DATABASE COUNT``. A note has the claim's end by the
database, as its time and that of the claims is one.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack

import psycopg

from go_scheduler.http import Work, Worker

NOTE = (
    "INSERT INTO ran (id, attempt, valid, at, until) SELECT id, %s, attempt = %s,"
    " clock_timestamp(), expires_at FROM task_instances WHERE id = %s"
)


def main(server: str, database: str, count: int) -> None:
    lock, takes_time = threading.Lock(), threading.Event()
    connection = psycopg.connect(database, autocommit=True)

    def handle(work: Work) -> None:
        with lock:
            given = (work.attempt, work.attempt, work.instance_id)
            connection.execute(NOTE, given)
        takes_time.wait(0.02)

    with ExitStack() as stack:
        for number in range(count):
            name = f"worker {number}"
            stack.enter_context(Worker(server, handle, max_workers=1, name=name))
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
