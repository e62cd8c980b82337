"""How much code each room has: it may become less, and no more.

``GO_SCHEDULER_WRITE_SIZES=1 pytest tests/test_size.py`` writes down what there is now.
Whoever lets a room grow writes that down too, and says why in the commit.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from pathlib import Path

from tests.sources import parsed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "go_scheduler"
WRITTEN = Path(__file__).with_suffix(".txt")
# How a line begins that is a comment alone.
COMMENTS = {
    ".css": "/*",
    ".html": "{#",
    ".js": "//",
    ".lark": "//",
    ".lua": "--",
    ".py": "#",
}


def docstring_lines(text: str) -> set[int]:
    """The numbers of the lines of strings that stand alone."""
    numbers: set[int] = set()
    for each in ast.walk(parsed(text)):
        value = each.value if isinstance(each, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            assert value.end_lineno is not None
            numbers.update(range(value.lineno, value.end_lineno + 1))
    return numbers


def lines_of_code(text: str, suffix: str) -> int:
    """Lines that are not blank, and no comment or docstring alone."""
    left_out = docstring_lines(text) if suffix == ".py" else set()
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(
        bool(line) and not line.startswith(COMMENTS[suffix]) and number not in left_out
        for number, line in lines
    )


def room_of(path: Path) -> str:
    """The folder of the package that it is in, or that of all tests."""
    folder, *rest = path.relative_to(ROOT).parts
    return f"{folder}/{rest[0]}" if folder == "go_scheduler" and rest[1:] else folder


def measured() -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for path in [*PACKAGE.rglob("*"), *(ROOT / "tests").rglob("*.py")]:
        if path.suffix in COMMENTS and "vendor" not in path.parts:
            sizes[room_of(path)] += lines_of_code(path.read_text(), path.suffix)
    return dict(sorted(sizes.items()))


def test_no_room_has_grown() -> None:
    found = measured()
    if os.environ.get("GO_SCHEDULER_WRITE_SIZES") == "1":
        WRITTEN.write_text("".join(f"{room} {n}\n" for room, n in found.items()))
    lines = WRITTEN.read_text().splitlines()
    written = {room: int(n) for room, n in (each.split() for each in lines)}
    assert found.keys() == written.keys()
    grown = {room: n for room, n in found.items() if n > written[room]}
    assert grown == {}, __doc__


def test_comments_docstrings_and_blank_lines_are_no_code() -> None:
    code = 'x = """two\nlines"""\n\ndef f():\n    """None."""\n'
    assert lines_of_code(f'"""A module."""\n\n# A comment.\n{code}', ".py") == 3
