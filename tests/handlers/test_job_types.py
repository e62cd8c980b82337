"""Types of jobs: payloads are checked when they are submitted, by a schema."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from copy import copy
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel, GetPydanticSchema
from pydantic_core import core_schema

from go_scheduler import (
    ConfigurationError,
    MemoryStore,
    OnDemandTrigger,
    ProcessExecutor,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.client import Client
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.handlers.email import Email, MailServer
from go_scheduler.handlers.job_types import Executor, JobTypes
from go_scheduler.handlers.payload import ParameterOrders
from go_scheduler.handlers.schema import DIALECT
from go_scheduler.handlers.shell import Command, Shell
from go_scheduler.handlers.webhook import Secret, Webhook
from go_scheduler.testing.builders import SECOND
from tests.handlers.conftest import refused
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

FILE = {"properties": {"file": {"type": "string"}}, "required": ["file"]}


@pytest.fixture
def engine() -> str:
    return "memory"


@pytest.fixture
def types() -> JobTypes:
    return JobTypes()


class Greeter:
    """An executor, which greets all but Bob."""

    description = "Greets somebody."

    def __init__(self) -> None:
        self.payload = ParameterOrders("greet", self._greeting)
        self.greeted: list[str] = []

    def _greeting(self, name: str, loud: bool = False) -> str:
        if name == "Bob":
            raise ConfigurationError("name: Bob is not greeted")
        return f"Hello {name}{'!' if loud else ''}"

    async def __call__(self, instance: TaskInstance) -> None:
        self.greeted.append(self.payload.of(instance))


@dataclass
class Size:
    width: int
    height: int = 480


class Picture(BaseModel):
    file: str
    taken: date
    size: Size | None = None


class TestASchemaOfItsOwn:
    def test_a_payload_is_checked_when_it_is_enqueued_and_found_by_the_handler(
        self, types: JobTypes, store: Store, clock: ManualClock
    ) -> None:
        found = set()

        @types.job_type("import", schema=FILE, queue="slow")
        def import_file(instance: TaskInstance) -> None:
            assert instance.payload is not None
            found.add(instance.payload["file"])

        with Scheduler(types, store, clock=clock, queues=["slow"]) as scheduler:
            with pytest.raises(ConfigurationError, match=r"payload\.file: 7 is not of"):
                scheduler.enqueue("import", file=7)
            assert scheduler.list_instances() == []
            scheduler.enqueue("import", file="a.csv", payload=None)
            import_file.enqueue(file="b.csv")
            clock.advance(SECOND)
        assert found == {"a.csv", "b.csv"}

    def test_it_is_an_on_demand_task_with_what_is_said_of_it(
        self, types: JobTypes
    ) -> None:
        retry = RetryPolicy(max_attempts=3)
        half = timedelta(seconds=30)

        @types.job_type("a", schema=FILE, retry=retry, timeout=half, expire_after=half)
        def handler(instance: TaskInstance) -> None:
            """Imports a file.

            From anywhere.
            """

        described = types.described("a")
        assert described.definition == TaskDefinition(
            id=TaskDefinition.id_for("task a"),
            name="a",
            trigger=OnDemandTrigger(),
            retry=retry,
            timeout=half,
            expire_after=half,
        )
        assert described.description == "Imports a file."
        assert described.schema == {"$schema": DIALECT, **FILE}
        assert types.types == [described]

    def test_what_does_not_fit_by_the_time_it_runs_fails_for_good(
        self, types: JobTypes, store: Store, clock: ManualClock
    ) -> None:
        @types.job_type("import", schema=FILE, description="Imports.")
        async def import_file(instance: TaskInstance) -> None:
            raise AssertionError

        assert types.described("import").description == "Imports."
        with Scheduler(types, store, clock=clock) as scheduler:
            Client(store).enqueue("import", fil="a")
            clock.advance(SECOND)
            [instance] = scheduler.list_instances()
        assert instance.state is State.FAILED
        assert "'file' is a required property" in (instance.error or "")

    def test_its_payload_may_have_any_name_and_no_place(self, types: JobTypes) -> None:
        types.job_type("any", schema={})(print)
        assert types.check("any", {"instance": 1, "key": 2}) == {
            "instance": 1,
            "key": 2,
        }
        with pytest.raises(ConfigurationError):
            types.tasks["any"].enqueue(7)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"schema": {"type": "text"}},
            {"schema": {}, "color": "red"},
            {"schema": {}, "retry": 7},
        ],
    )
    def test_what_is_wrong_is_refused_and_leaves_the_name_free(
        self, types: JobTypes, wrong: Any
    ) -> None:
        with pytest.raises(ConfigurationError):
            types.job_type("a", **wrong)
        assert types.names == ()

    def test_neither_a_name_nor_a_handler_is_taken_unchecked(
        self, types: JobTypes
    ) -> None:
        types.job_type("a", schema={})(print)
        with pytest.raises(ConfigurationError, match="registered as 'a' already"):
            types.job_type("a", schema={})
        with pytest.raises(ConfigurationError, match="cannot be called"):
            types.job_type("b", schema={})(7)  # type: ignore[arg-type]
        wrong: Any = 7
        with pytest.raises(ConfigurationError, match="description must be a str"):
            types.job_type("c", schema={}, description=wrong)(print)


class TestParameters:
    def test_their_types_make_the_schema(self, types: JobTypes) -> None:
        @types.task("resize")
        def resize(  # type: ignore[no-untyped-def]
            instance: TaskInstance,
            picture: Picture,
            sizes: list[Size],
            mode: Literal["fit", "fill"] = "fit",
            quality: float | None = None,
            note: Any = None,
            plain=7,
        ) -> None:
            """Resizes a picture."""

        described = types.described("resize")
        assert described.description == "Resizes a picture."
        schema: Any = described.schema
        assert schema["required"] == ["picture", "sizes"]
        assert schema["additionalProperties"] is False
        assert schema["properties"]["mode"] == {
            "enum": ["fit", "fill"],
            "type": "string",
            "default": "fit",
        }
        assert schema["properties"]["sizes"] == {
            "type": "array",
            "items": {"$ref": "#/$defs/Size"},
        }
        assert schema["properties"]["plain"] == {"default": 7}
        assert {*schema["$defs"]} == {"Picture", "Size"}
        assert schema["$schema"] == DIALECT

    def test_a_payload_is_checked_by_them(self, types: JobTypes) -> None:
        @types.task("resize")
        def resize(picture: Picture, width: int = 640) -> None: ...

        picture = {"file": "cat.png", "taken": "2026-02-01", "size": {"width": "7"}}
        assert "picture.size.width: it must be a whole number" in refused(
            types.check, "resize", {"picture": picture}
        )
        assert "did you mean 'width'?" in refused(types.check, "resize", {"wdth": 7})
        given = Picture(file="cat.png", taken=date(2026, 2, 1))
        assert types.check("resize", {"picture": given}) == {
            "picture": {"file": "cat.png", "taken": "2026-02-01", "size": None}
        }

    def test_one_that_takes_more_says_so(self, types: JobTypes) -> None:
        @types.task("more")
        def more(size: Size = None, **others: int) -> None:  # type: ignore[assignment]
            ...

        schema: Any = types.described("more").schema
        assert schema["additionalProperties"] is True
        assert "default" not in schema["properties"]["size"]
        assert types.described("more").description == ""

    def test_one_of_which_no_schema_can_be_made_is_refused(
        self, types: JobTypes
    ) -> None:
        odd: Any = GetPydanticSchema(
            lambda _, __: core_schema.no_info_plain_validator_function(str)
        )
        from typing import Annotated

        Odd = Annotated[object, odd]

        def task(odd: Odd) -> None: ...

        task.__annotations__["odd"] = Odd
        with pytest.raises(ConfigurationError, match="parameters odd has no JSON"):
            types.task("odd")(task)
        assert types.names == ()
        assert types.types == []

    def test_without_pydantic_the_extra_is_named(
        self, types: JobTypes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pydantic", None)
        with pytest.raises(ConfigurationError, match="install the extra types"):

            @types.task("plain")
            def plain(order: int) -> None: ...


class TestExecutors:
    def test_one_is_added_and_called_with_its_order(
        self, types: JobTypes, store: Store, clock: ManualClock
    ) -> None:
        greeter = Greeter()
        types.add("greet", greeter, priority=0)
        described = types.described("greet")
        assert described.description == "Greets somebody."
        assert described.definition.priority == 0
        properties: Any = described.schema["properties"]
        assert properties["loud"] == {"type": "boolean", "default": False}
        with Scheduler(types, store, clock=clock) as scheduler:
            with pytest.raises(ConfigurationError, match="Bob is not greeted"):
                scheduler.enqueue("greet", name="Bob")
            scheduler.enqueue("greet", name="Ada", loud=True)
            clock.advance(SECOND)
        assert greeter.greeted == ["Hello Ada!"]

    def test_its_orders_may_stand_in_metadata(
        self, types: JobTypes, store: Store, clock: ManualClock
    ) -> None:
        greeter = Greeter()
        types.add("greet", greeter)
        with Scheduler(types, store, clock=clock) as scheduler:
            for name in ("Ada", "Bob"):
                scheduler.schedule(
                    TaskDefinition(
                        trigger=OnDemandTrigger(),
                        id=TaskDefinition.id_for(name),
                        name="greet",
                        metadata={"name": name},
                    )
                )
                scheduler.run_now(TaskDefinition.id_for(name))
            clock.advance(SECOND)
            failed = scheduler.list_instances(state=State.FAILED)
        assert greeter.greeted == ["Hello Ada"]
        assert [each.metadata for each in failed] == [{"name": "Bob"}]

    def test_what_is_no_executor_is_refused(self, types: JobTypes) -> None:
        wrong: Any = print
        with pytest.raises(
            ConfigurationError, match=r"decorate a function by @types\."
        ):
            types.add("print", wrong)
        with pytest.raises(ConfigurationError, match="takes no color"):
            types.add("greet", Greeter(), color="red")
        assert types.names == ()


def broken(types: JobTypes) -> None:
    raise ValueError("no")


@pytest.mark.parametrize("name", ["missing", "broken"])
def test_what_is_announced_and_cannot_be_added_is_named(
    types: JobTypes, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    point = metadata.EntryPoint(name, f"{__name__}:{name}", "go_scheduler.job_types")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [point][: group == point.group]
    )
    with pytest.raises(ConfigurationError, match=f"announced as {name!r} cannot"):
        types.load_announced()


def test_what_is_added_to_a_copy_is_not_in_what_was_copied(types: JobTypes) -> None:
    @types.task("double")
    def double(number: int) -> int:
        return 2 * number

    copied = copy(types)
    copied.add("greet", Greeter())
    assert copied.names == ("double", "greet")
    assert [each.name for each in copied.types] == ["double", "greet"]
    assert types.names == tuple(types.tasks) == ("double",)
    assert [each.name for each in types.types] == ["double"]
    # Its scheduler takes what was decorated by the other one.
    scheduler = Scheduler(copied, MemoryStore())
    enqueued = double.enqueue(number=2)
    assert scheduler.get_instance(enqueued.id).definition.name == "double"


def test_what_there_is_not_is_refused_with_what_there_is(types: JobTypes) -> None:
    assert refused(types.check, "x", {}) == "there is no job type 'x'; known: none"
    types.add("greet", Greeter())
    assert refused(types.check, "x", {}) == "there is no job type 'x'; known: greet"
    assert refused(types.check, "greet", 7) == "payload must be a Mapping, not 7"


def test_a_payload_that_no_store_keeps_is_refused(types: JobTypes) -> None:
    types.add("greet", Greeter())
    assert refused(types.check, "greet", {"name": "a\0"}).startswith(
        "payload['name'] holds"
    )


@pytest.mark.slow
def test_nothing_is_loaded_that_was_not_asked_for() -> None:
    program = (
        "import sys, go_scheduler, go_scheduler.handlers as handlers;"
        "own = {'job_types', 'schema', 'shell', 'webhook', 'email', 'signatures'};"
        "print([each for each in own if f'go_scheduler.handlers.{each}' in"
        " sys.modules]);"
        "import go_scheduler.handlers.shell, go_scheduler.handlers.email;"
        "import go_scheduler.handlers.signatures, go_scheduler.handlers.job_types;"
        "print([each for each in ('httpx', 'jsonschema', 'pydantic') if each in"
        " sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n[]\n"


EXECUTORS = [
    lambda: Shell({"sort": Command(arguments=["sort", "{file}"])}),
    lambda: Webhook(secrets={"a": Secret(value="key", hosts=["a.example"])}),
    lambda: Email(MailServer(host="localhost"), sender="a@a.example"),
]
ORDERS: list[dict[str, object]] = [
    {"command": "sort", "arguments": {"file": "a"}},
    {"url": "https://a.example/", "secret": "a"},
    {"to": "b@a.example", "subject": "a", "text": "b"},
]


@pytest.mark.parametrize(("make", "order"), [*zip(EXECUTORS, ORDERS, strict=True)])
def test_executors_can_be_sent_to_other_processes(
    make: Callable[[], Executor], order: dict[str, object]
) -> None:
    sent = pickle.loads(pickle.dumps(make()))
    assert sent.payload.write(order) == order
    assert sent.payload.schema() == make().payload.schema()


@pytest.mark.slow
def test_one_runs_in_another_process(tmp_path: Path) -> None:
    finished = threading.Event()
    hear = hears(InstanceFinished)(lambda _: finished.set())
    types = JobTypes()
    touch = Command(arguments=["touch", "{file}"])
    types.add("shell", Shell({"touch": touch}))
    file = tmp_path / "file"
    with (
        ProcessExecutor(1) as executor,
        Scheduler(types, executor=executor, listeners=[hear]) as scheduler,
    ):
        scheduler.enqueue("shell", command="touch", arguments={"file": str(file)})
        assert finished.wait(FAILED_AFTER)
    assert file.exists()
