"""Signing in by the browser of this machine: code flow with PKCE, and a way back."""

from __future__ import annotations

import hashlib
import secrets
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from go_scheduler.clock import Clock
from go_scheduler.http.access.login_provider import (
    LoginError,
    LoginProvider,
    RefusedError,
    Tokens,
    plain,
)

_PATH = "/callback"
_LOOKS_EVERY = 0.05
_LONGEST = timedelta(minutes=5)
_DONE = "You are signed in, or refused: the command line says which. Close this page."
_WRONG = "This is not what was asked for."


def code_login(
    provider: LoginProvider, show: Callable[[str], object], clock: Clock
) -> Tokens:
    """Have somebody sign in by a browser on this machine.

    The browser is sent back to a port of this machine that is open until then, with a
    code that only this process can have a token for.

    Args:
        provider: Where.
        show: Opens a URL in the browser, or shows it; it is to return at once.
        clock: Tells when it takes too long: five minutes.

    Raises:
        LoginError: Nobody has signed in: it was refused, or took too long.
    """
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    with _Callback(state, provider.issuer if provider.names_itself else None) as back:
        query = urlencode(
            {
                "response_type": "code",
                "client_id": provider.client_id,
                "redirect_uri": back.url,
                "scope": provider.scope,
                "state": state,
                "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
                "code_challenge_method": "S256",
            }
        )
        url = provider.endpoint("authorization")
        show(f"{url}{'&' if urlsplit(url).query else '?'}{query}")
        code = back.code(clock, clock.elapsed() + _LONGEST)
        return provider.tokens(
            grant_type="authorization_code",
            code=code,
            redirect_uri=back.url,
            code_verifier=verifier,
        )


class _Callback(ThreadingHTTPServer):
    """Where the browser comes back to; it takes one answer, with the right state.

    Args:
        state: What the answer has to have.
        issuer: Who has to have sent it, if that is to be said.
    """

    def __init__(self, state: str, issuer: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}{_PATH}"
        self._state = state
        self._issuer = issuer
        self._came = threading.Condition()
        self._answer: dict[str, str] | None = None
        self._thread = threading.Thread(
            target=self.serve_forever,
            args=(_LOOKS_EVERY,),
            name="go_scheduler login",
            daemon=True,
        )

    def server_bind(self) -> None:
        # Its own also asks for the name of this machine, which may take long.
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
        """Take what the browser brings, if it is the answer to what was asked."""
        parts = urlsplit(path)
        given = {key: values[0] for key, values in parse_qs(parts.query).items()}
        state = given.get("state", "")
        if parts.path != _PATH or not secrets.compare_digest(
            state.encode(), self._state.encode()
        ):
            return False
        if self._issuer is not None and given.get("iss") != self._issuer:
            return False
        with self._came:
            self._answer = self._answer or given
            self._came.notify_all()
        return True

    def code(self, clock: Clock, until: timedelta) -> str:
        """Wait for what the browser brings.

        Raises:
            LoginError: That is an error, or it does not come.
        """
        with self._came:
            while self._answer is None:
                if clock.elapsed() >= until:
                    raise LoginError("nobody has signed in in time: log in again")
                clock.wait(self._came, until)
        if "code" not in self._answer:
            error = plain(self._answer.get("error")) or "no code"
            said = plain(self._answer.get("error_description")) or error
            raise RefusedError(error, f"the issuer refuses: {said}")
        return self._answer["code"]


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
        """Say nothing: a line would have the code in it."""
