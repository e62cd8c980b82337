"""Callers with an issuer's tokens, beside callers with keys."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.events import NoticeGiven, hears
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.login import (
    LoginProvider,
    Logins,
    ProviderAwayError,
    TokenFile,
)
from tests.http.access.house import PATHS, Key, probing
from tests.http.access.provider import AUDIENCE, CLIENT, provider
from tests.http.certificates import certificate
from tests.http.serving import Calling

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler.testing import ManualClock
    from tests.http.access.provider import Provider

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
        assert found.ask("device_authorization", scope="openid")["device_code"]
