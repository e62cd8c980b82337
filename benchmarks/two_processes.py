"""How fast two processes drain what is due, beside one."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import go_scheduler
from benchmarks.experiment import RATE, Call, Experiment, Figure, ours
from benchmarks.names import WHERE
from benchmarks.processes import start
from go_scheduler import Scheduler
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.sizes import Sizes

_QUIET = 1.0
_LEAST = Figure(name="least", text="least share of a process", unit="%", more=True)


def nodes(url: str, *, instances: int, processes: int) -> dict[str, float]:
    """Have so many processes drain it together; none runs what another one does."""
    tree = Path(go_scheduler.__file__).parents[1]
    call = Call("two_processes:node")
    started = [
        start(call, url, tree=tree, python=sys.executable) for _ in range(processes)
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    began = time.time()
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    answers = [json.loads(each.communicate()[0].splitlines()[-1]) for each in started]
    calls = [each["calls"] for each in answers]
    assert sum(calls) == instances, f"{sum(calls)} calls for {instances} instances"
    last = max(each["last"] for each in answers)
    return {
        "rate": instances / (last - began),
        "least": min(calls) / instances * 100,
    }


def node(url: str) -> dict[str, float]:
    """One of them: it waits for a word, and ends when nothing more comes."""
    numbers, last = count(1), time.time()
    called = threading.Event()

    def handler(_: object) -> None:
        nonlocal last
        next(numbers)
        last = time.time()
        called.set()

    with closing(open_store(url)) as store:
        scheduler = Scheduler(handler, store)
        scheduler.check()
        print("ready", flush=True)
        sys.stdin.readline()
        with scheduler:
            while called.wait(_QUIET):
                called.clear()
                time.sleep(_QUIET / 10)
    return {"calls": next(numbers) - 1, "last": last}


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine in ("memory", "sqlite"):
        return
    instances = sizes.drained // (4 if engine == "cockroachdb" else 1)
    seeds = Call("seeds:due", {"instances": instances})
    yield Experiment(
        title=f"two processes {WHERE[engine]} drain {instances:,}, beside one",
        noun="two_processes",
        figures=(RATE, _LEAST),
        variants=tuple(
            ours(
                Call(
                    "two_processes:nodes",
                    {"instances": instances, "processes": processes},
                ),
                engine,
                name=name,
                prepare=seeds,
            )
            for name, processes in (("two processes", 2), ("one process", 1))
        ),
    )
