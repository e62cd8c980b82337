"""An OIDC provider for tests: the server of Authlib, on a real port."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from a2wsgi import WSGIMiddleware
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc6749.models import AuthorizationCodeMixin
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge
from authlib.oauth2.rfc8628 import (
    DeviceAuthorizationEndpoint,
    DeviceCodeGrant,
    DeviceCredentialDict,
)
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oauth2.rfc9207.parameter import IssuerParameter
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, Response, request
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from go_scheduler.clock import SystemClock
from tests.http.access.house import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

AUDIENCE = "go-scheduler-api"
CLIENT = "go-scheduler-cli"
_USE: Any = {"use": "sig"}
_NEW: dict[str, Callable[[], Any]] = {
    "RS": lambda: RSAKey.generate_key(2048, _USE, auto_kid=True),
    "PS": lambda: RSAKey.generate_key(2048, _USE, auto_kid=True),
    "ES": lambda: ECKey.generate_key("P-256", _USE, auto_kid=True),
    "Ed": lambda: OKPKey.generate_key("Ed25519", _USE, auto_kid=True),
}


class User:
    """The user who logs in."""

    def get_user_id(self) -> str:
        return "ann"


class Client(ClientMixin):
    """The client: a command line without a secret, or a dashboard with one."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self._secret

    def get_client_id(self) -> str:
        return CLIENT

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri.startswith(("http://127.0.0.1:", "http://localhost:"))

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == ("none" if self._secret is None else "client_secret_post")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return True


@dataclass
class Code(AuthorizationCodeMixin):
    """An authorization code."""

    code: str
    redirect_uri: str
    scope: str
    code_challenge: str
    code_challenge_method: str
    nonce: str | None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Refresh(TokenMixin):
    """A refresh token."""

    token: str
    scope: str

    def check_client(self, client: Client) -> bool:
        return True

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Provider:
    """The state of the provider, its requests, and its behaviour."""

    issuer: str
    keys: list[Any] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Any] = field(default_factory=dict)
    """Other answers, by path: a status, a text, or an object."""

    claims: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, Code] = field(default_factory=dict)
    devices: dict[tuple[str, str], DeviceCredentialDict] = field(default_factory=dict)
    """What was given, by device code and the challenge of PKCE."""

    refreshes: dict[str, Refresh] = field(default_factory=dict)
    granted: dict[str, bool] = field(default_factory=dict)
    """Whether the user agrees, by user code."""

    polled: list[str] = field(default_factory=list)
    """The errors that the next polls for a device are answered by."""

    expires_in: int = 300
    secret: str | None = None
    """The secret of the client; None: it has none."""

    id_claims: dict[str, Any] = field(default_factory=dict)
    """Other claims of ID tokens."""

    gate: threading.Event = field(default_factory=threading.Event)
    """The keys are not answered before this is set."""

    def forget(self) -> None:
        """Reset everything but the keys."""
        known = (self.asked, self.answers, self.claims, self.granted, self.id_claims)
        for each in known:
            each.clear()
        self.secret = None
        self.codes, self.devices, self.refreshes, self.polled = {}, {}, {}, []
        self.expires_in = 300

    def rotate(self, algorithm: str = "RS256") -> None:
        """Replace all keys by a new one."""
        self.keys = [_NEW[algorithm[:2]]()]

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [each.as_dict(private=False) for each in self.keys]}

    def token(
        self,
        header: dict[str, object] | None = None,
        *,
        key: Any = None,
        without: str | None = None,
        **claims: object,
    ) -> str:
        """A token of this provider, with these changes."""
        now = int(SystemClock().now().timestamp())
        key = key or self.keys[0]
        said = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ann",
            "iat": now,
            "nbf": now,
            "exp": now + 300,
            "scope": "jobs:read",
        }
        said |= claims
        if without is not None:
            del said[without]
        head = {"alg": "RS256", "typ": "at+jwt", "kid": key.kid} | (header or {})
        known = {name: value for name, value in head.items() if value is not None}
        algorithms = [str(head["alg"])]
        return jwt.encode(known, said, key, algorithms=algorithms, default_type=None)


@contextmanager
def provider(certificate: tuple[Path, Path] | None = None) -> Iterator[Provider]:
    """Serve a provider, by https if a certificate and its key are given."""
    options: dict[str, Any] = {}
    host = "http://127.0.0.1"
    if certificate is not None:
        host = "https://localhost"
        options = {"ssl_certfile": certificate[0], "ssl_keyfile": certificate[1]}
    made: list[Provider] = []

    def make(port: int) -> ASGIApp:
        made.append(Provider(f"{host}:{port}/realms/test"))
        made[0].rotate()
        made[0].gate.set()
        app: Any = _app(made[0])
        return cast("ASGIApp", WSGIMiddleware(app))

    with served(make, **options):
        yield made[0]


def _app(provider: Provider) -> Flask:
    app = Flask("provider")
    server: Any = AuthorizationServer(
        app, lambda _: Client(provider.secret), lambda *_: None
    )
    _register(server, provider)
    base = "/realms/test"

    @app.before_request
    def _() -> Response | None:
        path = request.path.removeprefix(base)
        provider.asked[path] += 1
        answer = provider.answers.get(path)
        if isinstance(answer, int):
            return Response("no", answer, {"Location": "http://127.0.0.1:1/"})
        if answer is not None:
            text = answer if isinstance(answer, str) else json.dumps(answer)
            return Response(text, content_type="application/json")
        return None

    @app.get(f"{base}/.well-known/openid-configuration")
    def discovery() -> dict[str, object]:
        paths = ("authorization", "token", "device_authorization", "revocation")
        return {
            "issuer": provider.issuer,
            "jwks_uri": f"{provider.issuer}/jwks",
            "authorization_response_iss_parameter_supported": True,
        } | {f"{each}_endpoint": f"{provider.issuer}/{each}" for each in paths}

    @app.get(f"{base}/jwks")
    def jwks() -> dict[str, object]:
        assert provider.gate.wait(FAILED_AFTER)
        return provider.jwks

    @app.get(f"{base}/authorization")
    def authorization() -> Any:
        denied = provider.granted.get("", True) is False
        user = None if denied else User()
        grant = server.get_consent_grant(end_user=user)
        return server.create_authorization_response(grant_user=user, grant=grant)

    @app.post(f"{base}/token")
    def token() -> Any:
        if provider.polled:
            error = provider.polled.pop(0)
            return Response(json.dumps({"error": error}), 400)
        return server.create_token_response()

    @app.post(f"{base}/device_authorization")
    def device_authorization() -> Any:
        return server.create_endpoint_response("device_authorization")

    @app.post(f"{base}/revocation")
    def revocation() -> Any:
        return server.create_endpoint_response("revocation")

    @app.get(f"{base}/device")
    def device() -> str:
        provider.granted[request.args["user_code"]] = True
        return "you may close this page"

    return app


def _register(server: Any, provider: Provider) -> None:
    class Generator(JWTBearerTokenGenerator):
        def get_jwks(self) -> KeySet:
            return KeySet(provider.keys)

        def get_audiences(self, client: Client, user: User, scope: str) -> list[str]:
            return [AUDIENCE]

        def get_extra_claims(self, *_: object) -> dict[str, Any]:
            return provider.claims

        def _get_expires_in(self, *_: object) -> int:
            return provider.expires_in

    def refresh(client: Client, grant_type: str, user: User, scope: str) -> str:
        token = f"refresh-{len(provider.refreshes)}"
        provider.refreshes[token] = Refresh(token, scope)
        return token

    class Coded(AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("none", "client_secret_post")

        def save_authorization_code(self, code: str, request: Any) -> None:
            data = request.payload.data
            provider.codes[code] = Code(
                code,
                data["redirect_uri"],
                data["scope"],
                data["code_challenge"],
                data["code_challenge_method"],
                data.get("nonce"),
            )

        def query_authorization_code(self, code: str, client: Client) -> Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, authorization_code: Code) -> None:
            del provider.codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Code) -> User:
            return User()

    class Refreshed(RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> Refresh | None:
            return provider.refreshes.get(refresh_token)

        def authenticate_user(self, refresh_token: Refresh) -> User:
            return User()

        def revoke_old_credential(self, refresh_token: Refresh) -> None:
            del provider.refreshes[refresh_token.token]

    server.register_token_generator(
        "default",
        Generator(issuer=provider.issuer, refresh_token_generator=refresh),
    )

    class Identified(OpenIDCode):
        def exists_nonce(self, nonce: str, request: Any) -> bool:
            return False

        def encode_id_token(self, token: object, request: Any) -> str:
            said = {"aud": CLIENT, "nonce": request.authorization_code.nonce}
            return provider.token({"typ": "JWT"}, **said | provider.id_claims)

    server.register_grant(Coded, [CodeChallenge(required=True), Identified()])
    server.register_grant(Refreshed)
    _register_devices(server, provider)


def _register_devices(server: Any, provider: Provider) -> None:
    class Devices(DeviceAuthorizationEndpoint):
        CLIENT_AUTH_METHODS = ("none",)

        def get_verification_uri(self) -> str:
            return f"{provider.issuer}/device"

        def save_device_credential(
            self, client_id: str, scope: str, data: dict[str, Any]
        ) -> None:
            key = data["device_code"], request.form["code_challenge"]
            provider.devices[key] = DeviceCredentialDict(
                data, client_id=client_id, scope=scope
            )

    class Device(DeviceCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)

        def query_device_credential(self, device_code: str) -> object:
            challenge = create_s256_code_challenge(request.form["code_verifier"])
            return provider.devices.get((device_code, challenge))

        def query_user_grant(self, user_code: str) -> tuple[User, bool] | None:
            granted = provider.granted.get(user_code)
            return None if granted is None else (User(), granted)

        def should_slow_down(self, credential: object) -> bool:
            return False

    class Revoked(RevocationEndpoint):
        CLIENT_AUTH_METHODS = ("none",)

        def query_token(self, token_string: str, hint: str) -> Refresh | None:
            return provider.refreshes.get(token_string)

        def revoke_token(self, token: Refresh, request: object) -> None:
            del provider.refreshes[token.token]

    class Issuer(IssuerParameter):
        def get_issuer(self) -> str:
            return provider.issuer

    server.register_grant(Device)
    server.register_endpoint(Devices)
    server.register_endpoint(Revoked)
    server.register_extension(Issuer())
