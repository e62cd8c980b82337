"""What is changed from pages: by those who may, once, and said when it cannot be."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.models import Outcome, State
from go_scheduler.testing.builders import HOUR, definition, ended, pending, put
from go_scheduler.testing.clock import START
from go_scheduler.triggers.cron import CronTrigger
from tests.dashboard.house import ANN, OWN, as_ann, token_in
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return MemoryStore(clock)


class House:
    """A definition that is changed from its page, as a browser does."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.client = store, Client(store)
        self.app = create_dashboard(self.client, authorize=as_ann, clock=clock)
        new = definition(
            START + HOUR,
            trigger=CronTrigger("0 * * * *"),
            name="report",
            metadata={"to": "ann"},
        )
        self.report = put(store, replace(new, id=uuid4()))
        self.path = f"/definitions/{self.report.id}"

    def press(self, way: str, **fields: object) -> httpx.Response:
        """Send a form of the definition's page."""
        return press(self.browser, f"{self.path}/{way}", **fields)

    def now(self) -> TaskDefinition:
        return self.client.get_definition(self.report.id)

    browser: Calling


@pytest.fixture
def house(store: Store, clock: ManualClock) -> Iterator[House]:
    house = House(store, clock)
    with Calling(house.app) as house.browser:
        yield house


def press(browser: Calling, path: str, **fields: object) -> httpx.Response:
    """Send a form of the dashboard's, as a browser does."""
    data = {"csrf": token_in(browser.get("/")), **fields}
    return browser.post(path, headers=OWN, data=data)


def test_pause_and_resume(house: House) -> None:
    answer = house.press("pause", note="too much")
    assert answer.status_code == 303
    page = house.browser.get(answer.headers["Location"]).text
    assert "It has been paused." in page
    assert "too much" in page
    assert house.now().paused
    house.press("resume")
    assert not house.now().paused


def test_run_now_shows_the_instance(house: House) -> None:
    answer = house.press("run", payload='{"order": 7}', key="k")
    [made] = house.client.list_instances()
    assert answer.headers["Location"].endswith(f"/instances/{made.id}")
    assert made.payload == {"order": 7}
    assert made.key == "k"
    assert "order" in house.browser.get(f"/instances/{made.id}").text


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [
        ("2029-12-31T20:00", "2029-12-31T22:00:00", [4, 3]),
        ("2029-12-31T23:00+01:00", "2029-12-31T23:00Z", [2]),
    ],
)
def test_backfill(house: House, since: str, until: str, hours: list[int]) -> None:
    house.press("backfill", **{"from": since, "until": until})
    found = [each.fire_time for each in house.client.list_instances()]
    assert found == [START - hour * HOUR for hour in hours]


def test_edit_keeps_what_is_not_in_the_form(house: House) -> None:
    fields = {"queue": "slow", "priority": "2", "metadata": '{"to": "bob"}'}
    fields["revision"] = str(house.report.revision)
    house.press("edit", **fields)
    edited = house.now()
    assert (edited.queue, edited.priority) == ("slow", 2)
    assert edited.metadata == {"to": "bob"}
    assert edited.trigger == house.report.trigger
    assert house.press("edit", **fields | {"priority": "3"}).status_code == 409
    assert house.now().priority == 2


def test_cancel_and_retry(house: House) -> None:
    failed = ended(house.store, outcome=Outcome.FAILED)
    path = f"/instances/{failed.id}"
    for way, state in (("retry", State.PENDING), ("cancel", State.CANCELLED)):
        assert press(house.browser, f"{path}/{way}").status_code == 303
        assert house.client.get_instance(failed.id).state is state
    for way in ("cancel", "retry"):
        assert press(house.browser, f"{path}/{way}").status_code == 409


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
    house: House, path: str, fields: dict[str, str], field: str
) -> None:
    answer = house.press(path, **fields)
    assert answer.status_code == 422
    assert field in answer.text
    assert f'<a href="{house.path}">Back</a>' in answer.text


@pytest.mark.parametrize("path", ["/login", "//example.org/pause"])
def test_what_is_no_form_of_a_page_has_no_way_back_to_one(
    house: House, path: str
) -> None:
    answer = house.browser.post(path, headers=OWN)
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
    house: House, scope: str, buttons: list[str]
) -> None:
    made = pending(house.store)
    some = replace(ANN, scopes=frozenset({"jobs:read", "runs:read", scope}))
    app = create_dashboard(house.client, authorize=lambda request: some)
    with Calling(app) as browser:
        text = browser.get(house.path).text
        of_instance = browser.get(f"/instances/{made.id}").text
    assert re.findall(rf'action="{house.path}/(\w+)"', text) == buttons
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
