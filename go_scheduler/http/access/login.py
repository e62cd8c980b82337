"""Login and logout from a command line, and the file with the tokens."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import ssl
import stat
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from pydantic import AwareDatetime, TypeAdapter

from go_scheduler.clock import Clock, SystemClock
from go_scheduler.errors import GoSchedulerError
from go_scheduler.http.access.loopback import is_loopback, is_safe_url

# In seconds. Callers of the API wait for the keys; an issuer takes longer for a token.
_TIMEOUTS = {"GET": 5.0, "POST": 10.0}
_MOST_BYTES = 256 * 1024
_LONGEST_ANSWER = timedelta(seconds=10)
_LONGEST = timedelta(days=10_000)


class LoginError(GoSchedulerError):
    """The login failed, or has expired; the text says what to do."""


class ProviderAwayError(LoginError):
    """The issuer, or the server, cannot be reached; trying again may help."""


class RefusedError(LoginError):
    """The issuer has refused a request.

    Attributes:
        code: The error code of RFC 6749 or 8628.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The stored login for one server.

    Attributes:
        issuer: The URL of the issuer.
        client_id: The id of the client.
        scope: The requested scope.
        access: The access token, which is sent to the server.
        refresh: The refresh token; None: there is none.
        expires_at: When the access token expires; None: unknown.
    """

    issuer: str
    client_id: str
    scope: str
    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    expires_at: AwareDatetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginProvider:
    """An issuer, and a client of it.

    Attributes:
        issuer: The URL of the issuer.
        client_id: The id of the client.
        scope: The scope to request.
        urls: The URLs of the issuer, by their names in the discovery document.
        names_itself: Whether the issuer sends ``iss`` with the code (RFC 9207).
        tls: The certificates to trust; None: those of httpx.
    """

    issuer: str
    client_id: str
    scope: str
    urls: Mapping[str, str]
    names_itself: bool = False
    tls: ssl.SSLContext | None = None

    @classmethod
    def discover(
        cls,
        issuer: str,
        *,
        client_id: str = "",
        scope: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> LoginProvider:
        """Read the discovery document of an issuer.

        Args:
            issuer: The URL of the issuer.
            client_id: The id of the client; its public keys need none.
            scope: The scope to request.
            tls: The certificates to trust; None: those of httpx.

        Raises:
            LoginError: The URL or the document is wrong.
            ProviderAwayError: The issuer cannot be reached.
        """
        if not is_safe_url(issuer):
            raise LoginError(
                f"the issuer must be an https URL, or one on this machine: {issuer!r}"
            )
        url = f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
        document = fetch(url, tls=tls)
        if document.get("issuer") != issuer:
            raise LoginError(f"what is at {url} is not about the issuer {issuer}")
        return cls(
            issuer=issuer,
            client_id=client_id,
            scope=scope,
            urls={name: url for name, url in document.items() if is_safe_url(url)},
            names_itself=document.get("authorization_response_iss_parameter_supported")
            is True,
            tls=tls,
        )

    def url(self, name: str) -> str:
        """The URL that has this name in the discovery document.

        Raises:
            LoginError: The issuer has no such URL.
        """
        url = self.urls.get(name)
        if url is None:
            raise LoginError(f"{self.issuer} has no {name} by https")
        return url

    def authorization_url(
        self, back: str, *, state: str, verifier: str, **more: str
    ) -> str:
        """The URL at which a browser begins the code flow, with PKCE.

        Args:
            back: The URL to which the issuer sends the browser back.
            state: Comes back with the answer.
            verifier: The secret that the exchange of the code shows.
            **more: Other parameters, such as ``nonce``.

        Raises:
            LoginError: The issuer has no code flow.
        """
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.client_id,
                "redirect_uri": back,
                "scope": self.scope,
                "state": state,
            }
            | _challenge(verifier)
            | more
        )
        url = self.url("authorization_endpoint")
        return f"{url}{'&' if urlsplit(url).query else '?'}{query}"

    def has_answered(self, answer: Mapping[str, str], state: str) -> bool:
        """Whether an answer of the code flow is this issuer's, to this request.

        Args:
            answer: The query with which the browser came back.
            state: The state of the request.
        """
        given = answer.get("state", "")
        if not secrets.compare_digest(given.encode(), state.encode()):
            return False
        return not self.names_itself or answer.get("iss") == self.issuer

    def code_grant(
        self, answer: Mapping[str, str], *, verifier: str, back: str
    ) -> dict[str, str]:
        """The form that exchanges the code in an answer for tokens.

        Args:
            answer: An answer that ``has_answered``.
            verifier: The verifier of the request.
            back: The URL to which the issuer has sent the browser back.

        Raises:
            RefusedError: The answer is an error.
        """
        if "code" not in answer:
            error = plain(answer.get("error")) or "no code"
            said = plain(answer.get("error_description")) or error
            raise RefusedError(error, f"the issuer refuses: {said}")
        return {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": back,
            "code_verifier": verifier,
        }

    def ask(self, name: str, **form: str) -> dict[str, Any]:
        """Post a form to an endpoint.

        Raises:
            RefusedError: The issuer refuses.
            ProviderAwayError: The issuer cannot be reached.
            LoginError: The answer is something else.
        """
        form["client_id"] = self.client_id
        return fetch(self.url(f"{name}_endpoint"), form, tls=self.tls)

    def login(self, clock: Clock, **form: str) -> Login:
        """Request tokens for a grant.

        Raises:
            RefusedError: The issuer refuses.
            ProviderAwayError: The issuer cannot be reached.
            LoginError: The answer is something else.
        """
        given = self.ask("token", **form)
        access, refresh = given.get("access_token"), given.get("refresh_token")
        if not _is_token(access) or str(given.get("token_type")).lower() != "bearer":
            raise LoginError(f"{self.issuer} has given no bearer token")
        lasts = _seconds(given.get("expires_in"), _LONGEST)
        return Login(
            issuer=self.issuer,
            client_id=self.client_id,
            scope=self.scope,
            access=str(access),
            refresh=str(refresh) if _is_token(refresh) else None,
            expires_at=None if lasts is None else clock.now() + lasts,
        )


def _challenge(verifier: str) -> dict[str, str]:
    """The parameters of PKCE (RFC 7636) for a secret that comes with the exchange."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return {
        "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }


def fetch(
    url: str,
    form: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> dict[str, Any]:
    """Get a JSON object from a URL, or post a form to it.

    Raises:
        RefusedError: The answer is an OAuth error.
        ProviderAwayError: There is no answer.
        LoginError: The answer is no JSON object, or too long.
    """
    is_local = is_loopback(urlsplit(url).hostname or "")
    method = "GET" if form is None else "POST"
    try:
        with (
            httpx.Client(
                verify=True if tls is None else tls,
                timeout=_TIMEOUTS[method],
                trust_env=not is_local,
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            ) as client,
            client.stream(method, url, data=form) as answer,
        ):
            body = _read(answer)
    # An OSError: the certificates to trust cannot be read, say.
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderAwayError(f"{url} cannot be reached: {error}") from error
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if answer.is_server_error:
        raise ProviderAwayError(f"{url} answers {answer.status_code}")
    if not isinstance(found, dict):
        raise LoginError(f"{url} answers {answer.status_code} without a JSON object")
    if not answer.is_success:
        raise _refusal(url, answer.status_code, found)
    return found


def plain(value: object) -> str:
    """A text of the issuer, without control characters."""
    text = value if isinstance(value, str) else ""
    return "".join(each for each in text[:200] if each.isprintable())


def _read(answer: httpx.Response) -> bytes:
    body, clock = bytearray(), SystemClock()
    until = clock.elapsed() + _LONGEST_ANSWER
    for part in answer.iter_bytes():
        body += part
        if clock.elapsed() > until:
            raise ProviderAwayError(f"{answer.url} answers too slowly")
        if len(body) > _MOST_BYTES:
            raise LoginError(f"{answer.url} answers more than {_MOST_BYTES} bytes")
    return bytes(body)


def _refusal(url: str, status: int, found: Mapping[str, Any]) -> RefusedError:
    code = plain(found.get("error")) or str(status)
    said = plain(found.get("error_description")) or code
    return RefusedError(code, f"{url} refuses: {said}")


def _is_token(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and value != ""
    )


def _seconds(value: object, most: timedelta) -> timedelta | None:
    """A number of seconds; None: it is no number, or a greater one."""
    if isinstance(value, int | float) and 0 <= value <= most.total_seconds():
        return timedelta(seconds=value)
    return None


_LOGINS = TypeAdapter(dict[str, Login])


class TokenFile:
    """The file with the logins, by server.

    Args:
        path: The file; None: ``go_scheduler/tokens.json`` in the user's folder for
            configuration.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = _default() if path is None else path

    def get(self, server: str) -> Login | None:
        """Return the login for a server; None: there is none.

        Raises:
            LoginError: Others may read the file, or it is malformed.
        """
        return self._read().get(server_key(server))

    def put(self, server: str, login: Login) -> None:
        """Store the login for a server.

        Raises:
            LoginError: The file is malformed, or cannot be written.
        """
        self._write(self._read() | {server_key(server): login})

    def remove(self, server: str) -> bool:
        """Remove the login for a server.

        Returns:
            Whether there was one.
        """
        known = self._read()
        found = known.pop(server_key(server), None)
        if found is not None:
            self._write(known)
        return found is not None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file against other processes."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LoginError(f"{self.path} cannot be written: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> dict[str, Login]:
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise LoginError(
                        f"others may read the tokens in {self.path}: chmod 600 it, and"
                        " log in again"
                    )
                return _LOGINS.validate_json(file.read())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            raise LoginError(
                f"{self.path} cannot be read as tokens: remove it, and log in again"
            ) from None  # The message must not show its content.

    def _write(self, known: dict[str, Login]) -> None:
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(made, "wb") as file:
                file.write(_LOGINS.dump_json(known, indent=2))
            new.replace(self.path)
        except OSError as error:
            raise LoginError(f"{self.path} cannot be written: {error}") from error


def server_key(server: str) -> str:
    """The normalized URL of a server, the key of its login.

    Raises:
        LoginError: No token may be sent to this URL.
    """
    if not is_safe_url(server):
        raise LoginError(
            f"tokens are sent by https alone, or to this machine: not to {server!r}"
        )
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _default() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "go_scheduler" / "tokens.json"


_PATH = "/callback"
_LOOKS_EVERY = 0.05
_CODE_LASTS = timedelta(minutes=5)
_DONE = "You are signed in, or refused: the command line says which. Close this page."
_WRONG = "This is not what was asked for."


def code_login(
    provider: LoginProvider, show: Callable[[str], object], clock: Clock
) -> Login:
    """Log in by a browser on this machine: code flow with PKCE.

    The issuer redirects the browser to a local port, with a code that only this process
    can exchange for tokens.

    Args:
        provider: The issuer and the client.
        show: Opens a URL in the browser, or shows it; must return at once.
        clock: Measures the time limit of five minutes.

    Raises:
        LoginError: The login was refused, or took too long.
    """
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    with _Callback(provider, state) as back:
        show(provider.authorization_url(back.url, state=state, verifier=verifier))
        answer = back.answer(clock, clock.elapsed() + _CODE_LASTS)
        grant = provider.code_grant(answer, verifier=verifier, back=back.url)
        return provider.login(clock, **grant)


class _Callback(ThreadingHTTPServer):
    """The local server of the redirect; it takes one answer, with the right state.

    Args:
        provider: The issuer that the answer must be of.
        state: The state that it must have.
    """

    def __init__(self, provider: LoginProvider, state: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}{_PATH}"
        self._provider = provider
        self._state = state
        self._came = threading.Condition()
        self._answer: dict[str, str] | None = None
        self._thread = threading.Thread(
            target=self.serve_forever,
            args=(_LOOKS_EVERY,),
            name="go_scheduler login",
            daemon=True,
        )

    def server_bind(self) -> None:
        # HTTPServer would also look up the host name, which may take long.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def __enter__(self) -> _Callback:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def take(self, path: str) -> bool:
        """Take the answer in a path; returns whether it is for this login."""
        parts = urlsplit(path)
        given = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path != _PATH or not self._provider.has_answered(given, self._state):
            return False
        with self._came:
            self._answer = self._answer or given
            self._came.notify_all()
        return True

    def answer(self, clock: Clock, until: timedelta) -> dict[str, str]:
        """Wait for the answer.

        Raises:
            LoginError: It does not come in time.
        """
        with self._came:
            while self._answer is None:
                if clock.elapsed() >= until:
                    raise LoginError("nobody has signed in in time: log in again")
                clock.wait(self._came, until)
        return self._answer


class _Handler(BaseHTTPRequestHandler):
    server: _Callback
    timeout = 10

    def do_GET(self) -> None:
        is_taken = self.server.take(self.path)
        body = (_DONE if is_taken else _WRONG).encode()
        self.send_response(200 if is_taken else 400)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: a line would have the code in it."""


_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL = timedelta(seconds=5)
_DEVICE_CODE_LASTS = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """The code that a person types in on another device.

    Attributes:
        code: The code.
        url: The URL of the page to type it in.
        complete_url: The URL with the code in it, for a link; None: there is none.
        lasts: How long the code is valid.
    """

    code: str
    url: str
    complete_url: str | None
    lasts: timedelta


def device_login(
    provider: LoginProvider, show: Callable[[DeviceCode], object], clock: Clock
) -> Login:
    """Log in by a browser on any device (RFC 8628).

    With PKCE: Keycloak demands it of each flow if it demands it of a client.

    Args:
        provider: The issuer and the client.
        show: Shows the code and the URL; must return at once.
        clock: Waits between the polls, as long as the issuer says.

    Raises:
        LoginError: The login was refused, or took too long.
    """
    verifier = secrets.token_urlsafe(64)
    given = provider.ask(
        "device_authorization", scope=provider.scope, **_challenge(verifier)
    )
    shown = _shown(provider, given)
    interval = _seconds(given.get("interval"), _DEVICE_CODE_LASTS) or _INTERVAL
    interval = max(interval, timedelta(seconds=1))
    until = clock.elapsed() + shown.lasts
    show(shown)
    while clock.elapsed() + interval < until:
        again, condition = clock.elapsed() + interval, threading.Condition()
        with condition:
            while clock.elapsed() < again:
                clock.wait(condition, again)
        try:
            return provider.login(
                clock,
                grant_type=_GRANT,
                device_code=str(given["device_code"]),
                code_verifier=verifier,
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
        lasts=_seconds(given.get("expires_in"), _DEVICE_CODE_LASTS)
        or _DEVICE_CODE_LASTS,
    )


_SCOPE = "openid"
_SOON = timedelta(seconds=30)
_METADATA = "/.well-known/oauth-protected-resource"


class Logins:
    """Logs in to servers and out of them, and has the token for each.

    ```python
    Logins().login_by_device("https://tasks.example.org", print)
    ```

    Args:
        file: The file with the tokens; None: in the user's folder for configuration.
        clock: Tells the time; None: the system's.
        tls: The certificates to trust for servers and issuers; None: those of httpx.
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
        """Log in by a browser on any device.

        Args:
            server: The server's URL.
            show: Shows the code and the URL.
            **known: ``issuer``, ``client_id`` and ``scope``, instead of the server's.

        Raises:
            LoginError: The login failed.
        """
        provider = self._provider(server, **known)
        return self._keep(server, device_login(provider, show, self._clock))

    def login_by_browser(
        self, server: str, show: Callable[[str], object], **known: str | None
    ) -> Login:
        """Log in by a browser on this machine.

        Args:
            server: The server's URL.
            show: Opens a URL in the browser, such as ``webbrowser.open``.
            **known: As for ``login_by_device``.

        Raises:
            LoginError: The login failed.
        """
        provider = self._provider(server, **known)
        return self._keep(server, code_login(provider, show, self._clock))

    def logout(self, server: str) -> bool:
        """Remove the tokens for a server, and revoke them if the issuer can.

        Returns:
            Whether there were tokens.
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
        """The token for a server; refreshed if it expires within thirty seconds.

        Returns:
            The token; None: nobody has logged in.

        Raises:
            LoginError: The token has expired, and cannot be refreshed.
            ProviderAwayError: The issuer cannot be reached.
        """
        login = self._file.get(server)
        if login is None:
            return None
        if self._is_good(login):
            return login.access
        with self._file.locked():
            # Another process may have refreshed the token meanwhile.
            login = self._file.get(server) or login
            if not self._is_good(login):
                login = self._refreshed(login)
                self._file.put(server, login)
        return login.access

    def _is_good(self, login: Login) -> bool:
        if login.expires_at is None:
            return True
        return self._clock.now() + _SOON < login.expires_at

    def _refreshed(self, login: Login) -> Login:
        if login.refresh is None:
            raise LoginError("the login has expired: log in again")
        try:
            new = self._provider_of(login).login(
                self._clock, grant_type="refresh_token", refresh_token=login.refresh
            )
        except RefusedError as error:
            raise LoginError(
                f"the login has expired: log in again ({error})"
            ) from error
        return replace(new, refresh=new.refresh or login.refresh)

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
            try:
                said = fetch(f"{key}{_METADATA}", tls=self._tls)
            except RefusedError as error:
                raise LoginError(
                    f"{server} names no issuer where anybody could sign in: send an API"
                    f" key, which the command line takes from GO_SCHEDULER_TOKEN"
                    f" ({error})"
                ) from error
        servers = said.get("authorization_servers")
        issuer = issuer or (servers[0] if isinstance(servers, list) and servers else "")
        client_id = client_id or said.get("client_id")
        if not client_id or not isinstance(client_id, str):
            raise LoginError(f"{server} does not say as what to sign in: give a client")
        return LoginProvider.discover(
            str(issuer), client_id=client_id, scope=scope or _SCOPE, tls=self._tls
        )

    def _provider_of(self, login: Login) -> LoginProvider:
        return LoginProvider.discover(
            login.issuer, client_id=login.client_id, scope=login.scope, tls=self._tls
        )

    def _keep(self, server: str, login: Login) -> Login:
        with self._file.locked():
            self._file.put(server, login)
        return login
