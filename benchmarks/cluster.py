"""What more nodes on one database cost and gain: on time, and in what they ask for."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import go_scheduler
from benchmarks.experiment import Call, Experiment, Figure, ours
from benchmarks.names import WHERE
from benchmarks.processes import start
from go_scheduler import ExecuteOnceTrigger, IntervalTrigger, Scheduler, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.sizes import Sizes
    from go_scheduler import Store

_AHEAD = timedelta(seconds=4)
_FIGURES = (
    Figure(name="burst", text="last of a burst", unit="ms late"),
    Figure(name="p50", text="steady, p50", unit="ms late"),
    Figure(name="p99", text="steady, p99", unit="ms late"),
    Figure(name="lost", text="lost firings", unit="a fire"),
    Figure(name="empty", text="empty claims", unit="a fire"),
    Figure(name="calls", text="calls of the store", unit="a fire"),
    Figure(name="repeated", text="repeated statements", unit=""),
    Figure(name="least", text="least share of a node", unit="%", more=True),
)


def nodes(
    url: str,
    *,
    processes: int,
    burst: int,
    rate: int,
    seconds: float,
    settled: float,
) -> dict[str, float]:
    """Have so many processes fire and run a steady load, and a burst amid it.

    Args:
        url: The database.
        processes: How many.
        burst: How many one-offs are due at once.
        rate: How many definitions fire each second.
        seconds: For how long.
        settled: How many seconds before that the nodes get to know of each other.
    """
    tree = Path(go_scheduler.__file__).parents[1]
    started = [
        start(Call("cluster:node"), url, tree=tree, python=sys.executable)
        for _ in range(processes)
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    time.sleep(settled)
    with closing(open_store(url)) as store:
        client = Client(store)
        begin = datetime.now(UTC) + _AHEAD
        steady = timedelta(seconds=seconds)
        every = IntervalTrigger(timedelta(seconds=1), anchor=begin)
        made = client.schedule_all(
            [TaskDefinition(name="steady", trigger=every) for _ in range(rate)]
        )
        once = ExecuteOnceTrigger(begin + steady / 2)
        client.schedule_all(
            [TaskDefinition(name="burst", trigger=once) for _ in range(burst)]
        )
        time.sleep((begin + steady - datetime.now(UTC)).total_seconds())
        for definition in made:
            client.delete_definition(definition.id)
        time.sleep(2)
    answers = []
    for each in started:
        out, _ = each.communicate("stop\n")
        answers.append(json.loads(out.splitlines()[-1]))
    return _figures(answers, burst)


def _figures(answers: Sequence[Mapping[str, Any]], burst: int) -> dict[str, float]:
    late = [ms for each in answers for ms in each["burst"]]
    steady = sorted(ms for each in answers for ms in each["steady"])
    assert len(late) == burst, f"{len(late)} runs of {burst}"
    counts: Counter[str] = Counter()
    for each in answers:
        counts.update(each["counts"])
    fires, runs = counts["fired"], [len(each["steady"]) for each in answers]
    return {
        "burst": max(late),
        "p50": steady[len(steady) // 2],
        "p99": steady[len(steady) * 99 // 100],
        "lost": counts["lost"] / fires,
        "empty": counts["empty"] / fires,
        "calls": counts["calls"] / fires,
        "repeated": counts["repeated"],
        "least": min(runs) / sum(runs) * 100 * len(runs),
    }


def node(url: str) -> dict[str, Any]:
    """One of them: it ends when it is told to."""
    late: dict[str, list[float]] = {"steady": [], "burst": []}

    def handler(instance: Any) -> None:
        ms = (datetime.now(UTC) - instance.due_at).total_seconds() * 1000
        late[instance.definition.name].append(ms)

    with closing(open_store(url)) as store:
        counts: Counter[str] = Counter()
        _count(store, counts)
        with Scheduler(handler, store, listeners=[]):
            print("ready", flush=True)
            sys.stdin.readline()
        repeats: Mapping[str, int] = getattr(store, "retries", {})
        counts["repeated"] = sum(repeats.values())
    return {**late, "counts": counts}


def _count(store: Store, counts: Counter[str]) -> None:
    """Have the calls of a store counted, and what of them was in vain."""

    def counted(name: str, look: Callable[[Any, Any], None]) -> None:
        call = getattr(store, name)

        @wraps(call)
        def wrapped(*given: Any, **options: Any) -> Any:
            counts["calls"] += 1
            answer = call(*given, **options)
            look(given, answer)
            return answer

        setattr(store, name, wrapped)

    def fired(given: Any, answer: Any) -> None:
        counts["fired"] += len(answer.done)
        counts["lost"] += len(given[0]) - len(answer.done)

    def claimed(_: Any, answer: Any) -> None:
        counts["empty"] += not answer

    def nothing(*_: Any) -> None:
        pass

    counted("fire_definitions", fired)
    counted("claim_instances", claimed)
    for name in (
        *("due_definitions", "start_instances", "finish_instances", "renew_claims"),
        *("release_instances", "review_parked", "delete_finished", "note_contact"),
        *("list_contacts", "list_due_queues", "note_stats"),
    ):
        counted(name, nothing)


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine in ("memory", "sqlite"):
        return
    size = {
        "burst": sizes.burst,
        "rate": 200,
        "seconds": 5 * sizes.seconds,
        "settled": 3 * sizes.settled,
    }
    yield Experiment(
        title=f"nodes {WHERE[engine]}: {size['rate']} fires a second, and a burst",
        noun="cluster",
        figures=_FIGURES,
        variants=tuple(
            ours(
                Call("cluster:nodes", {"processes": processes, **size}),
                engine,
                name=f"{processes} nodes",
            )
            for processes in (1, 3, 9)
        ),
    )
