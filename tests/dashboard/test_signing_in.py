"""People sign in by a browser, at an issuer or with an API key, and sign out."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from go_scheduler import ConfigurationError, MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.dashboard import SignIn
from go_scheduler.dashboard.signing_in import LASTS
from go_scheduler.http import ApiKey, BearerAccess, OidcIssuer, new_key
from go_scheduler.testing import ManualClock
from tests.dashboard.house import OWN, SECRET, press, probing, token_in
from tests.http.access.provider import AUDIENCE, CLIENT, Provider, provider
from tests.http.serving import Calling, get

ORIGIN = "http://127.0.0.1:8710"
BEGUN = re.compile("go_scheduler-login-[0-9a-f]{8}-8710")
ELSEWHERE = {
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}
NEW = new_key()
KEY = ApiKey(
    subject="ops", hash=NEW.kept, scopes=["jobs:read", "runs:read", "runs:write"]
)
READER = new_key()


@pytest.fixture(scope="module")
def served_provider() -> Iterator[Provider]:
    with provider() as served:
        yield served


@pytest.fixture
def oidc(served_provider: Provider) -> Provider:
    served_provider.forget()
    return served_provider


def with_keys(*keys: ApiKey, **options: Any) -> BearerAccess:
    return BearerAccess(keys=keys or [KEY], **options)


def issuer_of(oidc: Provider, **options: Any) -> OidcIssuer:
    return OidcIssuer(issuer=oidc.issuer, audience=AUDIENCE, **options)


def at_issuer(oidc: Provider, **options: Any) -> BearerAccess:
    options = {"client_id": CLIENT, "queues_claim": "queues", **options}
    return BearerAccess(
        issuer=issuer_of(oidc, **options), tls=ssl.create_default_context()
    )


def known_to(
    access: BearerAccess, client: Client | None = None, **options: Any
) -> Calling:
    return Calling(probing(client, access=access, origin=ORIGIN, **options))


def sign_in_by_key(
    browser: Calling, key: str = NEW.key, to: str = "/probe"
) -> httpx.Response:
    page = browser.get("/login", params={"next": to})
    [token] = page.text.split('name="csrf" value="')[1].split('"')[:1]
    form = {"csrf": token, "key": key, "next": to}
    return browser.post("/login", data=form, headers=OWN)


def to_issuer(browser: Calling, to: str = "/probe") -> str:
    """Begin to sign in; where the issuer would be asked."""
    answer = browser.get("/login/issuer", params={"next": to})
    assert answer.status_code == 303
    return answer.headers["Location"]


def back_from(asked: str) -> str:
    """Sign in at the issuer; the path that the browser is sent back to."""
    answer = get(asked, trust_env=False)
    parts = urlsplit(answer.headers["Location"])
    return f"{parts.path}?{parts.query}"


def sign_in_at_issuer(browser: Calling, to: str = "/probe") -> httpx.Response:
    return browser.get(back_from(to_issuer(browser, to)))


def begun_in(browser: Calling) -> dict[str, str]:
    """What a browser keeps of sign-ins that it has begun."""
    kept = browser.cookies.items()
    return {name: each for name, each in kept if BEGUN.fullmatch(name)}


def name_of(state: list[str]) -> str:
    """What is kept of a sign-in is called by its state."""
    return f"go_scheduler-login-{sha256(state[0].encode()).hexdigest()[:8]}-8710"


def cookies_of(answer: httpx.Response) -> dict[str, str]:
    given = answer.headers.get_list("Set-Cookie")
    return {each.partition("=")[0]: each for each in given}


def test_whoever_has_not_signed_in_is_led_to_where_they_can() -> None:
    with known_to(with_keys()) as browser:
        answer = browser.get("/probe?a=1")
        assert answer.status_code == 303
        assert answer.headers["Location"] == "/login?next=%2Fprobe%3Fa%3D1"
        answer = browser.get("/probe", headers={"HX-Request": "true"})
        assert answer.headers["HX-Redirect"] == "/login"
        assert SECRET not in answer.text
        answer = browser.get("/probe", headers={"Accept": "text/event-stream"})
        assert answer.status_code == 401
        answer = browser.post("/probe/press", headers=OWN)
        assert answer.headers["Location"] == "/login"


def test_a_key_is_exchanged_for_a_session() -> None:
    with known_to(with_keys()) as browser:
        answer = sign_in_by_key(browser, f" {NEW.key} ")
        assert answer.status_code == 303
        assert answer.headers["Location"] == "/probe"
        assert browser.get("/probe").text == f"{SECRET}, ops, True"
        assert press(browser).text == "pressed: mine"
        cookie = cookies_of(answer)["go_scheduler-8710"]
        assert NEW.key not in cookie
        assert NEW.kept.partition(":")[2] not in cookie


def test_whoever_has_signed_in_is_where_they_wanted_to_be() -> None:
    with known_to(with_keys()) as browser:
        answer = sign_in_by_key(browser, to="/probe?a=1&b=%2F")
        assert answer.headers["Location"] == "/probe?a=1&b=%2F"
    app = Starlette(routes=[Mount("/tasks", probing(access=with_keys()))])
    with Calling(app) as browser:
        led = browser.get("/tasks/probe?a=1").headers["Location"]
        assert led == "/tasks/login?next=%2Fprobe%3Fa%3D1"
        [token] = browser.get(led).text.split('name="csrf" value="')[1].split('"')[:1]
        form = {"csrf": token, "key": NEW.key, "next": "/probe?a=1"}
        answer = browser.post("/tasks/login", data=form, headers=OWN)
        assert answer.headers["Location"] == "/tasks/probe?a=1"


def test_who_has_no_right_to_change_anything_does_not() -> None:
    reader = ApiKey(subject="eve", hash=READER.kept, scopes=["jobs:read", "runs:read"])
    with known_to(with_keys(reader)) as browser:
        sign_in_by_key(browser, READER.key)
        assert browser.get("/probe").text == f"{SECRET}, eve, False"
        assert browser.get("/probe/admin").status_code == 403
        assert press(browser).status_code == 403


@pytest.mark.parametrize(
    "key",
    ["", "none", new_key().key, NEW.key[:-1], NEW.kept],
    ids=["nothing", "a word", "another's", "cut off", "what is kept"],
)
def test_what_is_no_key_lets_nobody_in(key: str) -> None:
    with known_to(with_keys()) as browser:
        answer = sign_in_by_key(browser, key)
        assert answer.status_code == 401
        assert "There is no such key." in answer.text
        assert browser.get("/probe").status_code == 303


def test_a_key_is_taken_from_the_page_for_it_alone() -> None:
    with known_to(with_keys()) as browser:
        form = {"key": NEW.key, "csrf": "none"}
        assert browser.post("/login", data=form, headers=OWN).status_code == 403
        other = {"Sec-Fetch-Site": "cross-site"}
        assert browser.post("/login", data=form, headers=other).status_code == 403


def test_who_tries_too_often_has_to_wait() -> None:
    with known_to(with_keys(), clock=ManualClock()) as browser:
        found = {sign_in_by_key(browser, "none").status_code for _ in range(21)}
        assert found == {401, 429}


def test_a_session_is_another_once_somebody_has_signed_in() -> None:
    with known_to(with_keys()) as browser:
        before = cookies_of(browser.get("/login"))["go_scheduler-8710"]
        after = cookies_of(sign_in_by_key(browser))["go_scheduler-8710"]
        assert before != after
        browser.forget()
        planted = {"Cookie": before.partition(";")[0]}
        assert browser.get("/probe", headers=planted).status_code == 303


def test_a_token_from_before_signing_in_changes_nothing_after() -> None:
    with known_to(with_keys()) as browser:
        page = browser.get("/login").text
        [token] = page.split('name="csrf" value="')[1].split('"')[:1]
        sign_in_by_key(browser)
        form = {"csrf": token, "note": "mine"}
        assert browser.post("/probe/press", data=form, headers=OWN).status_code == 403


def test_who_has_signed_out_is_no_longer_known() -> None:
    with known_to(with_keys()) as browser:
        cookie = cookies_of(sign_in_by_key(browser))["go_scheduler-8710"]
        form = {"csrf": token_in(browser.get("/"))}
        assert (
            browser.post("/logout", data={"csrf": ""}, headers=OWN).status_code == 403
        )
        answer = browser.post("/logout", data=form, headers=OWN)
        assert answer.headers["Location"] == "/login"
        assert "Max-Age=0" in cookies_of(answer)["go_scheduler-8710"]
        assert browser.get("/probe").status_code == 303
        kept = {"Cookie": cookie.partition(";")[0]}
        assert browser.get("/probe", headers=kept).status_code == 303
        assert browser.post("/logout", data=form, headers=OWN).status_code == 303


def test_a_session_ends_by_itself(clock: ManualClock) -> None:
    with known_to(with_keys(), clock=clock) as browser:
        sign_in_by_key(browser)
        clock.advance(LASTS - timedelta(seconds=1))
        assert browser.get("/probe").status_code == 200
        clock.advance(timedelta(seconds=1))
        assert browser.get("/probe").status_code == 303


def test_a_key_that_is_taken_away_ends_its_sessions() -> None:
    client = Client(MemoryStore())
    with known_to(with_keys(), client) as browser:
        cookie = cookies_of(sign_in_by_key(browser))["go_scheduler-8710"]
    kept = {"Cookie": cookie.partition(";")[0]}
    with known_to(with_keys(), client) as browser:
        assert browser.get("/probe", headers=kept).status_code == 200
    other = ApiKey(subject="eve", hash=READER.kept, scopes=["jobs:read", "runs:read"])
    with known_to(with_keys(other), client) as browser:
        assert browser.get("/probe", headers=kept).status_code == 303


def test_people_sign_in_at_the_issuer(oidc: Provider) -> None:
    oidc.claims = {"scope": "jobs:read runs:read runs:write", "queues": ["mail"]}
    with known_to(at_issuer(oidc)) as browser:
        assert "/login/issuer?next=%2Fprobe" in browser.get("/login?next=/probe").text
        asked = parse_qs(urlsplit(to_issuer(browser)).query)
        assert asked["redirect_uri"] == [f"{ORIGIN}/login/callback"]
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["scope"] == ["openid"]
        answer = sign_in_at_issuer(browser)
        assert answer.status_code == 200
        assert 'content="0; url=/probe"' in answer.text
        cookies = cookies_of(answer)
        assert "SameSite=strict" in cookies["go_scheduler-8710"]
        [begun] = [each for name, each in cookies.items() if BEGUN.fullmatch(name)]
        assert "Max-Age=0" in begun
        assert browser.get("/probe").text == f"{SECRET}, ann, True"
        assert press(browser).text == "pressed: mine"


def test_the_dashboard_may_have_a_name_and_a_secret_of_its_own(oidc: Provider) -> None:
    oidc.secret = "s3cret"
    oidc.claims = {"scope": "jobs:read runs:read", "queues": "*"}
    sign_in = SignIn(client_id=CLIENT, client_secret="s3cret")
    with known_to(at_issuer(oidc, client_id=None), sign_in=sign_in) as browser:
        assert sign_in_at_issuer(browser).status_code == 200
        assert browser.get("/probe").text == f"{SECRET}, ann, False"
    assert "s3cret" not in repr(sign_in)
    with known_to(at_issuer(oidc)) as browser:
        answer = sign_in_at_issuer(browser)
        assert answer.status_code == 400
        assert "refuses" in answer.text


def test_a_code_that_comes_in_another_browser_signs_nobody_in(oidc: Provider) -> None:
    app = probing(access=at_issuer(oidc), origin=ORIGIN)
    with Calling(app) as browser, Calling(app) as other:
        path = back_from(to_issuer(browser))
        assert "in another browser" in other.get(path).text
        mine = parse_qs(urlsplit(to_issuer(other)).query)["state"]
        answer = other.get(path)
        assert answer.status_code == 400
        # Nor does it with what another sign-in has kept, whatever that is called.
        state = parse_qs(urlsplit(path).query)["state"]
        kept = begun_in(other)[name_of(mine)]
        answer = other.get(path, headers={"Cookie": f"{name_of(state)}={kept}"})
        assert "no answer to what the issuer was asked" in answer.text
        assert other.get("/probe").status_code == 303


def test_a_code_is_good_for_once(oidc: Provider) -> None:
    with known_to(at_issuer(oidc)) as browser:
        path = back_from(to_issuer(browser))
        [(name, value)] = begun_in(browser).items()
        assert browser.get(path).status_code == 200
        kept = {"Cookie": f"{name}={value}"}
        assert browser.get(path, headers=kept).status_code == 400


def test_who_goes_back_after_signing_in_is_still_signed_in(oidc: Provider) -> None:
    oidc.claims = {"scope": "jobs:read runs:read", "queues": "*"}
    with known_to(at_issuer(oidc)) as browser:
        path = back_from(to_issuer(browser))
        assert browser.get(path).status_code == 200
        # To the browser the issuer still leads here, and it sends no strict cookie.
        again = browser.get(path, headers=ELSEWHERE)
        assert f"url={path}".replace("&", "&amp;") in again.text
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        assert browser.get("/probe").status_code == 200


def test_each_tab_is_signed_in_by_what_it_has_begun_itself(oidc: Provider) -> None:
    with known_to(at_issuer(oidc)) as browser:
        tabs = [back_from(to_issuer(browser, f"/probe?{n}")) for n in range(6)]
        # Of many that were begun the latest are kept.
        assert len(begun_in(browser)) == 4
        assert "took too long" in browser.get(tabs[0]).text
        for n in (2, 5, 3):
            assert f"url=/probe?{n}" in browser.get(tabs[n]).text
        assert len(begun_in(browser)) == 1


def test_who_takes_too_long_begins_anew(oidc: Provider, clock: ManualClock) -> None:
    with known_to(at_issuer(oidc), clock=clock) as browser:
        path = back_from(to_issuer(browser))
        clock.advance(timedelta(minutes=10))
        assert "took too long" in browser.get(path).text


def test_whom_the_issuer_refuses_is_told_so(oidc: Provider) -> None:
    oidc.granted[""] = False
    with known_to(at_issuer(oidc)) as browser:
        answer = sign_in_at_issuer(browser)
        assert answer.status_code == 400
        assert "the issuer refuses" in answer.text


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"iss": ""}, "not sent by the issuer"),
        ({"iss": "https://evil.example"}, "not sent by the issuer"),
        ({"state": ""}, "took too long"),
        ({"state": "ü"}, "took too long"),
        ({"code": "another"}, "the token is not"),
    ],
)
def test_a_tampered_answer_signs_nobody_in(
    oidc: Provider, changed: dict[str, str], detail: str
) -> None:
    with known_to(at_issuer(oidc)) as browser:
        parts = urlsplit(back_from(to_issuer(browser)))
        came = {name: each[0] for name, each in parse_qs(parts.query).items()}
        answer = browser.get(parts.path, params=came | changed)
        assert answer.status_code == 400
        assert detail in answer.text or "refuses" in answer.text
        assert browser.get("/probe").status_code == 303


@pytest.mark.parametrize(
    ("claims", "status", "detail"),
    [
        ({"nonce": "another"}, 400, "not for this sign-in"),
        ({"nonce": None}, 400, "not for this sign-in"),
        ({"sub": "bob"}, 400, "of different people"),
        ({"aud": "another"}, 401, "for another audience"),
        ({"azp": "another"}, 401, "given to another client"),
        ({"iss": "https://evil.example"}, 401, "of another issuer"),
        ({"exp": 1}, 401, "has expired"),
    ],
)
def test_an_id_token_that_is_not_for_this_signs_nobody_in(
    oidc: Provider, claims: dict[str, object], status: int, detail: str
) -> None:
    oidc.id_claims = claims
    with known_to(at_issuer(oidc)) as browser:
        answer = sign_in_at_issuer(browser)
        assert answer.status_code == status
        assert detail in answer.text
        assert browser.get("/probe").status_code == 303


@pytest.mark.parametrize(
    ("path", "answer", "status"),
    [
        ("/token", 503, 503),
        ("/token", {"access_token": "a"}, 400),
        ("/token", {"id_token": "a"}, 400),
        ("/token", "[]", 400),
        ("/.well-known/openid-configuration", 500, 503),
    ],
)
def test_an_issuer_that_does_not_answer_signs_nobody_in(
    oidc: Provider, path: str, answer: object, status: int
) -> None:
    with known_to(at_issuer(oidc)) as browser:
        back = back_from(to_issuer(browser))
        oidc.answers[path] = answer
        assert browser.get(back).status_code == status
        assert browser.get("/probe").status_code == 303


def test_whoever_has_more_queues_than_a_cookie_can_hold_is_told_so(
    oidc: Provider,
) -> None:
    oidc.claims = {"queues": [f"queue-{each}" for each in range(500)]}
    with known_to(at_issuer(oidc)) as browser:
        answer = sign_in_at_issuer(browser)
        assert answer.status_code == 400
        assert "queues and owners" in answer.text


def test_an_issuer_where_nobody_signs_in_is_told(oidc: Provider) -> None:
    document = {"issuer": oidc.issuer, "jwks_uri": f"{oidc.issuer}/jwks"}
    oidc.answers["/.well-known/openid-configuration"] = document
    with known_to(at_issuer(oidc)) as browser:
        answer = browser.get("/login/issuer")
        assert answer.status_code == 400
        assert "no authorization_endpoint" in answer.text


def test_a_session_of_another_issuer_is_none(oidc: Provider) -> None:
    oidc.claims = {"scope": "jobs:read runs:read", "queues": "*"}
    client = Client(MemoryStore())
    with known_to(at_issuer(oidc), client) as browser:
        answer = sign_in_at_issuer(browser)
        kept = {
            "Cookie": cookies_of(answer)["go_scheduler-8710"].partition(";")[0],
        }
    for access, status in [
        (at_issuer(oidc), 200),
        (BearerAccess(issuer=OidcIssuer(issuer=oidc.issuer, audience="other")), 303),
        (with_keys(), 303),
    ]:
        with known_to(access, client) as browser:
            assert browser.get("/probe", headers=kept).status_code == status


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil"])
def test_nobody_is_sent_elsewhere_by_signing_in(oidc: Provider, to: str) -> None:
    with known_to(with_keys()) as browser:
        assert to not in browser.get("/login", params={"next": to}).text
        assert sign_in_by_key(browser, to=to).headers["Location"] == "/"
    oidc.claims = {"queues": "*"}
    with known_to(at_issuer(oidc)) as browser:
        assert 'content="0; url=/"' in sign_in_at_issuer(browser, to).text


def test_where_nobody_signs_in_there_is_no_page_for_it(oidc: Provider) -> None:
    with Calling(probing()) as browser:
        assert browser.get("/login").status_code == 404
    with known_to(with_keys()) as browser:
        assert browser.get("/login/issuer").status_code == 404
    with known_to(at_issuer(oidc, client_id=None)) as browser:
        assert "does not know this dashboard yet" in browser.get("/login").text


def test_a_link_of_another_site_signs_nobody_out() -> None:
    with known_to(with_keys()) as browser:
        answer = browser.get(
            "/login?next=/probe",
            headers={
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
        )
        assert "Set-Cookie" not in answer.headers
        assert "url=/login?next=/probe" in answer.text


def test_who_signs_out_often_fills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("go_scheduler.dashboard.sessions._MOST_ENDED", 1)
    with known_to(with_keys()) as browser:
        for _ in range(2):
            sign_in_by_key(browser)
            form = {"csrf": token_in(browser.get("/"))}
            assert browser.post("/logout", data=form, headers=OWN).status_code == 303


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"client_id": ""}, "client_id"),
        ({"lasts": timedelta(0)}, "lasts"),
    ],
)
def test_a_setting_that_is_wrong_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        SignIn(**options)


def test_an_origin_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="an origin is written"):
        probing(origin="tasks.example.org")


def test_a_scheduler_is_shown_as_well() -> None:
    with known_to(with_keys(), Scheduler(None, MemoryStore())) as browser:
        sign_in_by_key(browser)
        assert browser.get("/").status_code == 200
