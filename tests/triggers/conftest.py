from __future__ import annotations

import pytest

from go_scheduler.triggers import calendars
from tests.triggers.combinations import ListedTrigger, SteadyTrigger


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, and what it asks, is forgotten."""
    monkeypatch.setattr(calendars, "_calendars", dict(calendars._calendars))
    monkeypatch.setattr(ListedTrigger, "asked", [])
    monkeypatch.setattr(SteadyTrigger, "asked", [])
