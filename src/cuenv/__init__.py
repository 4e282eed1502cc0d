"""cuenv: CUDA + PyTorch conda environments that are known to run on the GPUs you have.

The same line as the command line, as functions: look at a host, choose an environment for it, lock it, check it.

    >>> import cuenv
    >>> host = cuenv.read_host("rtx4090-535")
    >>> answer = cuenv.resolve(host, cuenv.make_request(pytorch="2.5"))
    >>> str(answer.decision.chosen.candidate.build.version)
    '2.5.1'

Importing this package loads nothing else; each function loads what it needs. What a user can cause is raised as
`cuenv.core.errors.CuenvError` with a message and a hint; a "no" is a value of the answer.
"""

from __future__ import annotations

from cuenv.core import __version__

TYPE_CHECKING = False
"""As in typing, which would be loaded for it: until `cuenv.__main__` runs, Ctrl-C is a traceback of Python's own."""

if TYPE_CHECKING:  # types only: `import cuenv` stays light
    from typing import Any

    from cuenv.api import (
        channels,
        check,
        check_prefix,
        choices,
        diagnose,
        inspect_host,
        load_knowledge,
        lock,
        make_host,
        make_request,
        plan,
        pool,
        read_host,
        read_hosts,
        render,
        require,
        resolve,
        scan,
        why,
        why_not,
        wishes,
    )

__all__ = [
    "__version__",
    "channels",
    "check",
    "check_prefix",
    "choices",
    "diagnose",
    "inspect_host",
    "load_knowledge",
    "lock",
    "make_host",
    "make_request",
    "plan",
    "pool",
    "read_host",
    "read_hosts",
    "render",
    "require",
    "resolve",
    "scan",
    "why",
    "why_not",
    "wishes",
]


def __dir__() -> list[str]:
    """What is offered, the modules that are used by name included."""
    return sorted([*__all__, "errors", "runtime", "__doc__", "__file__", "__name__", "__path__"])


def __getattr__(name: str) -> Any:
    """The public API, and the modules ``errors`` and ``runtime``, are loaded when they are asked for."""
    from importlib import import_module  # noqa: PLC0415 - see the module docstring

    if name == "errors":
        return import_module("cuenv.core.errors")
    if name == "runtime":
        return import_module("cuenv.runtime")
    if name not in __all__:
        raise AttributeError(f"module 'cuenv' has no attribute {name!r}")
    return getattr(import_module("cuenv.api"), name)
