"""Hello: a definition that fires every 500 ms, and how late each firing was.

The lateness is the time from the fire time to the first line of the handler. A URL on
the command line, such as ``sqlite:///hello.db``, names the store. It prints, with other
numbers::

    hello 1, 0.42 ms late
    hello 2, 0.42 ms late
    hello 3, 0.42 ms late
    hello 4, 0.42 ms late
    hello 5, 0.42 ms late
    stopped, 5 completed
"""

import sys
from datetime import UTC, datetime, timedelta

from go_scheduler import IntervalTrigger, Scheduler, State, TaskDefinition, TaskInstance
from go_scheduler.stores import open_store

fired: list[datetime] = []


def handler(instance: TaskInstance) -> None:
    late = datetime.now(UTC) - instance.execute_at
    fired.append(instance.execute_at)
    milliseconds = late / timedelta(milliseconds=1)
    print(f"hello {len(fired)}, {milliseconds:.2f} ms late", flush=True)
    if len(fired) == 5:
        scheduler.stop()  # called from a handler, it returns at once


store = open_store(sys.argv[1] if len(sys.argv) > 1 else "memory://")
scheduler = Scheduler(handler, store, max_workers=1)  # one after the other
hello = scheduler.schedule(
    TaskDefinition(trigger=IntervalTrigger(timedelta(milliseconds=500)))
)
scheduler.run()
ended = scheduler.list_instances(definition_id=hello.id, state=State.COMPLETED)
scheduler.delete_definition(hello.id)  # a database would keep it for the next run
print(f"stopped, {len(ended)} completed")
