"""The page on access is correct, and its examples work."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.dashboard.signing_in import BACK
from go_scheduler.http.access.authentication import OPEN_PATHS, BearerAccess
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.http.access.issuer import (
    ASYMMETRIC,
    LONGEST_TOKEN,
    OidcIssuer,
    Tokens,
)
from go_scheduler.http.configuration.loading import load_configuration
from go_scheduler.http.limits import Limits

if TYPE_CHECKING:
    from go_scheduler.http.access.caller import Caller
    from tests.http.access.provider import Provider

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/access.md").read_text()
CONFIGURED = ROOT / "examples/keycloak/go_scheduler.yaml"
REALM = json.loads((ROOT / "examples/keycloak/realm.json").read_text())
CLIENTS = {each["clientId"]: each for each in REALM["clients"]}


def issuer() -> OidcIssuer:
    access = load_configuration(CONFIGURED).access.made()
    assert isinstance(access, BearerAccess)
    assert access.issuer is not None
    return access.issuer


def test_the_configuration_of_the_example_is_shown() -> None:
    assert f"\n{CONFIGURED.read_text()}```\n" in PAGE


def test_the_scopes_and_open_paths_are_on_the_page() -> None:
    assert re.findall(r"^\| `([\w:]+)` \| (?!any)[^|]+ \|$", PAGE, re.M) == [*SCOPES]
    for path in OPEN_PATHS:
        assert f"`{path}`" in PAGE


def test_the_settings_of_an_issuer_are_on_the_page_with_their_defaults() -> None:
    rows = re.findall(r"^\| (`[\w`, ]+`) \|([^|]*)\| [^|]+ \|$", PAGE, re.M)
    said = {
        name: default.strip("` ")
        for names, default in rows
        for name in re.findall(r"\w+", names)
    }
    known = OidcIssuer(issuer="https://a.org", audience="b")
    for name in OidcIssuer.__dataclass_fields__:
        assert name in said, name
    assert said["algorithms"] == ", ".join(known.algorithms)
    assert said["types"] == ", ".join(known.types)
    assert said["leeway"] == f"{known.leeway.total_seconds():g} s"
    assert said["keys_kept"] == f"{known.keys_kept.total_seconds() / 3600:g} h"
    assert {each[:2] for each in ASYMMETRIC} == {"RS", "PS", "ES", "Ed"}


def test_the_limits_on_the_page_are_those_that_hold() -> None:
    rate = Limits().rate
    assert rate is not None
    shown = f"{rate.per_second:,.0f} a second, {rate.burst:,} at once"
    assert f"| {shown} | 429 |" in PAGE
    assert f"| {LONGEST_TOKEN:,} characters | 401 |" in PAGE


def test_the_realm_and_the_configuration_are_of_one_piece() -> None:
    known = issuer()
    assert known.issuer.endswith(f"/realms/{REALM['realm']}")
    assert {*CLIENTS} == {*known.clients}
    roles = {each["name"] for each in REALM["roles"]["realm"]}
    assert roles == {*(known.roles or {})}
    for user in REALM["users"]:
        assert {*user["realmRoles"]} <= roles
        assert CLIENTS[user["serviceAccountClientId"]]["serviceAccountsEnabled"]
    for client in CLIENTS.values():
        assert not client["directAccessGrantsEnabled"]
        [audience, queues] = (each["config"] for each in client["protocolMappers"])
        assert audience["included.custom.audience"] == known.audience
        assert queues["claim.name"] == known.queues_claim


def test_the_realm_lets_the_command_line_sign_in_both_ways() -> None:
    assert issuer().client_id == "tasks-cli"
    client = CLIENTS["tasks-cli"]
    assert client["publicClient"]
    assert client["redirectUris"] == ["http://127.0.0.1/callback"]
    assert client["attributes"] == {
        "oauth2.device.authorization.grant.enabled": "true",
        "pkce.code.challenge.method": "S256",
    }


def test_the_realm_lets_people_sign_in_to_the_dashboard() -> None:
    dashboard = load_configuration(CONFIGURED).dashboard
    assert dashboard.client_id == "tasks-dashboard"
    client = CLIENTS[dashboard.client_id]
    assert not client["publicClient"]
    assert client["redirectUris"] == [f"{dashboard.origin}/dashboard{BACK}"]
    assert client["attributes"] == {"pkce.code.challenge.method": "S256"}


def as_keycloak_gives_it(client: str, *roles: str) -> dict[str, Any]:
    """The claims that the realm's mappers and Keycloak's own put into a token."""
    audience, queues = (each["config"] for each in CLIENTS[client]["protocolMappers"])
    return {
        "aud": [audience["included.custom.audience"], "account"],
        "azp": client,
        "typ": "Bearer",
        "scope": "openid email profile",
        "realm_access": {"roles": [*roles, "offline_access", "uma_authorization"]},
        "resource_access": {"account": {"roles": ["manage-account"]}},
        "queues": json.loads(queues["claim.value"]),
    }


def taken(oidc: Provider, claims: dict[str, Any]) -> Caller:
    known = replace(issuer(), issuer=oidc.issuer)
    tokens = Tokens(known, SystemClock(), ssl.create_default_context())
    return asyncio.run(tokens.caller_of(oidc.token({"typ": "JWT"}, **claims)))


@pytest.mark.parametrize(
    ("client", "role", "scopes", "queues"),
    [
        (
            "tasks-cli",
            "tasks-operator",
            {"jobs:read", "jobs:pause", "runs:read", "runs:write"},
            None,
        ),
        ("tasks-cli", "tasks-admin", {*SCOPES}, None),
        ("tasks-dashboard", "tasks-reader", {"jobs:read", "runs:read"}, None),
        ("tasks-cli", "default-roles-tasks", set(), None),
        ("tasks-mail-worker", "tasks-worker", {"workers"}, {"mail"}),
    ],
)
def test_the_configuration_reads_tokens_as_keycloak_gives_them(
    oidc: Provider, client: str, role: str, scopes: set[str], queues: set[str] | None
) -> None:
    caller = taken(oidc, as_keycloak_gives_it(client, role))
    assert (caller.scopes, caller.queues) == (scopes, queues)
