"""The package's speed, beside floors and others, by one command.

``python -m benchmarks`` measures in memory, on SQLite and on a PostgreSQL that it
starts. ``pip install -e '.[benchmarks]'`` brings what it needs, and the others that
``--peers`` measures too. Each variant runs in a process of its own on a database of its
own; those of one experiment take turns. Judge the ratios: they are medians of ratios
within a round.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import make_url

from benchmarks import tables
from benchmarks.databases import Databases
from benchmarks.names import IN_WORDS
from benchmarks.results import Report
from benchmarks.rounds import Rounds
from benchmarks.sizes import FULL, QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.experiment import Experiment
    from benchmarks.sizes import Sizes

NOUNS = (
    "drain",
    "putting_in",
    "due_now",
    "lateness",
    "idle",
    "two_processes",
    "scale",
    "large_tables",
    "recovery",
)
# What is measured only if it is asked for.
MORE = ("batches", "http", "dashboard", "listeners", "redis")
_STORES = ("memory", "sqlite", "postgresql")
_PACKAGES = (
    "go_scheduler",
    "psycopg",
    "sqlalchemy",
    "apscheduler",
    "asyncpg",
    "huey",
    "pgqueuer",
    "procrastinate",
    "redis",
    "rq",
    "dramatiq",
    "celery",
)


def experiments(
    engine: str, nouns: Sequence[str], sizes: Sizes
) -> Iterator[Experiment]:
    """What is measured on one kind of store."""
    for noun in nouns:
        yield from import_module(f"benchmarks.{noun}").experiments(engine, sizes)


def main() -> None:
    """Measure, print, and keep."""
    options = _parser().parse_args()
    sizes = QUICK if options.quick else FULL
    if options.rows:
        sizes = replace(sizes, to_come=options.rows, ended=10 * options.rows)
    stores = options.store or (("redis",) if "redis" in options.only else _STORES)
    servers = {_engine(each): each for each in stores if "://" in each}
    with Databases(servers) as databases:
        rounds = Rounds(
            databases=databases,
            count=options.rounds or (1 if options.quick else 3),
            peers=options.peers,
            against=options.against,
            pythons={"apscheduler4": options.apscheduler4}
            if options.apscheduler4
            else {},
            say=lambda text: print(text, flush=True),
        )
        report = Report(run=_run(), measured=[])
        measured = []
        for store in stores:
            for each in experiments(_engine(store), options.only, sizes):
                print(f"\n{each.title}", flush=True)
                measured.append(rounds.measure(each))
                print(tables.table(measured[-1]), flush=True)
                report = Report(run=report.run, measured=measured)
                if options.json:
                    report.write(options.json)
    print(f"\n{tables.overview(report.measured)}\n\nWhere others are ahead:")
    print(tables.losses(report.measured))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--only",
        type=_nouns,
        default=NOUNS,
        metavar="NOUNS",
        help=f"some of {','.join(NOUNS)}, which is all, and {','.join(MORE)}",
    )
    parser.add_argument(
        "--store",
        nargs="+",
        type=_store,
        help=f"{', '.join(_STORES)}, which are measured if none is named, redis, which"
        " --only redis measures, or the URL of a PostgreSQL or CockroachDB on which"
        " databases may be created, whose clock is this machine's",
    )
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--peers", action="store_true", help="measure others as well")
    parser.add_argument(
        "--apscheduler4",
        metavar="PYTHON",
        help="an interpreter that has APScheduler 4, to measure that too",
    )
    parser.add_argument(
        "--against",
        type=_tree,
        metavar="TREE",
        help="another checkout of this package, to be measured beside this one",
    )
    parser.add_argument(
        "--rows",
        type=int,
        metavar="COUNT",
        help="instances that are to come in the large tables; ten times as many ended",
    )
    parser.add_argument("--quick", action="store_true", help="fewer of everything")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep it")
    return parser


def _nouns(text: str) -> Sequence[str]:
    nouns = text.split(",")
    if unknown := set(nouns).difference(NOUNS, MORE):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return nouns


def _store(text: str) -> str:
    if _engine(text) not in IN_WORDS:
        raise argparse.ArgumentTypeError(f"no store is {text}")
    return text


def _tree(text: str) -> Path:
    tree = Path(text).absolute()
    # Else it would be this package that is measured twice.
    if not (tree / "go_scheduler/__init__.py").is_file():
        raise argparse.ArgumentTypeError(f"no checkout of this package: {text}")
    return tree


def _engine(store: str) -> str:
    return make_url(store).get_backend_name() if "://" in store else store


def _run() -> dict[str, str]:
    """What somebody has to know to judge it, and to do it again."""
    found = []
    for each in _PACKAGES:
        try:
            found.append(f"{each} {version(each)}")
        except PackageNotFoundError:
            continue
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        "command": f"python -m benchmarks {_arguments()}".strip(),
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
        "python": platform.python_version(),
        "packages": ", ".join(found),
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def _arguments() -> str:
    """The command's, without what is nobody else's: passwords, and where things are."""
    return " ".join(map(_argument, sys.argv[1:]))


def _argument(given: str) -> str:
    if "://" in given:
        return f"'{make_url(given).render_as_string()}'"
    return f"…/{Path(given).name}" if given.startswith("/") else given


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
