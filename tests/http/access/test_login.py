"""Sign in from a command line, by a device or a browser, and keep the tokens."""

from __future__ import annotations

import os
import ssl
import stat
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.http.access.authentication import BearerAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.login import (
    Login,
    LoginError,
    LoginProvider,
    Logins,
    ProviderAwayError,
    RefusedError,
    TokenFile,
)
from go_scheduler.testing import ManualClock
from go_scheduler.testing.clock import START
from tests.http.access.house import PATHS, Key, probing, served, with_keys
from tests.http.access.provider import AUDIENCE, CLIENT
from tests.http.serving import Calling, get, is_problem
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from go_scheduler.http.access.login import DeviceCode
    from tests.http.access.provider import Provider


SERVER = "https://tasks.example.org"
LOGIN = Login(
    issuer="https://login.example.org",
    client_id="cli",
    scope="openid",
    access="secret-one",
    refresh="secret-two",
    expires_at=START + timedelta(microseconds=1),
)


@pytest.fixture(params=[0o000, 0o022])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_nobody_else_may_read_it_whatever_the_umask(file: TokenFile) -> None:
    file.put(SERVER, LOGIN)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    with file.locked():
        pass
    assert [each.name for each in sorted(file.path.parent.iterdir())] == [
        "tokens.json",
        "tokens.json.lock",
    ]


def test_what_is_kept_comes_back_by_its_server(file: TokenFile) -> None:
    assert "secret" not in repr(LOGIN)
    assert file.get(SERVER) is None
    file.put(f"{SERVER}/", LOGIN)
    file.put("http://127.0.0.1:8710", LOGIN)
    assert file.get("https://TASKS.example.org") == LOGIN
    assert file.remove(SERVER)
    assert not file.remove(SERVER)
    assert file.get(SERVER) is None
    assert file.get("http://127.0.0.1:8710") == LOGIN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_read_is_not_used(file: TokenFile, mode: int) -> None:
    file.put(SERVER, LOGIN)
    file.path.chmod(mode)
    with pytest.raises(LoginError, match="chmod 600"):
        file.get(SERVER)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"a": {"access": "secret-one"}}', "\xff"]
)
def test_a_file_that_is_none_of_ours_is_an_error_that_shows_nothing_of_it(
    file: TokenFile, text: str
) -> None:
    file.put(SERVER, LOGIN)
    file.path.write_text(text, encoding="latin-1")
    with pytest.raises(LoginError, match="remove it, and log in again") as error:
        file.get(SERVER)
    assert "secret" not in str(error.value)
    assert error.value.__suppress_context__


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = TokenFile(tmp_path / "file" / "tokens.json")
    with pytest.raises(LoginError, match="cannot be"):
        file.put(SERVER, LOGIN)
    with pytest.raises(LoginError, match="cannot be written"):
        file._write({})
    with pytest.raises(LoginError, match="cannot be written"), file.locked():
        pass


def test_it_is_in_the_folder_for_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert TokenFile().path == tmp_path / "go_scheduler/tokens.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TokenFile().path == tmp_path / ".config/go_scheduler/tokens.json"


SECOND = timedelta(seconds=1)
TLS = ssl.create_default_context()
DISCOVERY = "/.well-known/openid-configuration"
METADATA = "/.well-known/oauth-protected-resource"
TOKEN = "/token"
PENDING = "authorization_pending"


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "kept" / "tokens.json")


class House:
    """A command line that signs in at a provider, and the file of its tokens."""

    def __init__(self, oidc: Provider, file: TokenFile, clock: ManualClock) -> None:
        self.oidc, self.file, self.clock = oidc, file, clock
        self.logins = Logins(file, clock=clock, tls=TLS)
        # The settings that the server would answer.
        self.known = {
            "issuer": oidc.issuer,
            "client_id": CLIENT,
            "scope": "openid jobs:read",
        }

    def by_device(self, person: Callable[[DeviceCode], object]) -> None:
        self.logins.login_by_device(SERVER, person, **self.known)

    def by_browser(self, person: Callable[[str], object]) -> Login:
        # A browser needs the clock of the system.
        logins = Logins(self.file, tls=TLS)
        return logins.login_by_browser(SERVER, person, **self.known)

    def token(self) -> str | None:
        return self.logins.token(SERVER)

    def kept(self) -> Login:
        login = self.file.get(SERVER)
        assert login is not None
        return login

    def answer_device(self, **changed: object) -> None:
        """Have the provider give this for a device."""
        uri = f"{self.oidc.issuer}/device"
        answer = {"user_code": "A", "device_code": "b", "verification_uri": uri}
        self.oidc.answers["/device_authorization"] = answer | changed


@pytest.fixture
def house(oidc: Provider, file: TokenFile, now: ManualClock) -> House:
    return House(oidc, file, now)


def agree(shown: DeviceCode) -> None:
    """A person who agrees."""
    assert shown.complete_url is not None
    assert shown.code in shown.complete_url
    assert shown.complete_url.startswith(shown.url)
    assert get(shown.complete_url).status_code == 200


def ignore(_: object) -> None:
    """A person who is not there."""


def browse(url: str) -> str:
    """The page that a browser shows in the end."""
    return get(url, follow_redirects=True).text


def query_of(url: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}


def test_a_server_says_who_gives_tokens(oidc: Provider) -> None:
    issuer = OidcIssuer(issuer=oidc.issuer, audience=AUDIENCE, client_id=CLIENT)
    app = probing(access=BearerAccess(issuer=issuer, tls=TLS))
    with Calling(app, url="http://127.0.0.1:8710") as http:
        assert http.get(METADATA).json() == {
            "resource": "http://127.0.0.1:8710",
            "authorization_servers": [oidc.issuer],
            "scopes_supported": sorted(PATHS),
            "bearer_methods_supported": ["header"],
            "client_id": CLIENT,
        }
    for app in (probing(), with_keys(Key(scopes=[]))):
        with Calling(app) as http:
            assert is_problem(http.get(METADATA), 404, "no-issuer")


def test_an_issuer_that_answers_drop_by_drop_is_away(
    oidc: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "go_scheduler.http.access.login"
    monkeypatch.setattr(f"{module}._LONGEST_ANSWER", timedelta(seconds=-1))
    with pytest.raises(ProviderAwayError, match="answers too slowly"):
        LoginProvider.discover(oidc.issuer, tls=TLS)


def test_a_login_that_cannot_be_is_refused(house: House) -> None:
    house.oidc.answers[METADATA] = {}
    wrong: list[tuple[str, dict[str, str], str]] = [
        ("http://tasks.example.org", house.known, "sent by https alone"),
        (house.oidc.issuer, {}, "give a client"),
        (house.oidc.issuer, {"client_id": CLIENT}, "issuer must be an https URL"),
    ]
    with served(lambda _: probing()) as port:
        wrong.append((f"http://127.0.0.1:{port}", {}, "takes from GO_SCHEDULER_TOKEN"))
        for url, given, why in wrong:
            with pytest.raises(LoginError, match=why):
                house.logins.login_by_device(url, ignore, **given)


class TestByDevice:
    """RFC 8628."""

    def test_the_issuer_is_asked_as_often_as_it_wishes(self, house: House) -> None:
        house.oidc.polled += [PENDING, "slow_down", PENDING]
        house.by_device(agree)
        assert house.oidc.polled == []
        assert house.clock.elapsed() == (5 + 5 + 10 + 10) * SECOND

    def test_an_issuer_that_is_away_is_asked_less_often(
        self, oidc: Provider, file: TokenFile
    ) -> None:
        oidc.answers["/token"] = 502

        class Back(ManualClock):
            def wait(self, *args: Any) -> None:
                super().wait(*args)
                if self.elapsed() > 20 * SECOND:
                    oidc.answers.clear()

        house = House(oidc, file, Back(SystemClock().now()))
        house.by_device(agree)
        assert house.clock.elapsed() == (5 + 10 + 20) * SECOND

    def test_a_person_who_does_not_come_in_time_is_not_signed_in(
        self, house: House
    ) -> None:
        house.oidc.polled += [PENDING] * 9
        house.answer_device(expires_in=50)
        with pytest.raises(LoginError, match="in time: log in again"):
            house.by_device(ignore)
        assert house.clock.elapsed() == 45 * SECOND
        assert house.oidc.polled == []
        assert house.token() is None

    def test_a_person_who_refuses_is_not_signed_in(self, house: House) -> None:
        def refuse(shown: DeviceCode) -> None:
            house.oidc.granted[shown.code] = False

        with pytest.raises(RefusedError) as refused:
            house.by_device(refuse)
        assert refused.value.code == "access_denied"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"user_code": "\x1b"},
            {"verification_uri": "http://evil.example"},
            {"device_code": None},
        ],
    )
    def test_a_strange_code_is_refused(
        self, house: House, wrong: dict[str, object]
    ) -> None:
        house.answer_device(**wrong)
        with pytest.raises(LoginError, match="no code for a device"):
            house.by_device(ignore)

    def test_missing_fields_have_the_defaults_of_the_rfc(self, house: House) -> None:
        house.answer_device(user_code="A\x1b[2J", interval=0, expires_in=10**12)
        seen: list[DeviceCode] = []
        with pytest.raises(LoginError):
            house.by_device(seen.append)
        [shown] = seen
        assert (shown.code, shown.complete_url) == ("A[2J", None)
        assert shown.lasts == timedelta(minutes=30)
        assert house.oidc.asked["/token"] == 1


class TestByBrowser:
    """Code flow, with PKCE, state and a callback on this machine."""

    def test_each_login_has_secrets_of_its_own(self, house: House) -> None:
        seen: list[dict[str, str]] = []

        def browsed(url: str) -> None:
            seen.append(query_of(url))
            assert "Close this page" in browse(url)

        for _ in range(2):
            house.by_browser(browsed)
        for each in seen:
            assert each["code_challenge_method"] == "S256"
            assert each["redirect_uri"].startswith("http://127.0.0.1:")
            assert each["scope"] == "openid jobs:read"
        for secret in ("state", "code_challenge"):
            assert len({each[secret] for each in seen}) == 2
        assert house.oidc.codes == {}

    @pytest.mark.slow
    def test_only_the_answer_to_this_login_is_taken(self, house: House) -> None:
        issuer = house.oidc.issuer

        def browsed(url: str) -> None:
            query = query_of(url)
            back, right = query["redirect_uri"], query["state"]
            for wrong in (
                back,
                f"{back}?code=a&state=b&iss={issuer}",
                f"{back}?code=a&state={right}",
                f"{back}?code=a&state={right}&iss=https://evil.example",
                f"{back}x?code=a&state={right}&iss={issuer}",
                f"{back}?code=a&state=%ff&iss={issuer}",
            ):
                answer = get(wrong)
                assert answer.status_code == 400
                assert answer.headers["Cache-Control"] == "no-store"
            browse(url)
            # A second answer changes nothing.
            get(f"{back}?code=a&state={right}&iss={issuer}")

        assert house.by_browser(browsed).access

    def test_an_issuer_need_not_name_itself(self, house: House) -> None:
        found = get(f"{house.oidc.issuer}{DISCOVERY}").json()
        del found["authorization_response_iss_parameter_supported"]
        found["authorization_endpoint"] += "?realm=a"
        house.oidc.answers[DISCOVERY] = found
        assert house.by_browser(browse).access

    def test_a_person_who_refuses_or_does_not_come_is_not_signed_in(
        self, house: House
    ) -> None:
        def bring_no_code(url: str) -> None:
            query = query_of(url)
            state, back = query["state"], query["redirect_uri"]
            get(f"{back}?state={state}&iss={house.oidc.issuer}")

        with pytest.raises(RefusedError, match="the issuer refuses: no code"):
            house.by_browser(bring_no_code)
        house.oidc.granted[""] = False
        with pytest.raises(RefusedError, match="the issuer refuses") as refused:
            house.by_browser(browse)
        assert refused.value.code == "access_denied"
        with pytest.raises(LoginError, match="in time: log in again"):
            house.logins.login_by_browser(SERVER, ignore, **house.known)
        assert house.clock.elapsed() == timedelta(minutes=5)


class TestKept:
    """The token that is sent, and the token that follows it."""

    @pytest.fixture(autouse=True)
    def _signed_in(self, house: House) -> None:
        house.by_device(agree)

    def test_a_token_that_expires_soon_is_refreshed(self, house: House) -> None:
        first = house.token()
        house.clock.advance(timedelta(seconds=269))
        assert house.token() == first
        house.clock.advance(SECOND)
        second = house.token()
        assert second not in (None, first)
        assert house.token() == second
        assert len(house.oidc.refreshes) == 1  # The used one is gone.

    def test_of_many_processes_one_refreshes_the_token(self, house: House) -> None:
        house.clock.advance(timedelta(minutes=10))
        begin = threading.Barrier(4)
        found: list[str | None] = []

        def process() -> None:
            own = Logins(TokenFile(house.file.path), clock=house.clock, tls=TLS)
            begin.wait(FAILED_AFTER)
            found.append(own.token(SERVER))

        threads = [threading.Thread(target=process) for _ in range(4)]
        before = house.oidc.asked["/token"]
        for each in threads:
            each.start()
        for each in threads:
            each.join(FAILED_AFTER)
        assert (len(found), len({*found})) == (4, 1)
        assert house.oidc.asked["/token"] == before + 1

    def test_an_issuer_that_is_away_can_be_asked_again_and_one_that_refuses_not(
        self, house: House
    ) -> None:
        house.clock.advance(timedelta(minutes=10))
        house.oidc.answers["/token"] = 500
        with pytest.raises(ProviderAwayError, match="answers 500"):
            house.token()
        house.oidc.answers.clear()
        assert house.token() is not None
        house.oidc.refreshes.clear()
        house.clock.advance(timedelta(minutes=10))
        with pytest.raises(LoginError, match="expired: log in again"):
            house.token()

    def test_an_issuer_may_give_no_new_refresh_token(self, house: House) -> None:
        before = house.kept().refresh
        house.oidc.answers["/token"] = {"token_type": "Bearer", "access_token": "a"}
        house.clock.advance(timedelta(minutes=10))
        assert house.token() == "a"
        assert house.kept().refresh == before
        # A login may have none at all, and no expiry.
        house.by_device(agree)
        house.clock.advance(timedelta(days=1))
        assert house.token() == "a"
        house.oidc.answers["/token"]["expires_in"] = 60
        house.by_device(agree)
        house.clock.advance(timedelta(days=1))
        with pytest.raises(LoginError, match="has expired: log in again"):
            house.token()

    def test_a_logout_holds_while_the_issuer_is_away(self, house: House) -> None:
        house.oidc.answers[DISCOVERY] = 500
        assert house.logins.logout(SERVER)
        assert house.token() is None
        assert not house.logins.logout(SERVER)


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        (TOKEN, {"token_type": "mac", "access_token": "a"}, "no bearer token"),
        (TOKEN, {"token_type": "Bearer", "access_token": ""}, "no bearer token"),
        (TOKEN, {"token_type": "Bearer", "access_token": "a\nb"}, "no bearer token"),
        (TOKEN, {"token_type": "Bearer", "access_token": 7}, "no bearer token"),
        (TOKEN, "no JSON", "without a JSON object"),
        (TOKEN, "[]", "without a JSON object"),
        (TOKEN, "[" * 100_000, "without a JSON object"),
        (TOKEN, "x" * (256 * 1024 + 1), "answers more than"),
        (TOKEN, 302, "without a JSON object"),
        (DISCOVERY, {"issuer": "https://evil"}, "is not about"),
        (DISCOVERY, {"token_endpoint": 7}, "has no token_endpoint"),
        (DISCOVERY, {"token_endpoint": "http://evil.example"}, "has no token_endpoint"),
    ],
)
def test_a_strange_answer_of_the_issuer_is_refused(
    house: House, path: str, answer: Any, why: str
) -> None:
    if path == DISCOVERY:
        answer = get(f"{house.oidc.issuer}{DISCOVERY}").json() | answer
    house.oidc.answers[path] = answer
    with pytest.raises(LoginError, match=why):
        LoginProvider.discover(**house.known, tls=TLS).login(house.clock)


def test_an_error_of_the_issuer_is_shown_without_control_characters(
    house: House,
) -> None:
    provider = LoginProvider.discover(**house.known, tls=TLS)
    url = f"{house.oidc.issuer}/token"
    for error, code, text in (
        ("a\x1b[2Jb", "a[2Jb", f"{url} refuses: a[2Jb"),
        ("", "400", f"{url} refuses: 400"),
    ):
        house.oidc.polled.append(error)
        with pytest.raises(RefusedError) as refused:
            provider.login(house.clock)
        assert (refused.value.code, str(refused.value)) == (code, text)
        assert refused.value.__reduce__() == (RefusedError, (code, text))
