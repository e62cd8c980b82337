"""A process that runs what comes over a bus, and says some of it twice.

``python -m tests.dispatch.chaos_worker BUS NAMESPACE NAME``.
"""

from __future__ import annotations

import sys
import threading
from zlib import crc32

from go_scheduler.dispatch import DispatchWorker, Work, open_bus
from tests.dispatch.wrapped_bus import RepeatingBus


def main(url: str, namespace: str, name: str) -> None:
    """Run it until it is killed."""
    takes_time = threading.Event()

    def handle(work: Work) -> int:
        takes_time.wait(0.01)
        return work.attempt

    bus = RepeatingBus(open_bus(url), crc32(name.encode()))
    DispatchWorker(bus, handle, namespace=namespace, name=name, max_workers=16).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
