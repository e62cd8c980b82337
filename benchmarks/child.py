"""What measuring processes do; they need nothing but the standard library.

The package is imported before, from the checkout that is measured. The interpreter of
another package may not have it at all.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def main(spec: str | None = None) -> None:
    """Call one function and print its answer, or, without a spec, serve calls."""
    # Being late is what is measured, and not news.
    logging.disable(logging.WARNING)
    if spec is None:
        _serve()
        return
    try:
        print(json.dumps(_call(json.loads(spec))), flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Threads that others have left behind keep nobody waiting.
    os._exit(0)


def _serve() -> None:
    """Answer each line of the input by a line, from a fork that has all imports."""
    for line in sys.stdin:
        asked = json.loads(line)
        # If it fails, it does so again in the fork, which says why.
        with suppress(Exception):
            _import(asked)
        if (fork := os.fork()) == 0:
            answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
            # What a function prints is no answer.
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.write(answers, f"{json.dumps(_answer(asked))}\n".encode())
            os._exit(0)
        if os.waitpid(fork, 0)[1]:
            print('{"failed": "the process ended without a word"}', flush=True)


def _import(asked: Mapping[str, Any]) -> None:
    _function(asked)
    # The modules of a kind of store are imported when one of that kind is opened.
    if "go_scheduler" in sys.modules and asked["url"]:
        import_module("go_scheduler.stores").open_store(asked["url"]).close()


def _answer(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return _call(asked) or {}
    except BaseException as error:
        return {"failed": traceback.format_exception_only(error)[-1].strip()}


def _call(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return _function(asked)(asked["url"], **asked["arguments"])


def _function(asked: Mapping[str, Any]) -> Callable[..., Mapping[str, Any] | None]:
    module, name = asked["function"].split(":")
    function: Callable[..., Mapping[str, Any] | None]
    function = getattr(import_module(f"benchmarks.{module}"), name)
    return function
