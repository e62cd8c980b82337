"""Figures as Prometheus reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.http.bodies.system import StatsAnswer


def written(stats: StatsAnswer) -> str:
    """The figures, in the text format 0.0.4."""
    return "".join(f"{each}\n" for each in _lines(stats))


def _lines(stats: StatsAnswer) -> Iterator[str]:
    yield from _head("instances", "Instances by the state that they are in.")
    for state, count in stats.instances.items():
        yield f'go_scheduler_instances{{state="{state.value}"}} {count}'
    yield from _head("nodes", "Nodes that are alive.")
    yield f"go_scheduler_nodes {stats.nodes}"
    if stats.workers is not None:
        yield from _head("waiting_workers", "Workers that wait for work here.")
        yield f"go_scheduler_waiting_workers {stats.workers}"


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP go_scheduler_{name} {text}"
    yield f"# TYPE go_scheduler_{name} gauge"
