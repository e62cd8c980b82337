"""Waiting until a store has settled: the suites do so before they let it scan."""

from __future__ import annotations

import threading
from functools import singledispatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store


@singledispatch
def settle(store: Store) -> None:
    """Wait until the store's scans leave out nothing that has been committed.

    ``StoreSuite`` and ``StoreMachine`` call this before each scan. It waits for as long
    as ``store.settling`` says, in real time. A store that can tell sooner is registered
    with what does:

    ```python
    @settle.register
    def settle_mine(store: MyStore) -> None:
        store.read_everything()
    ```

    Args:
        store: What is scanned next.
    """
    if store.settling:
        threading.Event().wait(store.settling.total_seconds())
