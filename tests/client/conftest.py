"""A client asks any store alike: one in memory and one in SQL tell what it does."""

from __future__ import annotations

import pytest

from tests.conftest import SHARED


@pytest.fixture(params=["memory", SHARED[0]])
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of store that the test runs on."""
    kind: str = request.param
    return kind
