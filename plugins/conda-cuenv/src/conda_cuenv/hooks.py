"""What conda calls. No hook raises, and each is empty where this conda does not have its type.

An exception in a hook would end every conda command, ``conda info`` too. So each hook builds its answer in
`_offered`, which takes whatever happens for "nothing to offer", and each action is wrapped by `_quietly`. Everything
else is imported when conda runs the action.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pluggy

hookimpl = pluggy.HookimplMarker("conda")

_log = logging.getLogger("conda.conda_cuenv")  # so that the verbosity of conda holds for it
_NAME = "cuenv"


def _offered(make: Callable[[], Iterable[Any]]) -> tuple[Any, ...]:
    """What a hook yields, or nothing when this conda lacks what it takes."""
    try:
        return tuple(make())
    except Exception as error:  # noqa: BLE001 - whatever fails here would end every conda command
        _log.debug("conda-cuenv offers nothing here: %r", error)
        return ()


def _made(kind: Callable[..., Any], newer: dict[str, Any], **values: Any) -> Any:
    """An object of conda's, without what only a newer conda takes."""
    try:
        return kind(**values, **newer)
    except TypeError:
        return kind(**values)


def _quietly(action: Callable[..., Any]) -> Callable[..., None]:
    """An action that never ends the command in whose course conda runs it."""

    def run(*values: Any) -> None:
        try:
            action(*values)
        except Exception as error:  # noqa: BLE001 - as above
            _log.debug("conda-cuenv gave up: %r", error)

    return run


@hookimpl
def conda_subcommands() -> tuple[Any, ...]:
    """``conda cuenv ...``."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaSubcommand  # noqa: PLC0415 - loaded by conda

        yield CondaSubcommand(
            name=_NAME, summary="Choose, lock and check CUDA and PyTorch for your GPUs.", action=_run_cuenv
        )

    return _offered(make)


def _run_cuenv(arguments: tuple[str, ...]) -> int:
    from conda_cuenv.program import hand_over  # noqa: PLC0415 - only when it is asked for

    return hand_over(arguments)


@hookimpl
def conda_health_checks() -> tuple[Any, ...]:
    """``conda doctor cuenv``."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaHealthCheck  # noqa: PLC0415 - loaded by conda

        since_26_1 = {
            "fixer": _pin,
            "summary": "Check CUDA libraries and PyTorch against the GPUs and the driver",
            "fix": "Pin packages to releases that support the GPUs",
        }
        yield _made(CondaHealthCheck, since_26_1, name=_NAME, action=_examine)

    return _offered(make)


def _examine(prefix: str, verbose: bool) -> None:
    from conda_cuenv.doctor import examine  # noqa: PLC0415 - only when it is asked for

    examine(prefix, verbose=bool(verbose))


def _pin(prefix: str, args: Any, confirm: Callable[[str], None]) -> int:
    from conda_cuenv.doctor import pin  # noqa: PLC0415 - only when it is asked for

    return pin(prefix, args, confirm)


@hookimpl
def conda_pre_solves() -> tuple[Any, ...]:
    """Remember what was asked for."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaPreSolve  # noqa: PLC0415 - loaded by conda

        yield CondaPreSolve(name=_NAME, action=_quietly(_remember))

    return _offered(make)


def _remember(to_add: Iterable[Any], to_remove: Iterable[Any]) -> None:
    from conda_cuenv.solves import remember  # noqa: PLC0415 - only when something is solved

    del to_remove
    remember(to_add)


@hookimpl
def conda_post_solves() -> tuple[Any, ...]:
    """Warn of a CPU build on a machine with a GPU."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaPostSolve  # noqa: PLC0415 - loaded by conda

        yield CondaPostSolve(name=_NAME, action=_quietly(_look_at))

    return _offered(make)


def _look_at(repodata: str, unlink: Iterable[Any], link: Iterable[Any]) -> None:
    from conda_cuenv.solves import warn_of_cpu  # noqa: PLC0415 - only when something is solved

    del repodata, unlink
    warn_of_cpu(link)


@hookimpl
def conda_error_hints(error: Any) -> tuple[Any, ...]:
    """Next steps for conflicts about CUDA."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaErrorHint  # noqa: PLC0415 - loaded by conda

        from conda_cuenv.hints import hints  # noqa: PLC0415 - only when something failed

        for code, text in hints(error):
            yield CondaErrorHint(text=text, hint_code=code)

    return _offered(make)


@hookimpl
def conda_settings() -> tuple[Any, ...]:
    """``plugins.cuenv_lock``."""

    def make() -> Iterable[Any]:
        from conda.common.configuration import PrimitiveParameter  # noqa: PLC0415 - loaded by conda
        from conda.plugins.types import CondaSetting  # noqa: PLC0415 - loaded by conda

        yield CondaSetting(
            name="cuenv_lock",
            description="A lock whose packages conda installs only on a machine on which the lock runs.",
            parameter=PrimitiveParameter("", element_type=str),
        )

    return _offered(make)


@hookimpl
def conda_pre_transaction_actions() -> tuple[Any, ...]:
    """Refuse a transaction below the minimum host of a lock, where ``plugins.cuenv_lock`` names one."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaPreTransactionAction  # noqa: PLC0415 - loaded by conda

        from conda_cuenv.transactions import action_class, lock_setting  # noqa: PLC0415 - only in a transaction

        if lock_setting():
            yield CondaPreTransactionAction(name=_NAME, action=action_class())

    return _offered(make)


@hookimpl
def conda_environment_specifiers() -> tuple[Any, ...]:
    """``conda env create --file NAME.cuenv.yml``."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaEnvironmentSpecifier  # noqa: PLC0415 - loaded by conda

        from conda_cuenv.environments import PATTERNS, specifier_class  # noqa: PLC0415 - only where a file is read

        since_26_3 = {
            "default_filenames": PATTERNS,
            "description": "Profile of cuenv: versions of PyTorch and CUDA, resolved for the GPUs",
        }
        spec = specifier_class()
        if not spec.__abstractmethods__:  # conda 25.5 asks it of every file, and wants a method that went away again
            yield _made(CondaEnvironmentSpecifier, since_26_3, name=_NAME, environment_spec=spec)

    return _offered(make)


@hookimpl
def conda_environment_exporters() -> tuple[Any, ...]:
    """``conda export --format cuenv``."""

    def make() -> Iterable[Any]:
        from conda.plugins.types import CondaEnvironmentExporter  # noqa: PLC0415 - loaded by conda

        from conda_cuenv.environments import PATTERNS, export  # noqa: PLC0415 - only where one is written

        since_26_3 = {"description": "Profile of cuenv: versions without builds, to be resolved for other GPUs"}
        yield _made(
            CondaEnvironmentExporter, since_26_3, name=_NAME, aliases=(), default_filenames=PATTERNS, export=export
        )

    return _offered(make)
