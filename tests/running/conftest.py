"""The world of the behaviour tests, for those that take place in it."""

from tests.behaviour.conftest import threaded, world

__all__ = ["threaded", "world"]
