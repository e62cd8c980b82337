"""Commands that a configuration names, run on demand: no shell has a part in it.

What is submitted gives arguments and never the program, and none of them becomes an
option. Executors need the extra ``types`` if they are job types, as here. It prints::

    refused: command: there is no 'rm'; known: sort
    refused: arguments.file: it begins with -, as options do: '--debug'
    completed: ['Ada', 'Bob', 'Eve']
"""

import tempfile
import threading
from pathlib import Path

from go_scheduler import ConfigurationError, RetryPolicy, Scheduler
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.shell import Command, Limits, Shell

sort = Command(
    arguments=["sort", "--output={to}", "{file}"],
    limits=Limits(cpu_seconds=10, open_files=64),
    final_codes=[2],  # to sort what cannot be read is of no use again
)

types = JobTypes()
types.add("shell", Shell({"sort": sort}), retry=RetryPolicy(max_attempts=3))
finished = threading.Event()


@hears(InstanceFinished)
def hear(event: InstanceFinished) -> None:
    finished.set()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Scheduler(types, listeners=[hear]) as scheduler,
    ):
        for command, file in (("rm", "/"), ("sort", "--debug")):
            arguments = {"file": file, "to": "/"}
            try:
                scheduler.enqueue("shell", command=command, arguments=arguments)
            except ConfigurationError as error:
                print("refused:", error)
        names = Path(folder, "names")
        names.write_text("Bob\nEve\nAda\n")
        arguments = {"file": str(names), "to": str(names)}
        run = scheduler.enqueue("shell", command="sort", arguments=arguments)
        finished.wait()
        state = scheduler.get_instance(run.id).state
        print(f"{state}: {names.read_text().split()}")


if __name__ == "__main__":
    main()
