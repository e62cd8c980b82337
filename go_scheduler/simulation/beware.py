"""What of a simulation may not be meant so, or is prone to misfire, in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.models import DefinitionState
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.why.words import length

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from go_scheduler.simulation.load import Load
    from go_scheduler.simulation.simulated import Simulated

EXPIRE_AFTER = timedelta(minutes=5)
"""That of definitions without one, unless their scheduler has another."""
MANY_AT_ONCE = 100
"""Of more than so many that begin at one instant it is said that they do."""


def beware_of(simulated: Simulated, refused: str | None) -> Simulated:
    """The same with what is to be said of it.

    Args:
        simulated: What a definition would do.
        refused: What its trigger raised; None: nothing.
    """
    return replace(simulated, warnings=tuple(_sentences(simulated, refused)))


def _sentences(simulated: Simulated, refused: str | None) -> Iterator[str]:
    definition = simulated.definition
    if refused is not None:
        yield f"its trigger cannot be asked here: {refused}"
    elif definition.state is not DefinitionState.ACTIVE:
        yield f"it is {definition.state.value}"
    elif not simulated.fires and not isinstance(definition.trigger, OnDemandTrigger):
        yield "it does not fire"
    expire_after = definition.expire_after or EXPIRE_AFTER
    if simulated.duration > expire_after:
        yield (
            f"a run of {length(simulated.duration)} outlives its expire_after of"
            f" {length(expire_after)}: it is presumed hung, and runs again"
        )
    timeout = definition.timeout
    if timeout is not None and simulated.duration > timeout:
        yield f"a run is ended by its timeout of {length(timeout)}"
    if simulated.most_at_once > 1:
        yield f"up to {simulated.most_at_once} of it run at once"
    if simulated.skipped:
        overlap = definition.overlap.value
        yield f"{simulated.skipped:,} are skipped, by its overlap: {overlap}"
    if simulated.waited:
        yield (
            f"{simulated.waited:,} wait for another one to end, for up to"
            f" {length(simulated.longest_wait)}"
        )


def beware_of_all(
    starts: Sequence[datetime], load: Load, workers: int | None
) -> Iterator[str]:
    """What is to be said of all runs together.

    Args:
        starts: When they begin.
        load: How many there are at once.
        workers: How many can run at once; None: any number.
    """
    at, number = max(Counter(starts).items(), key=_number, default=(None, 0))
    if at is not None and number > MANY_AT_ONCE:
        yield (
            f"{number:,} begin at {at:%Y-%m-%d %H:%M:%S} UTC: a jitter would spread"
            " them"
        )
    if load.short:
        yield (
            f"in {load.short:,} minutes more than {workers:,} would run at once, up to"
            f" {load.most:,}: some begin late"
        )


def _number(item: tuple[datetime | None, int]) -> int:
    return item[1]
