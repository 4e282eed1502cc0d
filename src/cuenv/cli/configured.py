"""Options that nobody typed take their value from ``CUENV_*`` variables and the project's file.

click asks a command's ``default_map`` for such a value; here it is read when the first option asks, and never for
``--help``. Where nothing is set and no file lies upward, nothing is imported. click's ``auto_envvar_prefix`` is not
used: a variable is read as strictly as a file, replaces what the file says of another host, and is named as the source.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from cuenv.cli.output import say
from cuenv.config.io.config_files import anything
from cuenv.core.errors import UsageError

if TYPE_CHECKING:  # only where something is set
    from cuenv.config.io.configuration import Configuration
    from cuenv.config.settings import Setting

V = TypeVar("V", bound=Mapping[str, object])
"""The options of a command, as `cuenv.cli.values` types them."""

_FOUND = "cuenv.configuration"
_NO_FILES = "cuenv.no_config"
_TAKEN = "cuenv.taken"
_VALUES = "cuenv.values"
_GONE = "cuenv.gone"
_LOOKS = frozenset({"--color", "--no-progress"})
_LOOKS_AT_THIS_MACHINE = "inspect"
_CALLED = MappingProxyType({"platforms": "platform", "driver": "driver_now"})
"""What some commands call a setting: the first takes one, the second is of ``what-if``."""
_OTHERWISE: Mapping[tuple[str | None, str | None], str] = MappingProxyType(
    {("what-if", "driver"): "", ("what-if", "driver_now"): "driver"}
)
"""What sets an option that means something else in a command: its ``--driver`` is the one that there would be."""


def no_files(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Callback of ``--no-config``."""
    if value:
        context.meta[_NO_FILES] = True


def configuration(context: click.Context | None = None) -> Configuration | None:
    """What variables and files set, read once for each run; ``None`` when there is none of them, or no command runs.

    Raises:
        UsageError: a variable is wrong.
        InputError: the file is wrong.
    """
    context = context or click.get_current_context(silent=True)
    if context is None:
        return None
    if _FOUND not in context.meta:
        context.meta[_FOUND] = _read(context)
    found: Configuration | None = context.meta[_FOUND]
    return found


def _read(context: click.Context) -> Configuration | None:
    files = not context.meta.get(_NO_FILES)
    if not anything(os.environ, files=files):
        return None
    from cuenv.config.io.configuration import read_configuration  # noqa: PLC0415 - only where something is set
    from cuenv.config.settings import NO_CONFIG, switched_off  # noqa: PLC0415 - only where something is set

    found = read_configuration(os.environ, files=files and not switched_off(os.environ.get(NO_CONFIG, "")))
    if found.warnings:
        context.call_on_close(lambda: _warn(found.warnings, context.params))
    return found


def _warn(warnings: tuple[str, ...], params: Mapping[str, Any]) -> None:
    say([f"warning {text}" for text in warnings], quiet=bool(params.get("quiet") or params.get("as_json")))


def _tell(context: click.Context) -> None:
    """Say what was not typed and counted, each with its value: a file of somebody else's project must not surprise."""
    gone = context.meta.get(_GONE, ())
    told: dict[str, list[str]] = {}
    for flag, origin in context.meta[_TAKEN].items():
        if flag not in _LOOKS and flag.removeprefix("--") not in gone:
            told.setdefault(origin.rpartition(": ")[0] or origin, []).append(context.meta[_VALUES][flag])
    params = context.params
    lines = [
        f"set     {', '.join(flags)} by {source}" + ("" if source.startswith("CUENV_") else "; not with --no-config")
        for source, flags in told.items()
    ]
    say(lines, quiet=bool(params.get("quiet") or params.get("as_json")))


def set_value(name: str) -> Any:
    """A setting that has no option, such as ``cache-dir``; said like those that have one."""
    found, context = configuration(), click.get_current_context(silent=True)
    if found is None:
        return None
    setting = found.settings[name]
    if context and setting.origin != "default" and setting.value is not None:
        _take(context, name, setting)
    return setting.value


def _take(context: click.Context, flag: str, setting: Setting) -> None:
    """Note that a setting counts, and how to say it: as it would be typed."""
    if _TAKEN not in context.meta:
        context.meta[_TAKEN], context.meta[_VALUES] = {}, {}
        context.call_on_close(lambda: _tell(context))
    import shlex  # noqa: PLC0415 - only where something is set

    value = setting.shown()
    if isinstance(value, bool):
        text = flag if value else "--no-dev" if flag == "--dev" else f"{flag} false"
    else:
        items = value if isinstance(value, tuple) else (str(value),)
        text = " ".join(f"{flag} {shlex.quote(item)}" for item in items)
    context.meta[_TAKEN][flag] = setting.origin
    context.meta[_VALUES][flag] = text


class Defaults(dict[str, Any]):
    """The ``default_map`` of one command, or of a group of commands."""

    def __init__(self, command: click.Command) -> None:
        super().__init__()
        self.command = command
        self.options = {item.name: item for item in command.params if isinstance(item, click.Option)}

    def get(self, name: str, default: Any = None) -> Any:
        """The value that is set for a parameter; for a subcommand its own map."""
        if isinstance(self.command, click.Group):
            inner = self.command.commands.get(name)
            return Defaults(inner) if inner else default
        option = self.options.get(name)
        context = click.get_current_context(silent=True)
        if option is None or option.is_eager or context is None or context.resilient_parsing:
            return default
        value = _typed_before(option, context) or _set_for(option, context)
        return default if value is None else value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __getitem__(self, name: str) -> Any:
        return self.get(name)


def _typed_before(option: click.Option, context: click.Context) -> Any:
    """What was typed before the name of the command: ``cuenv --json lint``."""
    root = context.find_root()
    if root is context or option.name not in root.params:
        return None
    given = root.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    return root.params[option.name] if given else None


def _set_for(option: click.Option, context: click.Context) -> Any:
    found = configuration(context)
    if found is None:
        return None
    from cuenv.config.settings import KINDS, MACHINE, REQUEST  # noqa: PLC0415 - only where something is set

    by_flag = next((name for name, kind in KINDS.items() if kind.flag in option.opts), "")
    name = _OTHERWISE.get((context.info_name, option.name), by_flag)
    if not name or (context.info_name == _LOOKS_AT_THIS_MACHINE and name in MACHINE):
        return None
    if context.info_name == "lock" and name in REQUEST and not context.params.get("resolve_first"):
        return None  # the file says what it asks for
    setting = found.settings[name]
    if setting.origin == "default":
        return None
    value = setting.value
    if isinstance(value, tuple) and not option.multiple:
        if len(value) != 1:
            return None  # several platforms: a command that takes one judges those of its file or lock
        value = value[0]
    _take(context, option.opts[0], setting)
    return [value] if option.multiple and isinstance(value, str) else value


def typed(name: str) -> bool:
    """Whether an option was given on the command line: what a variable or a file of settings says holds by itself."""
    context = click.get_current_context(silent=True)
    if context is None:
        return True
    return any(
        item.get_parameter_source(name) is ParameterSource.COMMANDLINE for item in (context, context.find_root())
    )


def without_replaced(values: V) -> V:
    """The values of a command, less what settings say of another machine or build than the one that was typed."""
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(_FOUND):
        return values
    from cuenv.config.settings import replaced_by  # noqa: PLC0415 - as above

    given = {name for name in ("hosts", "gpus") if typed(name)}
    gone = set(replaced_by(given)) | ({"cuda"} if values.get("cpu") else set())
    gone |= {other for name, other in _CALLED.items() if name in gone}
    context.meta[_GONE] = {name.rstrip("s").replace("_", "-") for name in gone}
    left = {
        name: (() if isinstance(value, tuple) else None) if name in gone and not typed(name) else value
        for name, value in values.items()
    }
    return cast("V", left)


def with_origin(error: UsageError, context: click.Context) -> UsageError:
    """An error about an option, with the place that set it when nobody typed it."""
    words = error.message.split()
    origin = context.meta.get(_TAKEN, {}).get(words[0].rstrip(":")) if words else None
    return (
        UsageError(f"{error.message} ({words[0].rstrip(':')} is set by {origin})", hint=error.hint) if origin else error
    )
