"""Waiting until a store has settled; the suites do so before each scan."""

from __future__ import annotations

import threading
from functools import singledispatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store


@singledispatch
def settle(store: Store) -> None:
    """Wait until the scans of a store see everything that was committed.

    ``StoreSuite`` and ``StoreMachine`` call this before each scan. It waits for as long
    as ``store.settling`` says, in real time. If your store can tell sooner that it has
    settled, register a function that waits for that:

    ```python
    @settle.register
    def settle_mine(store: MyStore) -> None:
        store.read_everything()
    ```

    Args:
        store: The store that is scanned next.
    """
    if store.settling:
        threading.Event().wait(store.settling.total_seconds())
