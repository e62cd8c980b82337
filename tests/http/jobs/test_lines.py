"""The lines of a body: wherever its parts end, and however long it is."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from go_scheduler.http.jobs.importing import Line, Lines


def read(parts: list[bytes], longest: int = 100) -> list[tuple[int, bytes | None]]:
    lines = Lines(longest)
    found = [line for part in parts for line in lines.take(part)]
    return [(each.number, each.data) for each in [*found, *lines.rest()]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", []),
        (b"\n\r\n \t\n", []),
        (b"a\nb\n", [(1, b"a"), (2, b"b")]),
        (b"a\r\n\r\nb", [(1, b"a"), (3, b"b")]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", [(1, b"a"), (2, b"\xef\xbb\xbfb")]),
        (b"a\0b\n", [(1, b"a\0b")]),
        (b"x" * 100 + b"\r\n", [(1, b"x" * 100)]),
        (b"x" * 101 + b"\na", [(1, None), (2, b"a")]),
        (b"a\n" + b"x" * 500, [(1, b"a"), (2, None)]),
    ],
)
def test_lines_are_those_between_their_ends(
    body: bytes, expected: list[tuple[int, bytes | None]]
) -> None:
    assert read([body]) == expected
    assert read([bytes([each]) for each in body]) == expected


@given(st.lists(st.binary(max_size=20)))
def test_where_parts_end_makes_no_difference(parts: list[bytes]) -> None:
    assert read(parts) == read([b"".join(parts)])


@pytest.mark.slow
def test_of_a_line_without_end_no_more_is_kept_than_a_line_may_have() -> None:
    lines = Lines(1000)
    tracemalloc.start()
    try:
        for _ in range(1000):
            assert list(lines.take(b"x" * 65_536)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert list(lines.take(b"\nb\n")) == [Line(1, None), Line(2, b"b")]
