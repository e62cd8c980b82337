from __future__ import annotations

import pytest

from go_scheduler.triggers.calendars import calendar
from tests.triggers.combinations import ListedTrigger, SteadyTrigger


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, and what it asks, is forgotten."""
    monkeypatch.setattr(calendar, "_calendars", dict(calendar._calendars))
    monkeypatch.setattr(ListedTrigger, "asked", [])
    monkeypatch.setattr(SteadyTrigger, "asked", [])
