"""Health is a value: what a scheduler that does not run says of itself."""

from __future__ import annotations

import dataclasses

import pytest

from go_scheduler.health import STOPPED, Health


def test_a_stopped_scheduler_is_not_well_and_has_nothing() -> None:
    assert Health(
        ok=False,
        trouble=None,
        warnings=(),
        node=None,
        loops={},
        store_reachable=False,
        stuck_workers=0,
        hanging_triggers=0,
        waiting=0,
        busy=0,
        unrecorded=0,
    ) == (STOPPED)


def test_health_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        STOPPED.ok = True  # type: ignore[misc]
