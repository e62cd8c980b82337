"""What tests of several processes share: their store, and what starts them on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.processes.process import Processes, processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from go_scheduler.stores.base import Store


@pytest.fixture
def store(own_time_store: Store) -> Store:
    """The store that the processes share, in this process."""
    return own_time_store


@pytest.fixture
def nodes(store: Store, store_url: str, tmp_path: Path) -> Iterator[Processes]:
    """Starts processes on the store."""
    with processes(store_url, tmp_path, audited=store) as started:
        yield started
