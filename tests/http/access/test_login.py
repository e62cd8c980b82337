"""Signing in from a command line, by a device or a browser, and the tokens it keeps."""

from __future__ import annotations

import asyncio
import ssl
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.http.access import login
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.keys import ApiKey, new_key
from go_scheduler.http.access.login import (
    LoginError,
    LoginProvider,
    Logins,
    ProviderAwayError,
    RefusedError,
    TokenFile,
    fetch,
)
from go_scheduler.testing import ManualClock
from tests.http.access.house import PATHS, probing, served
from tests.http.access.provider import AUDIENCE, CLIENT
from tests.http.serving import get
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

    from go_scheduler.http.access.login import DeviceCode
    from tests.http.access.provider import Provider

SECOND = timedelta(seconds=1)
TLS = ssl.create_default_context()
READ = PATHS["jobs:read"]
SERVER = "https://tasks.example.org"
DISCOVERY = "/.well-known/openid-configuration"


@pytest.fixture(scope="module")
def server(served_provider: Provider) -> Iterator[str]:
    """The URL of a server that takes the provider's tokens."""
    issuer = OidcIssuer(
        issuer=served_provider.issuer, audience=AUDIENCE, client_id=CLIENT
    )

    def make(_: int) -> ASGIApp:
        return probing(access=BearerAccess(issuer=issuer, tls=TLS))

    with served(make) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def now() -> ManualClock:
    """A clock that stands still at the present time."""
    return ManualClock(SystemClock().now())


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "kept" / "tokens.json")


@pytest.fixture
def logins(file: TokenFile, now: ManualClock) -> Logins:
    return Logins(file, clock=now, tls=TLS)


@pytest.fixture
def known(oidc: Provider) -> dict[str, str]:
    """What a server need not be asked."""
    return {"issuer": oidc.issuer, "client_id": CLIENT, "scope": "openid jobs:read"}


def agrees(shown: DeviceCode) -> None:
    """What somebody does who is shown a code."""
    assert shown.complete_url is not None
    assert shown.code in shown.complete_url
    assert shown.complete_url.startswith(shown.url)
    assert get(shown.complete_url).status_code == 200


def nothing(_: object) -> None:
    """What somebody does who is not there."""


def browse(url: str) -> str:
    """What a browser shows in the end."""
    return get(url, follow_redirects=True).text


def asked_for(url: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}


class TestWholeWay:
    """From a server that says who its issuer is, to a request that it answers."""

    @pytest.mark.parametrize("way", ["device", "browser"])
    def test_whoever_signs_in_is_let_in_until_they_sign_out(
        self, oidc: Provider, server: str, file: TokenFile, way: str
    ) -> None:
        if way == "device":
            logins = Logins(file, clock=ManualClock(SystemClock().now()), tls=TLS)
            login = logins.login_by_device(server, agrees, scope="jobs:read")
        else:
            logins = Logins(file, tls=TLS)
            login = logins.login_by_browser(server, browse, scope="jobs:read")
        assert (login.issuer, login.client_id) == (oidc.issuer, CLIENT)
        token = logins.token(server)
        assert token == login.access
        answer = get(f"{server}{READ}", headers={"Authorization": f"Bearer {token}"})
        assert answer.json()["subject"] == "ann"
        assert token not in repr(login)
        assert len(oidc.refreshes) == 1
        assert logins.logout(f"{server}/")
        assert oidc.refreshes == {}
        assert logins.token(server) is None
        assert not logins.logout(server)

    def test_a_server_without_an_issuer_says_so(self) -> None:
        new = new_key()
        key = ApiKey(subject="a", hash=new.kept, scopes=[])

        async def asked() -> None:
            for access in (None, BearerAccess(keys=[key])):
                transport = httpx.ASGITransport(probing(access=access))
                async with httpx.AsyncClient(
                    transport=transport, base_url="http://localhost"
                ) as client:
                    path = "/.well-known/oauth-protected-resource"
                    answer = await client.get(path)
                    assert answer.status_code == 404
                    assert answer.json()["type"] == "urn:go_scheduler:no-issuer"

        asyncio.run(asked())

    def test_for_one_without_an_issuer_a_key_is_asked_for(self, logins: Logins) -> None:
        with (
            served(lambda _: probing()) as port,
            pytest.raises(LoginError, match="takes from GO_SCHEDULER_TOKEN"),
        ):
            logins.login_by_device(f"http://127.0.0.1:{port}", nothing)

    def test_a_server_says_what_it_takes(self, oidc: Provider, server: str) -> None:
        answer = get(f"{server}/.well-known/oauth-protected-resource")
        assert answer.json() == {
            "resource": server,
            "authorization_servers": [oidc.issuer],
            "scopes_supported": sorted(PATHS),
            "bearer_methods_supported": ["header"],
            "client_id": CLIENT,
        }

    def test_no_token_is_had_for_a_server_that_it_may_not_be_sent_to(
        self, logins: Logins, known: dict[str, str]
    ) -> None:
        with pytest.raises(LoginError, match="sent by https alone"):
            logins.login_by_device("http://tasks.example.org", nothing, **known)

    def test_a_server_that_names_no_client_needs_one_given(
        self, oidc: Provider, logins: Logins
    ) -> None:
        oidc.answers["/.well-known/oauth-protected-resource"] = {}
        with pytest.raises(LoginError, match="give a client"):
            logins.login_by_device(oidc.issuer, nothing)
        with pytest.raises(LoginError, match="issuer must be an https URL"):
            logins.login_by_device(oidc.issuer, nothing, client_id=CLIENT)


class TestByDevice:
    """RFC 8628."""

    def test_it_is_asked_as_often_as_the_issuer_wishes(
        self, oidc: Provider, logins: Logins, now: ManualClock, known: dict[str, str]
    ) -> None:
        oidc.polled += ["authorization_pending", "slow_down", "authorization_pending"]
        logins.login_by_device(SERVER, agrees, **known)
        assert oidc.polled == []
        assert now.elapsed() == (5 + 5 + 10 + 10) * SECOND

    def test_it_goes_on_while_the_issuer_is_away_and_asks_less(
        self, oidc: Provider, logins: Logins, now: ManualClock, known: dict[str, str]
    ) -> None:
        oidc.answers["/token"] = 502

        class Back(ManualClock):
            def wait(self, *args: Any) -> None:
                super().wait(*args)
                if self.elapsed() > 20 * SECOND:
                    oidc.answers.clear()

        back = Back(now.now())
        Logins(TokenFile(logins._file.path), clock=back, tls=TLS).login_by_device(
            SERVER, agrees, **known
        )
        assert back.elapsed() == (5 + 10 + 20) * SECOND

    def test_whoever_does_not_come_in_time_is_not_signed_in(
        self, oidc: Provider, logins: Logins, now: ManualClock, known: dict[str, str]
    ) -> None:
        oidc.polled += ["authorization_pending"] * 9
        oidc.answers["/device_authorization"] = {
            "user_code": "A",
            "device_code": "b",
            "verification_uri": f"{oidc.issuer}/device",
            "expires_in": 50,
        }
        with pytest.raises(LoginError, match="in time: log in again"):
            logins.login_by_device(SERVER, nothing, **known)
        assert now.elapsed() == 45 * SECOND
        assert oidc.polled == []
        assert logins.token(SERVER) is None

    def test_whoever_refuses_is_not_signed_in(
        self, oidc: Provider, logins: Logins, known: dict[str, str]
    ) -> None:
        def refuses(shown: DeviceCode) -> None:
            oidc.granted[shown.code] = False

        with pytest.raises(RefusedError) as refused:
            logins.login_by_device(SERVER, refuses, **known)
        assert refused.value.code == "access_denied"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"user_code": "\x1b"},
            {"verification_uri": "http://evil.example"},
            {"device_code": None},
        ],
    )
    def test_what_cannot_be_shown_or_trusted_is_not(
        self,
        oidc: Provider,
        logins: Logins,
        known: dict[str, str],
        wrong: dict[str, object],
    ) -> None:
        oidc.answers["/device_authorization"] = {
            "user_code": "A",
            "device_code": "b",
            "verification_uri": f"{oidc.issuer}/device",
        } | wrong
        with pytest.raises(LoginError, match="no code for a device"):
            logins.login_by_device(SERVER, nothing, **known)

    def test_what_an_issuer_leaves_out_is_as_the_rfc_has_it(
        self, oidc: Provider, logins: Logins, now: ManualClock, known: dict[str, str]
    ) -> None:
        oidc.answers["/device_authorization"] = {
            "user_code": "A\x1b[2J",
            "device_code": "b",
            "verification_uri": f"{oidc.issuer}/device",
            "interval": 0,
            "expires_in": 10**12,
        }
        seen: list[DeviceCode] = []
        with pytest.raises(LoginError):
            logins.login_by_device(SERVER, seen.append, **known)
        [shown] = seen
        assert (shown.code, shown.complete_url) == ("A[2J", None)
        assert shown.lasts == timedelta(minutes=30)
        assert oidc.asked["/token"] == 1


class TestByBrowser:
    """Code flow, with PKCE, state and a way back to this machine."""

    @pytest.fixture
    def logins(self, file: TokenFile) -> Logins:
        return Logins(file, tls=TLS)

    def test_what_is_asked_for_is_this_process_alone_to_have(
        self, oidc: Provider, logins: Logins, known: dict[str, str]
    ) -> None:
        seen: list[dict[str, str]] = []

        def browsed(url: str) -> None:
            seen.append(asked_for(url))
            assert "Close this page" in browse(url)

        logins.login_by_browser(SERVER, browsed, **known)
        logins.login_by_browser(SERVER, browsed, **known)
        for each in seen:
            assert each["code_challenge_method"] == "S256"
            assert each["redirect_uri"].startswith("http://127.0.0.1:")
            assert each["scope"] == "openid jobs:read"
        for secret in ("state", "code_challenge"):
            assert len({each[secret] for each in seen}) == 2
        assert oidc.codes == {}

    @pytest.mark.slow
    def test_only_the_answer_to_what_was_asked_is_taken(
        self, oidc: Provider, logins: Logins, known: dict[str, str]
    ) -> None:
        def browsed(url: str) -> None:
            asked = asked_for(url)
            back, right = asked["redirect_uri"], asked["state"]
            for wrong in (
                back,
                f"{back}?code=a&state=b&iss={oidc.issuer}",
                f"{back}?code=a&state={right}",
                f"{back}?code=a&state={right}&iss=https://evil.example",
                f"{back}x?code=a&state={right}&iss={oidc.issuer}",
                f"{back}?code=a&state=%ff&iss={oidc.issuer}",
            ):
                answer = get(wrong)
                assert answer.status_code == 400
                assert answer.headers["Cache-Control"] == "no-store"
            browse(url)
            # What comes behind it changes nothing.
            get(f"{back}?code=a&state={right}&iss={oidc.issuer}")

        assert logins.login_by_browser(SERVER, browsed, **known).access

    def test_an_issuer_may_not_say_who_it_is(
        self, oidc: Provider, logins: Logins, known: dict[str, str]
    ) -> None:
        found = get(f"{oidc.issuer}{DISCOVERY}").json()
        del found["authorization_response_iss_parameter_supported"]
        found["authorization_endpoint"] += "?realm=a"
        oidc.answers[DISCOVERY] = found
        assert logins.login_by_browser(SERVER, browse, **known).access

    def test_whoever_refuses_is_not_signed_in(
        self, oidc: Provider, logins: Logins, known: dict[str, str]
    ) -> None:
        oidc.granted[""] = False
        with pytest.raises(RefusedError, match="the issuer refuses") as refused:
            logins.login_by_browser(SERVER, browse, **known)
        assert refused.value.code == "access_denied"

    def test_an_answer_without_a_code_is_a_refusal(
        self, logins: Logins, oidc: Provider, known: dict[str, str]
    ) -> None:
        def browsed(url: str) -> None:
            asked = asked_for(url)
            back, state = asked["redirect_uri"], asked["state"]
            get(f"{back}?state={state}&iss={oidc.issuer}")

        with pytest.raises(RefusedError, match="the issuer refuses: no code"):
            logins.login_by_browser(SERVER, browsed, **known)

    def test_whoever_does_not_come_in_time_is_not_signed_in(
        self, file: TokenFile, now: ManualClock, known: dict[str, str]
    ) -> None:
        with pytest.raises(LoginError, match="in time: log in again"):
            Logins(file, clock=now, tls=TLS).login_by_browser(SERVER, nothing, **known)
        assert now.elapsed() == timedelta(minutes=5)


class TestKept:
    """The token that is sent, and the one that comes after it."""

    @pytest.fixture(autouse=True)
    def _signed_in(self, logins: Logins, known: dict[str, str]) -> None:
        logins.login_by_device(SERVER, agrees, **known)

    def test_a_token_that_expires_soon_is_followed_by_another(
        self, oidc: Provider, logins: Logins, now: ManualClock
    ) -> None:
        first = logins.token(SERVER)
        now.advance(timedelta(seconds=269))
        assert logins.token(SERVER) == first
        now.advance(SECOND)
        second = logins.token(SERVER)
        assert second not in (None, first)
        assert logins.token(SERVER) == second
        assert len(oidc.refreshes) == 1  # the one that was used up is gone

    def test_of_many_processes_one_has_the_next_token(
        self, oidc: Provider, file: TokenFile, now: ManualClock
    ) -> None:
        now.advance(timedelta(minutes=10))
        begin = threading.Barrier(4)
        found: list[str | None] = []

        def process() -> None:
            own = Logins(TokenFile(file.path), clock=now, tls=TLS)
            begin.wait(FAILED_AFTER)
            found.append(own.token(SERVER))

        threads = [threading.Thread(target=process) for _ in range(4)]
        before = oidc.asked["/token"]
        for each in threads:
            each.start()
        for each in threads:
            each.join(FAILED_AFTER)
        assert len(found) == 4
        assert len({*found}) == 1
        assert oidc.asked["/token"] == before + 1

    def test_a_login_that_was_revoked_has_to_be_made_again(
        self, oidc: Provider, logins: Logins, now: ManualClock
    ) -> None:
        oidc.refreshes.clear()
        now.advance(timedelta(minutes=10))
        with pytest.raises(LoginError, match="expired: log in again"):
            logins.token(SERVER)

    def test_while_the_issuer_is_away_it_can_be_tried_again(
        self, oidc: Provider, logins: Logins, now: ManualClock
    ) -> None:
        now.advance(timedelta(minutes=10))
        oidc.answers["/token"] = 500
        with pytest.raises(ProviderAwayError, match="answers 500"):
            logins.token(SERVER)
        oidc.answers.clear()
        assert logins.token(SERVER) is not None

    def test_without_a_token_for_the_next_there_is_none(
        self,
        oidc: Provider,
        logins: Logins,
        now: ManualClock,
        known: dict[str, str],
    ) -> None:
        oidc.answers["/token"] = {"token_type": "bearer", "access_token": "a"}
        logins.login_by_device(SERVER, agrees, **known)
        now.advance(timedelta(days=1))
        assert logins.token(SERVER) == "a"  # nobody has said how long it is good
        oidc.answers["/token"]["expires_in"] = 60
        logins.login_by_device(SERVER, agrees, **known)
        now.advance(timedelta(days=1))
        with pytest.raises(LoginError, match="has expired: log in again"):
            logins.token(SERVER)

    def test_an_issuer_may_let_the_same_be_used_again(
        self, oidc: Provider, logins: Logins, now: ManualClock, file: TokenFile
    ) -> None:
        before = file.get(SERVER)
        assert before is not None
        oidc.answers["/token"] = {"token_type": "Bearer", "access_token": "a"}
        now.advance(timedelta(minutes=10))
        assert logins.token(SERVER) == "a"
        after = file.get(SERVER)
        assert after is not None
        assert after.refresh == before.refresh

    def test_it_is_forgotten_also_while_the_issuer_is_away(
        self, oidc: Provider, logins: Logins
    ) -> None:
        oidc.answers[DISCOVERY] = 500
        assert logins.logout(SERVER)
        assert logins.token(SERVER) is None
        assert not logins.logout(SERVER)

    def test_it_is_forgotten_by_the_issuer_too(
        self, oidc: Provider, logins: Logins
    ) -> None:
        assert logins.logout(SERVER)
        assert oidc.refreshes == {}


class TestAnswers:
    """What an issuer may answer."""

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            ({"token_type": "mac", "access_token": "a"}, "no bearer token"),
            ({"token_type": "Bearer", "access_token": ""}, "no bearer token"),
            ({"token_type": "Bearer", "access_token": "a\nb"}, "no bearer token"),
            ({"token_type": "Bearer", "access_token": 7}, "no bearer token"),
            ("no JSON", "without a JSON object"),
            ("[]", "without a JSON object"),
            ("[" * 100_000, "without a JSON object"),
            ("x" * (256 * 1024 + 1), "answers more than"),
            (302, "without a JSON object"),
        ],
    )
    def test_what_is_no_token_is_not_kept(
        self, oidc: Provider, known: dict[str, str], answer: object, why: str
    ) -> None:
        oidc.answers["/token"] = answer
        with pytest.raises(LoginError, match=why):
            LoginProvider.discover(**known, tls=TLS).tokens()

    def test_an_error_says_what_it_is_without_what_a_terminal_obeys(
        self, oidc: Provider, known: dict[str, str]
    ) -> None:
        found = login._refusal(
            "u", 400, {"error": "bad", "error_description": "a\x1b[2Jb"}
        )
        assert (found.code, str(found)) == ("bad", "u refuses: a[2Jb")
        assert str(login._refusal("u", 404, {})) == "u refuses: 404"
        again = found.__reduce__()
        assert again == (RefusedError, ("bad", "u refuses: a[2Jb"))

    @pytest.mark.parametrize(
        ("spoil", "why"),
        [
            (lambda found: found | {"issuer": "https://evil"}, "is not about"),
            (lambda found: found | {"token_endpoint": 7}, "has no token_endpoint"),
            (
                lambda found: found | {"token_endpoint": "http://evil.example"},
                "has no token_endpoint",
            ),
        ],
    )
    def test_an_issuer_that_is_not_to_be_trusted_is_sent_nothing(
        self,
        oidc: Provider,
        known: dict[str, str],
        spoil: Callable[[dict[str, object]], dict[str, object]],
        why: str,
    ) -> None:
        oidc.answers[DISCOVERY] = spoil(get(f"{oidc.issuer}{DISCOVERY}").json())
        with pytest.raises(LoginError, match=why):
            LoginProvider.discover(**known, tls=TLS).tokens()

    def test_what_is_not_there_is_away(self) -> None:
        with pytest.raises(ProviderAwayError, match="cannot be reached"):
            fetch("http://127.0.0.1:1/")
