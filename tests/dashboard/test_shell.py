"""The dashboard as an application: its pages, wherever it is mounted, and its files."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from go_scheduler import ConfigurationError, MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.testing import ManualClock
from tests.dashboard.parsed import Parsed
from tests.http.serving import Calling


def test_the_overview_is_shown(browser: Calling) -> None:
    answer = browser.get("/")
    assert answer.status_code == 200
    assert "<h1>Overview</h1>" in answer.text


@pytest.mark.parametrize("outer", [Starlette, FastAPI])
def test_all_its_links_are_where_it_is_mounted(outer: type[Starlette]) -> None:
    app = outer(routes=[Mount("/ops/tasks", create_dashboard(Client(MemoryStore())))])
    with Calling(app) as browser:
        page = browser.get("/ops/tasks/").text
        links = re.findall(r'(?:href|src|action)="([^#][^"]*)"', page)
        assert len(links) > 4
        for each in links:
            assert each.startswith("/ops/tasks/")
            assert browser.get(each).status_code == 200
        assert browser.get("/ops/tasks").headers["Location"].endswith("/ops/tasks/")


def test_a_static_file_of_a_version_is_kept_for_ever(browser: Calling) -> None:
    [link] = re.findall(r'href="([^"]*dashboard.css[^"]*)"', browser.get("/").text)
    answer = browser.get(link)
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    again = browser.get(link, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


def test_a_static_file_of_no_version_is_asked_for_again(browser: Calling) -> None:
    answer = browser.get("/static/dashboard.css")
    assert answer.headers["Cache-Control"] == "public, no-cache"


def test_what_is_carried_has_its_licence_beside(browser: Calling) -> None:
    assert browser.get("/static/vendor/htmx.min.js").status_code == 200
    assert "BSD" in browser.get("/static/vendor/htmx.LICENSE.txt").text


def test_what_is_not_there_is_a_page_that_says_so(browser: Calling) -> None:
    answer = browser.get("/nothing")
    assert answer.status_code == 404
    assert "<h1>Not Found</h1>" in answer.text


def test_nobody_unknown_is_to_change_anything() -> None:
    with pytest.raises(ConfigurationError, match="give access= or authorize="):
        create_dashboard(Client(MemoryStore()), allow_changes=True)


def test_pages_go_by_the_time_of_the_store() -> None:
    client = Client(MemoryStore(ManualClock()))
    with Calling(create_dashboard(client)) as browser:
        assert "As of 2030-01-01 00:00" in Parsed(browser.get("/")).text
