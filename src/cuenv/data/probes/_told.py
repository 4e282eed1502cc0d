"""What the probes share: how they tell what they saw, in one line of JSON that noise around it does not harm.

A probe is run as a file by the Python of the environment that is looked at. So it needs nothing of cuenv, and no more
than Python 3.8.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

if len(sys.argv) == 2:  # the time limit: shortly before it, say on standard error where it hangs
    faulthandler.dump_traceback_later(float(sys.argv[1]) * 0.9)

MARK = "cuenv-probe:"
TEXT = 4000
ITEMS = 64


class Skip(Exception):  # noqa: N818 - it is no error
    """There is nothing to try here, and why."""


class Observed:
    """What a probe saw: what works, what does not and why, what was left out, and facts by name."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[dict[str, Any]] = []
        self.skipped: list[str] = []
        self.facts: dict[str, str | int | None] = {}

    def fail(self, what: str, why: str, where: Sequence[str] = ()) -> None:
        self.failed.append({"what": what[:TEXT], "why": shortened(why), "where": [line[:TEXT] for line in where]})


def answer(look: Callable[[Observed], None]) -> None:
    """Run a probe and tell what it saw; whatever it raises is told as well."""
    told = Observed()
    try:
        look(told)
    except Skip as why:
        told.skipped.append(str(why))
    except Exception as error:  # noqa: BLE001 - a library may raise anything, and that is the answer
        told.fail("", reason(error), places(error))
    told.skipped = [shortened(text) for text in told.skipped[:ITEMS]]
    told.done = [shortened(text) for text in told.done[:ITEMS]]
    told.failed = told.failed[:ITEMS]
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a library replaced or closed it; the answer goes past it
            stream.flush()
    faulthandler.cancel_dump_traceback_later()
    data = ("\n" + MARK + json.dumps(vars(told)) + "\n").encode()
    while data:
        data = data[os.write(1, data) :]


def load(name: str, package: str = "") -> Any:
    """A module of the environment.

    Raises:
        Skip: it is not installed.
    """
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise Skip(f"{package or name} is not installed")
    return importlib.import_module(name)


def gpus(torch: Any) -> list[str]:
    """The devices that torch can use, as ``cuda:0``."""
    if not torch.cuda.is_available():
        return []
    return ["cuda:%d" % index for index in range(torch.cuda.device_count())]


def reason(error: BaseException) -> str:
    """An error with its type; the message of an ImportError often tells it all."""
    message = str(error).strip()
    return type(error).__name__ + (": " + message if message else "")


def places(error: BaseException) -> list[str]:
    """Where it was raised: the last frames, the innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return ["%s:%s in %s" % (frame.filename, frame.lineno, frame.name) for frame in frames]


def shortened(text: str) -> str:
    """A text of bounded length: its beginning and its end, for compilers say what was wrong at either."""
    half = TEXT // 2
    return text if len(text) <= TEXT else text[:half] + "\n...\n" + text[-half:]
