"""What users see of the package, as facts, each a line of a golden file.

Docstrings, help, descriptions and the sentences of the log are left out: they may be
rewritten at any time.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import logging
import pkgutil
import re
import sqlite3
import typing
from contextlib import (
    closing,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from importlib import import_module
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import FunctionType, MemberDescriptorType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel
from starlette.routing import Route
from typer.main import get_command

import go_scheduler
from go_scheduler import (
    CatchUp,
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    MemoryStore,
    OnDemandTrigger,
    Overlap,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    errors,
    events,
    triggers,
)
from go_scheduler.cli import main
from go_scheduler.cli.application import application
from go_scheduler.cli.options import ExitCode, exit_code_of
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dispatch import Topics, message_schema
from go_scheduler.doctor import KINDS
from go_scheduler.events.event_bus import LOG_ALONE
from go_scheduler.http import LongPoll, create_app
from go_scheduler.http.configuration.sections import Configuration
from go_scheduler.http.problems import problem_of
from go_scheduler.models import Pause
from go_scheduler.stores import Announcement, open_store
from go_scheduler.telemetry import Telemetry
from go_scheduler.testing import (
    BusSuite,
    ManualClock,
    StoreMachine,
    StoreSuite,
    TriggerSuite,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import (
    AllOfTrigger,
    AnyOfTrigger,
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
    RecurrenceTrigger,
    RuleCalendar,
    register_calendar,
)
from tests.cli.reference import commands
from tests.http.configuration.places import places
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from go_scheduler import Store, TaskInstance, Trigger

    Facts = Iterator[str]

ROOT = Path(__file__).parents[2]
SOURCE = Path(go_scheduler.__file__).parent

_SHOWN = re.compile(
    r"^ *(?:>>> )?from (go_scheduler[\w.]*) import (\([^)]*\)|[\w, ]+)", re.MULTILINE
)
"""An import that a page or an example shows."""
_REFERENCE = re.compile(r"^::: (go_scheduler[\w.]*)\.(\w+)$", re.MULTILINE)
_SYNTAX = {
    *("__aenter__", "__aexit__", "__await__", "__bool__", "__call__", "__contains__"),
    *("__enter__", "__exit__", "__getitem__", "__iter__", "__len__", "__next__"),
    *("__add__", "__and__", "__ge__", "__gt__", "__le__", "__lt__", "__or__"),
}
"""The names with underscores of what users write without calling it by its name."""
_NOT_MEMBERS = ("_", "model_config", "pytestmark", "test_")
_NO_BASES = ("ABC", "Generic", "object")


SUITES: Mapping[type, set[str]] = {
    BusSuite: {"open_bus"},
    StoreMachine: {"make_store"},
    StoreSuite: {"clock", "store"},
    TriggerSuite: {"trigger"},
}
"""What users write in a suite; all else of it are tests, and what they need."""


def value_text(value: object) -> str:
    """A value as text, the same for every version of Python."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, timedelta):
        return f"timedelta({value})"
    if isinstance(value, type | FunctionType):
        return value.__name__
    if isinstance(value, tuple | list):
        return f"({', '.join(map(value_text, value))})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(value_text, value)))}}}"
    if dataclasses.is_dataclass(value):
        given = (
            f"{each.name}={value_text(getattr(value, each.name))}"
            for each in dataclasses.fields(value)
            if getattr(value, each.name) != each.default
        )
        return f"{type(value).__name__}({', '.join(given)})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if repr(value) == "<factory>":
        return "made anew"
    return f"a {type(value).__name__}"


def type_text(annotation: Any) -> str:
    """A type as text, by the last names alone, the same for every version of Python."""
    if annotation in (None, NoneType):
        return "None"
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return re.sub(r"\b(?:\w+\.)+|~", "", text).replace("NoneType", "None")


def callable_facts(name: str, called: Any, *, bound: bool = False) -> Facts:
    """The parameters of a callable and what it returns, also of each overload."""
    overloads = typing.get_overloads(inspect.unwrap(called))
    for number, each in enumerate(overloads, 1):
        yield from _signature_facts(f"{name}#{number}", each, bound=bound)
    yield from _signature_facts(name, called, bound=bound)


def _signature_facts(name: str, called: Any, *, bound: bool) -> Facts:
    signature = inspect.signature(called)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    for number, each in enumerate(parameters, 1):
        if each.name.startswith("_"):
            continue
        shown = {
            each.POSITIONAL_ONLY: f"{number} {each.name}, by place alone",
            each.POSITIONAL_OR_KEYWORD: f"{number} {each.name}",
            each.VAR_POSITIONAL: f"*{each.name}",
            each.KEYWORD_ONLY: f"{each.name}=",
            each.VAR_KEYWORD: f"**{each.name}",
        }[each.kind]
        said = (
            "" if each.annotation is each.empty else f": {type_text(each.annotation)}"
        )
        default = "" if each.default is each.empty else f" = {value_text(each.default)}"
        yield f"{name}({shown}){said}{default}"
    if inspect.isclass(called):
        return
    is_async = inspect.iscoroutinefunction(called)
    returned = signature.return_annotation
    shown = "" if returned is signature.empty else type_text(returned)
    yield f"{name}() -> {'async ' if is_async else ''}{shown}"


def class_facts(cls: type, public: Collection[Any]) -> set[str]:
    """What a class has, from wherever it has inherited it within the package.

    What it has in common with a public class that it is derived from is left out.
    """
    bases = _bases(cls, public)
    shared = (_own_facts(each) for each in bases if each in public)
    found = _own_facts(cls).difference(*shared)
    if issubclass(cls, events.Event | BaseModel):
        # What it has is in a file of its own.
        found = frozenset(each for each in found if "() ->" in each)
    elif cls is Scheduler:
        found = frozenset(each for each in found if not each.startswith("("))
    kind = _kind_of(cls)
    named = ", ".join(sorted(each.__name__ for each in bases))
    return {*found, f": {kind}{f' of {named}' if named else ''}"}


def _bases(cls: type, public: Collection[Any]) -> Sequence[type]:
    """Those that users know, the nearest ones alone."""
    known = [
        each
        for each in cls.__mro__[1:]
        if (each in public or not _is_own(each)) and each.__name__ not in _NO_BASES
    ]
    return [
        each
        for each in known
        if not any(other is not each and issubclass(other, each) for other in known)
    ]


def _is_own(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "go_scheduler"


def _kind_of(cls: Any) -> str:
    parameters = getattr(cls, "__dataclass_params__", None)
    if parameters is None:
        return "class"
    return "frozen dataclass" if parameters.frozen else "dataclass"


@cache
def _own_facts(cls: Any) -> frozenset[str]:
    own = [each for each in cls.__mro__ if _is_own(each)]
    names = {name for each in own for name in vars(each)}
    names |= {name for each in own for name in inspect.get_annotations(each)}
    if issubclass(cls, Enum):
        names -= _SYNTAX
    if issubclass(cls, BaseModel):
        names -= cls.model_fields.keys()
    if cls in SUITES:
        names &= SUITES[cls]
    found = {
        name: {*_member_facts(cls, name, own)}
        for name in names
        if name in _SYNTAX or not name.startswith(_NOT_MEMBERS)
    }
    of_members = (_as_another(name, found) for name in found)
    return frozenset(_constructor_facts(cls, own)).union(*of_members)


def _as_another(name: str, found: Mapping[str, set[str]]) -> set[str]:
    """The facts of a member; of one that is an async twin of another, that alone."""
    sync = name.removeprefix("a")
    plain = {
        each.replace(f".{name}(", f".{sync}(").replace("-> async ", "-> ")
        for each in found[name]
    }
    if sync != name and found.get(sync) == plain:
        return {f".{name}(): async {sync}()"}
    return found[name]


def _constructor_facts(cls: Any, own: Sequence[type]) -> Facts:
    is_called = not issubclass(cls, Enum | BaseModel)
    is_called &= not getattr(cls, "_is_protocol", False)
    makers = [each for each in own if {"__init__", "__new__"} & vars(each).keys()]
    if not is_called or not makers:
        return
    yield from callable_facts("", cls)
    for each in makers:
        init = inspect.unwrap(vars(each).get("__init__", object))
        if isinstance(init, FunctionType) and not dataclasses.is_dataclass(each):
            yield from (f".{name}: attribute" for name in _set_by(init))


def _set_by(init: FunctionType) -> Iterator[str]:
    """The public attributes that a constructor sets."""
    try:
        made = ast.parse(f"if True:\n{inspect.getsource(init)}")
    except OSError:
        return
    for each in ast.walk(made):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            of_self = isinstance(each.value, ast.Name) and each.value.id == "self"
            if of_self and not each.attr.startswith("_"):
                yield each.attr


def _member_facts(cls: Any, name: str, own: Sequence[type]) -> Facts:
    fields = {}
    if dataclasses.is_dataclass(cls):
        fields = {each.name: each for each in dataclasses.fields(cls)}
    value = inspect.getattr_static(cls, name, inspect.Parameter.empty)
    annotation = next(
        (
            annotations[name]
            for each in own
            if name in (annotations := inspect.get_annotations(each))
        ),
        None,
    )
    said = "" if annotation is None else f" {type_text(annotation)}"
    if name in fields or name in getattr(cls, "_fields", ()):
        compared = name not in fields or fields[name].compare
        yield f".{name}: field{said}{'' if compared else ', not compared'}"
    elif name in getattr(cls, "__members__", ()):
        yield f".{name} = {cls[name].value!r}"
    elif isinstance(value, property):
        changes = "" if value.fset is None else ", can be set"
        got = inspect.signature(value.fget).return_annotation  # type: ignore[arg-type]
        yield f".{name}: property {type_text(got)}{changes}{_abstract(value)}"
    elif isinstance(value, staticmethod | classmethod):
        bound = isinstance(value, classmethod)
        yield f".{name}: {type(value).__name__}"
        yield from callable_facts(f".{name}", value.__func__, bound=bound)
    elif isinstance(value, FunctionType):
        if abstract := _abstract(value):
            yield f".{name}{abstract}"
        yield from callable_facts(f".{name}", value, bound=True)
    elif value is inspect.Parameter.empty or isinstance(value, MemberDescriptorType):
        yield f".{name}:{said or ' attribute'}"
    elif type(value).__name__ == "FixtureFunctionDefinition" or hasattr(
        value, "_pytestfixturefunction"
    ):
        yield f".{name}: fixture"
    elif isinstance(value, str) and " " in value:
        # It is for people to read.
        yield f".{name}:{said or ' attribute'}"
    elif not type(value).__module__.startswith("hypothesis"):
        yield f".{name}{said and ':'}{said} = {value_text(value)}"


def _abstract(value: object) -> str:
    return ", abstract" if getattr(value, "__isabstractmethod__", False) else ""


def public_names() -> Facts:
    """Each public name, and of functions and classes all that can be done with them."""
    found = dict(sorted(_public(), key=lambda each: (each[0].count("."), each[0])))
    homes: dict[Any, str] = {}
    for path, value in found.items():
        if inspect.isclass(value) or inspect.isroutine(value):
            homes.setdefault(value, path)
    for path, value in found.items():
        home, _, name = path.rpartition(".")
        if name not in getattr(import_module(home), "__all__", (name,)):
            yield f"{path}: is not listed"
        if typing.get_origin(value) is not None:
            yield f"{path}: type {type_text(value)}"
        elif not (inspect.isclass(value) or inspect.isroutine(value)):
            yield f"{path} = {value_text(value)}"
        elif homes[value] != path:
            yield f"{path}: is {homes[value]}"
        elif inspect.isclass(value):
            yield from (f"{path}{fact}" for fact in class_facts(value, homes))
        else:
            yield from callable_facts(path, value)


def _public() -> Iterator[tuple[str, object]]:
    """What packages list, what the reference has, and what pages import."""
    named = {("go_scheduler", name) for name in go_scheduler.__all__}
    for each in pkgutil.iter_modules(go_scheduler.__path__, "go_scheduler."):
        if each.ispkg or each.name == "go_scheduler.policies":
            listed = getattr(import_module(each.name), "__all__", ())
            named |= {(each.name, name) for name in listed}
    named |= {*_REFERENCE.findall((ROOT / "docs/reference.md").read_text())}
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")]
    for page in pages:
        for module, names in _SHOWN.findall(page.read_text()):
            named |= {(module, name) for name in re.findall(r"\w+", names)}
    for module, name in named:
        value = getattr(import_module(module), name)
        if not isinstance(value, ModuleType):
            yield f"{module}.{name}", value


_ABOUT = {"default", "description", "example", "examples", "summary", "title"}
"""What a schema has for people to read, and what is told elsewhere."""


def schema_text(schema: Mapping[str, Any], more: Iterable[str] = ()) -> str:
    """The type that a JSON schema describes, with its bounds."""
    told = {*more, *_ABOUT}
    if "$ref" in schema:
        told.add("$ref")
        text = schema["$ref"].rpartition("/")[2]
    elif several := [each for each in ("anyOf", "oneOf", "allOf") if each in schema]:
        told.add(several[0])
        text = " | ".join(map(schema_text, schema[several[0]]))
        text = text if several[0] == "anyOf" else f"{several[0]}({text})"
    elif "enum" in schema or "const" in schema:
        told |= {"const", "enum", "type"}
        values = schema.get("enum", [schema.get("const")])
        text = " | ".join(map(json.dumps, values))
    else:
        told.add("type")
        text = str(schema.get("type", "any"))
        if "items" in schema:
            told.add("items")
            text += f" of {schema_text(schema['items'])}"
        if isinstance(schema.get("additionalProperties"), dict):
            text += f" of {schema_text(schema['additionalProperties'])}"
            told.add("additionalProperties")
    bounds = [
        f"{name}={_number_text(schema[name])}"
        for name in sorted(schema.keys() - told)
        # That is so if nothing is said.
        if (name, schema[name]) != ("additionalProperties", True)
    ]
    return f"{text}({', '.join(bounds)})" if bounds else text


def _number_text(value: object) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value, sort_keys=True)  # type: ignore[call-overload]


def schema_facts(
    place: str, schema: Mapping[str, Any], *, needed: bool = False
) -> Facts:
    """The type at a place, and those of the fields that it has there."""
    default = schema.get("default")
    shown = "" if default is None else f" = {json.dumps(default, sort_keys=True)}"
    text = schema_text(schema, ("properties", "required"))
    yield f"{place}: {text}{shown}{', required' if needed else ''}"
    for name, each in schema.get("properties", {}).items():
        is_needed = name in schema.get("required", ())
        yield from schema_facts(f"{place}.{name}", each, needed=is_needed)


def openapi() -> Facts:
    """What is called how over HTTP, and what is answered; and which error is which."""
    described = create_app(Client(MemoryStore())).openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield from _operation_facts(f"{method.upper()} {path}", operation)
    for name, schema in described["components"]["schemas"].items():
        yield from schema_facts(f"body {name}", schema)
    for name, scheme in described["components"]["securitySchemes"].items():
        yield f"security {name}: {scheme['type']} {scheme['scheme']}"
    for error in _errors():
        # What no call is answered by is raised again.
        with suppress(errors.GoSchedulerError):
            found = problem_of(error.__new__(error))
            yield f"error {error.__name__}: {found.status} {found.body['type']}"


def _operation_facts(called: str, operation: Mapping[str, Any]) -> Facts:
    yield f"{called}: operation {operation['operationId']}"
    for each in operation.get("security", ()):
        for name, scopes in each.items():
            yield f"{called}: needs {name} {' '.join(scopes)}"
    for each in operation.get("parameters", ()):
        place = f"{called} {each['in']} {each['name']}"
        yield from schema_facts(place, each["schema"], needed=each["required"])
    if (body := operation.get("requestBody")) is not None:
        for media_type, each in body["content"].items():
            place = f"{called} body {media_type}"
            yield from schema_facts(
                place, each["schema"], needed=body.get("required", False)
            )
    problems = []
    for status, answer in operation["responses"].items():
        for media_type, each in answer.get("content", {"nothing": None}).items():
            if media_type == "application/problem+json":
                problems.append(status)
                continue
            schema = "" if each is None else f" {schema_text(each.get('schema', {}))}"
            yield f"{called} answers {status}: {media_type}{schema}"
    yield f"{called} answers a problem: {' '.join(sorted(problems))}"


def _errors() -> Iterator[type[errors.GoSchedulerError]]:
    for each in vars(errors).values():
        base = errors.GoSchedulerError
        if inspect.isclass(each) and issubclass(each, base) and each is not base:
            yield each


def command_line() -> Facts:
    """Each command with its arguments and options; exit codes; variables."""
    for name, command in commands().items():
        yield f"{name}: command"
        yield from (f"{name} {fact}" for fact in _parameter_facts(command))
    group: Any = get_command(application)
    yield from (f"go_scheduler {fact}" for fact in _parameter_facts(group))
    for code in ExitCode:
        yield f"exit code {code.value}: {code.name}"
    for error in _errors():
        code = exit_code_of(error.__new__(error))
        yield f"exit code {code.value}: after {error.__name__}"
    variables = re.compile(r"GO_SCHEDULER_[A-Z]+")
    for path in SOURCE.glob("cli/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            text = str(node.value) if isinstance(node, ast.Constant) else ""
            if variables.fullmatch(text):
                yield f"variable {text}"


def _parameter_facts(command: Any) -> Facts:
    options = [each for each in command.params if each.opts[0].startswith("-")]
    arguments = [each for each in command.params if each not in options]
    for each in options:
        names = sorted(each.opts + each.secondary_opts, key=len, reverse=True)
        yield f"{'/'.join(names)}: {_parameter_text(each)}"
    for place, each in enumerate(arguments, 1):
        yield f"argument {place} {each.name}: {_parameter_text(each)}"


def _parameter_text(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    is_flag = getattr(parameter, "is_flag", False)
    metavar = str(parameter.metavar)
    if isinstance(kind, type) and issubclass(kind, Enum):
        text = "|".join(each.value for each in kind)
    elif "|" in metavar:
        # The command itself looks at what it is given.
        text = metavar
    else:
        text = "flag" if is_flag else type_text(kind)
    facts = {
        "at least": parameter.min,
        "at most": parameter.max,
        "default": parameter.default,
        "variable": parameter.envvar,
    }
    for what, fact in facts.items():
        if not (fact is None or callable(fact) or fact is False):
            shown = fact.value if isinstance(fact, Enum) else fact
            text += f", {what} {shown}"
    for what in ("required", "multiple", "hidden"):
        text += f", {what}" if getattr(parameter, what, False) else ""
    return text if parameter.nargs == 1 else f"{text}, any number"


def shape_facts(
    place: str, value: object, bodies: Mapping[frozenset[str], str] | None = None
) -> Facts:
    """Of a JSON value the names and types; or which body it is, by all its names."""
    bodies = bodies or {}
    if isinstance(value, dict) and (body := bodies.get(frozenset(value))):
        yield f"{place}: body {body}"
    elif isinstance(value, dict):
        yield f"{place}: object"
        for name, each in value.items():
            yield from shape_facts(f"{place}.{name}", each, bodies)
    elif isinstance(value, list):
        yield f"{place}: array"
        for each in value:
            yield from shape_facts(f"{place}[]", each, bodies)
    else:
        kinds = {str: "text", bool: "boolean", int: "number", float: "number"}
        yield f"{place}: {kinds.get(type(value), 'null')}"


ONE = UUID(int=1)
NINE = datetime(2030, 1, 1, 9, 0, 0, 250, tzinfo=UTC)
MINUTE, HOUR, DAYS = timedelta(minutes=1), timedelta(hours=1), timedelta(days=9)
JOB = {"type": "send", "payload": {"order": 7}, "key": "7"}
DEFINITION = {
    "trigger": {"every": 3600},
    "id": str(TaskDefinition.id_for("hourly")),
    "name": "hourly",
    "retry": {"max_attempts": 3, "delay": 60},
}
REPORT = str(TaskDefinition.id_for("report"))
PRINTING = (
    ("types", "put", "send"),
    ("types", "list"),
    ("types", "show", "send"),
    ("add", "report", "--key", "report", "--every", "1h", "--max-attempts", "3"),
    ("preview", "--every", "1h"),
    ("list",),
    ("show", REPORT),
    ("why", REPORT, "--at", "2200-01-01T00:00Z"),
    ("pause", REPORT),
    ("resume", REPORT),
    ("run", REPORT, "--payload", '{"order": 7}'),
    ("list", "--instances"),
    ("stats",),
    ("nodes",),
    ("plan", "definitions.json", "--owner", "shop"),
    ("simulate", "definitions.json"),
    ("import", "jobs.json"),
    ("delete", REPORT, "--yes"),
    ("types", "delete", "send"),
    ("key", "ann", "--scope", "workers"),
)
"""Commands that print JSON, in an order in which each has something to print."""


def printed_json(folder: Path) -> Facts:
    """What commands print as JSON, by names and types."""
    url = f"sqlite:///{folder}/store.db"
    (folder / "definitions.json").write_text(json.dumps(DEFINITION))
    (folder / "jobs.json").write_text(json.dumps(JOB))
    schemas = create_app(Client(MemoryStore())).openapi()["components"]["schemas"]
    bodies = {
        frozenset(schema["properties"]): name
        for name, schema in schemas.items()
        if name.endswith("Answer")
    }
    with closing(open_store(url)) as store:
        store.initialize()
        store.note_contact(Announcement(node=ONE), unbroken=timedelta(seconds=9))
    for words in PRINTING:
        where = [] if words[0] in ("key", "preview") else ["--store", url]
        given = [str(folder / e) if e.endswith(".json") else e for e in words]
        # Of those of a group the second word is of their name.
        name = " ".join(words[:2] if words[0] == "types" else words[:1])
        for value in _printed(*given, *where):
            yield from shape_facts(name, value, bodies)
    # What these find, or have, is of any type.
    for words in (("config", "--show"), ("doctor", "--store", url)):
        for value in _printed(*words):
            yield from (f"{words[0]}.{name}" for name in value)


def _printed(*words: str) -> Iterator[Any]:
    output, said = _run(*words, "--json")
    assert output, f"{words} printed no JSON: {said}"
    yield from map(json.loads, output.splitlines())


def _run(*words: str) -> tuple[str, str]:
    """What a command prints, and what it says besides."""
    output, said = TextIOWrapper(BytesIO(), "utf-8"), StringIO()
    with redirect_stdout(output), redirect_stderr(said):
        main(words)
    output.seek(0)
    return output.read(), said.getvalue()


def told_events() -> Facts:
    """Each event and its fields; the level and attributes of its line in the log."""
    for name in events.__all__:
        event = getattr(events, name)
        if not inspect.isclass(event) or not dataclasses.is_dataclass(event):
            continue
        [base] = event.__bases__
        yield f"{name}: {'event' if base is object else f'of {base.__name__}'}"
        for each in dataclasses.fields(event):
            is_needed = each.default is dataclasses.MISSING
            default = "" if is_needed else f" = {value_text(each.default)}"
            yield f"{name}.{each.name}: {type_text(each.type)}{default}"
        yield from (f"{name} {fact}" for fact in _logged(event))


def _logged(event: Any) -> set[str]:
    """The levels and attributes of its lines, whatever is in its fields."""
    fields = dataclasses.fields(event)
    possible = [_possible(type_text(each.type)) for each in fields]
    found: set[str] = set()

    def take(record: logging.LogRecord) -> bool:
        of = "".join(f" {each}" for each in sorted(vars(record).keys() - _OF_RECORDS))
        found.add(f"is logged: {record.levelname}{of and ' with'}{of}")
        assert record.getMessage(), "its text has a place for what the event says"
        return False

    log = logging.getLogger("go_scheduler.golden")
    log.setLevel(logging.DEBUG)
    log.addFilter(take)
    teller = LOG_ALONE.teller("golden")
    for values in itertools.product(*possible):
        given = {each.name: value for each, value in zip(fields, values, strict=True)}
        teller.tell(event(**given))
    log.removeFilter(take)
    return found


_OF_RECORDS = vars(logging.makeLogRecord({})).keys()


def _possible(kind: str) -> Sequence[object]:
    """Values of a type, enough of them that each line is met."""
    values: dict[str, Sequence[object]] = {
        "BaseException": [ValueError("no")],
        "None": [None],
        "UUID": [ONE],
        "bool": [False, True],
        "datetime": [START],
        "int": [1, 2],
        "str": ["text"],
        "timedelta": [timedelta(seconds=1)],
        "tuple[str, ...]": [("text",)],
    }
    found: list[object] = []
    for each in kind.split(" | "):
        if each in values:
            found += values[each]
        else:
            enum = getattr(events, each, None) or getattr(go_scheduler, each)
            found += [*enum]
    return found


def metrics() -> Facts:
    """The metrics and spans of OpenTelemetry, and the metrics of Prometheus."""
    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    meters, tracers = MeterProvider([reader]), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(meter_provider=meters, tracer_provider=tracers)
    clock = ManualClock()
    with Scheduler(
        _ends_each_way, MemoryStore(clock), clock=clock, listeners=[telemetry]
    ) as scheduler:
        for definition in (
            TaskDefinition(trigger=IntervalTrigger(hours=1, anchor=START), name="good"),
            TaskDefinition(
                trigger=ExecuteOnceTrigger(START),
                name="bad",
                retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=1)),
            ),
            TaskDefinition(
                trigger=ExecuteOnceTrigger(START - HOUR),
                catch_up=CatchUp(drop_after=MINUTE),
            ),
            TaskDefinition(trigger=ExecuteOnceTrigger(START), queue="other"),
        ):
            scheduler.schedule(definition)
        scheduler.schedule(
            TaskDefinition(trigger=OnDemandTrigger(), name="task", id=ONE)
        )
        scheduler.run_now(ONE)
        clock.advance(timedelta(minutes=2))
        scheduler.stop()
        clock.advance(3 * HOUR)
        scheduler.start()
        clock.advance(MINUTE)
        app = create_app(
            scheduler, metrics=telemetry, work=LongPoll(scheduler), clock=clock
        )
        with Calling(app) as http:
            yield from _prometheus_facts(http.get("/metrics").text)
        yield from _metric_facts(reader)
    for span in exporter.get_finished_spans():
        name = span.name.partition(" ")[0]
        yield f"span {name}: {span.kind.name}"
        yield from (f"span {name} has {each}" for each in span.attributes or ())
    meters.shutdown()
    tracers.shutdown()


def _ends_each_way(instance: TaskInstance) -> None:
    if instance.definition.name == "bad":
        raise ValueError("no")


def _metric_facts(reader: InMemoryMetricReader) -> Facts:
    data: Any = reader.get_metrics_data()
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = type(metric.data).__name__
                yield f"opentelemetry {metric.name}: {kind}, {metric.unit}"
                for point in metric.data.data_points:
                    for label in point.attributes:
                        yield f"opentelemetry {metric.name} by {label}"
                    if bounds := getattr(point, "explicit_bounds", ()):
                        shown = " ".join(f"{each:g}" for each in bounds)
                        yield f"opentelemetry {metric.name} bounds: {shown}"


def _prometheus_facts(text: str) -> Facts:
    for family in text_string_to_metric_families(text):
        yield f"prometheus {family.name}: {family.type}"
        bounds = {float(e.labels["le"]) for e in family.samples if "le" in e.labels}
        if bounds:
            shown = " ".join(f"{each:g}" for each in sorted(bounds))
            yield f"prometheus {family.name} bounds: {shown}"
        for sample in family.samples:
            # Clients of some versions say when a counter began.
            if not sample.name.endswith("_created"):
                yield f"prometheus {sample.name}"
                yield from (f"prometheus {sample.name} by {e}" for e in sample.labels)


def kept() -> Mapping[str, TaskDefinition]:
    """Definitions with each kind of trigger, and with each policy, by names."""
    register_calendar(
        "tests.golden", RuleCalendar("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25")
    )
    hourly, daily = IntervalTrigger(hours=1, anchor=NINE), CronTrigger("0 9 * * *")
    kinds: Mapping[str, Trigger] = {
        "all_of": AllOfTrigger([daily, CronTrigger("0 * * * 5")]),
        "any_of": AnyOfTrigger([daily, hourly]),
        "cron": daily,
        "cron by a macro": CronTrigger("@Daily"),
        "cron of seven fields": CronTrigger("0 30 9 L * ? 2030", "Europe/Berlin"),
        "cron with all": CronTrigger(
            "30 2 * * *", "Europe/Berlin", gap="skip", overlap="both"
        ),
        "delay": DelayTrigger(hours=1),
        "delay with all": DelayTrigger(hours=1, first_at=NINE),
        "except": ExceptTrigger(daily, "tests.golden"),
        "except with all": ExceptTrigger(
            daily, ["tests.golden", hourly], "Europe/Berlin"
        ),
        "interval": IntervalTrigger(hours=1, anchored_at=NINE),
        "interval with all": hourly,
        "limited": LimitedTrigger(daily, limit=3).anchored(NINE),
        "limited with all": LimitedTrigger(
            daily, start=NINE, end=NINE + DAYS, limit=3, duration=DAYS
        ),
        "on_demand with all": OnDemandTrigger(lasting=False),
        "once": ExecuteOnceTrigger(NINE),
        "only": OnlyTrigger(daily, "tests.golden"),
        "only with all": OnlyTrigger(daily, ["tests.golden"], "Europe/Berlin"),
        "recurrence": RecurrenceTrigger("FREQ=DAILY", anchored_at=START),
        "recurrence with all": RecurrenceTrigger(
            "DTSTART;TZID=Europe/Berlin:20300101T090000\nRRULE:FREQ=WEEKLY;COUNT=9\n"
            "RDATE;TZID=Europe/Berlin:20300301T090000\n"
            "EXDATE;TZID=Europe/Berlin:20300108T090000",
            gap="skip",
            overlap="second",
        ),
    }
    fields: Mapping[str, Sequence[object]] = {
        "catch_up": [
            CatchUp(),
            CatchUp(mode="all", grace=timedelta(0)),
            CatchUp(mode="none", grace=MINUTE, within=MINUTE, drop_after=HOUR),
        ],
        "expire_after": [MINUTE],
        "heartbeat_timeout": [timedelta(milliseconds=1500)],
        "jitter": [MINUTE],
        "last_pause": [Pause(since=START, until=NINE, note="holidays")],
        "lock": ["printer"],
        "max_per_node": [2],
        "max_queue": [9],
        "metadata": [{"a": [1, 2.5, None, True], "\u00fc": "text"}],
        "name": ["report"],
        "overdue": [True],
        "overlap": [each for each in Overlap if each is not Overlap.ALLOW],
        "paused": [True],
        "priority": [3],
        "queue": ["mail"],
        "retry": [
            RetryPolicy(),
            RetryPolicy(max_attempts=None),
            RetryPolicy.after_expiry(),
            RetryPolicy(
                max_attempts=5,
                delay=MINUTE,
                factor=2,
                max_delay=HOUR,
                jitter=0.5,
                stop_on=(KeyError, "shop.Closed"),
            ),
            RetryPolicy(delay=MINUTE, jitter=MINUTE),
        ],
        "start_timeout": [MINUTE],
        "timeout": [MINUTE],
        "trace_context": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
        "when_full": ["drop"],
    }
    given: dict[str, dict[str, Any]] = {"plain": {}}
    given |= {f"trigger {kind}": {"trigger": each} for kind, each in kinds.items()}
    for name, values in fields.items():
        for number, value in enumerate(values, 1):
            given[f"{name} {number}"] = {name: value}
    given["note"] = {"paused": True, "note": "holidays"}
    given["key"] = {"key": "nightly report", "id": None}
    _check_all_are_kept({*kinds, OnDemandTrigger.kind}, {*fields, "note", "key"})
    common: dict[str, Any] = {"trigger": OnDemandTrigger(), "next_fire_time": NINE}
    return {
        name: TaskDefinition(**{**common, "id": UUID(int=number), **each})
        for number, (name, each) in enumerate(given.items(), 1)
    }


def _check_all_are_kept(kinds: set[str], fields: set[str]) -> None:
    listed = (getattr(triggers, name) for name in triggers.__all__)
    all_kinds = {each.kind for each in listed if hasattr(each, "kind")}
    assert all_kinds <= kinds, "kept() has no trigger of a kind that there is"
    all_fields = {each.name for each in dataclasses.fields(TaskDefinition)}
    fields |= SET_BY_STORES | {"next_fire_time", "trigger"}
    assert all_fields <= fields, "kept() leaves out a field that there is"


SET_BY_STORES = {
    *("_revision_of", "completed_at", "id", "named", "owner", "paused_at", "revision"),
}
"""Fields of a definition that are not kept as they are given."""
THE_ID = "<id>"
_OF_THE_ROW = {"created_at", "id", "key"}
"""Columns whose values are no facts."""


def stored_forms(folder: Path) -> Facts:
    """What a database keeps of triggers and policies, column by column.

    Of all definitions but the plain one the columns are told that differ from its own.
    """
    given = kept()
    with _store_in(folder) as store:
        store.put_definitions([*given.values()])
    rows = {name: _columns_of(folder, each.id) for name, each in given.items()}
    for name, columns in rows.items():
        for column, value in columns.items():
            if name == "plain" or value != rows["plain"][column]:
                yield f"{name}: {column} {value}"


@contextmanager
def _store_in(folder: Path) -> Iterator[Store]:
    clock = ManualClock()
    with closing(open_store(f"sqlite:///{folder}/store.db", clock=clock)) as store:
        store.initialize()
        yield store


def _columns_of(folder: Path, id: UUID) -> Mapping[str, str]:
    with closing(sqlite3.connect(folder / "store.db")) as database:
        database.row_factory = sqlite3.Row
        [row] = database.execute(
            "SELECT * FROM task_definitions JOIN task_contents USING (key)"
            " WHERE id = ?",
            [id.hex],
        )
        columns = {**row}
    return {
        name: "NULL" if value is None else str(value).replace(str(id), THE_ID)
        for name, value in columns.items()
        if name not in _OF_THE_ROW
    }


def read_stored(folder: Path, facts: Iterable[str]) -> Mapping[str, TaskDefinition]:
    """What is read from a database that has what these facts tell, by names."""
    told: dict[str, dict[str, str]] = {}
    for fact in facts:
        name, _, rest = fact.partition(": ")
        column, _, value = rest.partition(" ")
        told.setdefault(name, {})[column] = value
    ids = {name: UUID(int=number) for number, name in enumerate(told, 1)}
    with _store_in(folder) as store:
        with closing(sqlite3.connect(folder / "store.db")) as database:
            for name, columns in told.items():
                _insert(database, ids[name], {**told["plain"], **columns})
            database.commit()
        client = Client(store)
        return {name: client.get_definition(id) for name, id in ids.items()}


def _insert(database: sqlite3.Connection, id: UUID, told: Mapping[str, str]) -> None:
    given: dict[str, object] = {
        name: None if value == "NULL" else value.replace(THE_ID, str(id))
        for name, value in told.items()
    }
    given |= {"key": id.hex, "id": id.hex, "created_at": 0}
    for table in ("task_definitions", "task_contents"):
        known = [each[1] for each in database.execute(f"PRAGMA table_info({table})")]
        columns = [each for each in known if each in given]
        places = ", ".join("?" for _ in columns)
        database.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})",
            [given[each] for each in columns],
        )


def bus_messages() -> Facts:
    """The messages of a bus, and the topics where they go."""
    schema = message_schema()
    for name, each in schema["$defs"].items():
        yield from schema_facts(name, each)
    for each in schema["oneOf"]:
        yield f"a message: {schema_text(each)}"
    topics = Topics("ours")
    yield f"topic of a queue: {topics.runs('mail.out')}"
    yield f"topic of a task: {topics.runs('mail.out', '100%')}"
    yield f"topic of statuses: {topics.statuses}"
    yield f"topic of a worker: {topics.control('one')}"
    yield f"topic of statuses by default: {Topics().statuses}"


def settings() -> Facts:
    """Each setting of the configuration, with its variable; those of a scheduler."""
    schema = Configuration.model_json_schema()
    prefix = Configuration.model_config["env_prefix"]
    delimiter = str(Configuration.model_config["env_nested_delimiter"])
    defaults = dict(places())
    for place, fact in _setting_facts("", schema, schema["$defs"]):
        yield f"{place}: {fact}{_default_of(defaults.get(place, 'none'))}"
        if "[]" not in place and ".NAME" not in place:
            parts = place.upper().split(".")
            yield f"{place}: variable {prefix}{delimiter.join(parts)}"
    yield from callable_facts("Scheduler", Scheduler)


def _default_of(shown: str) -> str:
    """A default, of what the page on the configuration shows of it."""
    value = shown.strip("`")
    # What has spaces, and is no list, is for people to read.
    if shown == "none" or (" " in value and value[0] not in "[{"):
        return ""
    return ", required" if shown == "needed" else f" = {value}"


def _setting_facts(
    above: str, section: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    for name, setting in section["properties"].items():
        place = f"{above}{name}"
        inner = [*_sections_of(place, setting, known)]
        for each, below in inner:
            yield from _setting_facts(f"{each}.", below, known)
        if [each for each, _ in inner] == [place] and "anyOf" not in setting:
            continue
        text = schema_text(setting)
        for each in known:
            text = re.sub(rf"\b{each}\b", "section", text)
        yield place, text


def _sections_of(
    place: str, setting: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The sections that a setting is, or has several of, and how they are named."""
    if "$ref" in setting:
        found = known[setting["$ref"].rpartition("/")[2]]
        if "properties" in found:
            yield place, found
    for each in setting.get("anyOf", ()):
        yield from _sections_of(place, each, known)
    if isinstance(setting.get("items"), dict):
        yield from _sections_of(f"{place}[]", setting["items"], known)
    if isinstance(setting.get("additionalProperties"), dict):
        yield from _sections_of(f"{place}.NAME", setting["additionalProperties"], known)


def dashboard() -> Facts:
    """The addresses of the dashboard's pages and forms."""
    for each in create_dashboard(Client(MemoryStore())).routes:
        if isinstance(each, Route):
            for method in (each.methods or set()) - {"HEAD"}:
                yield f"{method} {each.path}"


def findings() -> Facts:
    """What the doctor may find, and how much it matters."""
    for each in KINDS:
        yield f"{each.name}: {each.severity.value}"


COMMON: Mapping[str, object] = {
    "expire_after": 60,
    "heartbeat_timeout": 60,
    "jitter": 60,
    "lock": "printer",
    "metadata": {"shop": 7},
    "owner": "shop",
    "priority": 2,
    "queue": "mail",
    "retry": {"max_attempts": 3},
    "start_timeout": 60,
    "timeout": 60,
    "unheard_of": 1,
}
OF_JOBS: Mapping[str, object] = {
    **COMMON,
    "at": "2030-01-01T09:00:00Z",
    "delay": 60,
    "key": "7",
    "payload": {"order": 7},
}
OF_DEFINITIONS: Mapping[str, object] = {
    **COMMON,
    "catch_up": {"mode": "all"},
    "id": str(ONE),
    "key": "nightly",
    "max_per_node": 2,
    "max_queue": 9,
    "name": "report",
    "note": "holidays",
    "overlap": "skip",
    "paused": True,
    "revision": 0,
    "when_full": "drop",
}
"""What lines may have that are imported, but for one thing; each with a value."""


def import_lines(folder: Path) -> Facts:
    """The fields that a line of an import may have, and what is answered to it."""
    trigger = {"every": 3600}
    lines = [
        *(("job", field, {"type": "send", field: e}) for field, e in OF_JOBS.items()),
        *(
            ("definition", field, {"trigger": trigger, field: e})
            for field, e in OF_DEFINITIONS.items()
        ),
    ]
    url = f"sqlite:///{folder}/store.db"
    file = folder / "lines.json"
    file.write_text("\n".join(json.dumps(line) for _, _, line in lines))
    with _store_in(folder):
        pass
    _run("types", "put", "send", "--store", url)
    _, refused = _run("import", str(file), "--store", url)
    numbers = {int(each) for each in re.findall(r"^line (\d+):", refused, re.M)}
    for number, (kind, field, _) in enumerate(lines, 1):
        taken = "refused" if number in numbers else "taken"
        yield f"{kind} with {field}: {taken}"
    # Of a clock that goes on an answer tells how far it has come, now and then.
    clock = ManualClock()
    with (
        _store_in(folder) as store,
        Calling(create_app(Client(store), clock=clock)) as http,
    ):
        for on_error in ("skip", "stop"):
            answer = http.post(
                f"/v1/jobs/import?on_error={on_error}",
                content='{"type": "send"}\n{"type": 7}\n',
                headers={"Content-Type": "application/x-ndjson"},
            )
            for event in map(json.loads, answer.text.splitlines()):
                yield from shape_facts(f"answer {event['event']}", event)


DESCRIPTIONS: Mapping[str, Callable[[Path], Iterable[str]]] = {
    "bus_messages": lambda _: bus_messages(),
    "commands": lambda _: command_line(),
    "dashboard": lambda _: dashboard(),
    "events": lambda _: told_events(),
    "findings": lambda _: findings(),
    "import_lines": import_lines,
    "metrics": lambda _: metrics(),
    "openapi": lambda _: openapi(),
    "printed_json": printed_json,
    "public_names": lambda _: public_names(),
    "settings": lambda _: settings(),
    "stored_forms": stored_forms,
}
"""What makes the facts of each golden file, given an empty folder."""


def facts_of(name: str, folder: Path) -> Sequence[str]:
    """The facts of a golden file, each once, sorted."""
    return sorted(set(DESCRIPTIONS[name](folder)))
