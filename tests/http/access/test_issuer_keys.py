"""An issuer's keys are found, kept, and fetched anew, but never too often."""

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
    from collections.abc import Callable, Iterator

    from go_scheduler.testing import ManualClock
    from tests.http.access.provider import Provider

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TLS = ssl.create_default_context()
JWKS = "/jwks"
DISCOVERY = "/.well-known/openid-configuration"


@pytest.fixture
def keys(oidc: Provider, clock: ManualClock) -> IssuerKeys:
    return IssuerKeys(oidc.issuer, clock=clock, kept=HOUR, tls=TLS)


@pytest.fixture(autouse=True)
def _same_keys(oidc: Provider) -> Iterator[None]:
    before = oidc.keys
    yield
    oidc.keys = before


def found(keys: IssuerKeys, kid: str | None, algorithm: str = "RS256") -> bool:
    return asyncio.run(keys.find(kid, algorithm)) is not None


def away(keys: IssuerKeys, kid: str | None) -> bool:
    """Whether it is said that the issuer is away."""
    with pytest.raises(Problem) as problem:
        found(keys, kid)
    assert problem.value.headers == {"Retry-After": "5"}
    return problem.value.status == 503


def test_they_are_fetched_once_for_many_tokens(
    oidc: Provider, keys: IssuerKeys
) -> None:
    for _ in range(5):
        assert found(keys, oidc.keys[0].kid)
    assert oidc.asked == {DISCOVERY: 1, JWKS: 1}


def test_many_at_once_have_them_fetched_once(oidc: Provider, keys: IssuerKeys) -> None:
    async def all_of_them() -> list[object]:
        kid = oidc.keys[0].kid
        return await asyncio.gather(*(keys.find(kid, "RS256") for _ in range(20)))

    assert None not in asyncio.run(all_of_them())
    assert oidc.asked[JWKS] == 1


def test_an_unknown_key_has_them_fetched_once_a_minute_at_most(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    assert found(keys, oidc.keys[0].kid)
    clock.advance(MINUTE)
    for number in range(10):
        assert not found(keys, f"unknown-{number}")
    assert oidc.asked[JWKS] == 2
    clock.advance(MINUTE)
    assert not found(keys, "unknown")
    assert oidc.asked[JWKS] == 3


def test_a_new_key_is_found_when_a_token_names_it_and_the_old_one_is_gone(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    old = oidc.keys[0].kid
    assert found(keys, old)
    oidc.rotate()
    clock.advance(MINUTE)
    assert found(keys, old)
    assert found(keys, oidc.keys[0].kid)
    assert not found(keys, old)


def test_all_who_come_with_a_new_key_at_once_are_let_in(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    assert found(keys, oidc.keys[0].kid)
    oidc.rotate()
    clock.advance(MINUTE)

    async def all_of_them() -> list[object]:
        kid = oidc.keys[0].kid
        return await asyncio.gather(*(keys.find(kid, "RS256") for _ in range(5)))

    assert None not in asyncio.run(all_of_them())


def test_a_key_that_was_withdrawn_is_good_for_ten_minutes_at_most(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    old = oidc.keys[0].kid
    assert found(keys, old)
    oidc.rotate()
    clock.advance(10 * MINUTE)
    assert not found(keys, old)


def test_while_the_issuer_is_away_its_keys_go_on_for_a_bounded_time(
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
    assert away(keys, "unknown")  # perhaps it is a new one
    clock.advance(MINUTE)
    assert away(keys, kid)
    asked = oidc.asked[JWKS]
    assert away(keys, kid)  # and nobody asks again at once
    assert oidc.asked[JWKS] == asked
    oidc.answers.clear()
    clock.advance(timedelta(seconds=5))
    assert found(keys, kid)


def test_an_issuer_that_was_never_there_is_asked_again_soon(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    oidc.answers[DISCOVERY] = 503
    kid = oidc.keys[0].kid
    assert away(keys, kid)
    assert away(keys, kid)
    assert oidc.asked == {DISCOVERY: 1}
    oidc.answers.clear()
    clock.advance(timedelta(seconds=5))
    assert found(keys, kid)


def test_an_issuer_that_cannot_be_reached_is_away(clock: ManualClock) -> None:
    nobody = IssuerKeys("http://127.0.0.1:1", clock=clock, kept=HOUR)
    assert away(nobody, "kid")


def test_nobody_else_waits_while_one_waits_for_the_issuer(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    kid = oidc.keys[0].kid
    assert found(keys, kid)
    clock.advance(11 * MINUTE)
    oidc.gate.clear()

    async def one_and_others() -> None:
        try:
            one = asyncio.create_task(keys.find(kid, "RS256"))
            await asyncio.sleep(0)
            for _ in range(5):
                assert await keys.find(kid, "RS256") is not None
            assert not one.done()
        finally:
            oidc.gate.set()
        assert await one is not None

    asyncio.run(one_and_others())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda oidc: {DISCOVERY: 302},
        lambda oidc: {DISCOVERY: "no JSON"},
        lambda oidc: {DISCOVERY: "[" * 100_000},
        lambda oidc: {DISCOVERY: "[]"},
        lambda oidc: {DISCOVERY: '"\\ud800'},
        lambda oidc: {DISCOVERY: {"issuer": "https://evil.example"}},
        lambda oidc: {DISCOVERY: {"issuer": oidc.issuer}},
        lambda oidc: {DISCOVERY: {"issuer": oidc.issuer, "jwks_uri": "file:///etc/x"}},
        lambda oidc: {
            DISCOVERY: {"issuer": oidc.issuer, "jwks_uri": "http://example.org/jwks"}
        },
        lambda oidc: {JWKS: 302},
        lambda oidc: {JWKS: {}},
        lambda oidc: {JWKS: {"keys": {}}},
        lambda oidc: {JWKS: {"keys": [{}] * 101}},
        lambda oidc: {JWKS: "x" * (256 * 1024 + 1)},
    ],
)
def test_what_is_no_answer_of_an_issuer_is_not_taken_for_one(
    oidc: Provider, keys: IssuerKeys, spoil: Callable[[Provider], dict[str, Any]]
) -> None:
    oidc.answers |= spoil(oidc)
    assert away(keys, oidc.keys[0].kid)


def as_dict(oidc: Provider) -> dict[str, Any]:
    known: dict[str, Any] = oidc.keys[0].as_dict(private=False)
    return known


@pytest.mark.parametrize(
    "spoil",
    [
        lambda oidc: as_dict(oidc) | {"use": "enc"},
        lambda oidc: as_dict(oidc) | {"key_ops": ["encrypt"]},
        lambda oidc: as_dict(oidc) | {"key_ops": 7},
        lambda oidc: as_dict(oidc) | {"alg": "RS512"},
        lambda oidc: as_dict(oidc) | {"n": 7},
        lambda oidc: as_dict(oidc) | {"kty": "EC"},
        lambda oidc: as_dict(oidc) | {"kid": "another"},
        lambda oidc: oidc.keys[0].as_dict(private=True),
        lambda oidc: OctKey.generate_key(256, {"kid": oidc.keys[0].kid}).as_dict(),
        lambda oidc: "key",
    ],
)
def test_a_key_that_is_not_for_signatures_is_none(
    oidc: Provider, keys: IssuerKeys, spoil: Callable[[Provider], object]
) -> None:
    oidc.answers[JWKS] = {"keys": [spoil(oidc)]}
    assert not found(keys, oidc.keys[0].kid)


def test_a_key_is_for_the_algorithms_of_its_kind(
    oidc: Provider, keys: IssuerKeys
) -> None:
    kid = oidc.keys[0].kid
    assert found(keys, kid, "RS256")
    assert found(keys, kid, "PS256")
    assert not found(keys, kid, "ES256")


def test_a_token_that_names_no_key_is_taken_where_there_is_but_one(
    oidc: Provider, keys: IssuerKeys, clock: ManualClock
) -> None:
    assert found(keys, None)
    oidc.keys.append(RSAKey.generate_key(2048, auto_kid=True))
    clock.advance(10 * MINUTE)
    assert not found(keys, None)
    oidc.keys.pop()
