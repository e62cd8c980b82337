"""Without authentication only this machine is answered, and no page in its browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.http.access.authentication import OpenAccess
from go_scheduler.http.access.loopback import is_safe_url
from tests.http.access.house import JSON, PATHS, probing, sent, served
from tests.http.serving import Calling, is_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

READ, WRITE = PATHS["jobs:read"], PATHS["jobs:write"]
PAGE = "http://localhost:3000"
OWN = "Origin: http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(lambda _: probing(access=OpenAccess([PAGE]))) as port:
        yield port


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8710", "127.0.0.1", "127.9.9.9:80", "[::1]:8710"]
)
def test_a_name_of_this_machine_is_answered(port: int, host: str) -> None:
    status, answer = sent(port, f"GET {READ}", f"Host: {host}")
    assert status == 200
    assert '"subject":"anybody"' in answer
    assert all(scope in answer for scope in PATHS)


FOREIGN = (
    "evil.example localhost.evil.example 127.0.0.1.nip.io:8710 192.168.0.7 0.0.0.0"
    " [::] [::ffff:10.0.0.1] localhost:8710:1 localhost@evil.example 127.1"
)


@pytest.mark.parametrize("host", ["", *FOREIGN.split()])
def test_a_name_that_a_site_gives_this_machine_is_refused(port: int, host: str) -> None:
    for path in (READ, "/healthz", "/openapi.json", "/none"):
        status, answer = sent(port, f"GET {path}", f"Host: {host}")
        assert (status, "urn:go_scheduler:not-local" in answer) == (403, True)


def test_a_request_without_a_host_is_refused(port: int) -> None:
    status, _ = sent(port, f"GET {READ}")
    assert status in (400, 403)  # Some parsers of the server refuse it themselves.


@pytest.mark.parametrize(
    ("headers", "is_answered"),
    [
        ([OWN], True),
        ([OWN, "Sec-Fetch-Site: same-origin"], True),
        (["Sec-Fetch-Site: none"], True),
        ([f"Origin: {PAGE}", "Sec-Fetch-Site: same-site"], True),
        (["Origin: http://evil.example"], False),
        (["Origin: null"], False),
        (["Origin: http://127.0.0.1"], False),  # Another port.
        (["Origin: https://127.0.0.1:{port}"], False),
        ([OWN, "Origin: http://evil.example"], False),
        (["Sec-Fetch-Site: cross-site"], False),
        (["Sec-Fetch-Site: same-site"], False),
        ([OWN, "Sec-Fetch-Site: cross-site"], False),
        (["Forwarded: for=10.0.0.1"], False),
        (["X-Forwarded-For: 10.0.0.1"], False),
        (["X-Forwarded-Host: localhost"], False),
        (["X-Real-IP: 10.0.0.1"], False),
        (["Via: 1.1 proxy"], False),
    ],
)
def test_only_own_or_named_pages_and_no_proxies_are_answered(
    port: int, headers: list[str], is_answered: bool
) -> None:
    given = [each.format(port=port) for each in headers]
    for method in ("GET", "POST"):
        request = f"{method} {WRITE}", f"Host: 127.0.0.1:{port}"
        status, answer = sent(port, *request, *given)
        assert status == (200 if is_answered else 403)
        assert ("urn:go_scheduler:not-local" in answer) is not is_answered


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Content-Type: text/plain", "Content-Length: 2"], 415),
        (["Content-Type: application/x-www-form-urlencoded", "Content-Length: 2"], 415),
        (["Content-Type: multipart/form-data", "Content-Length: 2"], 415),
        (["Content-Type: ", "Content-Length: 2"], 415),
        (["Content-Length: 2"], 415),
        (["Transfer-Encoding: chunked"], 415),
        ([JSON, "Content-Length: 2"], 200),
        ([f"{JSON}; charset=utf-8", "Content-Length: 2"], 200),
        (["Content-Type: application/merge-patch+json", "Content-Length: 2"], 200),
    ],
)
def test_a_body_has_a_type_that_no_page_may_send_unasked(
    port: int, headers: list[str], status: int
) -> None:
    body = "{}" if "Content-Length: 2" in headers else ""
    found, answer = sent(port, f"POST {WRITE}", "Host: localhost", *headers, body=body)
    assert found == status
    assert ("urn:go_scheduler:media-type" in answer) is (status == 415)


def test_another_machine_is_refused_wherever_the_server_is_bound() -> None:
    with Calling(probing(), address="10.0.0.7") as http:
        answer = http.get(READ)
    assert is_problem(answer, 403, "not-local")
    assert "only this machine" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://login.example.org/realms/main", True),
        ("http://127.0.0.1:9000", True),
        ("http://[::1]:9000/", True),
        ("http://login.example.org", False),
        ("ftp://localhost", False),
        ("https://", False),
        ("https://user@example.org", False),
        ("https://example.org/#a", False),
        ("https://[", False),
        (7, False),
    ],
)
def test_secrets_are_sent_by_https_or_to_this_machine(
    url: object, is_safe: bool
) -> None:
    assert is_safe_url(url) is is_safe
