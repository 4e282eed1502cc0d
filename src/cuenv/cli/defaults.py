"""The defaults of options, from ``CUENV_*`` variables and the project's file.

click reads them through a command's ``default_map``. The settings are read when the first option needs them, and never
for ``--help``; without any settings, nothing is imported. click's ``auto_envvar_prefix`` is not used, because variables
are checked as strictly as files, override what a file says of another host, and are named as the source.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from cuenv.cli.output import say
from cuenv.config.io.config_files import settings_may_exist
from cuenv.core.errors import UsageError

if TYPE_CHECKING:  # only where something is set
    from cuenv.config.io.configuration import Configuration
    from cuenv.config.settings import Setting

V = TypeVar("V", bound=Mapping[str, object])  # the values of a command's options, typed by `cuenv.cli.values`

_CONFIGURATION = "cuenv.configuration"
_NO_FILES = "cuenv.no_config"
_ORIGINS = "cuenv.taken"
_AS_TYPED = "cuenv.values"
_REPLACED = "cuenv.gone"
_APPEARANCE = frozenset({"--color", "--no-progress"})
_INSPECT = "inspect"
_OPTION_NAMES = MappingProxyType({"platforms": "platform", "driver": "driver_now"})
"""Other names of a setting's option: ``--platform`` where only one is allowed, ``--driver-now`` of ``what-if``."""
_SETTING_OF_OPTION: Mapping[tuple[str | None, str | None], str] = MappingProxyType(
    {("what-if", "driver"): "", ("what-if", "driver_now"): "driver"}
)
"""Options that do not have their usual setting: ``what-if --driver`` names a driver that is not installed yet."""


def ignore_files(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Callback of ``--no-config``."""
    if value:
        context.meta[_NO_FILES] = True


def configuration(context: click.Context | None = None) -> Configuration | None:
    """The settings from variables and files, read once for each run; ``None`` without settings or without a command.

    Raises:
        UsageError: a variable is wrong.
        InputError: the file is wrong.
    """
    context = context or click.get_current_context(silent=True)
    if context is None:
        return None
    if _CONFIGURATION not in context.meta:
        context.meta[_CONFIGURATION] = _read(context)
    found: Configuration | None = context.meta[_CONFIGURATION]
    return found


def _read(context: click.Context) -> Configuration | None:
    files = not context.meta.get(_NO_FILES)
    if not settings_may_exist(os.environ, files=files):
        return None
    from cuenv.config.io.configuration import read_configuration  # noqa: PLC0415 - only where something is set
    from cuenv.config.settings import NO_CONFIG, disables_config  # noqa: PLC0415 - only where something is set

    found = read_configuration(os.environ, files=files and not disables_config(os.environ.get(NO_CONFIG, "")))
    if found.warnings:
        context.call_on_close(lambda: _warn(found.warnings, context.params))
    return found


def _warn(warnings: tuple[str, ...], params: Mapping[str, Any]) -> None:
    say([f"warning {text}" for text in warnings], quiet=bool(params.get("quiet") or params.get("as_json")))


def _report_settings(context: click.Context) -> None:
    """Print the settings that took effect, so that the file of somebody else's project is no surprise."""
    gone = context.meta.get(_REPLACED, ())
    told: dict[str, list[str]] = {}
    for flag, origin in context.meta[_ORIGINS].items():
        if flag not in _APPEARANCE and flag.removeprefix("--") not in gone:
            told.setdefault(origin.rpartition(": ")[0] or origin, []).append(context.meta[_AS_TYPED][flag])
    params = context.params
    lines = [
        f"set     {', '.join(flags)} by {source}" + ("" if source.startswith("CUENV_") else "; not with --no-config")
        for source, flags in told.items()
    ]
    say(lines, quiet=bool(params.get("quiet") or params.get("as_json")))


def setting_value(name: str) -> Any:
    """The value of a setting without an option, such as ``cache-dir``."""
    found, context = configuration(), click.get_current_context(silent=True)
    if found is None:
        return None
    setting = found.settings[name]
    if context and setting.origin != "default" and setting.value is not None:
        _note_setting(context, name, setting)
    return setting.value


def _note_setting(context: click.Context, flag: str, setting: Setting) -> None:
    """Remember that a setting took effect, and the option that would have the same effect."""
    if _ORIGINS not in context.meta:
        context.meta[_ORIGINS], context.meta[_AS_TYPED] = {}, {}
        context.call_on_close(lambda: _report_settings(context))
    import shlex  # noqa: PLC0415 - only where something is set

    value = setting.shown()
    if isinstance(value, bool):
        text = flag if value else "--no-dev" if flag == "--dev" else f"{flag} false"
    else:
        items = value if isinstance(value, tuple) else (str(value),)
        text = " ".join(f"{flag} {shlex.quote(item)}" for item in items)
    context.meta[_ORIGINS][flag] = setting.origin
    context.meta[_AS_TYPED][flag] = text


class Defaults(dict[str, Any]):
    """The ``default_map`` of one command, or of a group of commands."""

    def __init__(self, command: click.Command) -> None:
        super().__init__()
        self.command = command
        self.options = {item.name: item for item in command.params if isinstance(item, click.Option)}

    def get(self, name: str, default: Any = None) -> Any:
        """The default of a parameter; for a subcommand, its own map of defaults."""
        if isinstance(self.command, click.Group):
            inner = self.command.commands.get(name)
            return Defaults(inner) if inner else default
        option = self.options.get(name)
        context = click.get_current_context(silent=True)
        if option is None or option.is_eager or context is None or context.resilient_parsing:
            return default
        value = _typed_before(option, context) or _setting_for(option, context)
        return default if value is None else value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __getitem__(self, name: str) -> Any:
        return self.get(name)


def _typed_before(option: click.Option, context: click.Context) -> Any:
    """The value of an option in front of the command: ``cuenv --json lint``."""
    root = context.find_root()
    if root is context or option.name not in root.params:
        return None
    given = root.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    return root.params[option.name] if given else None


def _setting_for(option: click.Option, context: click.Context) -> Any:
    found = configuration(context)
    if found is None:
        return None
    from cuenv.config.settings import KINDS, MACHINE, REQUEST  # noqa: PLC0415 - only where something is set

    by_flag = next((name for name, kind in KINDS.items() if kind.flag in option.opts), "")
    name = _SETTING_OF_OPTION.get((context.info_name, option.name), by_flag)
    if not name or (context.info_name == _INSPECT and name in MACHINE):
        return None
    if context.info_name == "lock" and name in REQUEST and not context.params.get("resolve_first"):
        return None  # the environment file contains the request
    setting = found.settings[name]
    if setting.origin == "default":
        return None
    value = setting.value
    if isinstance(value, tuple) and not option.multiple:
        if len(value) != 1:
            return None  # several platforms are set, but this command takes one: it uses those of its file or lock
        value = value[0]
    _note_setting(context, option.opts[0], setting)
    return [value] if option.multiple and isinstance(value, str) else value


def was_typed(name: str) -> bool:
    """Whether an option was given on the command line, and not by a setting."""
    context = click.get_current_context(silent=True)
    if context is None:
        return True
    return any(
        item.get_parameter_source(name) is ParameterSource.COMMANDLINE for item in (context, context.find_root())
    )


def without_replaced(values: V) -> V:
    """The values of a command without settings on the host or the build that the command line replaces."""
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(_CONFIGURATION):
        return values
    from cuenv.config.settings import overridden_names  # noqa: PLC0415 - as above

    given = {name for name in ("hosts", "gpus") if was_typed(name)}
    gone = set(overridden_names(given)) | ({"cuda"} if values.get("cpu") else set())
    gone |= {other for name, other in _OPTION_NAMES.items() if name in gone}
    context.meta[_REPLACED] = {name.rstrip("s").replace("_", "-") for name in gone}
    left = {
        name: (() if isinstance(value, tuple) else None) if name in gone and not was_typed(name) else value
        for name, value in values.items()
    }
    return cast("V", left)


def with_origin(error: UsageError, context: click.Context) -> UsageError:
    """The error, with the source of the option's value if that is a setting."""
    words = error.message.split()
    origin = context.meta.get(_ORIGINS, {}).get(words[0].rstrip(":")) if words else None
    return (
        UsageError(f"{error.message} ({words[0].rstrip(':')} is set by {origin})", hint=error.hint) if origin else error
    )
