"""How far it goes: what the figures come to for a day, a table and a machine."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.tables import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.results import Measured

_DAY = 86_400
_HOUR = 3_600
# So much of what a drain does is planned for: the rest is for what falls due at once,
# for vacuum and for other users of the database.
_PLANNED = 0.5
_GIB = 2**30
_RANGE = 512 * 2**20


def parts(all_measured: Sequence[Measured]) -> Iterator[tuple[str, str]]:
    """The parts of the page, as far as they have been measured."""
    drained = _median(all_measured, "drain on PostgreSQL", "rate")
    if drained is not None:
        yield "runs_of_one_database", _runs(drained)
    row = _median(all_measured, "on PostgreSQL, beside many rows", "bytes", last=True)
    wal = _median(all_measured, "on PostgreSQL, beside many rows", "wal")
    if drained is not None and row is not None and wal is not None:
        yield "bytes_of_one_database", _bytes(drained * _PLANNED, row, wal)
        yield "ranges", _ranges(row)


def _runs(drained: float) -> str:
    planned = drained * _PLANNED
    return "\n".join(
        (
            f"* One process drains {number(drained)} one-offs a second. Half of it, for"
            " what falls due all at once, for vacuum and for other users, is"
            f" {number(planned)} a second:",
            f"* {number(planned * _DAY / 1e6)} million runs a day, or",
            f"* {number(planned * _HOUR)} definitions that fire every hour, or",
            f"* {number(planned * _DAY / 1e6)} million that fire every day.",
        )
    )


def _bytes(rate: float, row: float, wal: float) -> str:
    kept = rate * _DAY * row / _GIB
    return "\n".join(
        (
            f"* An instance takes {number(row)} bytes with its indexes. At"
            f" {number(rate)} a second and a `retention` of a day,"
            f" {number(rate * _DAY / 1e6)} million are kept: {number(kept)} GiB. With"
            f" an hour it is {number(kept / 24)} GiB.",
            f"* From its definition to its end it writes {number(wal)} bytes of WAL:"
            f" {number(rate * wal / 2**20)} MiB a second.",
        )
    )


def _ranges(row: float) -> str:
    rows = _RANGE / row
    return (
        f"* A range holds 512 MiB by default: {number(rows / 1e6)} million instances of"
        f" {number(row)} bytes, as PostgreSQL needs for one. So 100 million that are"
        f" kept are some {number(1e8 / rows)} ranges, before replicas."
    )


def _median(
    all_measured: Sequence[Measured], title: str, figure: str, *, last: bool = False
) -> float | None:
    """Of ours, in the first experiment whose title has this, or of its last variant."""
    for measured in all_measured:
        wanted = [each for each in measured.figures if each.name == figure]
        if title in measured.title and wanted:
            contender = measured.contenders[1 if last else 0]
            values = measured.values(contender, wanted[0])
            return statistics.median(values) if values else None
    return None
