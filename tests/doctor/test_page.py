"""The page on the doctor has every finding, with its severity and its remedy."""

from __future__ import annotations

import re
from pathlib import Path

from go_scheduler.doctor.diagnosis import KINDS

PAGE = (Path(__file__).parents[2] / "docs/doctor.md").read_text()


def test_each_finding_is_on_the_page_with_its_remedy() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| .+? \| (.+?) \|$", PAGE, re.M)
    assert rows == [(each.name, each.severity.value, each.remedy) for each in KINDS]
