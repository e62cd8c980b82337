"""A store that leaves all starts to the loops passes the suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing import ManualClock
from go_scheduler.testing.store.claims import HandOverTests
from tests.behaviour.test_handing_over import Plain

if TYPE_CHECKING:
    from go_scheduler import MemoryStore


class TestPlain(HandOverTests):
    """The suite takes it as it is."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return Plain(clock)
