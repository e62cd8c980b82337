"""The configuration: its sources, its errors, and how it is shown."""

from __future__ import annotations

import inspect
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from go_scheduler import CatchUp, RetryPolicy, Scheduler
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import read_duration, write_duration
from go_scheduler.http import serve
from go_scheduler.http.access.authentication import BearerAccess, OpenAccess, new_key
from go_scheduler.http.configuration.files import read_file
from go_scheduler.http.configuration.loading import (
    as_yaml,
    check,
    load_configuration,
    settings_of,
)
from go_scheduler.http.configuration.sections import Configuration
from go_scheduler.http.limits import Limits
from tests.case_tables import table
from tests.http.configuration.places import DOCS, YAML, load


def refused(text: str = "", **environment: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refusal:
        load(text, **environment)
    return str(refusal.value).splitlines()


def test_without_anything_all_is_as_the_parts_have_it() -> None:
    settings = load_configuration()
    assert settings.store.url is None
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8710)
    assert settings.server.drain == timedelta(seconds=30)
    assert settings.server.request_limits() == Limits()
    assert isinstance(settings.access.made(), OpenAccess)
    given = settings.scheduler.as_arguments()
    defaults = inspect.signature(Scheduler).parameters
    assert given == {name: defaults[name].default for name in given}
    assert {origin for *_, origin in settings_of(settings)} == {"default"}


def test_a_file_is_found_in_the_working_folder_or_at_home(tmp_path: Path) -> None:
    home = tmp_path / "home/.config/go_scheduler"
    home.mkdir(parents=True)
    (home / "go_scheduler.yaml").write_text("server: {port: 1}")
    assert load_configuration().server.port == 1
    Path("go_scheduler.yaml").write_text("server: {port: 2}")
    assert load_configuration().server.port == 2
    assert load("server: {port: 3}").server.port == 3
    with pytest.raises(ConfigurationError, match=r"there is no file none\.yaml"):
        load_configuration(Path("none.yaml"))


def test_options_come_before_the_environment_and_that_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "server:\n  port: 1\n  host: a\n  root_path: /x\n"
    Path("settings.yaml").write_text(text)
    monkeypatch.setenv("GO_SCHEDULER_SERVER__PORT", "2")
    monkeypatch.setenv("go_scheduler_server__host", "b")
    monkeypatch.setenv("GO_SCHEDULER_TEST_X", "1")
    loaded = load_configuration(
        Path("settings.yaml"),
        options={"--port": ("server.port", 3), "--host": ("server.host", None)},
    )
    server = loaded.server
    assert (server.port, server.host, server.root_path) == (3, "b", "/x")
    origins = {place[-1]: origin for place, _, origin in settings_of(loaded)}
    assert origins["port"] == "--port"
    assert origins["host"] == "go_scheduler_server__host"
    assert origins["root_path"] == "settings.yaml"
    assert origins["drain"] == "default"


def test_the_variable_of_the_store_comes_before_all_that_is_said_of_it_else() -> None:
    for more in ({}, {"GO_SCHEDULER_STORE__URL": "sqlite:///own.db"}):
        variables = {**more, "GO_SCHEDULER_STORE": "sqlite:///whole.db"}
        loaded = load("store:\n  url: sqlite:///file.db\n", **variables)
        assert loaded.store.url == SecretStr("sqlite:///whole.db")
        assert loaded.sources.origin(("store", "url")) == "GO_SCHEDULER_STORE"


def test_a_section_in_a_variable_says_its_settings_and_leaves_the_others() -> None:
    text = "log:\n  level: error\n  format: json\n"
    loaded = load(text, GO_SCHEDULER_LOG="{level: debug}")
    assert (loaded.log.level, loaded.log.format) == ("debug", "json")
    assert loaded.sources.origin(("log", "level")) == "GO_SCHEDULER_LOG"
    assert loaded.sources.origin(("log", "format")) == "settings.yaml"
    assert loaded.sources.origin(("log", "requests")) == "default"


@pytest.mark.parametrize("order", [1, -1])
def test_a_variable_of_a_setting_comes_before_that_of_its_section(order: int) -> None:
    retry = "GO_SCHEDULER_SCHEDULER__RETRY"
    variables = {retry: "{factor: 2, delay: 5s}", f"{retry}__FACTOR": "3"}
    loaded = load(**dict([*variables.items()][::order]))
    found = loaded.scheduler.retry
    assert found is not None
    assert (found.factor, found.delay) == (3, timedelta(seconds=5))
    assert loaded.sources.origin(("scheduler", "retry", "factor")) == f"{retry}__FACTOR"
    assert loaded.sources.origin(("scheduler", "retry", "delay")) == retry


def test_durations_lists_and_sections_are_said_in_the_environment_too() -> None:
    settings = load(
        GO_SCHEDULER_STORE="sqlite:///a.db",
        GO_SCHEDULER_SERVER="http://another.example",
        GO_SCHEDULER_SCHEDULER__LEASE="1m30s",
        GO_SCHEDULER_SCHEDULER__QUEUES="a, b",
        GO_SCHEDULER_SCHEDULER__RETRY__MAX_ATTEMPTS="3",
        GO_SCHEDULER_SCHEDULER__CATCH_UP='{"mode": "all", "grace": "1m"}',
        GO_SCHEDULER_ACCESS__ORIGINS="[http://a.example]",
        GO_SCHEDULER_LOG__REQUESTS="no",
    )
    assert settings.store.url == SecretStr("sqlite:///a.db")
    given = settings.scheduler.as_arguments()
    assert given["lease"] == timedelta(seconds=90)
    assert given["queues"] == ("a", "b")
    assert given["retry"] == RetryPolicy(max_attempts=3)
    assert given["catch_up"] == CatchUp(mode="all", grace=timedelta(minutes=1))
    assert settings.access.origins == ("http://a.example",)
    assert not settings.log.requests


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ("{}", None),
        ("{max_attempts: 3}", RetryPolicy(max_attempts=3)),
        ("{stop_on: [KeyError]}", RetryPolicy(stop_on=["KeyError"])),
        ("{delay: 3s}", RetryPolicy(delay=timedelta(seconds=3))),
        ("{delay: 3s, jitter: 1}", RetryPolicy(delay=timedelta(seconds=3), jitter=1)),
        ("{delay: null, max_attempts: 100}", RetryPolicy.after_expiry()),
    ],
)
def test_what_is_left_out_of_a_retry_is_as_in_a_policy(
    said: str, policy: RetryPolicy | None
) -> None:
    settings = load(GO_SCHEDULER_SCHEDULER__RETRY=said)
    assert settings.scheduler.as_arguments()["retry"] == policy
    assert load().scheduler.as_arguments()["retry"] is None
    shown = settings.scheduler.retry
    if policy is not None:
        assert RetryPolicy(**dict(shown)) == policy


def test_what_is_wrong_is_told_with_source_name_and_remedy() -> None:
    text = """
server:
  port: 87100
  prot: 5
  limits:
    rate: {burts: 5}
acess: {}
scheduler:
  lease: soon
  retry: 5
access:
  keys:
    - subject: ann
      scopes: [admin]
      qeues: [a]
  oidc: {issuer: https://a.example}
  origins: ["*"]
dashboard: {origin: nowhere}
"""
    told = refused(text, GO_SCHEDULER_LOG__LEVEL="loud", GO_SCHEDULER_LOG__X__Y="1")
    assert {*told} == {
        "settings.yaml: server.port: it must be at most 65535",
        "settings.yaml: server.prot: there is no such setting: did you mean port?",
        "settings.yaml: server.limits.rate.burts: there is no such setting:"
        " did you mean burst?",
        "settings.yaml: acess: there is no such setting: did you mean access?",
        "settings.yaml: scheduler.lease: it must be a number of seconds, or a"
        " text such as 90s, 5m, 1h30m or 2d, not 'soon'",
        "settings.yaml: scheduler.retry: it must have settings of its own,"
        " as in {name: value}",
        "settings.yaml: access.keys.0.hash: it is missing",
        "settings.yaml: access.keys.0.qeues: there is no such setting: did"
        " you mean queues?",
        "settings.yaml: access.oidc.audience: it is missing",
        "settings.yaml: access.origins.0: an origin is written as browsers send it,"
        " such as https://tasks.example.org: '*'",
        "settings.yaml: dashboard.origin: an origin is written as browsers send it,"
        " such as https://tasks.example.org: 'nowhere'",
        "GO_SCHEDULER_LOG__LEVEL: log.level: it must be 'debug', 'info', 'warning'"
        " or 'error'",
        "GO_SCHEDULER_LOG__X__Y: log.x: there is no such setting: known are"
        " format, level, requests, log_polls",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *table("http/configuration/no_configurations"),
        ("server: [", "settings.yaml, line 1: it is no YAML: "),
        ("a: b\n\tc: d", "settings.yaml, line 2: it is no YAML: "),
        ("a: \x00", "settings.yaml: it is no YAML: "),
        (f"server: {{port: {'9' * 5000}}}", "line 1: it is no YAML: Exceeds"),
        (f"server: {'[' * 3000}", "settings.yaml: it is nested too deep"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, told: str) -> None:
    said = refused(text)
    assert any(told in each for each in said)
    assert not any("secret" in each for each in said)


def test_settings_may_be_repeated_by_aliases_and_merged() -> None:
    loaded = load(
        "scheduler:\n  retry: &retry\n    factor: 2\n    delay: 5s\n"
        "server:\n  limits: {<<: [{threads: 7}, {threads: 9, calls: 8}]}\n"
        "log: {format: &format json}\n"
    )
    assert loaded.server.limits.threads == 7
    assert loaded.server.limits.calls == 8
    assert loaded.sources.origin(("server", "limits", "calls")) == "settings.yaml"
    loaded = load("log: &a {level: debug}\nserver:\n  port: 5\n  <<: {port: 6}")
    assert loaded.server.port == 5
    assert loaded.sources.origin(("server", "port")) == "settings.yaml"


def test_a_wrong_section_is_named_with_its_file_and_not_with_a_variable() -> None:
    [told] = refused("server: {tls_key: a.pem}", GO_SCHEDULER_SERVER__PORT="1")
    assert told.startswith("settings.yaml: server: tls_certificate and tls_key need")


def test_a_section_without_settings_has_the_defaults() -> None:
    settings = load("server:\nlog: {}\n")
    assert {origin for *_, origin in settings_of(settings)} == {"default"}


def test_a_file_that_cannot_be_read_is_told() -> None:
    Path("settings.yaml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="is no text in UTF-8"):
        load_configuration(Path("settings.yaml"))
    Path("secret").write_bytes(b"\xff")
    assert "it is no text" in refused("store: {url_file: secret}")[0]
    Path("loop").symlink_to("loop")
    assert "cannot be read" in refused("store: {url_file: loop}")[0]
    # A folder is refused by the system, whoever runs the tests.
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_file(Path())


def test_variables_of_no_section_are_refused() -> None:
    assert refused(GO_SCHEDULER_SEVRER__PORT="1") == [
        "GO_SCHEDULER_SEVRER__PORT: sevrer: there is no such setting: did you mean"
        " server?"
    ]
    for name, place in (
        ("GO_SCHEDULER__PORT", "_port"),
        ("GO_SCHEDULER__SERVER__PORT", "_server"),
    ):
        [told] = refused(**{name: "1"})
        assert told.startswith(f"{name}: {place}: there is no such setting; a variable")
        assert told.endswith(": GO_SCHEDULER_SERVER__PORT")
    # Kubernetes makes such a variable of the name of a service.
    loaded = load("", GO_SCHEDULER_PORT="tcp://10.0.0.1:8710")
    assert loaded.server.port == 8710
    assert refused(GO_SCHEDULER_ACCESS__KEYS="[{")[0].startswith(
        "GO_SCHEDULER_ACCESS__KEYS, line 1: it is no YAML: expected"
    )


def test_lists_are_said_by_variables_as_a_whole_and_nothing_by_null() -> None:
    [told] = refused(GO_SCHEDULER_ACCESS__KEYS__0__SUBJECT="ann")
    assert told.startswith("GO_SCHEDULER_ACCESS__KEYS__0__SUBJECT: access.keys: it mus")
    first, _ = refused(GO_SCHEDULER_ACCESS__OIDC__ROLES="{a: [admin]}")
    assert first.startswith("GO_SCHEDULER_ACCESS__OIDC__ROLES: access.oidc.issuer: it ")
    assert load().sources.named(("log", "level")) == "configuration: log.level"
    text = "server: {limits: {rate: {burst: 5}}}"
    limits = load(text, GO_SCHEDULER_SERVER__LIMITS__RATE="null").server.limits
    assert limits.rate is None


def test_of_a_secret_and_its_file_the_first_source_wins() -> None:
    Path("of file").write_text("memory://of-file")
    in_file = "store: {url_file: of file}"
    by_variable = {"GO_SCHEDULER_STORE__URL": "memory://of-variable"}
    by_option = {"--store": ("store.url", "memory://of-option")}
    by_file = {"GO_SCHEDULER_STORE__URL_FILE": "of file"}
    assert _store(load(in_file)) == ("memory://of-file", "settings.yaml")
    assert _store(load(in_file, **by_variable)) == (
        "memory://of-variable",
        "GO_SCHEDULER_STORE__URL",
    )
    loaded = load_configuration(Path("settings.yaml"), options=by_option)
    assert _store(loaded) == ("memory://of-option", "--store")
    assert _store(load("store: {url: 'memory://b'}", **by_file)) == (
        "memory://of-file",
        "GO_SCHEDULER_STORE__URL_FILE",
    )


def _store(loaded: Configuration) -> tuple[str, str]:
    assert loaded.store.url is not None
    return loaded.store.url.get_secret_value(), loaded.sources.origin(("store", "url"))


def test_secrets_may_stand_in_files_and_are_masked() -> None:
    made = new_key()
    Path("url").write_text("postgresql://ann:s3cret@host/jobs\n")
    Path("hash").write_text(made.kept)
    text = """
store: {url_file: url}
access:
  keys:
    - {subject: ann, hash_file: hash, scopes: [admin], queues: [a]}
  oidc: {issuer: https://a.example, audience: jobs, roles_claim: roles, roles: {}}
server: {tls_key_password: "x://a?b", limits: {rate: null}}
"""
    loaded = load(text)
    assert isinstance(loaded.access.made(), BearerAccess)
    assert loaded.server.request_limits().rate is None
    shown = "\n".join(as_yaml(loaded))
    assert "s3cret" not in shown
    assert made.kept not in shown
    read = yaml.safe_load(shown)
    assert read["store"]["url"] == "postgresql://ann:***@host/jobs"
    assert read["access"]["keys"][0]["hash"] == "***"
    assert read["server"]["tls_key_password"] == "***"
    assert '  url: "postgresql://ann:***@host/jobs"  # settings.yaml' in shown
    assert read["scheduler"]["lease"] == "20s"


@pytest.mark.parametrize(
    ("url", "shown"),
    table("http/configuration/urls_shown"),
)
def test_of_a_url_only_the_password_is_masked(url: str, shown: str) -> None:
    loaded = load(f"store: {url}")
    values = {place: value for place, value, _ in settings_of(loaded)}
    assert values["store", "url"] == shown
    assert loaded.sources.origin(("store", "url")) == "settings.yaml"


SHOWN = """
access:
  oidc:
    issuer: https://a.example
    audience: jobs
    roles_claim: r
    roles: {admin: [admin], reader: [jobs:read]}
server: {tls_certificate: a.pem, tls_key: b.pem}
dispatch:
  types:
    resize: {payload: {anyOf: [{required: [a]}, {required: [b]}], examples: [{}, {}]}}
"""


def test_what_is_shown_is_json_and_yaml() -> None:
    settings = load(SHOWN)
    values = {
        ".".join(map(str, place)): value for place, value, _ in settings_of(settings)
    }
    assert json.loads(json.dumps(values)) == values
    assert values["access.oidc.roles.reader"] == ["jobs:read"]
    assert values["server.tls_key"] == "b.pem"
    shown = yaml.safe_load("\n".join(as_yaml(settings)))
    payload = yaml.safe_load(SHOWN)["dispatch"]["types"]["resize"]["payload"]
    assert shown["dispatch"]["types"]["resize"]["payload"] == payload
    assert shown["access"]["oidc"]["roles"]["admin"] == ["admin"]


def test_secrets_with_names_are_a_mapping() -> None:
    [told] = refused(
        "types: {shell: {commands: {a: {arguments: [x], environment: 5}}}}"
    )
    assert "a.environment: it must have settings of its own" in told


HASH = f'"12345678:{"0" * 64}"'
WRONG = f"""\
access:
  keys:
    - {{subject: ann, hash: gs_secret, scopes: [jobs:read]}}
    - subject: bob
      hash: {HASH}
      scopes:
        - jobs:reed
  oidc: {{issuer: "http://a.example", audience: x}}
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
    "server.limits.rate: a rate must be at least 1",
    "scheduler.retry.factor: factor must be",
    "scheduler.catch_up.grace: grace must be",
    "jobs.jitter: jitter must be at least 0 s",
    "access.keys.0.hash: hash of the key of ann must be what `go_scheduler key` or",
    "access.keys.1.scopes: scopes of bob has 'jobs:reed'",
    "access.oidc.issuer: issuer must be an https URL",
    "types.webhook.secrets.a.hosts: hosts must name the hosts",
    "server.tls_certificate: none.pem, with tls_key none.pem, cannot be used",
    "work.lease: lease must be at least 1 s",
)


def test_all_that_a_server_would_refuse_is_told_with_its_name() -> None:
    found = load(WRONG)
    with pytest.raises(ConfigurationError) as refused:
        check(found)
    told = str(refused.value).splitlines()
    for each, text in zip(told, TOLD, strict=True):
        assert each.startswith(f"settings.yaml: {text}"), each
    assert "secret" not in str(refused.value).replace("secrets.a", "").replace(
        "that a secret goes to", ""
    )
    with pytest.raises(
        ConfigurationError, match=r"^settings\.yaml: server\.limits\.rate: a rate"
    ):
        serve(found)


def test_who_may_run_commands_is_told_beside_what_is_wrong_with_them() -> None:
    shell = "{commands: {x: {arguments: [/bin/true], limits: {memory: 0}}}}"
    with pytest.raises(ConfigurationError) as refused:
        check(load(f"types: {{shell: {shell}}}"))
    one, other = str(refused.value).splitlines()
    assert "types.shell: it runs commands, and without authentication" in one
    assert "commands.x.limits.memory: memory must be at least 1" in other


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("server: {host: 0.0.0.0}", "server.host: without authentication it is for"),
        (
            "types: {shell: {commands: {x: {arguments: [/bin/true]}}}}",
            "types.shell: it runs commands, and without authentication",
        ),
        (
            f"access: {{keys: [{{subject: ann, hash: {HASH}, scopes: []}},"
            f" {{subject: bob, hash: {HASH}, scopes: []}}]}}",
            "access: the keys of ann and bob both begin with",
        ),
        ("store: {url: 'mysql://a:secret@b'}", "store.url: no store has the scheme"),
        ("scheduler:\n  lease: 0.1", "scheduler.lease: lease must be at least 1 s"),
    ],
)
def test_what_does_not_go_together_is_told(text: str, told: str) -> None:
    found = load(text)
    with pytest.raises(ConfigurationError) as refused:
        check(found)
    assert told in str(refused.value)


NAN = float("nan")


@pytest.mark.parametrize(
    ("written", "length"),
    [
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        ("90", timedelta(seconds=90)),
        ("1.5", timedelta(seconds=1.5)),
        ("5m", timedelta(minutes=5)),
        (" 1h 30 min ", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        ("250ms", timedelta(milliseconds=250)),
        ("1W", timedelta(weeks=1)),
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_a_duration_is_read(written: object, length: timedelta) -> None:
    assert read_duration(written) == length


@pytest.mark.parametrize(
    "written",
    ["", "soon", "5 parsecs", "5m later", "-5m", "m", True, None, [], NAN, 1e99],
)
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ConfigurationError, match="lease must be a number of seconds"):
        read_duration(written, "lease")


@given(st.timedeltas(timedelta(), timedelta(days=36_500)))
def test_what_is_written_is_read_as_the_same(length: timedelta) -> None:
    assert read_duration(write_duration(length)) == length


PAGES = ("access", "dashboard", "dispatch", "executors", "server")
KEYS = f"[{{subject: ann, hash: {HASH}, scopes: [admin]}}]"


@pytest.mark.parametrize("page", PAGES)
def test_the_configurations_that_a_page_shows_are_right(page: str) -> None:
    Path("secret").write_text("sqlite:///jobs.db")
    shown = YAML.findall((DOCS / f"{page}.md").read_text())
    assert shown
    for each in shown:
        # The files of keys and certificates are not there.
        text = re.sub(r"/run/secrets/[\w-]+", "secret", each)
        text = re.sub(r"^  tls_.*\n", "", text, flags=re.MULTILINE)
        keys = {} if "access:" in text else {"GO_SCHEDULER_ACCESS__KEYS": KEYS}
        found = load(text, **keys)
        check(found)
