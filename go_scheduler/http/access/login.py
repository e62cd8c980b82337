"""Signing in and out from a command line, and the token to send."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from go_scheduler.clock import Clock, SystemClock
from go_scheduler.http.access.code_login import code_login
from go_scheduler.http.access.device_login import DeviceCode, device_login
from go_scheduler.http.access.login_provider import (
    LoginError,
    LoginProvider,
    RefusedError,
    Tokens,
    fetch,
)
from go_scheduler.http.access.token_file import Login, TokenFile, server_key

_SCOPE = "openid"
_SOON = timedelta(seconds=30)
_METADATA = "/.well-known/oauth-protected-resource"


class Logins:
    """Signs in to servers and out of them, and has the token to send to each.

    ```python
    Logins().login_by_device("https://tasks.example.org", print)
    ```

    Args:
        file: Where tokens are kept; None: in the user's folder for configuration.
        clock: Tells what has expired; None: the system's.
        tls: What servers and issuers are trusted by; None: the certificates that httpx
            trusts.
    """

    def __init__(
        self,
        file: TokenFile | None = None,
        *,
        clock: Clock | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._file = TokenFile() if file is None else file
        self._clock = SystemClock() if clock is None else clock
        self._tls = tls

    def login_by_device(
        self,
        server: str,
        show: Callable[[DeviceCode], object],
        **known: str | None,
    ) -> Login:
        """Have somebody sign in on any device that has a browser.

        Args:
            server: The server's URL.
            show: Shows the code, and where to type it in.
            **known: What the server need not be asked: ``issuer``, ``client_id``,
                ``scope``.

        Raises:
            LoginError: Nobody has signed in.
        """
        provider = self._provider(server, **known)
        tokens = device_login(provider, show, self._clock)
        return self._keep(server, provider, tokens)

    def login_by_browser(
        self, server: str, show: Callable[[str], object], **known: str | None
    ) -> Login:
        """Have somebody sign in by a browser on this machine.

        Args:
            server: The server's URL.
            show: Opens a URL in the browser, such as ``webbrowser.open``.
            **known: As for ``login_by_device``.

        Raises:
            LoginError: Nobody has signed in.
        """
        provider = self._provider(server, **known)
        tokens = code_login(provider, show, self._clock)
        return self._keep(server, provider, tokens)

    def logout(self, server: str) -> bool:
        """Forget the tokens for a server, and have the issuer forget them, if it can.

        Returns:
            Whether there were any.
        """
        with self._file.locked():
            login = self._file.get(server)
            if login is None:
                return False
            self._file.remove(server)
        try:
            provider = self._provider_of(login)
            provider.ask("revocation", token=login.refresh or login.access)
        except LoginError:
            pass  # They expire by themselves.
        return True

    def token(self, server: str) -> str | None:
        """The token to send to a server; a new one, if it has expired or will soon.

        Returns:
            The token; None: nobody has logged in there.

        Raises:
            LoginError: It has expired, and the issuer gives no other.
            ProviderAwayError: The issuer cannot be reached.
        """
        login = self._file.get(server)
        if login is None:
            return None
        if self._is_good(login):
            return login.access
        with self._file.locked():
            # Another process may have had a new one meanwhile, and used up the old.
            login = self._file.get(server) or login
            if self._is_good(login):
                return login.access
            provider, tokens = self._refreshed(login)
            return self._put(server, provider, tokens, login.refresh).access

    def _is_good(self, login: Login) -> bool:
        if login.expires_at is None:
            return True
        return self._clock.now() + _SOON < login.expires_at

    def _refreshed(self, login: Login) -> tuple[LoginProvider, Tokens]:
        if login.refresh is None:
            raise LoginError("the login has expired: log in again")
        provider = self._provider_of(login)
        try:
            return provider, provider.tokens(
                grant_type="refresh_token", refresh_token=login.refresh
            )
        except RefusedError as error:
            raise LoginError(
                f"the login has expired: log in again ({error})"
            ) from error

    def _provider(
        self,
        server: str,
        *,
        issuer: str | None = None,
        client_id: str | None = None,
        scope: str | None = None,
    ) -> LoginProvider:
        key = server_key(server)
        said: dict[str, Any] = {}
        if issuer is None or client_id is None:
            said = self._said_by(server, f"{key}{_METADATA}")
        servers = said.get("authorization_servers")
        issuer = issuer or (servers[0] if isinstance(servers, list) and servers else "")
        client_id = client_id or said.get("client_id")
        if not client_id or not isinstance(client_id, str):
            raise LoginError(f"{server} does not say as what to sign in: give a client")
        return LoginProvider.discover(
            str(issuer), client_id=client_id, scope=scope or _SCOPE, tls=self._tls
        )

    def _said_by(self, server: str, url: str) -> dict[str, Any]:
        try:
            return fetch(url, tls=self._tls)
        except RefusedError as error:
            raise LoginError(
                f"{server} names no issuer where anybody could sign in: send an API"
                f" key, which the command line takes from GO_SCHEDULER_TOKEN ({error})"
            ) from error

    def _provider_of(self, login: Login) -> LoginProvider:
        return LoginProvider.discover(
            login.issuer, client_id=login.client_id, scope=login.scope, tls=self._tls
        )

    def _keep(self, server: str, provider: LoginProvider, tokens: Tokens) -> Login:
        with self._file.locked():
            return self._put(server, provider, tokens, None)

    def _put(
        self,
        server: str,
        provider: LoginProvider,
        tokens: Tokens,
        refresh: str | None,
    ) -> Login:
        lasts = tokens.lasts
        login = Login(
            issuer=provider.issuer,
            client_id=provider.client_id,
            scope=provider.scope,
            access=tokens.access,
            refresh=tokens.refresh or refresh,
            expires_at=None if lasts is None else self._clock.now() + lasts,
        )
        self._file.put(server, login)
        return login
