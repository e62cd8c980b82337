"""How much code each room has: it may become less, and no more.

``GO_SCHEDULER_WRITE_SIZES=1 pytest tests/test_size.py`` writes down what there is now.
Whoever lets a room grow writes that down too, and says why in the commit.
"""

from __future__ import annotations

import ast
import io
import os
import tokenize
from collections import Counter
from pathlib import Path

from tests.sources import parsed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "go_scheduler"
WRITTEN = Path(__file__).with_suffix(".txt")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
# How a line begins that is a comment alone.
COMMENTS = {
    ".css": "/*",
    ".html": "{#",
    ".js": "//",
    ".lark": "//",
    ".lua": "--",
}


def lines_of_python(text: str) -> int:
    """Lines that are not blank, and no comment or docstring alone."""
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    tokens = [each for each in read if each.type not in NO_CODE]
    code = {n for each in tokens for n in range(each.start[0], each.end[0] + 1)}
    for each in ast.walk(parsed(text)):
        value = each.value if isinstance(each, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            assert value.end_lineno is not None
            code.difference_update(range(value.lineno, value.end_lineno + 1))
    return len(code)


def lines_of(path: Path) -> int:
    if path.suffix == ".py":
        return lines_of_python(path.read_text())
    comment = COMMENTS[path.suffix]
    lines = map(str.strip, path.read_text().splitlines())
    return sum(bool(each) and not each.startswith(comment) for each in lines)


def room_of(path: Path) -> str:
    """The folder of the package that it is in, or that of all tests."""
    folder, *rest = path.relative_to(ROOT).parts
    return f"{folder}/{rest[0]}" if folder == "go_scheduler" and rest[1:] else folder


def measured() -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for path in [*PACKAGE.rglob("*"), *(ROOT / "tests").rglob("*.py")]:
        is_code = path.suffix == ".py" or path.suffix in COMMENTS
        if is_code and "vendor" not in path.parts:
            sizes[room_of(path)] += lines_of(path)
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
    assert lines_of_python(f'"""A module."""\n\n# A comment.\n{code}') == 3
