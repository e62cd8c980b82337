"""Checks that a server can start with a configuration."""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.http.access.bearer import ApiKeys
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.loopback import is_loopback
from go_scheduler.http.access.refusals import checked_origins
from go_scheduler.http.configuration.loading import settings_below
from go_scheduler.policies import CatchUp
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores import MemoryStore
from go_scheduler.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.http.access.bearer import ApiKey
    from go_scheduler.http.configuration.loading import Place
    from go_scheduler.http.configuration.sections import (
        Configuration,
        KeySection,
        ServerSection,
    )


def check(settings: Configuration) -> None:
    """Refuse settings with which a server cannot start.

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
                # The message begins with the name of an argument, often of a setting.
                first = str(error).partition(" ")[0].rstrip(",:")
                exact = (*place, first) if first in settings_below(place) else place
                problems[exact] = f"{settings.sources.named(exact)}: {error}"
    if problems:
        raise ConfigurationError("\n".join(problems.values()))


def _parts(settings: Configuration) -> Iterator[tuple[Place, Callable[[], object]]]:
    """The objects to make of the settings, by the paths of these."""
    if (url := settings.store.url) is not None:
        yield ("store", "url"), lambda: open_store(url.get_secret_value()).close()
    access, server = settings.access, settings.server
    keys: list[ApiKey] = []
    for index, each in enumerate(access.keys):

        def add(each: KeySection = each) -> None:
            key = each.key()
            ApiKeys([*keys, key], SystemClock())
            keys.append(key)

        yield ("access", "keys", index), add
    if access.oidc is not None:
        yield ("access", "oidc"), partial(OidcIssuer, **dict(access.oidc))
    yield ("access", "origins"), partial(checked_origins, access.origins)
    yield ("server", "host"), partial(_check_host, settings)
    yield ("server", "tls_certificate"), partial(_check_tls, server)
    yield ("server", "limits"), server.request_limits
    yield ("jobs",), settings.jobs.defaults
    if (origin := settings.dashboard.origin) is not None:
        yield ("dashboard", "origin"), partial(checked_origins, [origin])
    yield from _types(settings)
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


def _types(settings: Configuration) -> Iterator[tuple[Place, Callable[[], object]]]:
    types, dispatch = settings.types, settings.dispatch
    if (webhook := types.webhook) is not None:
        for of in ("secrets", "authorizations"):
            for name, secret in getattr(webhook, of).items():
                yield ("types", "webhook", of, name), secret.secret
        yield ("types", "webhook"), webhook.executor
    if types.email is not None:
        yield ("types", "email"), types.email.executor
    if types.shell is not None:
        yield ("types", "shell"), partial(_check_shell, settings)
        for name, command in types.shell.commands.items():
            yield ("types", "shell", "commands", name), command.command
        yield ("types", "shell"), types.shell.executor
    yield ("types",), types.job_types
    for name, each in dispatch.types.items():
        make = partial(each.job_type, JobTypes(), name, queue=types.queue)
        yield ("dispatch", "types", name), make
    yield ("dispatch",), partial(_check_dispatch, settings)


def _check_host(settings: Configuration) -> None:
    host = settings.server.host
    if settings.access.is_open and not is_loopback(host):
        raise ConfigurationError(
            f"without authentication it is for this machine alone, and {host} is for"
            " others as well: set up access.keys or access.oidc, or leave server.host"
            " at 127.0.0.1"
        )


def _check_shell(settings: Configuration) -> None:
    if settings.access.is_open:
        raise ConfigurationError(
            "it runs commands, and without authentication any program on this machine"
            " could have them run: set up access.keys or access.oidc"
        )


def _check_dispatch(settings: Configuration) -> None:
    bus, types = settings.dispatch.bus(), settings.types
    if bus is not None:
        with bus:
            settings.dispatch.dispatcher(bus, types.job_types(), queue=types.queue)


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
