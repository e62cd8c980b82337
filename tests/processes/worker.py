"""A program that has the work that a node has handed on.

Each line of its standard input is a call, as JSON: the name of a method of a client and
its arguments. It answers each with a line.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from uuid import UUID

from go_scheduler.client import Client
from tests.made import make_store


def main() -> None:
    """Call what is to be called."""
    store = make_store(sys.argv[1])
    client = Client(store)
    for line in sys.stdin:
        name, id, attempt, *seconds = json.loads(line)
        by = [timedelta(seconds=each) for each in seconds]
        answer = getattr(client, name)(UUID(id), attempt, *by)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main()
