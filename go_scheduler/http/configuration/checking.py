"""Checks that a server can start with a configuration."""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.keys import ApiKeys
from go_scheduler.http.access.loopback import is_loopback
from go_scheduler.http.access.refusals import checked_origins
from go_scheduler.http.configuration.loading import settings_below
from go_scheduler.policies import CatchUp
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores import MemoryStore
from go_scheduler.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.http.access.keys import ApiKey
    from go_scheduler.http.configuration.files import Place
    from go_scheduler.http.configuration.loading import Configuration
    from go_scheduler.http.configuration.sections import AccessSection, ServerSection


def check(settings: Configuration, named: Callable[[Place], str] | None = None) -> None:
    """Refuse settings with which a server cannot start.

    Args:
        settings: All settings.
        named: Names a setting and where it was set; None: only its path is known.

    Raises:
        ConfigurationError: A line for each wrong setting: where it was set, and what
            is wrong.
    """
    problems: dict[Place, str] = {}
    for place, make in _parts(settings):
        try:
            make()
        except ConfigurationError as error:
            # An error of a section is left out after an error of its settings.
            if not any(each[: len(place)] == place for each in problems):
                exact, text = _exact(place, str(error))
                name = ".".join(map(str, exact)) if named is None else named(exact)
                problems[exact] = f"{name}: {text}"
    if problems:
        raise ConfigurationError("\n".join(problems.values()))


def _parts(settings: Configuration) -> Iterator[tuple[Place, Callable[[], object]]]:
    """The objects to make of the settings, by the paths of these."""
    if (url := settings.store.url) is not None:
        yield ("store", "url"), lambda: open_store(url.get_secret_value()).close()
    yield from _access(settings.access)
    server, types = settings.server, settings.types
    yield ("server", "host"), partial(_check_host, settings)
    yield ("server", "tls_certificate"), partial(_check_tls, server)
    yield ("server", "limits"), server.request_limits
    yield ("jobs",), settings.jobs.defaults
    if (origin := settings.dashboard.origin) is not None:
        yield ("dashboard", "origin"), partial(checked_origins, [origin])
    yield ("types", "shell"), partial(_check_shell, settings)
    yield ("types",), types.job_types
    yield ("dispatch",), partial(_check_dispatch, settings)
    scheduler = settings.scheduler
    yield ("scheduler", "retry"), scheduler.retry.policy
    yield ("scheduler", "catch_up"), partial(CatchUp, **dict(scheduler.catch_up))
    yield (
        ("scheduler",),
        lambda: Scheduler(None, MemoryStore(), **scheduler.arguments()),
    )
    yield (
        ("work",),
        lambda: settings.work.hand_out(Scheduler(None, MemoryStore())),
    )


def _access(access: AccessSection) -> Iterator[tuple[Place, Callable[[], object]]]:
    keys: list[ApiKey] = []
    for index, each in enumerate(access.keys):

        def add(each: Any = each) -> None:
            key = each.key()
            ApiKeys([*keys, key], SystemClock())
            keys.append(key)

        yield ("access", "keys", index), add
    if access.oidc is not None:
        yield ("access", "oidc"), partial(OidcIssuer, **dict(access.oidc))
    yield ("access", "origins"), partial(checked_origins, access.origins)


def _exact(place: Place, text: str) -> tuple[Place, str]:
    """The setting that an error is about, and the rest of its text."""
    said, found, rest = text.partition(": ")
    if found and said.startswith(".".join(map(str, place)) + "."):
        place, text = tuple(said.split(".")), rest
    first = text.partition(" ")[0].rstrip(",:")
    return ((*place, first), text) if first in settings_below(place) else (place, text)


def _check_host(settings: Configuration) -> None:
    host = settings.server.host
    if settings.access.is_open and not is_loopback(host):
        raise ConfigurationError(
            f"without authentication it is for this machine alone, and {host} is for"
            " others as well: set up access.keys or access.oidc, or leave server.host"
            " at 127.0.0.1"
        )


def _check_shell(settings: Configuration) -> None:
    if settings.access.is_open and settings.types.shell is not None:
        raise ConfigurationError(
            "it runs commands, and without authentication any program on this machine"
            " could have them run: set up access.keys or access.oidc"
        )


def _check_dispatch(settings: Configuration) -> None:
    bus = settings.dispatch.bus()
    if bus is not None:
        with bus:
            types, queue = settings.types.job_types(), settings.types.queue
            settings.dispatch.dispatcher(bus, types, queue=queue)


def _check_tls(server: ServerSection) -> None:
    if server.tls_certificate is None or server.tls_key is None:
        return
    password = server.tls_key_password
    secret = None if password is None else password.get_secret_value()
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            # Without any password OpenSSL would ask for it in the terminal.
            server.tls_certificate,
            server.tls_key,
            secret or "",
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{server.tls_certificate}, with tls_key {server.tls_key}, cannot be used:"
            f" {error}"
        ) from None
