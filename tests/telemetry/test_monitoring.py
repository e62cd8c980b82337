"""The alert rules and the dashboard that are shown: Prometheus takes them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from go_scheduler.telemetry import figures
from tests.telemetry.conftest import OF_NODES

if TYPE_CHECKING:
    from collections.abc import Iterator

MONITORING = Path(__file__).parents[2] / "examples/monitoring"
RULES = MONITORING / "alerts.yml"
CASES = MONITORING / "alerts_test.yml"
DASHBOARD = MONITORING / "dashboard.json"
REQUIRED = "GO_SCHEDULER_REQUIRE_PROMTOOL"


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail("there is no promtool, and it is required")
        pytest.skip("there is no promtool: Debian's package prometheus has it")
    return found


def checked(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exported() -> Iterator[str]:
    for figure in (*OF_NODES, *figures.OF_STORE):
        if figure.kind is figures.Kind.HISTOGRAM:
            yield f"{figure.in_prometheus}_bucket"
        else:
            yield figure.in_prometheus


def alerts() -> dict[str, str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for of in groups for rule in of["rules"]}


def queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def named(text: str) -> set[str]:
    return set(re.findall(r"\bgo_scheduler_\w+", text))


def test_prometheus_takes_the_rules(promtool: str) -> None:
    assert f"{len(alerts())} rules found" in checked(promtool, "check", "rules", RULES)


def test_each_alert_fires_when_it_should_and_not_when_all_is_well(
    promtool: str,
) -> None:
    assert "SUCCESS" in checked(promtool, "test", "rules", CASES)
    well, unwell = yaml.safe_load(CASES.read_text())["tests"]
    quiet = {each["alertname"] for each in well["alert_rule_test"]}
    fire = {
        each["alertname"] for each in unwell["alert_rule_test"] if "exp_alerts" in each
    }
    assert quiet == fire == alerts().keys()


def test_prometheus_takes_the_queries_of_the_dashboard(
    promtool: str, tmp_path: Path
) -> None:
    rules = [
        {
            "record": f"query_{number}",
            "expr": query.replace("$__rate_interval", "5m").replace("$queue", ".*"),
        }
        for number, query in enumerate(queries())
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    assert f"{len(rules)} rules found" in checked(promtool, "check", "rules", path)


def test_what_is_asked_for_is_what_is_exported() -> None:
    asked = named(" ".join([*queries(), *alerts().values()]))
    assert asked == set(exported())
    in_cases = named(CASES.read_text())
    assert in_cases <= asked


def test_each_panel_says_what_it_shows() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert all(each["title"] and each["description"] for each in panels)
    assert len({each["id"] for each in panels}) == len(panels)
