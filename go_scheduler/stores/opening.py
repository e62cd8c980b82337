"""Opening a store by its URL."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import a, shown
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from go_scheduler.clock import Clock

ENTRY_POINTS = "go_scheduler.stores"

# Names and not classes: a driver is loaded when its store is asked for.
_OWN = {
    "cockroachdb": ("go_scheduler.stores.cockroachdb", "CockroachDBStore"),
    "postgres": ("go_scheduler.stores.postgresql.store", "PostgreSQLStore"),
    "postgresql": ("go_scheduler.stores.postgresql.store", "PostgreSQLStore"),
    "redis": ("go_scheduler.stores.redis.store", "RedisStore"),
    "redis+cluster": ("go_scheduler.stores.redis.store", "RedisStore"),
    "redis+sentinel": ("go_scheduler.stores.redis.store", "RedisStore"),
    "rediss": ("go_scheduler.stores.redis.store", "RedisStore"),
    "sqlite": ("go_scheduler.stores.sqlite.store", "SQLiteStore"),
}


def open_store(url: str, *, clock: Clock | None = None, **options: object) -> Store:
    """The store that a URL names.

    ``memory://`` is a new ``MemoryStore``; ``sqlite:///file``, ``postgresql://…``,
    ``cockroachdb://…`` and ``redis://…`` are the stores of these databases, not
    connected yet; ``rediss://…``, ``redis+sentinel://…`` and ``redis+cluster://…`` are
    other ways to a Redis. For any other scheme, an installed package announces a
    callable by the entry-point group ``go_scheduler.stores``: the scheme is the entry
    point's name, and the callable takes the URL and ``clock=`` and returns a store.

    Args:
        url: Such as ``postgresql://user:password@host:5432/database``.
        clock: Used instead of the store's own time, for tests.
        **options: What else the class of that store takes, such as ``migrate=False``.

    Raises:
        ConfigurationError: No store has this scheme, the store has no such option, it
            cannot be imported for want of its driver say, or what an installed package
            announces makes no store. The URL, which may hold a password, is not
            repeated.
    """
    if not isinstance(url, str) or "://" not in url:
        raise ConfigurationError(
            "a store's URL begins with a scheme, as in memory://, sqlite:///file.db,"
            " postgresql://user@host/database or"
            " cockroachdb://user@host:26257/database"
        )
    scheme = url.split("://", 1)[0].lower()
    if scheme == "memory":
        _check_options(MemoryStore, scheme, options)
        return MemoryStore(clock)
    if (own := _OWN.get(scheme.partition("+")[0])) is not None:
        cls = _import_own(scheme, *own)
        _check_options(cls, scheme, options)
        return cls(url, clock=clock, **options)
    make = _load_announced(scheme)
    _check_options(make, scheme, options)
    store = make(url, clock=clock, **options)
    if not isinstance(store, Store):
        raise ConfigurationError(
            f"what is announced for {shown(scheme)} made {a(type(store).__name__)},"
            " not a Store"
        )
    return store


def _import_own(scheme: str, module: str, name: str) -> Callable[..., Store]:
    try:
        cls: Callable[..., Store] = getattr(import_module(module), name)
    except ImportError as error:
        needed = "go_scheduler requires it: install go_scheduler anew"
        if name == "RedisStore":
            needed = "it needs the extra 'redis' of go_scheduler: in a checkout,"
            needed += " pip install '.[redis]'"
        raise ConfigurationError(
            f"the store of {scheme}:// cannot be imported: {error}; {needed}"
        ) from error
    return cls


def _load_announced(scheme: str) -> Callable[..., object]:
    announced = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if scheme not in announced:
        known = ", ".join(sorted({"memory", *_OWN, *announced}))
        raise ConfigurationError(
            f"no store has the scheme {shown(scheme)}; known: {known}"
        )
    try:
        make: Callable[..., object] = announced[scheme].load()
    except Exception as error:
        raise ConfigurationError(
            f"the store announced for {shown(scheme)} cannot be imported:"
            f" {shown(error)}"
        ) from error
    return make


def _check_options(
    make: Callable[..., object], scheme: str, options: Mapping[str, object]
) -> None:
    taken = signature(make).parameters.values() if options else ()
    if any(each.kind is Parameter.VAR_KEYWORD for each in taken):
        return
    names = [each.name for each in taken if each.kind is Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in names:
            known = ", ".join(names) or "none"
            raise ConfigurationError(
                f"the store of {scheme}:// has no option {shown(option)}; known:"
                f" {known}"
            )
