"""Settings that a server could not use are refused before it starts."""

from __future__ import annotations

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.http import serve
from go_scheduler.http.configuration.checking import check
from tests.http.configuration.places import load

HASH = f'"12345678:{"0" * 64}"'
WRONG = f"""\
access:
  keys:
    - {{subject: ann, hash: gs_secret, scopes: [jobs:read]}}
    - subject: bob
      hash: {HASH}
      scopes:
        - jobs:reed
    - {{subject: cid, hash: {HASH}, scopes: [jobs:read]}}
    - {{subject: dan, hash: {HASH}, scopes: [jobs:read]}}
  oidc: {{issuer: "http://a.example", audience: x}}
  origins: ["*"]
server:
  tls_certificate: none.pem
  tls_key: none.pem
  limits:
    rate: {{per_second: 0}}
jobs: {{jitter: -1}}
scheduler:
  retry:
    factor: 0
  catch_up: {{grace: -1}}
work:
  lease: 0.1
types:
  webhook:
    secrets:
      a: {{value: secret, hosts: []}}
"""
TOLD = (
    (3, "access.keys.0.hash: hash of the key of ann must be"),
    (6, "access.keys.1.scopes: scopes of bob has 'jobs:reed'"),
    (9, "access.keys.3: the keys of cid and dan both begin with"),
    (10, "access.oidc.issuer: issuer must be an https URL"),
    (11, "access.origins: an origin is written as"),
    (13, "server.tls_certificate: none.pem, with tls_key none.pem, cannot be used"),
    (15, "server.limits: a rate must be at least 1"),
    (17, "jobs.jitter: jitter must be at least 0 s"),
    (27, "types.webhook.secrets.a.hosts: hosts must name the hosts"),
    (20, "scheduler.retry.factor: factor must be"),
    (21, "scheduler.catch_up.grace: grace must be"),
    (23, "work.lease: lease must be at least 1 s"),
)


def test_all_that_a_server_would_refuse_is_told_with_its_line() -> None:
    found = load(WRONG)
    with pytest.raises(ConfigurationError) as refused:
        check(found.settings, found.named)
    told = str(refused.value).splitlines()
    for each, (line, text) in zip(told, TOLD, strict=True):
        assert each.startswith(f"settings.yaml, line {line}: {text}"), each
    assert "secret" not in str(refused.value).replace("secrets.a", "").replace(
        "that a secret goes to", ""
    )
    with pytest.raises(ConfigurationError, match=r"^access\.keys\.0\.hash: hash of"):
        serve(found.settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("server: {host: 0.0.0.0}", "server.host: without authentication it is for"),
        (
            "types: {shell: {commands: {x: {arguments: [/bin/true]}}}}",
            "types.shell: it runs commands, and without authentication",
        ),
        ("dashboard: {origin: nowhere}", "dashboard.origin: an origin is written as"),
        ("store: {url: 'mysql://a:secret@b'}", "store.url: no store has the scheme"),
        ("scheduler:\n  lease: 0.1", "scheduler.lease: lease must be at least 1 s"),
    ],
)
def test_what_does_not_go_together_is_told(text: str, told: str) -> None:
    found = load(text)
    with pytest.raises(ConfigurationError) as refused:
        check(found.settings, found.named)
    assert told in str(refused.value)


def test_what_a_server_can_be_started_with_is_right() -> None:
    key = f"{{subject: ann, hash: {HASH}, scopes: [admin]}}"
    found = load(f"access: {{keys: [{key}]}}\nserver: {{host: 0.0.0.0}}")
    check(found.settings, found.named)
