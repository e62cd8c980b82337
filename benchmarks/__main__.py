"""Measures how fast the package is.

    python -m benchmarks                      beside floors, what nobody can do without
    python -m benchmarks --peers              beside other packages as well
    python -m benchmarks --against ../before  beside another checkout of this package

Each variant runs in a process of its own on a database of its own. The variants of one
experiment take turns, and a ratio is the median of the ratios within each round: judge
the ratios. Ctrl-C ends it, and prints what has been measured so far.

``pip install -e '.[benchmarks]'`` installs what it needs.
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
from benchmarks.comparison import comparison
from benchmarks.databases import Databases
from benchmarks.names import WHERE
from benchmarks.processes import ForkServers
from benchmarks.redis_server import program
from benchmarks.results import Report
from benchmarks.rounds import Rounds
from benchmarks.sizes import FULL, QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.experiment import Experiment
    from benchmarks.sizes import Sizes

# What is compared with another checkout.
COMPARED = ("drain", "putting_in", "due_now", "lateness", "burst", "idle")
NOUNS = (*COMPARED, "two_processes", "scale", "large_tables", "recovery")
# What is measured only if it is asked for.
MORE = ("batches", "cluster", "http", "dashboard", "listeners")
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
    stores = options.store or (*_STORES, *(("redis",) if program() else ()))
    nouns = options.only or (COMPARED if options.against else NOUNS)
    urls = {_engine(each): each for each in stores if "://" in each}
    report = Report(run=_run(), measured=())
    print(f"{report.run['machine']}, load {report.run['load']}", flush=True)
    with Databases(urls) as databases, ForkServers() as servers:
        rounds = Rounds(
            databases=databases,
            servers=servers,
            count=options.rounds
            or (9 if options.against else 1 if options.quick else 3),
            peers=options.peers,
            against=options.against,
            pythons={"apscheduler4": options.apscheduler4}
            if options.apscheduler4
            else {},
            say=lambda text: print(text, flush=True),
        )
        wanted = [
            each
            for store in stores
            for each in experiments(_engine(store), nouns, sizes)
        ]
        try:
            for measured in rounds.measure(wanted):
                report = replace(report, measured=measured)
                if options.json:
                    report.write(options.json)
        except KeyboardInterrupt:
            print("\nInterrupted. So far:")
    if options.against:
        print(f"\n{comparison(report.measured)}")
    if options.peers or not options.against:
        print(tables.all_tables(report.measured))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--against",
        type=_tree,
        metavar="TREE",
        help="another checkout of this package. Both are measured by turns, without"
        " floors. A table shows each figure before (TREE) and after (this checkout),"
        " the median and the spread of their ratios, and a list what is worse by more"
        " than 3 %%",
    )
    parser.add_argument(
        "--only",
        type=_nouns,
        metavar="NOUNS",
        help=f"what to measure, separated by commas: {', '.join(NOUNS + MORE)}. By"
        f" default, all but {', '.join(MORE)}; with --against the first six",
    )
    parser.add_argument(
        "--store",
        nargs="+",
        type=_store,
        help=f"where: {', '.join(_STORES)}, redis, or the URL of a server on which"
        " databases may be created, such as a CockroachDB. By default, all of these"
        " names, and redis if redis-server is installed",
    )
    parser.add_argument(
        "--rounds", type=int, help="by default 9 with --against, 1 with --quick, else 3"
    )
    parser.add_argument("--quick", action="store_true", help="fewer of everything")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="measure other packages as well, and with --against floors too",
    )
    parser.add_argument(
        "--apscheduler4",
        metavar="PYTHON",
        help="an interpreter that has APScheduler 4, to measure that too",
    )
    parser.add_argument(
        "--rows",
        type=int,
        metavar="COUNT",
        help="instances that are to come in the large tables; ten times as many ended",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="where to keep what was measured"
    )
    return parser


def _nouns(text: str) -> Sequence[str]:
    nouns = text.split(",")
    if unknown := set(nouns).difference(NOUNS, MORE):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return nouns


def _store(text: str) -> str:
    if _engine(text) not in WHERE:
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
