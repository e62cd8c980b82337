"""The pytest plugin: registers what the suites use, for runs with --strict-markers."""

from __future__ import annotations

import pytest

# The suites' assertions explain themselves only if they are rewritten at import.
pytest.register_assert_rewrite(
    "go_scheduler.testing.builders",
    "go_scheduler.testing.buses",
    "go_scheduler.testing.machine",
    "go_scheduler.testing.store",
    "go_scheduler.testing.stores",
    "go_scheduler.testing.triggers",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the suites."""
    config.addinivalue_line("markers", "slow: may take longer than 0.25 s.")
