"""The page on the dashboard shows what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.test_in_browser import DOCS, PATHS
from tests.http.serving import Calling

PAGE = (DOCS / "dashboard.md").read_text()
# What is of a Django project runs in one alone, and so is marked otherwise.
MOUNTED, WITH_DJANGO = re.findall(r"^```py(?:thon)?\n(.*?)^```$", PAGE, re.M | re.S)
DJANGO = f"""
import asyncio
import httpx
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={{
        "default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "users"}}
    }},
    SECRET_KEY="of a test",
    INSTALLED_APPS=[
        "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"
    ],
    ROOT_URLCONF=__name__,
)
urlpatterns = []

{MOUNTED}
{WITH_DJANGO}

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

call_command("migrate", verbosity=0)


async def asked(path, user):
    cookies = {{}}
    if user is not None:
        browser = Client()
        await browser.aforce_login(user)
        cookies = {{"sessionid": browser.cookies["sessionid"].value}}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application),
        base_url="http://tasks.example.org",
        cookies=cookies,
    ) as client:
        return (await client.get(path)).status_code


async def ask():
    staff = await User.objects.acreate_user("ann", is_staff=True)
    other = await User.objects.acreate_user("bob")
    print([await asked("/tasks/", each) for each in (None, other, staff)])
    print(await asked("/none", staff))


asyncio.run(ask())
"""


def test_it_is_mounted_as_shown() -> None:
    shown: dict[str, Any] = {}
    exec(compile(MOUNTED, "dashboard.md", "exec"), shown)
    with Calling(shown["app"]) as browser:
        assert browser.get("/tasks/").status_code == 403
        answer = browser.get("/tasks/", headers={"X-User": "ann"})
        assert answer.status_code == 200
        assert ">ann<" in answer.text


@pytest.mark.slow
def test_it_is_mounted_beside_django_as_shown(tmp_path: Path) -> None:
    (tmp_path / "asgi.py").write_text(DJANGO)
    ran = subprocess.run(
        [sys.executable, "asgi.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "[403, 403, 200]\n404\n", ran.stderr


def test_each_picture_is_there_and_shown() -> None:
    pages = [each.read_text() for each in DOCS.glob("*.md")]
    shown = re.findall(r"\(images/(dashboard-.+?)\.png\)", "".join(pages))
    assert {*shown} == {*PATHS}
    for each in PATHS:
        assert 0 < (DOCS / f"images/{each}.png").stat().st_size < 200_000
