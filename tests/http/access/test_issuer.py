"""Callers with an issuer's tokens: its keys, the checks of a token, and its caller."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import ssl
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from joserfc.jwk import OctKey, RSAKey

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import NoticeGiven, hears
from go_scheduler.http.access.authentication import BearerAccess
from go_scheduler.http.access.caller import at
from go_scheduler.http.access.issuer import (
    LONGEST_TOKEN,
    IssuerKeys,
    OidcIssuer,
    Tokens,
)
from go_scheduler.http.access.login import (
    LoginProvider,
    Logins,
    ProviderAwayError,
    TokenFile,
)
from go_scheduler.http.problems import Problem
from go_scheduler.testing import ManualClock
from tests.http.access.house import PATHS, Key, probing
from tests.http.access.provider import AUDIENCE, CLIENT, provider
from tests.http.certificates import certificate
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from go_scheduler.http.access.caller import Caller
    from tests.http.access.provider import Provider


MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
JWKS = "/jwks"
DISCOVERY = "/.well-known/openid-configuration"


class Keys:
    """The keys of a provider, as a server fetches them; ``kid`` is its first one."""

    def __init__(self, oidc: Provider, clock: ManualClock) -> None:
        self.oidc, self.clock = oidc, clock
        self.kid = oidc.keys[0].kid
        tls = ssl.create_default_context()
        self.keys = IssuerKeys(oidc.issuer, clock=clock, kept=HOUR, tls=tls)

    def found(self, kid: str | None, algorithm: str = "RS256") -> bool:
        return asyncio.run(self.keys.find(kid, algorithm)) is not None

    def is_away(self, kid: str) -> bool:
        """Whether the answer is that the issuer is away."""
        with pytest.raises(Problem) as problem:
            self.found(kid)
        assert problem.value.headers == {"Retry-After": "5"}
        return problem.value.status == 503


@pytest.fixture
def keys(oidc: Provider, clock: ManualClock) -> Keys:
    return Keys(oidc, clock)


def test_the_keys_are_fetched_once_and_for_unknown_ones_once_a_minute(
    keys: Keys,
) -> None:
    async def ask() -> list[object]:
        at_once = (keys.keys.find(keys.kid, "RS256") for _ in range(20))
        return await asyncio.gather(*at_once)

    assert None not in asyncio.run(ask())
    assert keys.found(keys.kid)
    assert keys.oidc.asked == {DISCOVERY: 1, JWKS: 1}
    for fetches in (2, 3):
        keys.clock.advance(MINUTE)
        assert not any(keys.found(f"unknown-{number}") for number in range(10))
        assert keys.oidc.asked[JWKS] == fetches


def test_a_withdrawn_key_is_good_for_ten_minutes_at_most(keys: Keys) -> None:
    assert keys.found(keys.kid)
    keys.oidc.rotate()
    keys.clock.advance(10 * MINUTE)
    assert not keys.found(keys.kid)


def test_while_the_issuer_is_away_its_keys_are_good_for_a_bounded_time(
    keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "go_scheduler.http")
    assert keys.found(keys.kid)
    keys.oidc.answers[JWKS] = 500
    keys.clock.advance(HOUR - MINUTE)
    assert keys.found(keys.kid)
    [line] = caplog.messages
    issuer = keys.oidc.issuer
    assert line.startswith(f"the keys of the issuer {issuer} cannot be fetched")
    assert line.endswith("/jwks answers 500")
    assert keys.is_away("unknown")  # It may be a new key.
    keys.clock.advance(MINUTE)
    assert keys.is_away(keys.kid)
    asked = keys.oidc.asked[JWKS]
    assert keys.is_away(keys.kid)  # Nobody asks again at once.
    assert keys.oidc.asked[JWKS] == asked
    keys.oidc.answers.clear()
    keys.clock.advance(timedelta(seconds=5))
    assert keys.found(keys.kid)


def test_an_issuer_that_was_never_there_is_asked_again_soon(keys: Keys) -> None:
    keys.oidc.answers[DISCOVERY] = 503
    assert keys.is_away(keys.kid)
    assert keys.is_away(keys.kid)
    assert keys.oidc.asked == {DISCOVERY: 1}
    keys.oidc.answers.clear()
    keys.clock.advance(timedelta(seconds=5))
    assert keys.found(keys.kid)
    keys.keys = IssuerKeys("http://127.0.0.1:1", clock=keys.clock, kept=HOUR)
    assert keys.is_away("kid")


def test_one_request_waits_for_the_issuer_and_the_others_go_on(keys: Keys) -> None:
    assert keys.found(keys.kid)
    keys.clock.advance(11 * MINUTE)
    keys.oidc.gate.clear()

    async def ask() -> None:
        find = partial(keys.keys.find, keys.kid, "RS256")
        try:
            one = asyncio.create_task(find())
            await asyncio.sleep(0)
            for _ in range(5):
                assert await find() is not None
            assert not one.done()
        finally:
            keys.oidc.gate.set()
        assert await one is not None

    asyncio.run(ask())


def test_nobody_waits_long_for_an_issuer_that_does_not_answer(
    keys: Keys, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("go_scheduler.http.access.issuer._IN_ALL", 0.05)
    keys.oidc.gate.clear()
    try:
        assert keys.is_away(keys.kid)
    finally:
        keys.oidc.gate.set()
    assert caplog.messages[0].endswith("cannot be fetched: TimeoutError: ")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (DISCOVERY, 302),
        (DISCOVERY, "no JSON"),
        (DISCOVERY, "[" * 100_000),
        (DISCOVERY, "[]"),
        (DISCOVERY, '"\\ud800'),
        (DISCOVERY, {"issuer": "https://evil.example"}),
        (DISCOVERY, {"issuer": None}),
        (DISCOVERY, {"issuer": None, "jwks_uri": "file:///etc/x"}),
        (DISCOVERY, {"issuer": None, "jwks_uri": "http://example.org/jwks"}),
        (JWKS, 302),
        (JWKS, {}),
        (JWKS, {"keys": {}}),
        (JWKS, {"keys": [{}] * 101}),
        (JWKS, "x" * (256 * 1024 + 1)),
    ],
)
def test_a_strange_answer_is_as_none(keys: Keys, path: str, answer: Any) -> None:
    if isinstance(answer, dict) and answer.get("issuer", "") is None:
        answer = answer | {"issuer": keys.oidc.issuer}
    keys.oidc.answers[path] = answer
    assert keys.is_away(keys.kid)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key.as_dict(private=False) | {"use": "enc"},
        lambda key: key.as_dict(private=False) | {"key_ops": ["encrypt"]},
        lambda key: key.as_dict(private=False) | {"key_ops": 7},
        lambda key: key.as_dict(private=False) | {"alg": "RS512"},
        lambda key: key.as_dict(private=False) | {"n": 7},
        lambda key: key.as_dict(private=False) | {"kty": "EC"},
        lambda key: key.as_dict(private=False) | {"kid": "another"},
        lambda key: key.as_dict(private=True),
        lambda key: OctKey.generate_key(256, {"kid": key.kid}).as_dict(),
        lambda key: "key",
    ],
)
def test_only_public_keys_for_signatures_are_taken(
    keys: Keys, spoil: Callable[[Any], object]
) -> None:
    keys.oidc.answers[JWKS] = {"keys": [spoil(keys.oidc.keys[0])]}
    assert not keys.found(keys.kid)


def test_a_key_is_for_the_algorithms_of_its_kind_and_may_be_the_only_one(
    keys: Keys,
) -> None:
    for algorithm, is_found in (("RS256", True), ("PS256", True), ("ES256", False)):
        assert keys.found(keys.kid, algorithm) is is_found
    # A token need not name the only key of the issuer.
    assert keys.found(None)
    keys.oidc.keys.append(RSAKey.generate_key(2048, auto_kid=True))
    keys.clock.advance(10 * MINUTE)
    assert not keys.found(None)


# The time of collection, which may be long ago.
NOW = int(SystemClock().now().timestamp())
DAY = 86_400
OWN = RSAKey.generate_key(2048, auto_kid=True)
TLS = ssl.create_default_context()
REALM = "realm_access.roles"
ALGORITHM = "it is not signed by an algorithm that is allowed"
WRONG = "its signature or contents are wrong"
TYPE = "it is of another type"


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


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        *(({"alg": each}, ALGORITHM) for each in ("none", "", None, 7, ["RS256"])),
        *(({"typ": each}, TYPE) for each in ("JWT", "id+jwt", "dpop+jwt", None)),
        ({"crit": ["exp"], "exp": 1}, "it is no JSON Web Token"),
    ],
)
def test_a_token_with_a_wrong_header_is_refused(
    server: Server, oidc: Provider, header: dict[str, object], reason: str
) -> None:
    head = {"alg": "RS256", "typ": "at+jwt", "kid": oidc.keys[0].kid} | header
    assert server.refusal(unsigned(head, oidc.token()), types=["at+jwt"]) == reason
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


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c", "e30.e30.", "W10.e30.e30", "e30.!.e30"]
)
def test_a_text_that_is_no_token_is_refused(
    server: Server, oidc: Provider, token: str
) -> None:
    assert server.refusal(token)
    assert oidc.asked == {}


def test_the_claims_of_another_token_are_refused(
    server: Server, oidc: Provider
) -> None:
    head, _, signature = oidc.token().split(".")
    _, claims, _ = oidc.token(scope="admin").split(".")
    assert server.refusal(f"{head}.{claims}.{signature}") == WRONG


@pytest.mark.parametrize(
    "claims", [{"azp": "web", "client_id": "cli"}, {}, {"azp": ["cli"]}]
)
def test_the_configuration_chooses_the_clients(
    server: Server, oidc: Provider, claims: dict[str, Any]
) -> None:
    own: list[dict[str, Any]] = [{"azp": "cli"}, {"client_id": "cli"}]
    for each in own:
        assert server.caller(oidc.token(**each), clients=["cli"]).subject == "ann"
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


READ, RUN, WORK = PATHS["jobs:read"], PATHS["runs:write"], PATHS["workers"]
KEY = Key("worker", scopes=["workers"])


def access(oidc: Provider) -> BearerAccess:
    issuer = OidcIssuer(
        issuer=oidc.issuer,
        audience=AUDIENCE,
        roles_claim="realm_access.roles",
        roles={"operator": ["runs:write"]},
        queues_claim="queues",
    )
    tls = ssl.create_default_context()
    return BearerAccess(keys=[KEY.known], issuer=issuer, tls=tls)


def statuses(client: Client, known: BearerAccess, token: str, *paths: str) -> list[int]:
    headers = {"Authorization": f"Bearer {token}"}
    with Calling(probing(client, access=known), headers=headers) as http:
        return [http.get(each).status_code for each in paths]


def test_people_come_with_tokens_and_workers_with_keys(oidc: Provider) -> None:
    person = oidc.token(realm_access={"roles": ["operator"]}, queues=["mail"])
    paths = (READ, RUN, WORK, f"{READ}?queue=mail", f"{READ}?queue=sms")
    client, known = Client(MemoryStore()), access(oidc)
    assert statuses(client, known, person, *paths) == [200, 200, 403, 200, 403]
    assert statuses(client, known, KEY.text, *paths[:3]) == [403, 403, 200]
    other = oidc.token(iss="https://evil.example")
    assert statuses(client, known, other, READ) == [401]


def test_keys_are_taken_while_the_issuer_is_away_and_listeners_hear_of_it(
    oidc: Provider, clock: ManualClock
) -> None:
    heard: list[NoticeGiven] = []
    hear = hears(NoticeGiven)(heard.append)
    client = Scheduler(None, MemoryStore(clock), clock=clock, listeners=[hear])
    oidc.answers["/jwks"] = 500
    known = access(oidc)
    assert statuses(client, known, oidc.token(), READ) == [503]
    assert statuses(client, known, KEY.text, WORK) == [200]
    assert any("cannot be fetched" in each.text for each in heard)


@pytest.mark.slow
def test_an_issuer_needs_a_certificate_that_is_trusted(
    tmp_path: Path, clock: ManualClock
) -> None:
    paths = certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=str(paths[0]))
    with provider(paths) as oidc:
        assert oidc.issuer.startswith("https://")
        issuer = OidcIssuer(issuer=oidc.issuer, audience=AUDIENCE)
        for tls, status in ((None, 503), (trusted, 200)):
            bearer = BearerAccess(issuer=issuer, tls=tls)
            client = Client(MemoryStore())
            assert statuses(client, bearer, oidc.token(), READ) == [status]
        file = TokenFile(tmp_path / "tokens.json")
        known = {"issuer": oidc.issuer, "client_id": CLIENT}
        shown: list[object] = []
        with pytest.raises(ProviderAwayError, match="CERTIFICATE_VERIFY_FAILED"):
            Logins(file, clock=clock).login_by_device(
                "https://tasks.example.org", shown.append, **known
            )
        assert shown == []
        found = LoginProvider.discover(**known, scope="openid", tls=trusted)
        form = {"scope": "openid", "code_challenge": "a"}
        assert found.ask("device_authorization", **form)["device_code"]
