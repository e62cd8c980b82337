"""The pictures of the pages: each can be drawn, and no text leaves its picture."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SPEC = spec_from_file_location("drawings", DOCS / "drawings.py")
assert SPEC is not None
assert SPEC.loader is not None
drawings = module_from_spec(SPEC)
SPEC.loader.exec_module(drawings)
FOUND = [
    (page.name, kind, text)
    for page in sorted(DOCS.glob("*.md"))
    for kind, text in drawings._BLOCK.findall(page.read_text())
]
# Of a letter, in pixels, on average and rounded up.
LETTER = 7.2


def texts(kind: str, text: str) -> list[Element]:
    return list(fromstring(drawings.draw(kind, text)).iter("text"))


def extent(text: Element) -> tuple[float, float]:
    """From where to where a text goes, at most."""
    size = 0.86 if text.get("class", "").startswith("small") else 1
    long, x = len(text.text or "") * LETTER * size, float(text.get("x", 0))
    left = {"start": 0.0, "middle": long / 2, "end": long}[text.get("text-anchor", "")]
    return x - left, x - left + long


def test_there_are_pictures_of_both_kinds() -> None:
    assert {kind for _, kind, _ in FOUND} == {"boxes", "timeline"}
    assert len(FOUND) >= 7


@pytest.mark.parametrize(
    ("kind", "text"),
    [each[1:] for each in FOUND],
    ids=[f"{page}-{text.splitlines()[0]}" for page, _, text in FOUND],
)
def test_no_text_leaves_its_picture(kind: str, text: str) -> None:
    for each in texts(kind, text):
        left, right = extent(each)
        assert left >= 0, each.text
        assert right <= drawings.WIDTH, each.text


def test_a_line_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="an arrow needs two boxes: 'one', 'three'"):
        drawings.draw("boxes", "A picture\none | two\none -> three")
    with pytest.raises(ValueError, match="no such line in a timeline: 'ran 1'"):
        drawings.draw("timeline", "A picture\naxis 0=a 1=b\nlane a\nran 1")


def test_the_build_puts_pictures_in_the_place_of_their_texts() -> None:
    page = (
        "before\n\n```boxes\nTwo of them\none | two\none -> two: goes\n```\n\nafter\n"
    )
    drawn = drawings.on_page_markdown(page)
    assert drawn.startswith("before\n\n<figure")
    assert drawn.endswith("</figure>\n\nafter\n")
    assert "```" not in drawn
