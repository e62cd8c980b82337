"""Draws the pictures of the pages from text, when the site is built.

A page has a fenced block of the kind ``boxes`` or ``timeline``. The build puts an SVG
in its place. The first line of a block is the caption. The other lines of ``boxes``::

    pending | skipped          a row of a grid: names of boxes, empty for no box
    pending -> claimed: text   an arrow; boxes that point at each other have two
    running ~> pending: text   an arrow around the left side

and of ``timeline``, whose items belong to the lane above them::

    axis 0=now 20=20 s         where a label stands; the last one ends the picture
    lane node A
    bar 0..16 text             also: rest (an outline), gap (grey), wait (a line below)
    run 16 text                also: skip (hollow), fail (a cross)
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 480
BOX_HEIGHT, ROW, MARGIN = 40, 92, 8
LANE, BAR = 62, 18
_BLOCK = re.compile(r"^```(boxes|timeline)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ARROW = re.compile(r"(.+?) ([-~])> (.+?)(?:: (.+))?")
_NUMBER = r"\d+(?:\.\d+)?"
_ITEM = re.compile(
    rf"(bar|rest|gap|wait|run|skip|fail) ({_NUMBER})(?:\.\.({_NUMBER}))?(?: (.+))?"
)


def on_page_markdown(markdown: str, **_: object) -> str:
    """What MkDocs calls for each page."""
    return _BLOCK.sub(lambda found: draw(found[1], found[2]), markdown)


def draw(kind: str, text: str) -> str:
    """The picture of a block, as HTML.

    Raises:
        ValueError: A line of it is none that is known.
    """
    caption, *lines = [line for line in text.splitlines() if line.strip()]
    height, parts = (_boxes if kind == "boxes" else _timeline)(lines)
    return (
        f'<figure class="drawing"><svg viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(caption)}">{"".join(parts)}</svg>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


class _Box(NamedTuple):
    x: float
    y: float
    width: float


def _boxes(lines: list[str]) -> tuple[float, list[str]]:
    arrows = [found for line in lines if (found := _ARROW.fullmatch(line.strip()))]
    rows = [line.split("|") for line in lines if not _ARROW.fullmatch(line.strip())]
    width = min(WIDTH / max(map(len, rows)) - 64, 190)
    places = {
        cell.strip(): _Box((x + 0.5) * WIDTH / len(row), y * ROW + MARGIN, width)
        for y, row in enumerate(rows)
        for x, cell in enumerate(row)
        if cell.strip()
    }
    drawn = [_box(name, box) for name, box in places.items()]
    pairs = {(each[1], each[3]) for each in arrows}
    for begin, how, end, text in (each.groups() for each in arrows):
        if begin not in places or end not in places:
            message = f"an arrow needs two boxes: {begin!r}, {end!r}"
            raise ValueError(message)
        one, other = places[begin], places[end]
        path, x, y, anchor = (
            _around(one, other)
            if how == "~"
            else _straight(one, other, apart=(end, begin) in pairs)
        )
        drawn.append(f'<path class="arrow" d="{path}"/>{_head(path)}')
        drawn.append(_text(x, y, text or "", anchor))
    return (len(rows) - 1) * ROW + BOX_HEIGHT + 2 * MARGIN, drawn


def _box(name: str, box: _Box) -> str:
    first, _, second = name.partition(" / ")
    y = box.y + BOX_HEIGHT / 2 + (5 if not second else -3)
    left = box.x - box.width / 2
    drawn = (
        f'<rect class="box" x="{left:g}" y="{box.y:g}" rx="6" '
        f'width="{box.width:g}" height="{BOX_HEIGHT}"/>'
    )
    drawn += _text(box.x, y, first, "middle")
    return drawn + (_text(box.x, y + 16, second, "middle", "small") if second else "")


def _straight(one: _Box, other: _Box, *, apart: bool) -> tuple[str, float, float, str]:
    """From the edge of a box to that of another one, and where its text stands."""
    half = BOX_HEIGHT / 2
    if one.y == other.y:
        way = 1 if other.x > one.x else -1
        y = one.y + half + (-9 * way if apart else 0)
        begin, end = one.x + way * one.width / 2, other.x - way * other.width / 2
        below = apart and way < 0
        return (
            f"M{begin:g} {y:g} L{end:g} {y:g}",
            (begin + end) / 2,
            y + (15 if below else -5),
            "middle",
        )
    way = 1 if other.y > one.y else -1
    aside = 12 * way if apart else 0
    # Between columns an arrow leaves and arrives a little towards the other box.
    lean = 0.0 if one.x == other.x else (30 if other.x > one.x else -30)
    x, to = one.x + aside + lean, other.x + aside - lean
    begin, end = one.y + half + way * half, other.y + half - way * half
    right = aside > 0 or (not apart and (x == to or x + to >= WIDTH))
    anchor = "start" if right else "end"
    return (
        f"M{x:g} {begin:g} L{to:g} {end:g}",
        (x + to) / 2 + (7 if right else -7),
        (begin + end) / 2 + 4,
        anchor,
    )


def _around(one: _Box, other: _Box) -> tuple[str, float, float, str]:
    half, x = BOX_HEIGHT / 2, one.x - one.width / 2 - 46
    begin, end = one.y + half, other.y + half
    path = (
        f"M{one.x - one.width / 2:g} {begin:g} L{x:g} {begin:g} L{x:g} {end:g} "
        f"L{other.x - other.width / 2:g} {end:g}"
    )
    return path, x - 7, (begin + end) / 2 + 4, "end"


def _head(path: str) -> str:
    """The head of an arrow, at the end of its last line."""
    *_, x0, y0, x1, y1 = map(float, re.findall(r"[\d.]+", path))
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    along, across = (x1 - x0) / length, (y1 - y0) / length
    corners = [
        (x1, y1),
        (x1 - 9 * along - 5 * across, y1 - 9 * across + 5 * along),
        (x1 - 9 * along + 5 * across, y1 - 9 * across - 5 * along),
    ]
    points = " ".join(f"{x:.4g},{y:.4g}" for x, y in corners)
    return f'<polygon class="head" points="{points}"/>'


def _timeline(lines: list[str]) -> tuple[float, list[str]]:
    [ticks] = [each for each in lines if each.startswith("axis ")]
    found = re.findall(rf"({_NUMBER})=(.+?)(?= {_NUMBER}=|$)", ticks)
    least, most = float(found[0][0]), float(found[-1][0])
    lanes = [each for each in lines if each.startswith("lane ")]
    bottom = len(lanes) * LANE + 4

    def at(value: str) -> float:
        return 16 + (float(value) - least) / (most - least) * (WIDTH - 32)

    drawn = [
        f'<path class="tick" d="M{at(x):g} 0 L{at(x):g} {bottom}"/>'
        + _text(at(x), bottom + 16, label, _anchor(at(x)), "small")
        for x, label in found
    ]
    top = -LANE
    for line in lines:
        if line.startswith("lane "):
            top += LANE
            drawn.append(
                _text(4, top + 15, line.removeprefix("lane "), "start", "lane")
            )
        elif item := _ITEM.fullmatch(line.strip()):
            drawn.append(_item(item, at, top))
        elif line != ticks:
            message = f"there is no such line in a timeline: {line!r}"
            raise ValueError(message)
    return bottom + 22, drawn


def _item(item: re.Match[str], at: Callable[[str], float], top: float) -> str:
    kind, begin, end, text = item.groups()
    x, y = at(begin), top + 24
    if end is not None:
        width = at(end) - x
        if kind == "wait":
            return f'<path class="wait" d="M{x:g} {y + BAR + 4:g} l{width:g} 0"/>'
        drawn = (
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" rx="3" '
            f'width="{width:g}" height="{BAR}"/>'
        )
        return drawn + _text(x + 13, y + 13.5, text or "", "start", f"small in-{kind}")
    middle = y + BAR / 2
    if kind == "fail":
        cross = f"M{x - 6:g} {middle - 6:g} l12 12 m0 -12 l-12 12"
        around = f'<circle class="around" cx="{x:g}" cy="{middle:g}" r="8"/>'
        drawn = f'{around}<path class="fail" d="{cross}"/>'
    else:
        drawn = f'<circle class="{kind}" cx="{x:g}" cy="{middle:g}" r="6"/>'
    return drawn + _text(x, y + BAR + 14, text or "", _anchor(x), "small")


def _anchor(x: float) -> str:
    """Where a text at this place is held, so that it does not leave the picture."""
    return "start" if x < 40 else "end" if x > WIDTH - 40 else "middle"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    if not text:
        return ""
    return (
        f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
