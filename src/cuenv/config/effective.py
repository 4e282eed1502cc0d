"""What counts, and who said so: the settings of cuenv, then those of conda that cuenv follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cuenv.config.io.configuration import Configuration
from cuenv.config.settings import Setting, unknown_variables
from cuenv.solve.io.condarc import VERIFY, Condarc, condarc_files, read_condarc

_CONDA = "CONDA_OVERRIDE_"
_OTHERS = ("CONDARC", "NO_COLOR", "FORCE_COLOR", *VERIFY)


def all_settings(configuration: Configuration, environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Every setting with its origin: cuenv's own, the variables of others that cuenv follows, ``.condarc``.

    Raises:
        InputError: a ``.condarc`` cannot be read.
    """
    followed = [name for name in sorted(environ) if name.startswith(_CONDA) or name in _OTHERS]
    variables = [Setting(name=name, value=environ[name], origin=name) for name in followed]
    return (*configuration.settings.values(), *variables, *_condarc(environ))


def slips(environ: Mapping[str, str]) -> list[str]:
    """Warnings about variables that look like ours and are none."""
    return unknown_variables(environ)


def _condarc(environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """What the ``.condarc`` files say, each value once, from the file that counts; lists name every file."""
    found: dict[str, Setting] = {}
    for path in condarc_files(environ):
        for name, value in _said(read_condarc([path], environ)):
            old = found.get(name)
            origin = str(path)
            if isinstance(value, tuple) and old and isinstance(old.value, tuple):  # lists are joined, higher first
                value, origin = tuple(dict.fromkeys((*value, *old.value))), f"{path}, {old.origin}"  # noqa: PLW2901 - joined
            found[name] = Setting(name=name, value=value, origin=origin)
    return tuple(found.values())


def _said(condarc: Condarc) -> Iterator[tuple[str, str | bool | tuple[str, ...]]]:
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
