"""What most tests start from: a clock that stands still, a store on it, small values.

Builders that need a store are in ``go_scheduler.testing.builders``.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import hypothesis
import pytest
from sqlalchemy.orm import sessionmaker

from go_scheduler.clock import StoreClock
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.running.state import NodeState
from go_scheduler.scheduler import Scheduler
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import LEASE, NODE, Rig, definition
from go_scheduler.testing.clock import START
from tests import servers
from tests.rabbitmq_servers import REQUIRE_RABBITMQ, missing_rabbitmq, running_rabbitmq
from tests.redis_servers import REQUIRE_REDIS, missing_redis, running_redis
from tests.shop import METADATA, Shop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from go_scheduler.stores.base import Store
    from tests.rabbitmq_servers import RabbitMQServer
    from tests.redis_servers import RedisServer
    from tests.shop import Begin

# A pytest that a test starts is not told what this one was.
os.environ.pop("PYTEST_ADDOPTS", None)

# No machine is asked how fast it is; else as Hypothesis has it, on CI or not.
hypothesis.settings.register_profile("untimed", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("untimed")

ENGINES = ("memory", "sqlite", "postgresql", "cockroachdb", "redis")
RARE = {
    "broker": "on a RabbitMQ",
    "browser": "in Chromium",
    "chaos": "kills and freezes processes and servers, or has many share a store",
    "documentation": "runs each program and command that is shown",
    "exhaustive": "compares years of fire times, or thousands of cases",
    "server": "runs on PostgreSQL, CockroachDB or Redis what runs on SQLite too",
}
"""Marks of the tests that a plain ``pytest`` leaves out, and ``--all`` runs."""
SLOW = ("browser", "chaos", "documentation", "exhaustive")
"""Those of them of which each test counts as ``slow`` too."""
_LEFT_OUT: Counter[str] = Counter()
STORES = "GO_SCHEDULER_TEST_STORES"
"""What ``--store`` is by default; processes of pytest-xdist know it as well."""
SHARED = [pytest.param(each, marks=pytest.mark.slow) for each in ENGINES[1:]]
"""Those that processes can share: for ``pytest.mark.parametrize("engine", SHARED)``."""
SQL = SHARED[:3]
"""Those of them that are databases with tables."""
LOCKING = SQL[1:]
"""Those on which a transaction locks the rows it writes, not the whole database."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the kinds of stores be chosen, and the rare tests be run."""
    parser.addoption(
        "--all", action="store_true", help=f"Run tests marked {', '.join(RARE)} too."
    )
    parser.addoption(
        "--store",
        default=os.environ.get(STORES),
        metavar="KINDS",
        help="Of the tests that run on every kind of store, run those on these, "
        f"separated by commas: {','.join(ENGINES)}",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and refuse an unknown kind of store."""
    if unknown := set(_chosen(config)).difference(ENGINES):
        raise pytest.UsageError(f"--store knows {', '.join(ENGINES)}, not {unknown}")
    for name, meaning in RARE.items():
        config.addinivalue_line(
            "markers", f"{name}: {meaning}; a plain pytest leaves it out."
        )
    # Whoever names a file or such a mark means all of its tests.
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    expression = config.option.markexpr
    wanted = re.sub(r"not (\([^()]*\)|\w+)", "", expression)
    named = named or any(re.search(rf"\b{each}\b", wanted) for each in RARE)
    config.option.all = getattr(config, "workerinput", {}).get(
        "all", config.option.all or named
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Set aside what is made of all tests: it stays until the end.

    To look through it each time that garbage is collected takes time in each process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use more processes than there are cores, as tests wait as well.

    A run of single files has none: starting them would take longer than the tests.
    """
    if all(Path(each.partition("::")[0]).is_file() for each in config.args):
        return 0
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Not on macOS.
        cores = len(os.sched_getaffinity(0))
    return min(2 * cores + 1, 9)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out the tests on stores that were not chosen, and rare ones."""
    chosen = _chosen(config)
    wanted, left_out = [], []
    for each in items:
        if _needs("rabbitmq", each):
            each.add_marker("broker")
        if any(map(each.get_closest_marker, SLOW)):
            each.add_marker("slow")
        if _engine(each) in ENGINES[2:] and not config.option.store:
            each.add_marker("server")
        rare = next(filter(each.get_closest_marker, RARE), None)
        if _engine(each) not in (None, *chosen):
            left_out.append(each)
        elif rare is not None and not config.option.all:
            _LEFT_OUT[rare] += 1
            left_out.append(each)
        else:
            wanted.append(each)
    config.hook.pytest_deselected(items=left_out)
    items[:] = wanted


def _chosen(config: pytest.Config) -> Sequence[str]:
    """The kinds of stores that ``--store`` names, else all."""
    named: str | None = config.option.store
    return named.split(",") if named else ENGINES


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Say last of all which tests were left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(_LEFT_OUT)
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _LEFT_OUT and reporter is not None:
        counts = ", ".join(f"{_LEFT_OUT[each]} {each}" for each in sorted(_LEFT_OUT))
        reporter.write_line(f"left out: {counts} (pytest --all runs them)")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process, which does not know what is in ``PYTEST_ADDOPTS``."""
    node.workerinput["all"] = node.config.option.all


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process has left out: each of them leaves out the same."""
    _LEFT_OUT.update(
        {} if _LEFT_OUT else getattr(node, "workeroutput", {}).get("left_out", {})
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a server that is not here; so it is one line in the report."""
    fixtures = getattr(item, "fixturenames", ())
    if _engine(item) == "cockroachdb" or "cockroachdb_url" in fixtures:
        _need(servers.missing_cockroachdb(), servers.REQUIRE_COCKROACHDB)
    if _engine(item) == "redis" or "redis_server" in fixtures:
        _need(missing_redis(), REQUIRE_REDIS)
    if _needs("rabbitmq", item):
        _need(missing_rabbitmq(), REQUIRE_RABBITMQ)


def _need(missing: str | None, required: str) -> None:
    if missing is not None:
        if os.environ.get(required) == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


def _needs(server: str, item: pytest.Item) -> bool:
    return any(server in each for each in getattr(item, "fixturenames", ()))


def _engine(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("engine")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a server on which databases may be created."""
    with servers.postgresql_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """The URL of the session's database, which has the tables."""
    with servers.fresh_database(postgresql_server) as url:
        with servers.opened(url):
            pass
        yield url


@pytest.fixture(scope="session")
def cockroachdb_url() -> Iterator[str]:
    """The URL of the session's database, which has the tables."""
    with servers.cockroachdb_database() as url:
        with servers.opened(url):
            pass
        yield url


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The session's Redis."""
    with running_redis(tmp_path_factory.mktemp("redis"), appendonly="yes") as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RabbitMQServer]:
    """The session's RabbitMQ, which no test stops, and nobody empties."""
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that has the tables, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "store.db"
    with servers.opened(f"sqlite:///{path}"):
        pass
    return path


@pytest.fixture
def empty_database_url(postgresql_server: str) -> Iterator[Callable[[], str]]:
    """Makes empty PostgreSQL databases, and answers the URL of each."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(servers.fresh_database(postgresql_server))


def engines(kinds: Sequence[Any]) -> Any:
    """A fixture ``engine``: the kinds of stores that a module's tests run on."""

    @pytest.fixture(params=kinds)
    def engine(request: pytest.FixtureRequest) -> str:
        kind: str = request.param
        return kind

    return engine


engine = engines(["memory", *SHARED])


@pytest.fixture(autouse=True)
def _tables(request: pytest.FixtureRequest) -> None:
    """Make the session's tables before a test changes what they are made by."""
    engine = _engine(request.node)
    if engine == "sqlite":
        request.getfixturevalue("sqlite_file")
    elif engine in {"postgresql", "cockroachdb"}:
        request.getfixturevalue(f"{engine}_url")


@pytest.fixture
def store_url(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """What ``open_store`` makes an empty store of."""
    if engine == "memory":
        return "memory://"
    if engine == "sqlite":
        template = request.getfixturevalue("sqlite_file")
        return f"sqlite:///{shutil.copy(template, tmp_path / 'store.db')}"
    if engine == "redis":
        url: str = request.getfixturevalue("redis_server").url
    else:
        url = request.getfixturevalue(f"{engine}_url")
    servers.delete_all_rows(url)
    return url


@pytest.fixture
def clock() -> ManualClock:
    """A clock at ``START``."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock, store_url: str) -> Iterator[Store]:
    """An empty store on the clock."""
    with servers.opened(store_url, clock, has_tables=True) as store:
        yield store


@pytest.fixture
def rig(store: Store, clock: ManualClock) -> Rig:
    """The store, its clock and the calls that tests repeat."""
    return Rig(store, clock)


@pytest.fixture
def own_time_store(store_url: str) -> Iterator[Store]:
    """An empty store that goes by its own time."""
    with servers.opened(store_url, has_tables=True) as store:
        yield store


@pytest.fixture
def shop(store: Store, store_url: str) -> Iterator[Shop]:
    """A user's table beside those of the store."""
    shop = Shop(store_url)
    METADATA.create_all(shop.engine)
    yield shop
    METADATA.drop_all(shop.engine)
    shop.engine.dispose()


@pytest.fixture(params=["connection", "session"])
def begin(shop: Shop, request: pytest.FixtureRequest) -> Begin:
    """Begins a transaction on what users may pass."""
    if request.param == "connection":
        return shop.engine.begin
    return sessionmaker(shop.engine).begin


@pytest.fixture
def store_clock(clock: ManualClock, store: Store) -> StoreClock:
    """A node's copy of the store's time."""
    return StoreClock(clock, store.now)


def instance(
    of: TaskDefinition | None = None,
    *,
    due_at: datetime = START,
    attempt: int = 1,
    runs: int = 0,
    claimed_by: UUID | None = NODE,
    expires_at: datetime | None = START + LEASE,
    started_at: datetime | None = None,
    cancel_requested: bool = False,
) -> TaskInstance:
    """An instance that is in no store; claimed, not started, and due at ``START``."""
    return TaskInstance(
        id=uuid4(),
        definition=of or definition(),
        fire_time=due_at,
        execute_at=due_at,
        due_at=due_at,
        attempt=attempt,
        runs=runs,
        claimed_by=claimed_by,
        expires_at=expires_at,
        started_at=started_at,
        cancel_requested=cancel_requested,
    )


def state_of(store: Store, clock: ManualClock) -> NodeState:
    """What the parts of a node on this store share."""
    scheduler = Scheduler(lambda _: None, store, clock=clock, lease=LEASE)
    store_clock = StoreClock(clock, store.now)
    return NodeState(store, store_clock, NODE, scheduler._settings)


def seconds(count: float) -> timedelta:
    """So many seconds."""
    return timedelta(seconds=count)
