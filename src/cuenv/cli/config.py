"""``cuenv config``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, output_options
from cuenv.cli.defaults import configuration, was_typed
from cuenv.cli.output import emit_json, emit_lines, say
from cuenv.config.io.configuration import Configuration
from cuenv.config.settings import Setting, merge, unknown_variables
from cuenv.core.record import replace
from cuenv.solve.io.sources import VERIFY, Condarc, condarc_files, read_condarc

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.documents import SettingFields
    from cuenv.cli.values import OutputValues


@click.command("config", cls=CuenvCommand)
@output_options
def command(**values: Unpack[OutputValues]) -> None:
    """Show each setting and where it came from.

    The command line overrides CUENV_* variables. These override cuenv.toml or [tool.cuenv] of pyproject.toml (the
    nearest one, upward from this folder), which overrides the default. The command also shows the settings of .condarc
    for channels, mirrors and proxies. It never shows credentials. With -q it shows only settings that somebody set.

    \b
    Examples:
      cuenv config
      CUENV_GPU='V100, RTX 5090' cuenv config --json
    """
    found = configuration() or Configuration(settings=merge())
    settings = all_settings(found, os.environ)
    if was_typed("color"):
        settings = tuple(
            replace(item, value=values["color"], origin="--color") if item.name == "color" else item
            for item in settings
        )
    warnings = unknown_variables(os.environ)
    if values["as_json"]:
        rows: list[SettingFields] = [
            {"name": item.name, "value": _json_value(item.shown()), "origin": item.origin} for item in settings
        ]
        profiles = sorted(found.profiles)
        file = found.path or None
        warned = [*found.warnings, *warnings]
        emit_json(
            {"schema": "cuenv/config/1", "file": file, "settings": rows, "profiles": profiles, "warnings": warned}
        )
        return
    say([f"warning {text}" for text in warnings], quiet=values["quiet"])
    shown = [item for item in settings if item.origin != "default" or not values["quiet"]]
    if shown:
        head = [] if values["quiet"] else [("setting", "value", "source")]
        texts = [*head, *((item.name, _text(item.shown()), item.origin) for item in shown)]
        wide = [max(len(row[column]) for row in texts) for column in range(2)]
        lines = [f"{name:<{wide[0]}}  {text:<{min(wide[1], 48)}}  {origin}" for name, text, origin in texts]
        emit_lines(lines)


def _json_value(value: str | bool | tuple[str, ...] | None) -> str | bool | list[str] | None:
    return list(value) if isinstance(value, tuple) else value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


_CONDA = "CONDA_OVERRIDE_"
_OTHERS = ("CONDARC", "NO_COLOR", "FORCE_COLOR", *VERIFY)


def all_settings(configuration: Configuration, environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Every setting with its origin: cuenv's settings, variables of other programs that cuenv respects, ``.condarc``.

    Raises:
        InputError: a ``.condarc`` cannot be read.
    """
    followed = [name for name in sorted(environ) if name.startswith(_CONDA) or name in _OTHERS]
    variables = [Setting(name=name, value=environ[name], origin=name) for name in followed]
    return (*configuration.settings.values(), *variables, *_condarc(environ))


def _condarc(environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """The entries of ``.condarc`` files that take effect, with their file; lists are joined from all files."""
    found: dict[str, Setting] = {}
    for path in condarc_files(environ):
        for name, value in _entries(read_condarc([path], environ)):
            old = found.get(name)
            origin = str(path)
            if isinstance(value, tuple) and old and isinstance(old.value, tuple):  # lists are joined, higher first
                value, origin = tuple(dict.fromkeys((*value, *old.value))), f"{path}, {old.origin}"  # noqa: PLW2901 - joined
            found[name] = Setting(name=name, value=value, origin=origin)
    return tuple(found.values())


def _entries(condarc: Condarc) -> Iterator[tuple[str, str | bool | tuple[str, ...]]]:
    if condarc.channel_alias:
        yield "condarc.channel_alias", condarc.channel_alias
    for name, url in condarc.custom_channels:
        yield f"condarc.custom_channels.{name}", f"{url.rstrip('/')}/{name}"
    if condarc.default_channels:
        yield "condarc.default_channels", condarc.default_channels
    for scheme, url in condarc.proxies:
        yield f"condarc.proxy_servers.{scheme}", url
    if condarc.ssl_verify is not None:
        yield "condarc.ssl_verify", condarc.ssl_verify
    if condarc.offline is not None:
        yield "condarc.offline", condarc.offline
