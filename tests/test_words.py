"""Names are the field's: what was coined here once does not come back."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.sources import parsed

PACKAGE = Path(__file__).parents[1] / "go_scheduler"
# There such a word says something else, such as what a run has raised.
OTHER_MEANING = {
    "firing/steps.py",
    "running/calling/child.py",
    "running/intake.py",
    "stores/messages.py",
    "stores/postgresql/executing.py",
    "stores/sql/database.py",
}
COINED = {
    "argument_hints": "instead",
    "authentication": "entrance guard",
    "base_url": "place",
    "event_bus": "hub",
    "search_budget": "effort",
    "formatting": "shown",
    "health_warnings": "notices",
    "definition_history": "fired",
    "jitter": "spreading",
    "login_methods": "doors",
    "pydantic_messages": "worded",
    "query": "asked",
    "request": "visit",
    "resolve": "identifying choosing",
    "run": "raised",
    "signed_cookies": "seal",
    "timeline": "lane marks strips",
    "trace_context": "traced",
    "visibility": "seen",
}
INSTEAD = {word: name for name, words in COINED.items() for word in words.split()}
FILES = [
    each
    for each in PACKAGE.rglob("*.py")
    if str(each.relative_to(PACKAGE)) not in OTHER_MEANING
]


def names_of(path: Path) -> set[str]:
    """The module, its folder and its public classes, as words in lower case."""
    tree = parsed(path.read_text())
    classes = [each.name for each in tree.body if isinstance(each, ast.ClassDef)]
    public = [each for each in classes if not each.startswith("_")]
    parts = [word for each in public for word in re.findall("[A-Z][a-z]*", each)]
    return {path.stem, path.parent.name, *map(str.lower, parts)}


def test_no_name_is_a_coined_one() -> None:
    assert FILES
    found = {
        str(path.relative_to(PACKAGE)): f"{INSTEAD[word]} instead of {word}"
        for path in FILES
        for word in names_of(path) & INSTEAD.keys()
    }
    assert found == {}
