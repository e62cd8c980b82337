"""A store in Redis or Valkey, all of it in one hash slot."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.stores.redis.store import RedisStore
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__, {"RedisStore": "store"}, extra="redis"
    )

__all__ = ["RedisStore"]
