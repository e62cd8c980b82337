"""The webhook executor, with real servers: what they get, and what follows."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    Fail,
    RetryAfter,
    RetryPolicy,
    Scheduler,
    State,
)
from go_scheduler.events import InstanceFinished, InstanceRetried, hears
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.signatures import verify_webhook
from go_scheduler.handlers.webhook import (
    Secret,
    Webhook,
    WebhookFailed,
    WebhookSettings,
)
from go_scheduler.testing import ManualClock
from go_scheduler.testing.clock import START
from tests.case_tables import json_table, table
from tests.conftest import instance, seconds
from tests.handlers.conftest import refused
from tests.handlers.receivers import Receiver, receiving
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from go_scheduler.models import TaskInstance

KEY = "the-key-of-the-shop"
TOKEN = 'Bearer very"secret'
SECRETS = {"shop": Secret(value=KEY, hosts=["shop.example", "127.0.0.1"])}
TOKENS = {"shop": Secret(value=TOKEN, hosts=["shop.example"])}


class Names:
    """Answers what a name is at; each time the next, if there are several."""

    def __init__(self, **known: Sequence[Sequence[str]]) -> None:
        self.known = {name.replace("_", "."): [*each] for name, each in known.items()}
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        found = self.known[host]
        return found.pop(0) if len(found) > 1 else found[0]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def secure(context: ssl.SSLContext) -> Iterator[Receiver]:
    with receiving(context) as receiver:
        yield receiver


def here() -> Names:
    return Names(shop_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])


def made(receiver: Receiver, names: Names | None = None, **settings: Any) -> Webhook:
    allowed: Any = {"networks": ["127.0.0.0/8"], "ports": [receiver.port]}
    return Webhook(
        secrets=SECRETS,
        authorizations=TOKENS,
        settings=WebhookSettings(**(allowed | settings)),
        resolve=names or here(),
        clock=ManualClock(),
    )


def of(payload: dict[str, Any]) -> TaskInstance:
    return replace(instance(attempt=3), payload=payload)


def send(webhook: Webhook, **payload: Any) -> TaskInstance:
    given = of(payload)
    asyncio.run(webhook(given))
    return given


def at(receiver: Receiver, path: str = "/", host: str = "shop.example") -> str:
    return f"http://{host}:{receiver.port}{path}"


class TestWhatIsSent:
    def test_it_is_signed_and_says_which_run_it_is_of(self, receiver: Receiver) -> None:
        names = here()
        sent = send(
            made(receiver, names),
            url=at(receiver, "/200?a=1#b"),
            json={"order": 7, "name": "Zoë"},
            secret="shop",
            headers={"X-Shop": "yes"},
        )
        [received] = receiver.received
        assert (received.method, received.path) == ("POST", "/200?a=1")
        assert json.loads(received.body) == {"order": 7, "name": "Zoë"}
        headers = received.headers
        assert headers["Host"] == f"shop.example:{receiver.port}"
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Shop"] == "yes"
        assert headers["Idempotency-Key"] == str(sent.id)
        assert "Authorization" not in headers
        delivery = verify_webhook(
            headers, received.body, secrets=["old", KEY], clock=ManualClock()
        )
        assert (delivery.instance_id, delivery.attempt) == (sent.id, 3)
        assert delivery.sent_at == START
        assert names.asked == [("shop.example", receiver.port)]

    def test_a_text_may_be_sent_and_its_type_said(self, receiver: Receiver) -> None:
        webhook = made(receiver)
        send(webhook, url=at(receiver), method="PUT", body="a=1")
        kind = {"content-type": "application/x-www-form-urlencoded"}
        send(webhook, url=at(receiver), body="a=1", headers=kind)
        send(webhook, url=at(receiver), method="GET")
        one, other, empty = receiver.received
        assert (one.method, one.body) == ("PUT", b"a=1")
        assert one.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert other.headers["content-type"] == "application/x-www-form-urlencoded"
        assert "Content-Type" not in empty.headers
        assert "Go-Scheduler-Signature" not in empty.headers

    def test_with_tls_the_certificate_is_that_of_the_name(
        self, secure: Receiver, ca_file: Path
    ) -> None:
        webhook = made(secure, ca_file=ca_file)
        url = f"https://shop.example:{secure.port}/"
        send(webhook, url=url, authorization="shop")
        [received] = secure.received
        assert received.headers["Authorization"] == TOKEN
        with pytest.raises(WebhookFailed, match="certificate"):
            send(webhook, url=url.replace("shop", "other"))
        with pytest.raises(WebhookFailed, match="certificate"):
            send(made(secure), url=url)
        assert len(secure.received) == 1

    def test_no_proxy_of_the_environment_is_asked(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        send(made(receiver), url=at(receiver))
        assert len(receiver.received) == 1


class TestAnswers:
    @pytest.mark.parametrize("status", [200, 201, 204, 299])
    def test_2xx_is_success(self, receiver: Receiver, status: int) -> None:
        send(made(receiver), url=at(receiver, f"/{status}"))

    @pytest.mark.parametrize(
        ("kind", "status"),
        [
            *((Fail, status) for status in (300, 302, 304, 400, 404, 410, 422)),
            *((WebhookFailed, status) for status in (408, 425, 429, 500, 503, 599)),
        ],
    )
    def test_some_others_are_final_and_some_are_tried_again(
        self, receiver: Receiver, kind: type[Exception], status: int
    ) -> None:
        with pytest.raises(kind) as failure:
            send(made(receiver), url=at(receiver, f"/{status}"))
        where = f"POST http://shop.example:{receiver.port}"
        assert str(failure.value).startswith(f"{where} answered {status}")

    @pytest.mark.parametrize(
        ("header", "delay"),
        [
            ("7", seconds(7)),
            (" 7 ", seconds(7)),
            ("999999999", timedelta(hours=1)),
            (format_datetime(START + seconds(90), usegmt=True), seconds(90)),
            (format_datetime(START.replace(tzinfo=None) + seconds(9)), seconds(9)),
            (format_datetime(START - seconds(90), usegmt=True), seconds(0)),
        ],
    )
    def test_when_to_try_again_is_kept_to_within_bounds(
        self, receiver: Receiver, header: str, delay: timedelta
    ) -> None:
        receiver.headers = {"Retry-After": header}
        for status in (429, 503):
            with pytest.raises(RetryAfter, match=f"answered {status}") as raised:
                send(made(receiver), url=at(receiver, f"/{status}"))
            assert raised.value.delay == delay

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            *(
                (f"HTTP/1.1 503 No\r\nRetry-After: {each}\r\n\r\n", r"answered 503$")
                for each in ("soon", "-1", "9" * 99, "\u0661")
            ),
            ("no\r\n\r\n", "RemoteProtocolError"),
        ],
    )
    def test_what_cannot_be_read_of_an_answer_is_not_there(
        self, receiver: Receiver, answer: str, why: str
    ) -> None:
        receiver.answers["/"] = lambda handler: handler.wfile.write(answer.encode())
        with pytest.raises(WebhookFailed, match=why):
            send(made(receiver), url=at(receiver))

    def test_what_drips_is_given_up(self, receiver: Receiver) -> None:
        def drip(handler: Any) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", "100000")
            handler.end_headers()
            while not receiver.ending.wait(0.01):
                handler.wfile.write(b".")

        receiver.answers["/"] = drip
        with pytest.raises(WebhookFailed, match=r"no whole answer within 0:00:00\.2"):
            send(made(receiver), url=at(receiver), timeout=0.2)

    def test_who_says_nothing_is_given_up(self, receiver: Receiver) -> None:
        receiver.answers["/"] = lambda _: receiver.ending.wait(FAILED_AFTER)
        webhook = made(receiver, read_timeout=seconds(0.05))
        with pytest.raises(WebhookFailed, match="ReadTimeout"):
            send(webhook, url=at(receiver))

    def test_of_what_is_huge_only_so_much_is_read(self, receiver: Receiver) -> None:
        def flood(handler: Any) -> None:
            handler.send_response(int(handler.path[1:]))
            handler.end_headers()
            while not receiver.ending.is_set():
                handler.wfile.write(b"x" * 65536)

        receiver.answers |= {"/200": flood, "/500": flood}
        webhook = made(receiver)
        send(webhook, url=at(receiver, "/200"))
        with pytest.raises(WebhookFailed) as failure:
            send(webhook, url=at(receiver, "/500"))
        assert str(failure.value).endswith(f"answered 500: {'x' * 1024}")

    def test_what_comes_back_of_a_secret_is_hidden(
        self, secure: Receiver, ca_file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)

        def echo(handler: Any) -> None:
            token = handler.headers["Authorization"]
            text = f"{token} {json.dumps(token)} {token[7:]} {KEY}"
            handler.answer(500, text.encode())

        secure.answers["/hidden"] = echo
        webhook = made(secure, ca_file=ca_file)
        with pytest.raises(WebhookFailed) as failure:
            send(
                webhook,
                url=f"https://shop.example:{secure.port}/hidden",
                authorization="shop",
                secret="shop",
            )
        assert str(failure.value).endswith('answered 500: *** "***" *** ***')
        for text in (str(failure.value), caplog.text, repr(TOKENS), repr(webhook)):
            assert not any(each in text for each in ("very", KEY, "/hidden"))


class TestWhereItGoes:
    @pytest.mark.parametrize(("address", "kind"), table("handlers/webhook_addresses"))
    def test_no_address_is_reached_that_is_not_public(
        self, address: str, kind: str
    ) -> None:
        # All of them are checked, not only the first.
        names = Names(shop_example=[["93.184.215.14", address]])
        webhook = Webhook(resolve=names)
        with pytest.raises(
            Fail, match=f"it has an? ({kind.replace('/', '|')}) address"
        ):
            send(webhook, url="http://shop.example/")

    def test_what_a_tunnel_leads_to_has_to_be_allowed_too(self) -> None:
        settings = WebhookSettings(networks=["64:ff9b::/96", "2002::/16"])
        for address, kind in (
            ("64:ff9b::a01:203", "private"),
            ("2002:7f00:1::", "loopback"),
        ):
            names = Names(shop_example=[[address]])
            with pytest.raises(Fail, match=f"it has a {kind} address"):
                send(
                    Webhook(resolve=names, settings=settings),
                    url="http://shop.example/",
                )

    def test_a_name_is_resolved_once_and_the_checked_address_connected_to(
        self, receiver: Receiver
    ) -> None:
        names = Names(shop_example=[["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"]])
        send(made(receiver, names), url=at(receiver))
        assert len(names.asked) == len(receiver.received) == 1

    def test_one_address_after_another_is_tried(self, receiver: Receiver) -> None:
        # Nobody listens at the first.
        names = Names(shop_example=[["127.0.0.9", "127.0.0.1"]])
        send(made(receiver, names), url=at(receiver))
        assert len(receiver.received) == 1
        names = Names(shop_example=[["127.0.0.9", "127.0.0.8"]])
        with pytest.raises(WebhookFailed, match="ConnectError"):
            send(made(receiver, names), url=at(receiver))

    def test_a_name_without_an_address_is_tried_again(self, receiver: Receiver) -> None:
        with pytest.raises(WebhookFailed, match="it has no address"):
            send(made(receiver, Names(shop_example=[[]])), url=at(receiver))
        with pytest.raises(WebhookFailed, match="gaierror"):
            send(Webhook(), url="http://no-such-host.invalid/")

    def test_the_system_resolves_names(self, receiver: Receiver) -> None:
        settings = WebhookSettings(
            networks=["127.0.0.0/8", "::1/128"], ports=[receiver.port]
        )
        send(Webhook(settings=settings), url=at(receiver, host="localhost"))
        assert receiver.received[0].headers["Host"] == f"localhost:{receiver.port}"
        for host in ("2130706433", "0x7f.1"):
            with pytest.raises((Fail, WebhookFailed)):
                send(Webhook(), url=f"http://{host}/")


class TestRedirects:
    def redirect(self, receiver: Receiver, to: str, status: int = 302) -> None:
        receiver.answers["/from"] = lambda handler: handler.answer(status, Location=to)

    @pytest.mark.parametrize(
        ("status", "method", "then"),
        [
            (301, "POST", "GET"),
            (302, "PUT", "PUT"),
            (303, "PUT", "GET"),
            (307, "POST", "POST"),
            (308, "POST", "POST"),
            (303, "HEAD", "HEAD"),
        ],
    )
    def test_one_to_the_same_host_is_followed_with_a_signature_of_its_own(
        self, receiver: Receiver, status: int, method: str, then: str
    ) -> None:
        names = here()
        self.redirect(receiver, "/200", status)
        send(
            made(receiver, names, redirects=1),
            url=at(receiver, "/from"),
            method=method,
            json={"a": 1},
            secret="shop",
        )
        _, received = receiver.received
        assert received.method == then
        sends = then in ("POST", "PUT")
        assert received.body == (b'{"a":1}' if sends else b"")
        assert ("Content-Type" in received.headers) is sends
        verify_webhook(
            received.headers, received.body, secrets=[KEY], clock=ManualClock()
        )
        # Each time it is checked anew.
        assert len(names.asked) == 2

    @pytest.mark.parametrize("allowed", [{}, {"redirects": 3}], ids=["none", "three"])
    def test_only_so_many_are_followed(self, receiver: Receiver, allowed: Any) -> None:
        self.redirect(receiver, "/from", 307)
        most = allowed.get("redirects", 0)
        told = f"answered 307: redirects are followed {most} times"
        with pytest.raises(Fail, match=told):
            send(made(receiver, **allowed), url=at(receiver, "/from"))
        assert len(receiver.received) == 1 + most

    @pytest.mark.parametrize(
        ("to", "answer"),
        table("handlers/webhook_redirects"),
    )
    def test_one_that_may_not_be_followed_is_final(
        self, receiver: Receiver, to: str, answer: str
    ) -> None:
        self.redirect(receiver, to.format(port=receiver.port))
        with pytest.raises(Fail, match=answer):
            send(made(receiver, redirects=1), url=at(receiver, "/from"))
        assert len(receiver.received) == 1

    def test_to_another_host_no_secret_goes_along(self, receiver: Receiver) -> None:
        self.redirect(receiver, at(receiver, host="other.example"), 307)
        send(
            made(receiver, redirects=1, other_hosts=True),
            url=at(receiver, "/from"),
            json={"a": 1},
            secret="shop",
            headers={"X-Key": "k"},
        )
        first, second = receiver.received
        assert {"X-Key", "Go-Scheduler-Signature"} <= first.headers.keys()
        assert {"X-Key", "Go-Scheduler-Signature"}.isdisjoint(second.headers)
        assert second.headers["Content-Type"] == "application/json"

    def test_a_host_that_is_not_allowed_is_not_even_by_a_redirect(
        self, receiver: Receiver
    ) -> None:
        self.redirect(receiver, at(receiver, host="other.example"), 307)
        webhook = made(receiver, redirects=1, other_hosts=True, hosts=["shop.example"])
        with pytest.raises(Fail, match=r"host other\.example is not allowed"):
            send(webhook, url=at(receiver, "/from"))

    def test_what_authorizes_stays_with_its_host(self) -> None:
        settings = WebhookSettings(redirects=1, other_hosts=True)
        webhook = Webhook(settings=settings, authorizations=TOKENS)
        request = webhook._request("https://shop.example/", authorization="shop")
        at_home = webhook._redirected(request, 307, "/other")
        assert at_home.authorization == TOKENS["shop"]
        for elsewhere in ("https://other.example/", "http://shop.example/"):
            left = webhook._redirected(request, 307, elsewhere)
            assert left.authorization is None
            back = webhook._redirected(left, 307, "https://shop.example/")
            assert back.authorization is None

    def test_to_tls_at_the_same_host_it_is_the_same(self) -> None:
        webhook = Webhook(settings=WebhookSettings(redirects=1), secrets=SECRETS)
        request = webhook._request("http://shop.example/", secret="shop")
        new = webhook._redirected(request, 307, "https://shop.example/")
        assert (new.port, new.secret) == (443, SECRETS["shop"])
        with pytest.raises(Fail, match="another host"):
            webhook._redirected(new, 307, "http://shop.example/")


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        *json_table("handlers/webhook_payloads"),
        ({"url": "http://shop.example/" + "x" * 9000}, "url: it has more than 8192"),
        ({"headers": {str(n): "" for n in range(51)}}, "headers: there are more than"),
    ],
)
def test_a_payload_that_it_does_not_send_is_refused(payload: Any, answer: str) -> None:
    hosts = ["Shop.Example.", ".shops.example", "10.0.0.1", "::1"]
    types = JobTypes()
    types.add(
        "webhook",
        Webhook(
            secrets=SECRETS,
            authorizations=TOKENS,
            settings=WebhookSettings(hosts=hosts),
        ),
    )
    given = {"url": "http://shop.example/"} | payload if payload else {}
    assert refused(types.check, "webhook", given).startswith(answer)


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: Secret(value="", hosts=["a"]), "a secret must be a text"),
        (lambda: Secret(value="a\nb", hosts=["a"]), "a secret must be a text"),
        (lambda: Secret(value="a", hosts=[]), "hosts must name the hosts"),
        (lambda: Secret(value="a", hosts="a"), "hosts must be a list of names"),
        (lambda: WebhookSettings(hosts=["http://a"]), "a host is a name, as in"),
        (lambda: WebhookSettings(networks="10.0.0.0/8"), "networks must be a list"),
        (lambda: WebhookSettings(networks=["10.0.0.1/8"]), "networks: 10.0.0.1/8 has"),
        (lambda: WebhookSettings(ports=[0]), "a port must be from 1 to 65,535: 0"),
        (lambda: WebhookSettings(redirects=11), "redirects must be from 0 to 10: 11"),
        (lambda: WebhookSettings(max_answer=1), "max_answer must be from 1,024"),
        (lambda: WebhookSettings(timeout=seconds(0)), "timeout must be longer"),
        (lambda: WebhookSettings(max_retry_after=seconds(-1)), "max_retry_after must"),
        (lambda: WebhookSettings(ca_file="/no/file"), "ca_file: there is no file"),
        (lambda: Webhook(secrets={"a": "b"}), "secret 'a' must be a Secret"),  # type: ignore[dict-item]
        (lambda: Webhook(secrets={"": SECRETS["shop"]}), "the name of a secret must"),
    ],
)
def test_what_cannot_be_configured_is_refused(make: Any, answer: str) -> None:
    told = refused(make)
    assert told.startswith(answer)
    assert "a\nb" not in told


@pytest.mark.slow
def test_in_a_scheduler_the_policy_decides(receiver: Receiver) -> None:
    answers = iter([500, 200])
    receiver.answers["/"] = lambda handler: handler.answer(next(answers))
    types = JobTypes()
    retry = RetryPolicy(max_attempts=2, delay=seconds(0))
    types.add("webhook", made(receiver), retry=retry)

    finished = threading.Event()
    errors: list[str] = []

    @hears(InstanceFinished, InstanceRetried)
    def hear(event: InstanceFinished | InstanceRetried) -> None:
        if isinstance(event, InstanceRetried):
            errors.append(event.error or "")
        else:
            finished.set()

    with Scheduler(types, listeners=[hear]) as scheduler:
        sent = scheduler.enqueue("webhook", url=at(receiver), secret="shop")
        assert finished.wait(FAILED_AFTER)
        found = scheduler.get_instance(sent.id)
    assert (found.state, found.runs) == (State.COMPLETED, 2)
    # Frames of the package's own would say nothing more.
    [error] = errors
    assert error.startswith("go_scheduler.handlers.webhook.WebhookFailed: POST http")
    assert error.endswith(" answered 500\n")
    attempts = [each.headers["Go-Scheduler-Attempt"] for each in receiver.received]
    assert attempts == sorted({*attempts})
    assert {each.headers["Idempotency-Key"] for each in receiver.received} == {
        str(sent.id)
    }


def test_without_its_library_it_says_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "go_scheduler.handlers.webhook")
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("go_scheduler.handlers.webhook")
    assert str(caught.value) == (
        "webhooks need the extra 'webhook' of go_scheduler, which brings httpx: in a"
        " checkout, pip install '.[webhook]'"
    )
