"""What the parts of a Redis store have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.redis.texts import time_text

if TYPE_CHECKING:
    from go_scheduler.clock import Clock
    from go_scheduler.stores.redis.lists import Lists
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server


class RedisCalls:
    """Runs scripts and reads what they answer."""

    clock: Clock | None
    _server: Server
    _reader: Reader
    _lists: Lists

    def _now(self) -> str | None:
        """The text of the time of the clock that was passed; None: the server's."""
        return None if self.clock is None else time_text(self.clock.now())
