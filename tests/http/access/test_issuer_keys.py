"""The keys of an issuer are found, kept, and fetched again, but not too often."""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from joserfc.jwk import OctKey, RSAKey

from go_scheduler.http.access.issuer import IssuerKeys
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.testing import ManualClock
    from tests.http.access.provider import Provider

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
JWKS = "/jwks"
DISCOVERY = "/.well-known/openid-configuration"


@pytest.fixture
def keys(oidc: Provider, clock: ManualClock) -> IssuerKeys:
    tls = ssl.create_default_context()
    return IssuerKeys(oidc.issuer, clock=clock, kept=HOUR, tls=tls)


def found(keys: IssuerKeys, kid: str | None, algorithm: str = "RS256") -> bool:
    return asyncio.run(keys.find(kid, algorithm)) is not None


def all_find(keys: IssuerKeys, kid: str, count: int) -> bool:
    """Whether so many concurrent requests find the key."""

    async def ask() -> list[object]:
        return await asyncio.gather(*(keys.find(kid, "RS256") for _ in range(count)))

    return None not in asyncio.run(ask())


def is_away(keys: IssuerKeys, kid: str | None) -> bool:
    """Whether the answer is that the issuer is away."""
    with pytest.raises(Problem) as problem:
        found(keys, kid)
    assert problem.value.headers == {"Retry-After": "5"}
    return problem.value.status == 503


def test_many_tokens_have_the_keys_fetched_once(
    oidc: Provider, keys: IssuerKeys
) -> None:
    assert all_find(keys, oidc.keys[0].kid, 20)
    assert found(keys, oidc.keys[0].kid)
    assert oidc.asked == {DISCOVERY: 1, JWKS: 1}


def test_unknown_keys_have_them_fetched_once_a_minute(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    assert found(keys, oidc.keys[0].kid)
    for fetches in (2, 3):
        clock.advance(MINUTE)
        assert not any(found(keys, f"unknown-{number}") for number in range(10))
        assert oidc.asked[JWKS] == fetches


def test_a_new_key_is_found_and_the_old_one_is_gone(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    old = oidc.keys[0].kid
    assert found(keys, old)
    oidc.rotate()
    clock.advance(MINUTE)
    assert found(keys, old)
    assert all_find(keys, oidc.keys[0].kid, 5)
    assert not found(keys, old)


def test_a_withdrawn_key_is_good_for_ten_minutes_at_most(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    old = oidc.keys[0].kid
    assert found(keys, old)
    oidc.rotate()
    clock.advance(10 * MINUTE)
    assert not found(keys, old)


def test_while_the_issuer_is_away_its_keys_are_good_for_a_bounded_time(
    oidc: Provider,
    keys: IssuerKeys,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "go_scheduler.http")
    kid = oidc.keys[0].kid
    assert found(keys, kid)
    oidc.answers[JWKS] = 500
    clock.advance(HOUR - MINUTE)
    assert found(keys, kid)
    [line] = caplog.messages
    assert line.startswith(f"the keys of the issuer {oidc.issuer} cannot be fetched")
    assert line.endswith("/jwks answers 500")
    assert is_away(keys, "unknown")  # It may be a new key.
    clock.advance(MINUTE)
    assert is_away(keys, kid)
    asked = oidc.asked[JWKS]
    assert is_away(keys, kid)  # Nobody asks again at once.
    assert oidc.asked[JWKS] == asked
    oidc.answers.clear()
    clock.advance(timedelta(seconds=5))
    assert found(keys, kid)


def test_an_issuer_that_was_never_there_is_asked_again_soon(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    oidc.answers[DISCOVERY] = 503
    kid = oidc.keys[0].kid
    assert is_away(keys, kid)
    assert is_away(keys, kid)
    assert oidc.asked == {DISCOVERY: 1}
    oidc.answers.clear()
    clock.advance(timedelta(seconds=5))
    assert found(keys, kid)
    nobody = IssuerKeys("http://127.0.0.1:1", clock=clock, kept=HOUR)
    assert is_away(nobody, "kid")


def test_one_request_waits_for_the_issuer_and_the_others_go_on(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    kid = oidc.keys[0].kid
    assert found(keys, kid)
    clock.advance(11 * MINUTE)
    oidc.gate.clear()

    async def ask() -> None:
        try:
            one = asyncio.create_task(keys.find(kid, "RS256"))
            await asyncio.sleep(0)
            for _ in range(5):
                assert await keys.find(kid, "RS256") is not None
            assert not one.done()
        finally:
            oidc.gate.set()
        assert await one is not None

    asyncio.run(ask())


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
def test_a_strange_answer_is_as_none(
    oidc: Provider, keys: IssuerKeys, path: str, answer: Any
) -> None:
    if isinstance(answer, dict) and answer.get("issuer", "") is None:
        answer = answer | {"issuer": oidc.issuer}
    oidc.answers[path] = answer
    assert is_away(keys, oidc.keys[0].kid)


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
    oidc: Provider, keys: IssuerKeys, spoil: Callable[[Any], object]
) -> None:
    oidc.answers[JWKS] = {"keys": [spoil(oidc.keys[0])]}
    assert not found(keys, oidc.keys[0].kid)


def test_a_key_is_for_the_algorithms_of_its_kind_and_may_be_the_only_one(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    for algorithm, is_found in (("RS256", True), ("PS256", True), ("ES256", False)):
        assert found(keys, oidc.keys[0].kid, algorithm) is is_found
    # A token need not name the only key of the issuer.
    assert found(keys, None)
    oidc.keys.append(RSAKey.generate_key(2048, auto_kid=True))
    clock.advance(10 * MINUTE)
    assert not found(keys, None)
