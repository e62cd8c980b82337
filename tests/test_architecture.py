"""The page on the architecture names what is there, and imports have their order."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from go_scheduler.stores import opening
from go_scheduler.triggers.base import OWN_KINDS
from tests.sources import parsed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "go_scheduler"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MOST_WORDS = 110


def imported_by(path: Path) -> set[str]:
    """What a module imports when it is imported itself."""
    found = set()
    for each in parsed(path.read_text()).body:
        if isinstance(each, ast.Import):
            found |= {alias.name for alias in each.names}
        elif isinstance(each, ast.ImportFrom):
            found.add(str(each.module))
    return found


@pytest.mark.parametrize(
    "folder", sorted(each.parent.name for each in PACKAGE.glob("*/__init__.py"))
)
def test_the_page_names_each_folder_of_the_package(folder: str) -> None:
    assert f"{folder}/" in PAGE


def test_the_words_of_the_page_can_be_learnt() -> None:
    table = PAGE.partition("## Words")[2].partition("## Rules")[0]
    rows = re.findall(r"^\| ([a-z][^|]+) \|", table, re.MULTILINE)
    words = [word for row in rows[1:] for word in row.split(", ")]
    assert 20 < len(words) == len({*words}) <= MOST_WORDS


def test_what_the_page_names_by_its_path_is_there() -> None:
    paths = re.findall(r"`([a-z_*]+(?:/[a-z_*]+)+/?(?:\.py)?)`", PAGE)
    assert len(paths) > 10
    for path in paths:
        found = [
            each
            for place in (PACKAGE, PACKAGE / "stores", PACKAGE / "running", ROOT)
            for each in place.glob(f"{path.rstrip('/').removesuffix('.py')}*")
        ]
        assert found, path


@pytest.mark.parametrize(
    "module",
    sorted({*OWN_KINDS.values(), *(name for name, _ in opening._OWN.values())}),
)
def test_what_is_imported_on_demand_is_not_imported_in_a_circle(module: str) -> None:
    """Else two threads that do it at once are each refused what the other has begun.

    To import a module is to import its packages: these import none of their modules.
    """
    for package in (ROOT / Path(*module.split("."))).parents:
        # What go_scheduler imports itself is there before anybody asks for a kind.
        if package in (PACKAGE, PACKAGE / "stores", PACKAGE / "triggers"):
            break
        known = imported_by(package / "__init__.py")
        assert known <= {"typing", "sqlalchemy", "go_scheduler"}, package


def test_sqlalchemy_is_imported_as_a_whole_before_any_part_of_it() -> None:
    """Else of two threads one begins with a part, and each is in the other's way."""
    for path in (PACKAGE / "stores").rglob("*.py"):
        used = {each.partition(".")[0] for each in imported_by(path)}
        if used & {"sqlalchemy", "alembic"} and path.parent != PACKAGE / "stores":
            rooms = (each / "__init__.py" for each in path.parents)
            assert any("sqlalchemy" in imported_by(each) for each in rooms), path
