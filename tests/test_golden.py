"""The golden files say what users see. A test fails when that changes."""

from __future__ import annotations

import dataclasses
import difflib
import os
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from go_scheduler import RetryPolicy, TaskDefinition
from tests.golden import describe

FOLDER = Path(__file__).parent / "golden"
WRITE = "GO_SCHEDULER_WRITE_GOLDEN"
SLOW = ("import_lines", "printed_json")
"""The files for which commands are run."""
NAMES_SCHEMAS_OTHERWISE = [int(n) for n in version("fastapi").split(".")[:2]] < [0, 165]
"""Whether FastAPI is older than the one that the description of HTTP is kept of."""
IS_TO_WRITE = os.environ.get(WRITE) == "1"
HOW = (
    f"What users see has changed. If it should, `{WRITE}=1 pytest tests/test_golden.py`"
    " writes the files anew; name the change in CHANGELOG.md, in words for users."
)


@pytest.fixture
def folder(tmp_path: Path, sqlite_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty store. No setting of this machine applies to commands."""
    for name in os.environ:
        if name.startswith("GO_SCHEDULER_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(sqlite_file, tmp_path / "store.db")
    return tmp_path


def facts_in(file: Path) -> list[str]:
    return file.read_text().removesuffix("\n").split("\n")


def compared(name: str) -> Any:
    older = pytest.mark.skipif(NAMES_SCHEMAS_OTHERWISE, reason="by an older FastAPI")
    slow = [pytest.mark.slow] if name in SLOW else []
    of_schemas = [older] if name in ("openapi", "printed_json") else []
    return pytest.param(name, marks=[*slow, *of_schemas])


@pytest.mark.parametrize("name", [*map(compared, describe.DESCRIPTIONS)])
def test_what_users_see_is_as_in_its_golden_file(name: str, folder: Path) -> None:
    found = describe.facts_of(name, folder)
    file = FOLDER / f"{name}.txt"
    if IS_TO_WRITE:
        file.write_text("".join(f"{each}\n" for each in found))
    known = facts_in(file) if file.exists() else []
    if found != known:
        changes = difflib.unified_diff(known, found, file.name, "now", "", "", 0, "")
        pytest.fail("\n".join([*changes, HOW]), pytrace=False)


def test_every_golden_file_has_a_description() -> None:
    assert {each.stem for each in FOLDER.glob("*.txt")} == {*describe.DESCRIPTIONS}


@pytest.mark.skipif(IS_TO_WRITE, reason="the files are being written")
def test_what_is_stored_is_read_into_what_it_was_made_of(folder: Path) -> None:
    given = describe.kept()
    read = describe.read_stored(folder, facts_in(FOLDER / "stored_forms.txt"))
    assert read.keys() == given.keys()
    for name, definition in given.items():
        for each in dataclasses.fields(TaskDefinition):
            if each.name not in describe.SET_BY_STORES:
                kept, made = (getattr(e, each.name) for e in (read[name], definition))
                # What is not compared by a trigger is in its text.
                assert (kept, repr(kept)) == (made, repr(made)), name


@pytest.mark.parametrize("attempts", [100, 3, None])
def test_a_retry_that_was_stored_without_a_delay_goes_by_expire_after(
    folder: Path, attempts: int | None
) -> None:
    most = "null" if attempts is None else attempts
    stored = (
        f'{{"retry":{{"max_attempts":{most},"delay":null,"factor":1.0,'
        '"max_delay":null,"jitter":0.0,"stop_on":[]}}'
    )
    facts = facts_in(FOLDER / "stored_forms.txt")
    plain = [each for each in facts if each.startswith("plain: ")]
    read = describe.read_stored(folder, [*plain, f"before: policies {stored}"])
    assert read["before"].retry == RetryPolicy.after_expiry(max_attempts=attempts)
