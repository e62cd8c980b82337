"""The tutorial runs as it says, on two nodes; so does a page on workers over HTTP."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from go_scheduler import Scheduler, State
from go_scheduler.stores import open_store
from tests.cli.test_page import PORT, with_a_script
from tests.http.test_page import END, NEEDED, PLACE, commands
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/tutorial.md").read_text()
FOLDER = ROOT / "examples/tutorial"
WORKER = "go_scheduler worker shop:handlers"
COMMANDS = [*dict.fromkeys(re.findall(r"^(go_scheduler .+)$", PAGE, re.MULTILINE))]
# These go on until they are stopped.
SERVERS = (WORKER, "go_scheduler dashboard")
pytestmark = [pytest.mark.slow, pytest.mark.documentation]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for each in ("shop.py", "test_shop.py"):
        shutil.copy(FOLDER / each, tmp_path)
    return tmp_path


def lines_of(environment: dict[str, str], folder: Path) -> Generator[str]:
    """What two workers print, until they are left; both are stopped then."""
    reading, writing = os.pipe()
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    ["sh", "-c", f"exec {WORKER}"],
                    stdout=writing,
                    stderr=writing,
                    cwd=folder,
                    env=environment,
                )
            )
            for _ in range(2)
        ]
        os.close(writing)
        printed = stack.enter_context(os.fdopen(reading))

        def kill() -> None:
            for each in workers:
                each.kill()

        # Whatever goes wrong, the lines come to an end.
        timer = threading.Timer(FAILED_AFTER, kill)
        timer.start()
        try:
            # Not yield from, which would close it when this is closed.
            for line in printed:  # noqa: UP028
                yield line
        finally:
            timer.cancel()
            for each in workers:
                each.send_signal(signal.SIGTERM)
            printed.read()
            assert [each.wait() for each in workers] == [0, 0]


def test_two_nodes_share_the_work_of_the_tutorial(
    empty_database_url: Callable[[], str], folder: Path
) -> None:
    url = empty_database_url()
    environment = with_a_script(folder) | {"GO_SCHEDULER_STORE": url}
    environment["PYTHONPATH"] = str(ROOT)
    seen: list[str] = []

    def read_until(text: str, count: int) -> None:
        while sum(text in each for each in seen) < count:
            seen.append(next(lines))

    lines = lines_of(environment, folder)
    with closing(lines):
        read_until(" starts", 2)
        for command in COMMANDS:
            if not command.startswith(SERVERS):
                ran = subprocess.run(
                    ["sh", "-c", command.replace(" ID", " report")],
                    env=environment,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert ran.returncode == 0, command + ran.stdout + ran.stderr
                assert ran.stdout, command
        read_until("welcome, Ada", 1)
        read_until("the report of the night", 1)
        read_until("printing labels", 2)
        read_until("printing invoices", 2)
    assert sum("the mail server is away" in each for each in seen) > 0
    assert one_at_a_time(url)


def one_at_a_time(url: str) -> bool:
    """Whether of the two jobs with a lock no two ran at once."""
    with closing(open_store(url)) as store:
        client = Scheduler(None, store)
        ended = [*client.list_instances(state=State.COMPLETED, limit=100)]
    times = sorted(
        (each.started_at, each.completed_at)
        for each in ended
        if each.definition.lock and each.started_at and each.completed_at
    )
    assert len(times) >= 2
    return all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_the_tests_of_the_tutorial_pass(folder: Path) -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "test_shop.py",
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_tutorial_is_deployed_as_it_was_built() -> None:
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    worker, server = services["worker"], services["server"]
    assert f"go_scheduler {' '.join(worker['command'])}" == WORKER
    assert worker["deploy"]["replicas"] == 2
    for each in (worker, server):
        assert (FOLDER / each["build"]["context"]).resolve() == ROOT
        assert (ROOT / each["build"]["dockerfile"]).is_file()
        for mounted in each["volumes"]:
            assert (FOLDER / mounted.split(":")[0]).is_file()
        store = services["store"]["environment"]
        url = (
            "postgresql://{POSTGRES_USER}:{POSTGRES_PASSWORD}@store:5432/{POSTGRES_DB}"
        )
        assert each["environment"]["GO_SCHEDULER_STORE"] == url.format(**store)


@pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}"
)
def test_a_recurring_job_is_run_over_http_as_shown(tmp_path: Path) -> None:
    shown = commands((ROOT / "docs/recurring-http.md").read_text())
    assert len(shown) > 10
    environment = with_a_script(tmp_path)
    place = f"http://127.0.0.1:{environment[PORT]}"
    ready = f"curl -s --retry 60 --retry-delay 1 --retry-connrefused {place}/readyz"
    script = "\n".join(
        [
            "go_scheduler serve --store sqlite:///jobs.db >log 2>&1 & server=$!",
            f"{ready} >/dev/null",
            *(f"{each.text.replace(PLACE, place)}\necho '{END}'" for each in shown),
            "kill $server; wait $server",
        ]
    )
    done = subprocess.run(
        ["bash", "-s"],
        input=script,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=FAILED_AFTER,
        check=False,
    )
    printed = done.stdout.split(END)
    assert len(printed) == len(shown) + 1, done.stdout + done.stderr
    for (text, expected), found in zip(shown, printed, strict=False):
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, found.strip(), re.S), (text, found, done.stderr)
