"""An OIDC provider for the tests of a module, reset for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.testing import ManualClock
from tests.http.access.provider import Provider, provider

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def served_provider() -> Iterator[Provider]:
    with provider() as served:
        yield served


@pytest.fixture
def oidc(served_provider: Provider) -> Iterator[Provider]:
    served_provider.forget()
    before = [*served_provider.keys]
    yield served_provider
    served_provider.keys = before


@pytest.fixture
def now() -> ManualClock:
    """A clock that stands still at the present time."""
    return ManualClock(SystemClock().now())
