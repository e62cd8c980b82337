"""Reminders: one-offs from what a user types, one per line, until the input ends.

Each line is ``in <number><ms|s|m|h> <text>``. They are read from standard input, or
from the arguments if there are any: ``python reminders.py "in 2s drink water"``. The
program ends when the last reminder has been shown. Given ``soon``,
``in 2s drink water`` and ``in 500ms look up``, it prints::

    not understood: 'soon'; write, for example: in 10s drink water
    look up
    drink water
"""

import re
import sys
import threading
from datetime import UTC, datetime, timedelta

from go_scheduler import ExecuteOnceTrigger, Scheduler, TaskDefinition, TaskInstance

UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}
LINE = re.compile(r"in (\d+) ?(ms|s|m|h) (.+)")

shown = threading.Semaphore(0)


def handler(instance: TaskInstance) -> None:
    print(instance.metadata["text"], flush=True)
    shown.release()


def reminder(line: str) -> TaskDefinition | None:
    found = LINE.fullmatch(line.strip())
    if found is None:
        return None
    number, unit, text = found.groups()
    fire_at = datetime.now(UTC) + timedelta(**{UNITS[unit]: int(number)})
    return TaskDefinition(trigger=ExecuteOnceTrigger(fire_at), metadata={"text": text})


def main() -> None:
    scheduled = 0
    with Scheduler(handler, max_workers=1) as scheduler:
        for line in sys.argv[1:] or sys.stdin:
            definition = reminder(line)
            if definition is None:
                hint = "write, for example: in 10s drink water"
                print(f"not understood: {line.strip()!r}; {hint}", flush=True)
            else:
                scheduler.schedule(definition)
                scheduled += 1
        for _ in range(scheduled):
            shown.acquire()


if __name__ == "__main__":
    main()
