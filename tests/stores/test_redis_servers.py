"""Redis servers die, take over, share stores and encrypt: real ones, as processes."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import redis
import trustme

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.hints import News
from go_scheduler.stores.opening import open_store
from go_scheduler.stores.redis import RedisStore
from go_scheduler.testing.builders import definition
from tests.patience import FAILED_AFTER
from tests.ports import free_port
from tests.redis_servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from go_scheduler.stores.base import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("redis_server")]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Starts servers, each in a folder of its own, and ends those that run."""
    servers: list[RedisServer] = []

    def begin(*sections: str, **settings: str) -> RedisServer:
        folder = tmp_path / str(len(servers))
        folder.mkdir()
        servers.append(RedisServer(folder, *sections, **settings))
        return servers[-1].start()

    yield begin
    for each in servers:
        each.kill()


def put_until_it_fails(store: Store) -> list[UUID]:
    """Put definitions; the ids of those that the store has said it has put."""
    kept: list[UUID] = []
    while True:
        new = definition(key=len(kept) + 1)
        try:
            store.put_definitions([new])
        except StoreError:
            return kept
        kept.append(new.id)


@pytest.mark.parametrize("durability", ["always", "everysec"])
def test_a_killed_server_has_lost_nothing_or_the_last_while_the_disk_was_busy(
    start: Callable[..., RedisServer], durability: str
) -> None:
    server = start(appendonly="yes", appendfsync=durability)
    kept: list[UUID] = []
    with closing(open_store(server.url)) as store:
        store.initialize()
        many = threading.Event()

        def put() -> None:
            kept.extend(put_until_it_fails(store))

        def count() -> None:
            with server.client() as client:
                while int(client.execute_command("HLEN", "{go_scheduler}:ids")) < 200:
                    pass
            many.set()

        writer, counter = threading.Thread(target=put), threading.Thread(target=count)
        writer.start()
        counter.start()
        assert many.wait(FAILED_AFTER)
        server.kill()
        writer.join(FAILED_AFTER)
        counter.join(FAILED_AFTER)
        server.start()
        found = {each.id for each in store.select_definitions(limit=100_000)}
    assert len(kept) >= 199
    there = [each in found for each in kept]
    # While the disk is still at what came before, one that waits for it every second
    # answers, and writes within two.
    assert all(there) if durability == "always" else there == sorted(there)[::-1]
    # What was under way may have been done, and was not answered.
    assert len(found) <= len(kept) + 1


def test_a_server_that_hangs_is_not_waited_for_long(
    start: Callable[..., RedisServer],
) -> None:
    server = start()
    short = timedelta(milliseconds=100)
    with closing(RedisStore(server.url, timeout=short)) as store:
        until_it_answers(store.connect)
        with closing(store.hints()) as hints:
            server.freeze()
            with pytest.raises(StoreUnavailableError, match="nothing is heard"):
                hints.wait()
            with pytest.raises(StoreUnavailableError, match="Redis"):
                store.put_definitions([definition()])
            server.thaw()
        until_it_answers(lambda: store.put_definitions([definition()]))


def until_it_answers(call: Callable[[], object]) -> None:
    """Make a call until the server, which is there, answers within the timeout."""
    for _ in range(300):
        with suppress(StoreUnavailableError):
            call()
            return
    raise AssertionError("it does not answer")


def test_a_replica_takes_over_when_the_sentinels_say_so(
    start: Callable[..., RedisServer],
) -> None:
    # It waits for no other replicas.
    master = start(**{"repl-diskless-sync-delay": "0"})
    replica = start(replicaof=f"127.0.0.1 {master.port}")
    with master.client() as client:
        assert client.wait(1, 1000 * FAILED_AFTER) == 1
    # It asks the master at once which replicas there are, and again after ten seconds;
    # and takes nobody for down who is only busy.
    sentinel = start(
        f"sentinel monitor mine 127.0.0.1 {master.port} 1",
        "sentinel down-after-milliseconds mine 600000",
        "sentinel failover-timeout mine 600000",
    )
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/mine"
    with closing(open_store(url)) as store:
        store.initialize()
        store.put_definitions([definition()])
        with master.client() as client:
            client.set("written", "last")
            assert client.wait(1, 1000 * FAILED_AFTER) == 1
        with sentinel.client() as ears, ears.pubsub() as heard:
            heard.subscribe("+switch-master")
            heard.get_message(timeout=FAILED_AFTER)
            master.kill()
            with pytest.raises(StoreUnavailableError):
                store.now()
            have_it_take_over(ears)
            switched = heard.get_message(timeout=FAILED_AFTER)
        assert switched is not None
        assert switched["data"].endswith(f" {replica.port}")
        store.put_definitions([definition(key=2)])
        assert len(store.select_definitions()) == 2


def have_it_take_over(sentinel: Any) -> None:
    """Once the sentinel knows how the replica is."""
    for _ in range(100 * FAILED_AFTER):
        with suppress(redis.ResponseError):
            sentinel.execute_command("SENTINEL", "FAILOVER", "mine")
            return
        threading.Event().wait(0.01)
    raise AssertionError("it has none take over")


def cluster(start: Callable[..., RedisServer]) -> list[RedisServer]:
    """Two servers that have half of the slots each."""
    nodes = [
        start(**{"cluster-enabled": "yes", "cluster-port": str(free_port())})
        for _ in range(2)
    ]
    for node, slots in zip(nodes, [range(8192), range(8192, 16384)], strict=True):
        with node.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTS", *slots)
    with nodes[0].client() as client:
        bus = nodes[1].settings["cluster-port"]
        client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, bus)
    for node in nodes:
        wait_until_ok(node)
    return nodes


def test_a_cluster_spreads_stores_and_each_is_whole(
    start: Callable[..., RedisServer],
) -> None:
    nodes = cluster(start)
    url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
    with ExitStack() as stack:
        for namespace in ("a", "b", "c", "d"):
            store = open_store(url, namespace=namespace)
            stack.callback(store.close)
            store.initialize()
            store.put_definitions([definition()])
            hints = store.hints()
            assert hints is not None
            stack.callback(hints.close)
            end = threading.Timer(FAILED_AFTER, hints.close)
            end.start()
            stack.callback(end.cancel)
            assert hints.wait() is News.ANYTHING
            store.put_definitions([definition(store.now(), key=2)])
            assert hints.wait() is News.DEFINITIONS
            assert len(store.select_definitions()) == 2
            assert "server" in {each.name for each in store.examine()}
    sizes = []
    for node in nodes:
        with node.client() as client:
            sizes.append(client.dbsize())
    assert all(sizes)


def test_a_store_is_away_while_its_slot_moves_and_whole_where_it_goes(
    start: Callable[..., RedisServer],
) -> None:
    nodes = cluster(start)
    with ExitStack() as stack:
        there, here = (stack.enter_context(each.client()) for each in nodes)
        url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
        short = timedelta(seconds=1)
        store = stack.enter_context(closing(RedisStore(url, timeout=short)))
        alone = stack.enter_context(closing(open_store(nodes[1].url)))
        store.put_definitions([definition()])
        here.config_resetstat()
        nodes[1].freeze()
        with pytest.raises(StoreUnavailableError):
            store.put_definitions([definition(key=3)])
        nodes[1].thaw()
        assert store.list_tombstones([definition().id]) == []
        calls = here.info("commandstats")["cmdstat_evalsha"]
        assert calls["calls"] == 2, "what was perhaps done is not repeated"
        slot = here.execute_command("CLUSTER", "KEYSLOT", "{go_scheduler}")
        giver, taker = (
            each.execute_command("CLUSTER", "MYID") for each in (here, there)
        )
        there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", giver)
        here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", taker)
        for each in (store, alone):
            with pytest.raises(StoreUnavailableError, match="is being moved"):
                each.put_definitions([definition(key=2)])
        assert there.dbsize() == 0, "half of what a script writes"
        keys = here.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
        to = ("127.0.0.1", nodes[0].port, "", 0, 5000, "KEYS")
        here.execute_command("MIGRATE", *to, *keys)
        for each in (there, here):
            each.execute_command("CLUSTER", "SETSLOT", slot, "NODE", taker)
        store.put_definitions([definition(key=2)])
        assert len(store.select_definitions()) == 2
        with pytest.raises(StoreUnavailableError, match=r"redis\+cluster://"):
            alone.now()


def test_what_is_no_cluster_or_is_away_cannot_be_reached_as_one(
    start: Callable[..., RedisServer],
) -> None:
    server = start()
    with closing(open_store(f"redis+cluster://127.0.0.1:{server.port}")) as store:
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="Cluster mode is not"):
                store.initialize()
        server.kill()
        with pytest.raises(StoreUnavailableError, match="cannot be connected"):
            store.now()


def wait_until_ok(node: RedisServer) -> None:
    """Until it knows of all slots."""
    end = threading.Timer(FAILED_AFTER, node.kill)
    end.start()
    with node.client() as client:
        while not {"cluster_state:ok", "cluster_known_nodes:2"} <= {
            *str(client.execute_command("CLUSTER", "INFO")).split()
        }:
            pass
    end.cancel()


def certified(folder: Path) -> dict[str, str]:
    """Settings of a server that proves who it is, and the file that vouches for it."""
    authority = trustme.CA()
    own = authority.issue_cert("127.0.0.1")
    given = {"key": own.private_key_pem, "cert": own.cert_chain_pems[0]}
    given["ca-cert"] = authority.cert_pem
    for name, part in given.items():
        part.write_to_path(folder / f"{name}.pem")
    return {f"tls-{name}-file": str(folder / f"{name}.pem") for name in given}


def test_connections_are_encrypted_and_the_server_known(
    start: Callable[..., RedisServer], tmp_path: Path
) -> None:
    port = free_port()
    settings = {"tls-port": str(port), "tls-auth-clients": "no"}
    start(**settings, **certified(tmp_path))
    url = f"rediss://127.0.0.1:{port}/0"
    with closing(open_store(f"{url}?tls_ca={tmp_path / 'ca-cert.pem'}")) as store:
        store.initialize()
        store.put_definitions([definition()])
    with (
        closing(open_store(url)) as store,
        pytest.raises(StoreUnavailableError, match="certificate"),
    ):
        store.initialize()
