"""Each figure on a page is that of the store, whichever that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from go_scheduler.dashboard.words import late, node_state, plain_instant, span, took
from go_scheduler.models import State
from go_scheduler.models.counts import BOUNDS
from go_scheduler.stores.filters import Filter
from go_scheduler.testing.builders import HOUR, MINUTE, NODE, SECOND, counts_by_state
from go_scheduler.testing.clock import START
from go_scheduler.triggers import preview
from tests.dashboard.parsed import Parsed
from tests.dashboard.seeds import HOSTILE, NEXT, Seeds, sow

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock
    from tests.http.serving import Calling

NOW = START + HOUR + MINUTE + 5 * SECOND


@pytest.mark.slow
def test_each_figure_is_that_of_the_store(
    store: Store, clock: ManualClock, browser: Calling
) -> None:
    seeds = sow(store, clock)
    assert store.now() == NOW

    def page(path: str) -> Parsed:
        answer = browser.get(path)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        found = Parsed(answer)
        assert found.open == []
        return found

    _check_overview(page("/"), store, seeds)
    for state in State:
        rows = page(f"/instances?state={state.value}").rows(f"are {state.value}")
        expected = store.select(Filter(states=[state]))
        assert sorted(rows) == sorted(_row(each) for each in expected)
    _check_report(page(f"/definitions/{seeds.report.id}"), store, seeds)
    _check_task(page(f"/definitions/{seeds.send.id}"), store, seeds)
    idle = page(f"/definitions/{seeds.idle.id}")
    assert f"since {_at(START)}" in idle.text
    assert HOSTILE in idle.text
    _check_instances(page, store, seeds)
    _check_lists(page, seeds)
    _check_nodes(page("/nodes"), store)
    assert page("/").rows("How late runs") == [
        [
            *("default", "62", span(BOUNDS[5]), span(BOUNDS[20])),
            *("2,468", "4", "0", "0", "0"),
        ],
        ["mail", "2", *[span(BOUNDS[5])] * 2, "0", "0", "0", "0", "7"],
    ]


def _check_overview(page: Parsed, store: Store, seeds: Seeds) -> None:
    for state, count in counts_by_state(store).items():
        assert f"{count} {state.value}" in page.links
    due = [
        each
        for each in store.select(Filter(states=[State.PENDING]))
        if each.due_at <= NOW
    ]
    age = span(NOW - min(each.due_at for each in due))
    assert page.rows("By queue") == [["mail", str(len(due)), age]]
    assert page.rows("Latest failures") == [_row(seeds.failed)]
    assert page.rows("Claimed and running") == [_row(seeds.running)]
    assert sorted(row[-1] for row in page.rows("Nodes")) == ["0", "1"]


def _check_report(page: Parsed, store: Store, seeds: Seeds) -> None:
    expected = store.select(Filter(definition_id=seeds.report.id))
    short = [_row(each, within=True) for each in reversed(expected)]
    assert page.rows("Instances of its fire times") == short
    for each in preview(seeds.report.trigger, 10, NEXT - SECOND):
        assert str(each) in page.text
    assert seeds.report.trigger.describe() in page.text
    in_window = [each for each in expected if each.execute_at > NOW - 45 * MINUTE]
    marks = page.rows("Each firing")
    assert [row[1] for row in marks] == [each.state.value for each in in_window]
    assert [row[0] for row in marks] == [_at(each.fire_time) for each in in_window]


def _check_task(page: Parsed, store: Store, seeds: Seeds) -> None:
    expected = store.select(Filter(definition_id=seeds.send.id), descending=True)
    assert page.rows("made by hand") == [_row(each, within=True) for each in expected]
    assert page.rows("Instances of its fire times") == []
    assert f'{{"team":{HOSTILE!r}' not in page.text
    assert "alert('x')" in page.text


def _check_instances(page: Callable[[str], Parsed], store: Store, seeds: Seeds) -> None:
    failed = page(f"/instances/{seeds.failed.id}")
    runs = store.list_runs(seeds.failed.id)
    assert [row[0] for row in failed.rows("twenty")] == [
        str(each.attempt) for each in runs
    ]
    assert len(runs) == 2
    assert failed.text.count(f"KeyError: {HOSTILE}") >= 3
    done = page(f"/instances/{seeds.completed.id}")
    assert "Late 5 s" in done.text
    assert "Took 1 min" in done.text
    assert "order 7" in page(f"/instances/{seeds.keyed.id}").text


def _check_lists(page: Callable[[str], Parsed], seeds: Seeds) -> None:
    report, send, idle = seeds.report.name, seeds.send.name, seeds.idle.name
    for query, names in (
        ("", {report, send, idle}),
        ("?state=paused", {idle}),
        ("?queue=mail&name=send", {send}),
        ("?owner=nobody", set()),
        ('?metadata={"team":1}', set()),
        ("?order=soonest&state=active", {report, send}),
    ):
        rows = page(f"/definitions{query}").rows("Definitions")
        assert {row[0] for row in rows} == names
    found = page("/search?q=order 7")
    assert [row[0] for row in found.rows("this key")] == [str(seeds.keyed.id)[:8]]
    assert [row[0] for row in page("/search?q=sen").rows("name begins")] == ["send"]


def _check_nodes(page: Parsed, store: Store) -> None:
    rows = {row[0]: row for row in page.rows("Seen within")}
    for each in Client(store).nodes():
        row = rows[str(each.id)]
        assert row[1:4] == [each.host, str(each.pid), node_state(each)]
        assert row[6] == ("1" if each.id == NODE else "0")


def _row(each: TaskInstance, *, within: bool = False) -> list[str]:
    """The row of an instance, as tables have it."""
    of = [] if within else [each.definition.name or "", each.definition.queue]
    error = "–" if each.error is None else f"KeyError: {HOSTILE}"
    return [
        str(each.id)[:8],
        *of,
        each.state.value,
        _at(each.execute_at),
        span(late(each)),
        span(took(each, NOW)),
        str(each.runs),
        error,
    ]


def _at(at: datetime | None) -> str:
    assert at is not None
    return f"{plain_instant(at)} UTC"
