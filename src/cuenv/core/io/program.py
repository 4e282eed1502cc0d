"""How this program is called: what a printed command needs before it where no `cuenv` is on PATH."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping


def before_commands(environ: Mapping[str, str], called: str = "") -> str:
    """The line to type once so that the commands that are printed work; empty where they work as they are.

    Args:
        environ: for PATH.
        called: how the program was called, a path; what started this process by default.
    """
    if shutil.which("cuenv", path=environ.get("PATH", "")):
        return ""
    program = called or sys.argv[0]
    folder = os.path.dirname(program)  # noqa: PTH120 - as it was typed: a relative path stays one
    if os.path.basename(program) != "cuenv" or not folder:  # noqa: PTH119 - as above
        return f"alias cuenv={shlex.quote(f'{shlex.quote(sys.executable)} -m cuenv')}"
    activate = f"{folder}/activate"
    if os.path.exists(activate):  # noqa: PTH110 - as above
        return f". {shlex.quote(activate)}"
    return f"PATH={shlex.quote(os.path.abspath(folder))}:$PATH"  # noqa: PTH100 - as above
