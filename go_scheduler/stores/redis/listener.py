"""Hints by SUBSCRIBE: what other processes publish, on a connection of its own."""

from __future__ import annotations

from datetime import timedelta
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.hints import HeardHints, News
from go_scheduler.stores.redis.server import told

if TYPE_CHECKING:
    from go_scheduler.stores.redis.server import Server


_NEWS = {"d": News.DEFINITIONS, "i": News.INSTANCES}
_EVERY = timedelta(milliseconds=5)
"""So often at most a hint is published; scripts have the same number."""


class Listener(HeardHints):
    """Listens for one node."""

    blind = 2 * _EVERY

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pubsub: Any = None
        super().__init__()

    def _hear(self) -> News:
        try:
            with told():
                return self._wait() if self._pubsub else self._subscribe()
        except StoreError as error:
            raise StoreUnavailableError(f"nothing is heard: {error}") from error

    def _subscribe(self) -> News:
        self._pubsub = self._server.listen()
        self._pubsub.subscribe(f"{self._server.prefix}hints")
        if self._pubsub.get_message(timeout=self._server.timeout) is None:
            raise StoreUnavailableError("Redis: no answer to a subscription")
        # Confirmed: from here on nothing is missed. What was put in meanwhile is new.
        return News.ANYTHING

    def _wait(self) -> News:
        """Wait until something comes, or for the end."""
        assert self._pubsub is not None, "it has subscribed"
        while not self.is_closed:
            if news := self._news(self._pubsub):
                return news
            with DefaultSelector() as selector:
                selector.register(self.ended, EVENT_READ)
                selector.register(self._pubsub.connection._sock, EVENT_READ)
                selector.select()
        return News.NOTHING

    def _news(self, pubsub: Any) -> News:
        """What was published, all that has come."""
        found = News.NOTHING
        while pubsub.connection.can_read(0):
            message: dict[str, Any] = pubsub.get_message() or {}
            found |= _NEWS.get(message.get("data", ""), News.ANYTHING)
        return found

    def _disconnect(self) -> None:
        if self._pubsub is not None:
            self._pubsub.close()
            self._pubsub = None
