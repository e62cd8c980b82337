"""A store in Redis or Valkey, all of it in one hash slot."""

from go_scheduler.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
