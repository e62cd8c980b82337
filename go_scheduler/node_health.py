"""How a node is, by what its loops say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError
from go_scheduler.health import Health, LoopHealth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.firing.creation import Creation
    from go_scheduler.running.execution import Execution
    from go_scheduler.ticking.ticker import Ticker


def reach_store(tickers: Sequence[Ticker]) -> bool:
    """Whether the store has answered each loop that asked it last."""
    return not any(isinstance(each.error, StoreError) for each in tickers)


def health_of(
    node: UUID,
    *,
    tickers: Sequence[Ticker],
    elapsed: timedelta,
    execution: Execution,
    creation: Creation,
    warnings: tuple[str, ...],
    stopping: bool,
) -> Health:
    """How a node is.

    Args:
        node: Its id.
        tickers: Those of its loops, but for what nothing depends on.
        elapsed: The time by which they are judged.
        execution: What it runs.
        creation: What it makes to be run.
        warnings: What it has to warn of.
        stopping: Whether it begins nothing more, as it has been told to stop.
    """
    loops = {each.name: LoopHealth.of(each, elapsed) for each in tickers}
    stuck, trouble = execution.keeper.stuck(), execution.workers.trouble
    hanging = creation.hanging
    return Health(
        ok=all(loop.ok for loop in loops.values())
        and not (trouble or stuck or hanging or stopping),
        trouble=trouble,
        warnings=warnings,
        node=node,
        loops=loops,
        store_reachable=reach_store(tickers),
        stuck_workers=stuck,
        hanging_triggers=hanging,
        waiting=execution.held.waiting,
        busy=execution.held.busy,
        unrecorded=execution.recorder.unrecorded,
        lateness=execution.lateness,
    )
