"""The checks of an OIDC issuer's token, and the caller that it makes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from joserfc.jwk import RSAKey

from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import at
from go_scheduler.http.access.issuer import LONGEST_TOKEN, OidcIssuer, Tokens
from go_scheduler.http.problems import Problem
from go_scheduler.testing import ManualClock
from tests.http.access.provider import AUDIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.http.access.caller import Caller
    from tests.http.access.provider import Provider

# The time of collection, which may be long ago.
NOW = int(SystemClock().now().timestamp())
DAY = 86_400
OWN = RSAKey.generate_key(2048, auto_kid=True)
TLS = ssl.create_default_context()
REALM = "realm_access.roles"
ALGORITHM = "it is not signed by an algorithm that is allowed"
WRONG = "its signature or contents are wrong"


class Server:
    """Checks the tokens of a provider."""

    def __init__(self, oidc: Provider, clock: ManualClock) -> None:
        self.oidc = oidc
        self.clock = clock

    def tokens(self, **options: Any) -> Tokens:
        issuer = OidcIssuer(issuer=self.oidc.issuer, audience=AUDIENCE, **options)
        return Tokens(issuer, self.clock, TLS)

    def caller(self, token: str, **options: Any) -> Caller:
        return asyncio.run(self.tokens(**options).caller_of(token))

    def refusal(self, token: str, **options: Any) -> str:
        """The reason why a token is not taken."""
        with pytest.raises(Problem) as problem:
            self.caller(token, **options)
        assert problem.value.status == 401
        headers = problem.value.headers or {}
        reason = problem.value.detail.removeprefix("the token is not taken: ")
        assert headers["WWW-Authenticate"] == (
            f'Bearer realm="go_scheduler", error="invalid_token",'
            f' error_description="{reason}"'
        )
        return reason


@pytest.fixture
def server(oidc: Provider, now: ManualClock) -> Server:
    return Server(oidc, now)


def part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def unsigned(header: dict[str, object], token: str) -> str:
    """The claims of a token with another header, and without a signature."""
    claims = token.split(".")[1]
    return f"{part(json.dumps(header).encode())}.{claims}."


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # for names few know yet
@pytest.mark.parametrize("algorithm", ["PS256", "ES256", "EdDSA"])
def test_the_configuration_chooses_the_algorithms(
    server: Server, oidc: Provider, algorithm: str
) -> None:
    oidc.rotate(algorithm)
    token = oidc.token({"alg": algorithm})
    assert server.caller(token).subject == "ann"
    assert server.refusal(token, algorithms=["RS256"]) == ALGORITHM


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 60}, "it has expired"),
        ({"nbf": NOW + DAY}, "it is not valid yet"),
        ({"iat": NOW + DAY}, "it is not valid yet"),
        ({"iss": "https://evil.example"}, "it is of another issuer"),
        ({"aud": "another-api"}, "it is for another audience"),
        ({"aud": ["another-api", "account"]}, "it is for another audience"),
        ({"typ": "ID"}, "it is no access token"),
        ({"typ": "Refresh"}, "it is no access token"),
        ({"sub": "a\nb"}, "its subject is no name"),
        ({"sub": ""}, "its subject is no name"),
        ({"sub": "a" * 201}, "its subject is no name"),
        ({"sub": 7}, WRONG),
        ({"exp": "tomorrow"}, "its exp is no time"),
        ({"exp": True}, "its exp is no time"),
        ({"exp": float("inf")}, "its exp is no time"),
        ({"exp": 10**400}, "its exp is no time"),
        ({"nbf": float("nan")}, "its nbf is no time"),
        ({"nbf": None}, "its nbf is no time"),
        *(
            ({"without": claim}, f"it lacks the claim {claim}")
            for claim in ("exp", "iss", "aud", "sub")
        ),
        ({"more": "x" * LONGEST_TOKEN}, "it has more than 16384 characters"),
    ],
)
def test_a_token_with_wrong_claims_is_refused(
    server: Server, oidc: Provider, claims: dict[str, Any], reason: str
) -> None:
    assert server.refusal(oidc.token(**claims)) == reason


@pytest.mark.parametrize(
    ("header", "claims"),
    [
        ({}, {}),
        ({}, {"without": "iat"}),
        ({}, {"without": "nbf"}),
        *(({"typ": each}, {}) for each in ("AT+JWT", "application/at+jwt", "JWT")),
    ],
)
def test_a_valid_token_is_taken(
    server: Server, oidc: Provider, header: dict[str, object], claims: dict[str, Any]
) -> None:
    caller = server.caller(oidc.token(header, **claims))
    assert (caller.subject, caller.scopes) == ("ann", {"jobs:read"})
    assert (caller.queues, caller.owners) == (None, None)


def test_clocks_may_differ_by_the_leeway(
    server: Server, oidc: Provider, now: ManualClock
) -> None:
    at_now = int(now.now().timestamp())
    token = oidc.token(exp=at_now - 20, nbf=at_now + 20, iat=at_now + 20)
    assert server.caller(token).subject == "ann"
    assert server.refusal(token, leeway=timedelta(0)) == "it has expired"
    assert server.refusal(oidc.token(exp=at_now - 31)) == "it has expired"


def test_a_token_that_is_remembered_is_checked_again(
    server: Server, oidc: Provider, now: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.http.access.issuer._MOST_SEEN", 2)
    tokens, token = server.tokens(), oidc.token()

    def take(taken: str) -> str:
        return asyncio.run(tokens.caller_of(taken)).subject

    for number in range(4):
        take(oidc.token(jti=str(number)))
    assert len(tokens._seen) == 2
    take(token)
    with pytest.raises(Problem, match="contents are wrong"):
        take(f"{token[:-6]}AAAAAA")
    oidc.rotate()
    now.advance(timedelta(minutes=2))
    take(token)
    new = oidc.token()
    take(new)  # The server fetches the new key, and the old one is withdrawn.
    with pytest.raises(Problem, match="its key is none of the issuer's"):
        take(token)
    now.advance(timedelta(minutes=6))
    with pytest.raises(Problem, match="it has expired"):
        take(new)


@pytest.mark.parametrize("algorithm", ["none", "None", "", None, 7, ["RS256"]])
def test_an_unsigned_token_is_refused(
    server: Server, oidc: Provider, algorithm: object
) -> None:
    header = {"alg": algorithm, "typ": "at+jwt", "kid": oidc.keys[0].kid}
    assert server.refusal(unsigned(header, oidc.token())) == ALGORITHM
    assert oidc.asked == {}


@pytest.mark.parametrize(
    "secret",
    [
        lambda key: key.as_pem(private=False),
        lambda key: key.as_der(private=False),
        lambda key: json.dumps(key.as_dict(private=False)).encode(),
    ],
    ids=["pem", "der", "jwk"],
)
def test_a_public_key_is_no_shared_secret(
    server: Server, oidc: Provider, secret: Callable[[Any], bytes]
) -> None:
    """Key confusion: HMAC with the issuer's public key, which everybody knows."""
    key = oidc.keys[0]
    header = {"alg": "HS256", "typ": "at+jwt", "kid": key.kid}
    message = unsigned(header, oidc.token()).removesuffix(".")
    signature = hmac.new(secret(key), message.encode(), hashlib.sha256).digest()
    assert server.refusal(f"{message}.{part(signature)}") == ALGORITHM


@pytest.mark.parametrize("place", ["jwk", "jku", "x5u", "kid"])
def test_a_key_that_a_token_brings_or_points_to_is_ignored(
    server: Server, oidc: Provider, place: str
) -> None:
    url, public = f"{oidc.issuer}/mine", OWN.as_dict(private=False)
    oidc.answers["/mine"] = {"keys": [public]}
    headers = {"jwk": public, "jku": url, "x5u": url, "kid": oidc.keys[0].kid}
    token = oidc.token({place: headers[place]}, key=OWN)
    assert server.refusal(token) in ("its key is none of the issuer's", WRONG)
    assert oidc.asked["/mine"] == 0


@pytest.mark.parametrize("typ", ["JWT", "id+jwt", "dpop+jwt", "logout+jwt", None])
def test_a_token_of_another_type_is_refused(
    server: Server, oidc: Provider, typ: str | None
) -> None:
    token = oidc.token({"typ": typ})
    assert server.refusal(token, types=["at+jwt"]) == "it is of another type"


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c", "e30.e30.", "W10.e30.e30", "e30.!.e30"]
)
def test_a_text_that_is_no_token_is_refused(
    server: Server, oidc: Provider, token: str
) -> None:
    assert server.refusal(token)
    assert oidc.asked == {}


def test_other_claims_and_a_critical_header_are_refused(
    server: Server, oidc: Provider
) -> None:
    head, _, signature = oidc.token().split(".")
    _, claims, _ = oidc.token(scope="admin").split(".")
    assert server.refusal(f"{head}.{claims}.{signature}") == WRONG
    header = {"alg": "RS256", "typ": "at+jwt", "crit": ["exp"], "exp": 1}
    refusal = server.refusal(unsigned(header, oidc.token()))
    assert refusal == "it is no JSON Web Token"


@pytest.mark.parametrize(
    "claims", [{"azp": "web", "client_id": "cli"}, {}, {"azp": ["cli"]}]
)
def test_the_configuration_chooses_the_clients(
    server: Server, oidc: Provider, claims: dict[str, Any]
) -> None:
    own: list[dict[str, Any]] = [{"azp": "cli"}, {"client_id": "cli"}]
    for each in own:
        token = oidc.token(**each)
        assert server.caller(token, clients=["cli"]).subject == "ann"
    refusal = server.refusal(oidc.token(**claims), clients=["cli"])
    assert refusal == "it was given to another client"


ROLES = {"scope": "", "realm_access": {"roles": ["operator", "workers", "offline"]}}
GRANTED = {"operator": ["jobs:read", "runs:write"]}


@pytest.mark.parametrize(
    ("claims", "options", "scopes"),
    [
        ({"scope": "jobs:read workers"}, {}, {"jobs:read", "workers"}),
        ({"scope": ["jobs:read", 7]}, {}, {"jobs:read"}),
        ({"scp": "runs:write"}, {}, {"runs:write", "jobs:read"}),
        ({"scope": "", "scp": ["jobs:write"]}, {}, {"jobs:write"}),
        ({"scope": {"jobs:read": True}}, {}, set()),
        ({"scope": "JOBS:READ jobs:* email"}, {}, set()),
        (ROLES, {"roles_claim": REALM}, {"workers"}),
        (ROLES, {"roles_claim": REALM, "roles": GRANTED}, {*GRANTED["operator"]}),
        (ROLES, {}, set()),
        (ROLES, {"roles_claim": "realm_access.none"}, set()),
    ],
)
def test_scopes_are_read_from_claims_and_roles(
    server: Server,
    oidc: Provider,
    claims: dict[str, Any],
    options: dict[str, Any],
    scopes: set[str],
) -> None:
    assert server.caller(oidc.token(**claims), **options).scopes == scopes


def test_a_path_may_lead_through_names_with_dots() -> None:
    claims = {
        "https://example.org/roles": ["a"],
        "resource_access": {"my.client": {"roles": ["b"]}, "my": {"client": 1}},
    }
    assert at(claims, "https://example.org/roles") == ["a"]
    assert at(claims, "resource_access.my.client.roles") == ["b"]
    assert at(claims, "resource_access.other.roles") is None


@pytest.mark.parametrize(
    ("claims", "allowed"),
    [
        ({"names": ["mail", "sms"]}, {"mail", "sms"}),
        ({"names": "mail"}, {"mail"}),
        ({"names": ["*"]}, None),
        ({"names": 7}, set()),
        ({}, set()),
    ],
)
def test_a_claim_restricts_a_token_and_without_it_to_nothing(
    server: Server, oidc: Provider, claims: dict[str, Any], allowed: set[str] | None
) -> None:
    token = oidc.token(**claims)
    caller = server.caller(token, queues_claim="names")
    assert (caller.queues, caller.owners) == (allowed, None)
    caller = server.caller(token, owners_claim="names")
    assert (caller.queues, caller.owners) == (None, allowed)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"issuer": "http://login.example.org"}, "issuer must be an https URL"),
        ({"audience": ""}, "audience must have"),
        ({"algorithms": ["RS256", "HS256"]}, "algorithms must be some of ES256"),
        ({"algorithms": ["none"]}, "algorithms must be some of ES256"),
        ({"algorithms": []}, "algorithms must be some of ES256"),
        ({"algorithms": "RS256"}, "algorithms must be a list of texts"),
        ({"types": []}, "types must name at least one"),
        ({"clients": "cli"}, "clients must be a list of texts"),
        ({"leeway": timedelta(-1)}, "leeway must be at least"),
        ({"keys_kept": timedelta(-1)}, "keys_kept must be at least"),
        ({"roles": {"a": ["admin"]}}, "roles need a roles_claim"),
        ({"roles_claim": REALM, "roles": {"a": ["root"]}}, "role a has 'root'"),
        ({"roles_claim": REALM, "roles": {"a": "admin"}}, "role a must have a list"),
    ],
)
def test_a_wrong_issuer_is_refused(wrong: dict[str, Any], why: str) -> None:
    right = {"issuer": "https://login.example.org", "audience": AUDIENCE}
    with pytest.raises(ConfigurationError, match=why):
        OidcIssuer(**(right | wrong))
