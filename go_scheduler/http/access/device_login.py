"""Signing in by another device (RFC 8628): a code is shown, and typed in elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from go_scheduler.clock import Clock
from go_scheduler.http.access.login_provider import (
    LoginError,
    LoginProvider,
    ProviderAwayError,
    RefusedError,
    Tokens,
    plain,
)
from go_scheduler.http.access.loopback import is_safe_url

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL = timedelta(seconds=5)
_LONGEST = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """What somebody is shown who is to sign in elsewhere.

    Attributes:
        code: What is typed in there.
        url: Where.
        complete_url: The same with the code in it, for a link; None: there is none.
        lasts: For how long.
    """

    code: str
    url: str
    complete_url: str | None
    lasts: timedelta


def device_login(
    provider: LoginProvider, show: Callable[[DeviceCode], object], clock: Clock
) -> Tokens:
    """Have somebody sign in on any device that has a browser.

    Args:
        provider: Where.
        show: Shows the code, and where to type it in; it is to return at once.
        clock: Waits in between, as long as the issuer wishes.

    Raises:
        LoginError: Nobody has signed in: it was refused, or took too long.
    """
    given = provider.ask("device_authorization", scope=provider.scope)
    shown = _shown(provider, given)
    interval = max(_seconds(given.get("interval"), _INTERVAL), timedelta(seconds=1))
    until = clock.elapsed() + shown.lasts
    show(shown)
    while clock.elapsed() + interval < until:
        _wait(clock, clock.elapsed() + interval)
        try:
            return provider.tokens(
                grant_type=_GRANT, device_code=str(given["device_code"])
            )
        except ProviderAwayError:
            interval *= 2
        except RefusedError as error:
            if error.code == "slow_down":
                interval += _INTERVAL
            elif error.code != "authorization_pending":
                raise
    raise LoginError("nobody has signed in in time: log in again")


def _shown(provider: LoginProvider, given: Mapping[str, Any]) -> DeviceCode:
    code, url = plain(given.get("user_code")), given.get("verification_uri")
    if not (code and is_safe_url(url) and isinstance(given.get("device_code"), str)):
        raise LoginError(f"{provider.issuer} has given no code for a device")
    complete = given.get("verification_uri_complete")
    return DeviceCode(
        code=code,
        url=plain(url),
        complete_url=plain(complete) if is_safe_url(complete) else None,
        lasts=_seconds(given.get("expires_in"), _LONGEST),
    )


def _seconds(value: object, default: timedelta) -> timedelta:
    if isinstance(value, int | float) and 0 < value <= _LONGEST.total_seconds():
        return timedelta(seconds=value)
    return default


def _wait(clock: Clock, until: timedelta) -> None:
    condition = threading.Condition()
    with condition:
        while clock.elapsed() < until:
            clock.wait(condition, until)
