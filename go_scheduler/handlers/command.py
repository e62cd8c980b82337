"""Commands that may be run: arguments with places for values, and limits."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from go_scheduler.checks import check_positive, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of the machine a process may take: each of those that a command starts.

    Attributes:
        cpu_seconds: Of the processor's time; None: any.
        memory: Bytes of its address space; None: any.
        open_files: How many files at once; None: as many as the server.

    Raises:
        ConfigurationError: One is no whole number above zero.
    """

    cpu_seconds: int | None = None
    memory: int | None = None
    open_files: int | None = None

    def __post_init__(self) -> None:
        for name in ("cpu_seconds", "memory", "open_files"):
            if (value := getattr(self, name)) is None:
                continue
            check_type(name, value, int)
            if value < 1:
                raise ConfigurationError(f"{name} must be above zero: {shown(value)}")

    @property
    def text(self) -> str:
        """As the launcher reads them; empty if there are none."""
        named = {
            "CPU": self.cpu_seconds,
            "AS": self.memory,
            "NOFILE": self.open_files,
        }
        return ",".join(f"{name}={each}" for name, each in named.items() if each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that may be run, with places for what a payload gives.

    ```python
    Command(arguments=["pg_dump", "--file=/backups/{name}.sql", "{database}"])
    ```

    Attributes:
        arguments: The program, by its path or its name on the ``PATH`` of
            ``environment``, and its arguments. In these, but not in the program,
            ``{name}`` is the value that the payload has by that name; what is put there
            never becomes several arguments.
        options: The names whose values may begin with ``-``, which programs take for
            options.
        environment: All that it finds in its environment, besides
            ``GO_SCHEDULER_INSTANCE_ID`` and ``GO_SCHEDULER_ATTEMPT``. It may hold
            secrets, and is not shown.
        folder: In which it begins.
        timeout: How long it may take. The definition's ``expire_after`` has to be
            longer, or it is ended by that.
        final_codes: The exit codes after which it is not tried again.
        limits: How much of the machine it may take.

    Raises:
        ConfigurationError: There is no such program or folder, or a value is wrong.
    """

    arguments: Sequence[str]
    options: Collection[str] = ()
    environment: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": _PATH, "LANG": "C.UTF-8"}, repr=False
    )
    folder: Path | str = "/"
    timeout: timedelta = timedelta(minutes=5)
    final_codes: Collection[int] = ()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        _check_arguments(self.arguments)
        for name, value in self.environment.items():
            if "\0" in f"{name}{value}" or "=" in name or not name:
                raise ConfigurationError(
                    f"environment has {shown(name)}, which none can hold"
                )
        check_positive("timeout", self.timeout)
        if unknown := {*self.options} - {*self.names}:
            raise ConfigurationError(
                f"options names {shown(min(unknown))}, and no argument has"
                f" {{{min(unknown)}}}"
            )
        if not Path(self.folder).is_dir():
            raise ConfigurationError(f"there is no folder {self.folder}")
        program = shutil.which(
            self.arguments[0], path=self.environment.get("PATH", _PATH)
        )
        if program is None:
            raise ConfigurationError(
                f"there is no program {shown(self.arguments[0])} that can be run: give"
                " its path, or a PATH in environment"
            )
        resolved = (str(Path(program).absolute()), *self.arguments[1:])
        object.__setattr__(self, "arguments", resolved)

    @property
    def names(self) -> Sequence[str]:
        """What a payload has to give, each once."""
        found = (name for each in self.arguments for name in _PLACEHOLDER.findall(each))
        return tuple(dict.fromkeys(found))

    def filled(self, values: Mapping[str, object]) -> list[str]:
        """The arguments with these values in their places.

        Raises:
            ConfigurationError: A value is missing, is none of those asked for, or would
                be taken for an option.
        """
        for name in values.keys() - {*self.names}:
            raise ConfigurationError(
                f"arguments: there is no {shown(name)}; known:"
                f" {', '.join(self.names) or 'none'}"
            )
        texts = {name: self._text(name, values) for name in self.names}
        program, *rest = self.arguments
        filled = [program]
        for each in rest:
            made = _PLACEHOLDER.sub(lambda found: texts[found[1]], each)
            named = {*_PLACEHOLDER.findall(each)}
            if made[:1] == "-" != each[:1] and named.isdisjoint(self.options):
                raise ConfigurationError(
                    f"arguments: what is put into {shown(each)} begins with -"
                )
            filled.append(made)
        return filled

    def _text(self, name: str, values: Mapping[str, object]) -> str:
        if name not in values:
            raise ConfigurationError(f"arguments.{name}: it is missing")
        text = str(values[name])
        if "\0" in text:
            raise ConfigurationError(f"arguments.{name}: it holds a NUL")
        if text.startswith("-") and name not in self.options:
            raise ConfigurationError(
                f"arguments.{name}: it begins with -, as options do: {shown(text)}"
            )
        return text


def _check_arguments(arguments: object) -> None:
    check_type("arguments", arguments, Sequence)
    assert isinstance(arguments, Sequence)
    if isinstance(arguments, str) or not arguments:
        raise ConfigurationError(
            "arguments must be a list, the program first, as in ['tar', '-cf',"
            f" '{{file}}']: {shown(arguments)}"
        )
    for each in arguments:
        if not isinstance(each, str) or "\0" in each:
            raise ConfigurationError(
                f"arguments must be texts without NUL, not {shown(each)}"
            )
    if _PLACEHOLDER.search(arguments[0]):
        raise ConfigurationError(
            f"a payload gives arguments, never the program: {shown(arguments[0])}"
        )
