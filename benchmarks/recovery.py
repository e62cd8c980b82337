"""How long it takes until what a killed process ran is run by another one."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import go_scheduler
from benchmarks.experiment import MOST, P50, Call, Experiment, ours
from benchmarks.names import WHERE
from benchmarks.processes import start
from benchmarks.seeds import put_due
from benchmarks.spread import Lateness
from go_scheduler import Scheduler
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.sizes import Sizes

_RUNNING = 20
_LEASES = 1.25


def killed(url: str, *, lease: float) -> dict[str, float]:
    """From the kill of a process to the runs of what it ran, with the default lease.

    Args:
        url: Of the store.
        lease: The seconds of that: the other one has been there for longer.
    """
    late, at = Lateness(_RUNNING), 0.0
    with closing(open_store(url)) as store:
        store.initialize()
        put_due(store, instances=_RUNNING)
        other = start(
            Call("recovery:hang"),
            url,
            tree=Path(go_scheduler.__file__).parents[1],
            python=sys.executable,
        )
        try:
            assert other.stdout is not None
            for _ in range(_RUNNING):
                assert other.stdout.readline() == "running\n"
            with Scheduler(lambda _: late.add(at), store):
                time.sleep(_LEASES * lease)
                at = time.time()
                other.kill()
                return late.spread()
        finally:
            other.kill()
            other.communicate()


def hang(url: str) -> dict[str, float]:
    """Run what is due, and come to no end."""

    def handler(_: object) -> None:
        # One write: several threads come here at once.
        print("running\n", end="", flush=True)
        threading.Event().wait()

    with closing(open_store(url)) as store:
        Scheduler(handler, store).run()
    return {}


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine in ("memory", "sqlite"):
        return
    yield Experiment(
        title=f"a process killed {WHERE[engine]}, to its work in another one",
        noun="recovery",
        figures=(MOST, P50),
        variants=(ours(Call("recovery:killed", {"lease": 20}), engine),),
        most_rounds=1,
    )
