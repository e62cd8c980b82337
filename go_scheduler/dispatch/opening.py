"""Opening a bus by its URL."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from go_scheduler.checks import check_type
from go_scheduler.dispatch.bus import MessageBus
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import a, shown

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRY_POINTS = "go_scheduler.buses"

# The same as the schemes in kombu_bus/address.py, which needs kombu to import.
_BY_KOMBU = ("amqp", "amqps", "memory")
# A scheme by RFC 3986, in lower case.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_registered: dict[str, Callable[..., MessageBus]] = {}


def open_bus(url: str, **options: object) -> MessageBus:
    """Make the bus of a URL; it does not connect yet.

    ``amqp://`` and ``amqps://`` are RabbitMQ, and ``memory://`` is a bus in this
    process, for tests. All three are a ``KombuBus``. Other schemes come from
    ``register_bus``, or from an installed package with an entry point in the group
    ``go_scheduler.buses``: its name is the scheme, and it loads a callable that takes
    the URL and the options.

    Args:
        url: Such as ``amqps://user:password@host:5671/vhost``.
        **options: Options of this bus, such as ``queue_type="quorum"``.

    Raises:
        ConfigurationError: No bus has this scheme or this option, it cannot be
            imported, or the entry point makes no bus. The message does not repeat the
            URL, which may have a password.
    """
    if not isinstance(url, str) or "://" not in url:
        raise ConfigurationError(
            "a bus's URL begins with a scheme, as in amqp://localhost or memory://"
        )
    scheme = url.split("://", 1)[0].lower()
    try:
        bus = _maker(scheme)(url, **options)
    except TypeError as error:
        raise ConfigurationError(f"the bus of {scheme}://: {error}") from error
    if not isinstance(bus, MessageBus):
        raise ConfigurationError(
            f"what is announced for {shown(scheme)} made {a(type(bus).__name__)}, not"
            " a MessageBus"
        )
    return bus


def register_bus(scheme: str, make: Callable[..., MessageBus]) -> None:
    """Register a bus of your own for ``open_bus``.

    Args:
        scheme: The scheme of its URLs: a letter, and then letters, digits, ``+``, ``-``
            and ``.``, in upper or lower case.
        make: Called with the URL and the options; returns a bus.

    Raises:
        ConfigurationError: The scheme is wrong, or it has a bus already; or ``make``
            cannot be called.
    """
    check_type("scheme", scheme, str)
    scheme = scheme.lower()
    if _SCHEME.fullmatch(scheme) is None:
        raise ConfigurationError(
            "scheme must be a letter, and then letters, digits, +, - and ., such as"
            f" nats, not {shown(scheme)}"
        )
    if not callable(make):
        raise ConfigurationError(f"what makes a bus cannot be called: {shown(make)}")
    if scheme in _BY_KOMBU or _registered.get(scheme, make) is not make:
        raise ConfigurationError(f"scheme {shown(scheme)} has a bus: take another one")
    _registered[scheme] = make


def _maker(scheme: str) -> Callable[..., object]:
    if scheme in _BY_KOMBU:
        try:
            from go_scheduler.dispatch.kombu_bus.bus_by_kombu import KombuBus
        except ImportError as error:
            raise ConfigurationError(
                f"the bus of {scheme}:// cannot be imported: {error}; it needs the"
                " extra 'dispatch' of go_scheduler"
            ) from error
        return KombuBus
    if scheme in _registered:
        return _registered[scheme]
    announced = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if scheme not in announced:
        known = ", ".join(sorted({*_BY_KOMBU, *_registered, *announced}))
        raise ConfigurationError(
            f"no bus has the scheme {shown(scheme)}; known: {known}"
        )
    try:
        make: Callable[..., object] = announced[scheme].load()
    except Exception as error:
        raise ConfigurationError(
            f"the bus announced for {shown(scheme)} cannot be imported: {shown(error)}"
        ) from error
    return make
