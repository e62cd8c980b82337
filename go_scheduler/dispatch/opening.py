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

# What KombuBus makes of these is in kombu_bus/address.py.
_BY_KOMBU = ("amqp", "amqps", "memory")
# That of RFC 3986, as ``open_bus`` looks for it.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_registered: dict[str, Callable[..., MessageBus]] = {}


def open_bus(url: str, **options: object) -> MessageBus:
    """The bus that a URL names, not connected yet.

    ``amqp://`` and ``amqps://`` are RabbitMQ, and ``memory://`` is within this process,
    for tests: all by ``KombuBus``. For any other scheme, ``register_bus`` or an
    installed package says what makes one: the latter by the entry-point group
    ``go_scheduler.buses``, where the scheme is the entry point's name, and the callable
    takes the URL and the options.

    Args:
        url: Such as ``amqps://user:password@host:5671/vhost``.
        **options: What else that bus takes, such as ``queue_type="quorum"``.

    Raises:
        ConfigurationError: No bus has this scheme, it has no such option, it cannot be
            imported, or what was announced makes no bus. The URL, which may hold a
            password, is not repeated.
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
    """Have ``open_bus`` make a bus of your own for a scheme.

    Args:
        scheme: What its URLs begin with, before ``://``: a letter, and then letters,
            digits, ``+``, ``-`` and ``.``, of whichever case.
        make: Called with the URL and the options.

    Raises:
        ConfigurationError: The scheme is none, is one of KombuBus's, or has another
            bus; or what is to make one cannot be called.
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
