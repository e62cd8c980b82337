"""People sign in by a browser, at an issuer or with an API key, and sign out."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from go_scheduler import ConfigurationError, MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import SignIn
from go_scheduler.dashboard.signing_in import LASTS
from go_scheduler.http import ApiKey, BearerAccess, OidcIssuer, new_key
from go_scheduler.testing import ManualClock
from tests.dashboard.house import OWN, SECRET, press, probing, token_in
from tests.http.access.provider import AUDIENCE, CLIENT, Provider
from tests.http.serving import Calling, get

ORIGIN = "http://127.0.0.1:8710"
DISCOVERY = "/.well-known/openid-configuration"
MANY = [f"queue-{number}" for number in range(500)]
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
EVE = ApiKey(subject="eve", hash=new_key().kept, scopes=["jobs:read"])


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
    form = {"csrf": to_sign_in(browser, next=to), "key": key, "next": to}
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


def session_of(answer: httpx.Response) -> dict[str, str]:
    """The header of whoever has the session that an answer sets."""
    return {"Cookie": cookies_of(answer)["go_scheduler-8710"].partition(";")[0]}


@pytest.fixture
def by_keys() -> Iterator[Calling]:
    """A browser where people sign in by keys."""
    with known_to(with_keys()) as browser:
        yield browser


@pytest.fixture
def at_oidc(oidc: Provider) -> Iterator[Calling]:
    """A browser where people sign in at the issuer."""
    with known_to(at_issuer(oidc)) as browser:
        yield browser


def to_sign_in(browser: Calling, path: str = "/login", **params: str) -> str:
    """The token of a page where people sign in."""
    page = browser.get(path, params=params or None)
    [token] = re.findall('name="csrf" value="(.*?)"', page.text)
    return str(token)


def test_whoever_has_not_signed_in_is_led_to_where_they_can(by_keys: Calling) -> None:
    answer = by_keys.get("/probe?a=1")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/login?next=%2Fprobe%3Fa%3D1"
    answer = by_keys.get("/probe", headers={"HX-Request": "true"})
    assert answer.headers["HX-Redirect"] == "/login"
    assert SECRET not in answer.text
    answer = by_keys.get("/probe", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 401
    answer = by_keys.post("/probe/press", headers=OWN)
    assert answer.headers["Location"] == "/login"


def test_a_key_is_exchanged_for_a_session(by_keys: Calling) -> None:
    answer = sign_in_by_key(by_keys, f" {NEW.key} ")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/probe"
    assert by_keys.get("/probe").text == f"{SECRET}, ops, True"
    assert press(by_keys).text == "pressed: mine"
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
        token = to_sign_in(browser, led)
        form = {"csrf": token, "key": NEW.key, "next": "/probe?a=1"}
        answer = browser.post("/tasks/login", data=form, headers=OWN)
        assert answer.headers["Location"] == "/tasks/probe?a=1"


@pytest.mark.parametrize(
    "key",
    ["", "none", new_key().key, NEW.key[:-1], NEW.kept],
    ids=["nothing", "a word", "another's", "cut off", "what is kept"],
)
def test_what_is_no_key_lets_nobody_in(by_keys: Calling, key: str) -> None:
    answer = sign_in_by_key(by_keys, key)
    assert answer.status_code == 401
    assert "There is no such key." in answer.text
    assert by_keys.get("/probe").status_code == 303


def test_a_key_is_taken_from_the_page_for_it_alone(by_keys: Calling) -> None:
    form = {"key": NEW.key, "csrf": "none"}
    assert by_keys.post("/login", data=form, headers=OWN).status_code == 403
    other = {"Sec-Fetch-Site": "cross-site"}
    assert by_keys.post("/login", data=form, headers=other).status_code == 403


def test_who_tries_too_often_has_to_wait() -> None:
    with known_to(with_keys(), clock=ManualClock()) as browser:
        found = {sign_in_by_key(browser, "none").status_code for _ in range(21)}
        assert found == {401, 429}


def test_what_was_known_before_signing_in_is_worth_nothing_after(
    by_keys: Calling,
) -> None:
    before = session_of(by_keys.get("/login"))
    form = {"csrf": to_sign_in(by_keys), "note": "mine"}
    assert before != session_of(sign_in_by_key(by_keys))
    assert by_keys.post("/probe/press", data=form, headers=OWN).status_code == 403
    by_keys.forget()
    assert by_keys.get("/probe", headers=before).status_code == 303


def test_who_has_signed_out_is_no_longer_known(
    by_keys: Calling, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of those who sign out often the last one is known.
    monkeypatch.setattr("go_scheduler.dashboard.request._MOST_ENDED", 1)
    for _ in range(2):
        kept = session_of(sign_in_by_key(by_keys))
        form = {"csrf": token_in(by_keys.get("/"))}
        refused = by_keys.post("/logout", data={"csrf": ""}, headers=OWN)
        assert refused.status_code == 403
        answer = by_keys.post("/logout", data=form, headers=OWN)
        assert answer.headers["Location"] == "/login"
        assert "Max-Age=0" in cookies_of(answer)["go_scheduler-8710"]
        assert by_keys.get("/probe").status_code == 303
        assert by_keys.get("/probe", headers=kept).status_code == 303
        assert by_keys.post("/logout", data=form, headers=OWN).status_code == 303


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
        kept = session_of(sign_in_by_key(browser))
    for access, status in [(with_keys(), 200), (with_keys(EVE), 303)]:
        with known_to(access, client) as browser:
            assert browser.get("/probe", headers=kept).status_code == status


def test_people_sign_in_at_the_issuer(at_oidc: Calling, oidc: Provider) -> None:
    oidc.claims = {"scope": "jobs:read runs:read runs:write", "queues": ["mail"]}
    assert "/login/issuer?next=%2Fprobe" in at_oidc.get("/login?next=/probe").text
    asked = parse_qs(urlsplit(to_issuer(at_oidc)).query)
    assert asked["redirect_uri"] == [f"{ORIGIN}/login/callback"]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["scope"] == ["openid"]
    answer = sign_in_at_issuer(at_oidc)
    assert answer.status_code == 200
    assert 'content="0; url=/probe"' in answer.text
    cookies = cookies_of(answer)
    assert "SameSite=strict" in cookies["go_scheduler-8710"]
    [begun] = [each for name, each in cookies.items() if BEGUN.fullmatch(name)]
    assert "Max-Age=0" in begun
    assert at_oidc.get("/probe").text == f"{SECRET}, ann, True"
    assert press(at_oidc).text == "pressed: mine"


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
        assert "no answer to the request to the issuer" in answer.text
        assert other.get("/probe").status_code == 303


def test_a_code_is_good_for_once(at_oidc: Calling) -> None:
    path = back_from(to_issuer(at_oidc))
    [(name, value)] = begun_in(at_oidc).items()
    assert at_oidc.get(path).status_code == 200
    assert at_oidc.get(path, headers={"Cookie": f"{name}={value}"}).status_code == 400


def test_who_goes_back_after_signing_in_is_still_signed_in(
    at_oidc: Calling, oidc: Provider
) -> None:
    oidc.claims = {"scope": "jobs:read runs:read", "queues": "*"}
    path = back_from(to_issuer(at_oidc))
    assert at_oidc.get(path).status_code == 200
    # To the browser the issuer still leads here, and it sends no strict cookie.
    again = at_oidc.get(path, headers=ELSEWHERE)
    assert f"url={path}".replace("&", "&amp;") in again.text
    answer = at_oidc.get(path)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert at_oidc.get("/probe").status_code == 200


def test_each_tab_is_signed_in_by_what_it_has_begun_itself(at_oidc: Calling) -> None:
    tabs = [back_from(to_issuer(at_oidc, f"/probe?{n}")) for n in range(6)]
    # Of many that were begun the latest are kept.
    assert len(begun_in(at_oidc)) == 4
    assert "took too long" in at_oidc.get(tabs[0]).text
    for n in (2, 5, 3):
        assert f"url=/probe?{n}" in at_oidc.get(tabs[n]).text
    assert len(begun_in(at_oidc)) == 1


def test_who_takes_too_long_begins_anew(oidc: Provider, clock: ManualClock) -> None:
    with known_to(at_issuer(oidc), clock=clock) as browser:
        path = back_from(to_issuer(browser))
        clock.advance(timedelta(minutes=10))
        assert "took too long" in browser.get(path).text


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"iss": ""}, "no answer to the request"),
        ({"iss": "https://evil.example"}, "no answer to the request"),
        ({"state": ""}, "took too long"),
        ({"state": "ü"}, "took too long"),
        ({"code": "another"}, "the token is not"),
    ],
)
def test_a_tampered_answer_signs_nobody_in(
    at_oidc: Calling, changed: dict[str, str], detail: str
) -> None:
    parts = urlsplit(back_from(to_issuer(at_oidc)))
    came = {name: each[0] for name, each in parse_qs(parts.query).items()}
    answer = at_oidc.get(parts.path, params=came | changed)
    assert answer.status_code == 400
    assert detail in answer.text or "refuses" in answer.text
    assert at_oidc.get("/probe").status_code == 303


@pytest.mark.parametrize(
    ("has", "status", "detail"),
    [
        ({"granted": {"": False}}, 400, "the issuer refuses"),
        ({"claims": {"queues": MANY}}, 400, "queues and owners"),
        ({"id_claims": {"nonce": "another"}}, 400, "not for this sign-in"),
        ({"id_claims": {"nonce": None}}, 400, "not for this sign-in"),
        ({"id_claims": {"sub": "bob"}}, 400, "of different people"),
        ({"id_claims": {"aud": "another"}}, 401, "for another audience"),
        ({"id_claims": {"azp": "another"}}, 401, "given to another client"),
        ({"id_claims": {"iss": "https://evil.example"}}, 401, "of another issuer"),
        ({"id_claims": {"exp": 1}}, 401, "has expired"),
        ({"answers": {"/token": 503}}, 503, "does not answer"),
        ({"answers": {"/token": {"access_token": "a"}}}, 400, "both an access and"),
        ({"answers": {"/token": {"id_token": "a"}}}, 400, "both an access and"),
        ({"answers": {"/token": "[]"}}, 400, "sign in again"),
        ({"answers": {DISCOVERY: 500}}, 503, "does not answer"),
    ],
)
def test_a_sign_in_that_fails_at_the_issuer_signs_nobody_in(
    at_oidc: Calling,
    oidc: Provider,
    has: dict[str, dict[str, Any]],
    status: int,
    detail: str,
) -> None:
    for name in has.keys() - {"answers"}:
        getattr(oidc, name).update(has[name])
    back = back_from(to_issuer(at_oidc))
    oidc.answers.update(has.get("answers", {}))
    answer = at_oidc.get(back)
    assert answer.status_code == status
    assert detail in answer.text
    assert at_oidc.get("/probe").status_code == 303


def test_an_issuer_where_nobody_signs_in_is_told(
    at_oidc: Calling, oidc: Provider
) -> None:
    document = {"issuer": oidc.issuer, "jwks_uri": f"{oidc.issuer}/jwks"}
    oidc.answers[DISCOVERY] = document
    answer = at_oidc.get("/login/issuer")
    assert answer.status_code == 400
    assert "no authorization_endpoint" in answer.text


def test_a_session_of_another_issuer_is_none(oidc: Provider) -> None:
    oidc.claims = {"scope": "jobs:read runs:read", "queues": "*"}
    client = Client(MemoryStore())
    with known_to(at_issuer(oidc), client) as browser:
        kept = session_of(sign_in_at_issuer(browser))
    for access, status in [
        (at_issuer(oidc), 200),
        (BearerAccess(issuer=OidcIssuer(issuer=oidc.issuer, audience="other")), 303),
        (with_keys(), 303),
    ]:
        with known_to(access, client) as browser:
            assert browser.get("/probe", headers=kept).status_code == status


@pytest.mark.parametrize(
    ("to", "path"),
    [
        ("/definitions?x=1", "/definitions?x=1"),
        *((each, "/") for each in ("/", "", "definitions", "//evil.example")),
        *((each, "/") for each in ("/\\evil", "https://evil.example", "/ü")),
        *((each, "/") for each in ("javascript:alert(1)", "/a\r\nSet-Cookie: b=c")),
        ("/\t/evil.example", "/"),
    ],
)
def test_nobody_is_sent_elsewhere_by_signing_in(
    by_keys: Calling, to: str, path: str
) -> None:
    page = by_keys.get("/login", params={"next": to}).text
    assert f'name="next" value="{path}"' in page
    assert sign_in_by_key(by_keys, to=to).headers["Location"] == path


def test_nobody_is_sent_elsewhere_by_an_issuer(
    at_oidc: Calling, oidc: Provider
) -> None:
    oidc.claims = {"queues": "*"}
    assert 'content="0; url=/"' in sign_in_at_issuer(at_oidc, "//evil.example").text


def test_where_nobody_signs_in_there_is_no_page_for_it(oidc: Provider) -> None:
    with Calling(probing()) as browser:
        assert browser.get("/login").status_code == 404
    with known_to(with_keys()) as browser:
        for path in ("/login/issuer", "/login/callback?state=x&code=y"):
            assert browser.get(path).status_code == 404
    with known_to(at_issuer(oidc, client_id=None)) as browser:
        assert "does not know this dashboard yet" in browser.get("/login").text


def test_a_link_of_another_site_signs_nobody_out(by_keys: Calling) -> None:
    answer = by_keys.get("/login?next=/probe", headers=ELSEWHERE)
    assert "Set-Cookie" not in answer.headers
    assert "url=/login?next=/probe" in answer.text


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SignIn(client_id=""), "client_id"),
        (lambda: SignIn(lasts=timedelta(0)), "lasts"),
        (lambda: probing(origin="tasks.example.org"), "an origin is written"),
    ],
)
def test_a_setting_that_is_wrong_is_refused(
    make: Callable[[], object], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()
