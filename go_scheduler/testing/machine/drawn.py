"""The values that the rules of the store machine draw from."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import strategies as st

from go_scheduler.policies import Overlap
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.base import Trigger

SECOND = timedelta(seconds=1)
STEP = 10 * SECOND
ALL = 10_000
QUEUES = ("default", "other")
TRIGGERS: Sequence[Trigger] = (
    IntervalTrigger(STEP),
    IntervalTrigger(2 * STEP),
    DelayTrigger(STEP),
    OnDemandTrigger(),
    OnDemandTrigger(lasting=False),
)

EXCLUSIONS: Sequence[tuple[Overlap, str | None]] = (
    (Overlap.SKIP, None),
    (Overlap.BUFFER_ONE, "a"),
    (Overlap.ALLOW, "b"),
    (Overlap.REPLACE, None),
    (Overlap.BUFFER_ALL, None),
    (Overlap.ALLOW, None),
)
"""What is excluded; no lock is shared, for each store has its own order of ids."""


def fires_first(trigger: Trigger, at: datetime | None) -> datetime | None:
    """The first fire time of a definition, drawn for it; none if it is on demand."""
    return None if isinstance(trigger, OnDemandTrigger) else at


ids = st.integers(0, 3).map(lambda number: UUID(int=number))
ALL_IDS = [UUID(int=number) for number in range(4)]
some_ids = st.sets(ids, min_size=1, max_size=2)
seconds = st.sampled_from([0, 0, 1, 5, 10, 20, 60]).map(lambda each: each * SECOND)
offsets = st.integers(-3, 6).map(lambda each: each * STEP)
exclusions = st.sampled_from([None, None, None, *EXCLUSIONS])
full = st.sampled_from([(None, "refuse")] * 4 + [(1, "refuse"), (2, "drop")])
"""How many may wait, and what becomes of more."""
nodes = st.sampled_from([UUID(int=101), UUID(int=102)])
