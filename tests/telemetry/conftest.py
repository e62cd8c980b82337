"""What tests of metrics and traces start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.telemetry.house import House

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.stop()
