"""What is changed from pages: by those who may, once, and said when it cannot be."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import MemoryStore
from go_scheduler.dashboard import create_dashboard
from go_scheduler.models import Outcome, State
from go_scheduler.testing.builders import HOUR, definition, ended, pending, put
from go_scheduler.testing.clock import START
from go_scheduler.triggers.cron import CronTrigger
from tests.dashboard.house import ANN, OWN, as_ann, token_in
from tests.http.serving import Calling

if TYPE_CHECKING:
    import httpx
    from starlette.applications import Starlette

    from go_scheduler.client import Client
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return MemoryStore(clock)


@pytest.fixture
def dashboard(client: Client, clock: ManualClock) -> Starlette:
    return create_dashboard(client, authorize=as_ann, clock=clock)


@pytest.fixture
def report(store: Store) -> TaskDefinition:
    new = definition(
        START + HOUR,
        trigger=CronTrigger("0 * * * *"),
        name="report",
        metadata={"to": "ann"},
    )
    return put(store, replace(new, id=uuid4()))


def press(browser: Calling, path: str, **fields: object) -> httpx.Response:
    """Send a form of the dashboard's, as a browser does."""
    data = {"csrf": token_in(browser.get("/")), **fields}
    return browser.post(path, headers=OWN, data=data)


def test_pause_and_resume(
    client: Client, browser: Calling, report: TaskDefinition
) -> None:
    path = f"/definitions/{report.id}"
    answer = press(browser, f"{path}/pause", note="too much")
    assert answer.status_code == 303
    page = browser.get(answer.headers["Location"]).text
    assert "It has been paused." in page
    assert "too much" in page
    assert client.get_definition(report.id).paused
    press(browser, f"{path}/resume")
    assert not client.get_definition(report.id).paused


def test_run_now_shows_the_instance(
    client: Client, browser: Calling, report: TaskDefinition
) -> None:
    answer = press(
        browser, f"/definitions/{report.id}/run", payload='{"order": 7}', key="k"
    )
    [made] = client.list_instances()
    assert answer.headers["Location"].endswith(f"/instances/{made.id}")
    assert made.payload == {"order": 7}
    assert made.key == "k"
    assert "order" in browser.get(f"/instances/{made.id}").text


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [
        ("2029-12-31T20:00", "2029-12-31T22:00:00", [4, 3]),
        ("2029-12-31T23:00+01:00", "2029-12-31T23:00Z", [2]),
    ],
)
def test_backfill(
    client: Client,
    browser: Calling,
    report: TaskDefinition,
    since: str,
    until: str,
    hours: list[int],
) -> None:
    span = {"from": since, "until": until}
    press(browser, f"/definitions/{report.id}/backfill", **span)
    found = [each.fire_time for each in client.list_instances()]
    assert found == [START - hour * HOUR for hour in hours]


def test_edit_keeps_what_is_not_in_the_form(
    client: Client, browser: Calling, report: TaskDefinition
) -> None:
    fields = {"queue": "slow", "priority": "2", "metadata": '{"to": "bob"}'}
    path = f"/definitions/{report.id}/edit"
    press(browser, path, revision=report.revision, **fields)
    edited = client.get_definition(report.id)
    assert (edited.queue, edited.priority, edited.metadata) == (
        "slow",
        2,
        {"to": "bob"},
    )
    assert edited.trigger == report.trigger
    again = press(browser, path, revision=report.revision, **fields | {"priority": "3"})
    assert again.status_code == 409
    assert client.get_definition(report.id).priority == 2


def test_cancel_and_retry(client: Client, browser: Calling, store: Store) -> None:
    failed = ended(store, outcome=Outcome.FAILED)
    assert press(browser, f"/instances/{failed.id}/retry").status_code == 303
    assert client.get_instance(failed.id).state is State.PENDING
    assert press(browser, f"/instances/{failed.id}/cancel").status_code == 303
    assert client.get_instance(failed.id).state is State.CANCELLED
    for way in ("cancel", "retry"):
        answer = press(browser, f"/instances/{failed.id}/{way}")
        assert answer.status_code == 409


@pytest.mark.parametrize(
    ("path", "fields", "field"),
    [
        ("run", {"payload": "[1]"}, "payload"),
        ("run", {"payload": "{"}, "payload"),
        ("backfill", {"from": "2029-01-01"}, "until"),
        ("backfill", {"from": "soon", "until": "2029-01-01"}, "from"),
        ("edit", {"revision": "x", "priority": "1"}, "revision"),
        ("edit", {"revision": "1", "priority": "4"}, "priority"),
        ("edit", {"revision": "1", "priority": "1", "queue": "x" * 201}, "queue"),
    ],
)
def test_a_wrong_field_is_told(
    browser: Calling,
    report: TaskDefinition,
    path: str,
    fields: dict[str, str],
    field: str,
) -> None:
    answer = press(browser, f"/definitions/{report.id}/{path}", **fields)
    assert answer.status_code == 422
    assert field in answer.text
    assert f'<a href="/definitions/{report.id}">Back</a>' in answer.text


@pytest.mark.parametrize("path", ["/login", "//example.org/pause"])
def test_what_is_no_form_of_a_page_has_no_way_back_to_one(
    browser: Calling, path: str
) -> None:
    answer = browser.post(path, headers=OWN)
    assert answer.status_code == 404
    assert "Back" not in answer.text


@pytest.mark.parametrize(
    ("scope", "buttons"),
    [
        ("jobs:read", []),
        ("jobs:write", ["edit"]),
        ("jobs:pause", ["pause"]),
        ("runs:write", ["run", "backfill"]),
    ],
)
def test_each_has_the_buttons_that_their_scope_allows(
    client: Client, report: TaskDefinition, scope: str, buttons: list[str]
) -> None:
    made = pending(client._store)
    some = replace(ANN, scopes=frozenset({"jobs:read", "runs:read", scope}))
    app = create_dashboard(client, authorize=lambda request: some)
    with Calling(app) as browser:
        text = browser.get(f"/definitions/{report.id}").text
        of_instance = browser.get(f"/instances/{made.id}").text
    assert re.findall(rf'action="/definitions/{report.id}/(\w+)"', text) == buttons
    assert ('method="post"' in of_instance) is (scope == "runs:write")


@pytest.mark.parametrize("scope", ["jobs:read", "runs:read"])
def test_pages_take_the_scopes_of_definitions_and_of_instances(
    client: Client, scope: str
) -> None:
    some = replace(ANN, scopes=frozenset({scope}))
    app = create_dashboard(client, authorize=lambda request: some)
    with Calling(app) as browser:
        for path in ("/", "/definitions", "/instances"):
            assert browser.get(path).status_code == 403


def test_what_is_another_queues_cannot_be_changed(client: Client, store: Store) -> None:
    made = pending(store, definition(START, queue="theirs"))
    restricted = replace(ANN, queues=frozenset({"mine"}))
    app = create_dashboard(client, authorize=lambda request: restricted)
    with Calling(app) as browser:
        for path in (
            f"/instances/{made.id}/cancel",
            f"/definitions/{made.definition.id}/pause",
        ):
            assert press(browser, path).status_code == 404
        mine = put(store, definition(START, queue="mine", key=9))
        moved = press(
            browser,
            f"/definitions/{mine.id}/edit",
            revision=mine.revision,
            priority="1",
            queue="theirs",
        )
    assert moved.status_code == 403
    assert client.get_definition(mine.id).queue == "mine"
