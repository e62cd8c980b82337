"""What is checked of a token of an OIDC issuer, and whom it makes its caller."""

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
    from go_scheduler.http.access.caller import Caller
    from tests.http.access.provider import Provider

NOW = int(SystemClock().now().timestamp())
# Of when the tests were collected, which may be long ago.
DAY = 86_400
OWN = RSAKey.generate_key(2048, auto_kid=True)
TLS = ssl.create_default_context()
REALM = "realm_access.roles"


@pytest.fixture
def now() -> ManualClock:
    """A clock that stands still at the present time."""
    return ManualClock(SystemClock().now())


def tokens(oidc: Provider, clock: ManualClock, **options: Any) -> Tokens:
    issuer = OidcIssuer(issuer=oidc.issuer, audience=AUDIENCE, **options)
    return Tokens(issuer, clock, TLS)


def taken(oidc: Provider, clock: ManualClock, token: str, **options: Any) -> Caller:
    return asyncio.run(tokens(oidc, clock, **options).caller_of(token))


def refused(oidc: Provider, clock: ManualClock, token: str, **options: Any) -> str:
    """Why a token is not taken."""
    with pytest.raises(Problem) as problem:
        taken(oidc, clock, token, **options)
    assert problem.value.status == 401
    headers = problem.value.headers or {}
    reason = problem.value.detail.removeprefix("the token is not taken: ")
    assert headers["WWW-Authenticate"] == (
        f'Bearer realm="go_scheduler", error="invalid_token",'
        f' error_description="{reason}"'
    )
    return reason


def test_a_valid_token_is_taken(oidc: Provider, now: ManualClock) -> None:
    caller = taken(oidc, now, oidc.token(scope="openid jobs:read runs:write"))
    assert caller.subject == "ann"
    assert caller.scopes == {"jobs:read", "runs:write"}
    assert (caller.queues, caller.owners) == (None, None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # for names few know yet
@pytest.mark.parametrize("algorithm", ["PS256", "ES256", "EdDSA"])
def test_each_algorithm_is_taken_if_the_configuration_has_it(
    oidc: Provider, now: ManualClock, algorithm: str
) -> None:
    before = oidc.keys
    try:
        oidc.rotate(algorithm)
        token = oidc.token({"alg": algorithm})
        assert taken(oidc, now, token).subject == "ann"
        reason = refused(oidc, now, token, algorithms=["RS256"])
        assert reason == "it is not signed by an algorithm that is allowed"
    finally:
        oidc.keys = before


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
        ({"sub": 7}, "its signature or contents are wrong"),
        ({"exp": "tomorrow"}, "its exp is no time"),
        ({"exp": True}, "its exp is no time"),
        ({"exp": float("inf")}, "its exp is no time"),
        ({"exp": 10**400}, "its exp is no time"),
        ({"nbf": float("nan")}, "its nbf is no time"),
        ({"nbf": None}, "its nbf is no time"),
    ],
)
def test_a_token_whose_claims_are_wrong_is_not_taken(
    oidc: Provider, now: ManualClock, claims: dict[str, Any], reason: str
) -> None:
    assert refused(oidc, now, oidc.token(**claims)) == reason


@pytest.mark.parametrize("claim", ["exp", "iss", "aud", "sub"])
def test_a_token_without_what_it_must_have_is_not_taken(
    oidc: Provider, now: ManualClock, claim: str
) -> None:
    reason = refused(oidc, now, oidc.token(without=claim))
    assert reason == f"it lacks the claim {claim}"


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_token_need_not_say_since_when_it_is(
    oidc: Provider, now: ManualClock, claim: str
) -> None:
    assert taken(oidc, now, oidc.token(without=claim)).subject == "ann"


def test_clocks_may_be_apart_by_the_leeway(oidc: Provider, now: ManualClock) -> None:
    at_now = int(now.now().timestamp())
    token = oidc.token(exp=at_now - 20, nbf=at_now + 20, iat=at_now + 20)
    assert taken(oidc, now, token).subject == "ann"
    assert refused(oidc, now, token, leeway=timedelta(0)) == "it has expired"


def test_a_token_expires(oidc: Provider, now: ManualClock) -> None:
    known = tokens(oidc, now)
    token = oidc.token()
    asyncio.run(known.caller_of(token))
    now.advance(timedelta(minutes=6))
    with pytest.raises(Problem, match="it has expired"):
        asyncio.run(known.caller_of(token))


def test_a_token_that_was_taken_is_not_once_its_key_is_withdrawn(
    oidc: Provider, now: ManualClock
) -> None:
    before, known, token = oidc.keys, tokens(oidc, now), oidc.token()
    try:
        asyncio.run(known.caller_of(token))
        oidc.rotate()
        now.advance(timedelta(minutes=2))
        asyncio.run(known.caller_of(token))
        asyncio.run(known.caller_of(oidc.token()))  # by the new key, which is fetched
        with pytest.raises(Problem, match="its key is none of the issuer's"):
            asyncio.run(known.caller_of(token))
    finally:
        oidc.keys = before


def test_a_token_is_not_taken_for_another_that_has_its_beginning(
    oidc: Provider, now: ManualClock
) -> None:
    known, token = tokens(oidc, now), oidc.token()
    asyncio.run(known.caller_of(token))
    with pytest.raises(Problem, match="contents are wrong"):
        asyncio.run(known.caller_of(f"{token[:-6]}AAAAAA"))


def test_of_the_tokens_that_were_taken_the_last_are_remembered(
    oidc: Provider, now: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.http.access.issuer._MOST_SEEN", 2)
    known = tokens(oidc, now)
    for number in range(4):
        asyncio.run(known.caller_of(oidc.token(jti=str(number))))
    assert len(known._seen) == 2


def unsigned(header: dict[str, object], token: str) -> str:
    """Another header before the claims of a token, and no signature."""
    claims = token.split(".")[1]
    return f"{part(json.dumps(header).encode())}.{claims}."


def part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "", None, 7, ["RS256"]])
def test_a_token_that_nobody_has_signed_is_not_taken(
    oidc: Provider, now: ManualClock, algorithm: object
) -> None:
    header = {"alg": algorithm, "typ": "at+jwt", "kid": oidc.keys[0].kid}
    reason = refused(oidc, now, unsigned(header, oidc.token()))
    assert reason == "it is not signed by an algorithm that is allowed"
    assert oidc.asked == {}


@pytest.mark.parametrize("form", ["pem", "der", "jwk"])
def test_a_public_key_is_no_shared_secret(
    oidc: Provider, now: ManualClock, form: str
) -> None:
    """Key confusion: HMAC with the issuer's public key, which everybody knows."""
    key = oidc.keys[0]
    secrets = {
        "pem": key.as_pem(private=False),
        "der": key.as_der(private=False),
        "jwk": json.dumps(key.as_dict(private=False)).encode(),
    }
    header = {"alg": "HS256", "typ": "at+jwt", "kid": key.kid}
    message = unsigned(header, oidc.token()).removesuffix(".")
    signature = hmac.new(secrets[form], message.encode(), hashlib.sha256).digest()
    reason = refused(oidc, now, f"{message}.{part(signature)}")
    assert reason == "it is not signed by an algorithm that is allowed"


@pytest.mark.parametrize("place", ["jwk", "jku", "x5u", "kid"])
def test_a_key_that_a_token_brings_along_or_points_to_is_ignored(
    oidc: Provider, now: ManualClock, place: str
) -> None:
    url = f"{oidc.issuer}/mine"
    oidc.answers["/mine"] = {"keys": [OWN.as_dict(private=False)]}
    headers: dict[str, dict[str, Any]] = {
        "jwk": {"jwk": OWN.as_dict(private=False)},
        "jku": {"jku": url},
        "x5u": {"x5u": url},
        "kid": {"kid": oidc.keys[0].kid},
    }
    reason = refused(oidc, now, oidc.token(headers[place], key=OWN))
    assert reason in (
        "its key is none of the issuer's",
        "its signature or contents are wrong",
    )
    assert oidc.asked["/mine"] == 0


def test_a_token_that_was_changed_is_not_taken(
    oidc: Provider, now: ManualClock
) -> None:
    head, _, signature = oidc.token().split(".")
    _, claims, _ = oidc.token(scope="admin").split(".")
    reason = refused(oidc, now, f"{head}.{claims}.{signature}")
    assert reason == "its signature or contents are wrong"


@pytest.mark.parametrize("typ", ["JWT", "id+jwt", "dpop+jwt", "logout+jwt", None])
def test_a_token_of_another_type_is_not_taken(
    oidc: Provider, now: ManualClock, typ: str | None
) -> None:
    token = oidc.token({"typ": typ})
    assert refused(oidc, now, token, types=["at+jwt"]) == "it is of another type"


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT"])
def test_a_type_may_be_written_as_the_rfcs_allow(
    oidc: Provider, now: ManualClock, typ: str
) -> None:
    assert taken(oidc, now, oidc.token({"typ": typ})).subject == "ann"


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c", "e30.e30.", "W10.e30.e30", "e30.!.e30"]
)
def test_what_is_no_token_is_not_taken(
    oidc: Provider, now: ManualClock, token: str
) -> None:
    assert refused(oidc, now, token)
    assert oidc.asked == {}


def test_what_must_be_understood_is_not_passed_over(
    oidc: Provider, now: ManualClock
) -> None:
    header = {"alg": "RS256", "typ": "at+jwt", "crit": ["exp"], "exp": 1}
    assert refused(oidc, now, unsigned(header, oidc.token())) == (
        "it is no JSON Web Token"
    )


def test_a_token_that_is_too_long_is_not_looked_at(
    oidc: Provider, now: ManualClock
) -> None:
    token = oidc.token(more="x" * LONGEST_TOKEN)
    assert refused(oidc, now, token) == "it has more than 16384 characters"
    assert oidc.asked == {}


@pytest.mark.parametrize(
    ("claims", "is_taken"),
    [
        ({"azp": "cli"}, True),
        ({"client_id": "cli"}, True),
        ({"azp": "web", "client_id": "cli"}, False),
        ({}, False),
        ({"azp": ["cli"]}, False),
    ],
)
def test_a_token_may_have_to_be_of_some_clients(
    oidc: Provider, now: ManualClock, claims: dict[str, Any], is_taken: bool
) -> None:
    token = oidc.token(**claims)
    if is_taken:
        assert taken(oidc, now, token, clients=["cli"]).subject == "ann"
    else:
        reason = refused(oidc, now, token, clients=["cli"])
        assert reason == "it was given to another client"


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "jobs:read workers"}, {"jobs:read", "workers"}),
        ({"scope": ["jobs:read", 7]}, {"jobs:read"}),
        ({"scp": "runs:write"}, {"runs:write", "jobs:read"}),
        ({"scope": "", "scp": ["jobs:write"]}, {"jobs:write"}),
        ({"scope": {"jobs:read": True}}, set()),
        ({"scope": "JOBS:READ jobs:* email"}, set()),
    ],
)
def test_scopes_are_read_from_scope_and_scp(
    oidc: Provider, now: ManualClock, claims: dict[str, Any], scopes: set[str]
) -> None:
    assert taken(oidc, now, oidc.token(**claims)).scopes == scopes


@pytest.mark.parametrize(
    ("roles", "scopes"),
    [
        (None, {"workers"}),
        ({"operator": ["jobs:read", "runs:write"]}, {"jobs:read", "runs:write"}),
    ],
)
def test_roles_are_read_by_a_path(
    oidc: Provider,
    now: ManualClock,
    roles: dict[str, list[str]] | None,
    scopes: set[str],
) -> None:
    token = oidc.token(
        scope="", realm_access={"roles": ["operator", "workers", "offline_access"]}
    )
    caller = taken(oidc, now, token, roles_claim=REALM, roles=roles)
    assert scopes <= caller.scopes
    assert ("workers" in caller.scopes) is (roles is None)
    assert taken(oidc, now, token).scopes == set()
    assert taken(oidc, now, token, roles_claim="realm_access.none").scopes == set()


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
        ({"queues": ["mail", "sms"]}, {"mail", "sms"}),
        ({"queues": "mail"}, {"mail"}),
        ({"queues": ["*"]}, None),
        ({"queues": 7}, set()),
        ({}, set()),
    ],
)
def test_a_token_may_be_restricted_by_a_claim_and_to_nothing_without_it(
    oidc: Provider,
    now: ManualClock,
    claims: dict[str, Any],
    allowed: set[str] | None,
) -> None:
    caller = taken(oidc, now, oidc.token(**claims), queues_claim="queues")
    assert (caller.queues, caller.owners) == (allowed, None)
    owners = {"owners": claims["queues"]} if claims else {}
    caller = taken(oidc, now, oidc.token(**owners), owners_claim="owners")
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
def test_an_issuer_that_cannot_be_is_refused(wrong: dict[str, Any], why: str) -> None:
    right = {"issuer": "https://login.example.org", "audience": AUDIENCE}
    with pytest.raises(ConfigurationError, match=why):
        OidcIssuer(**(right | wrong))
