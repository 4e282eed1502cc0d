"""The project's settings on disk: ``cuenv.toml``, or ``[tool.cuenv]`` of ``pyproject.toml``, nearest upward."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from cuenv.config.io.config_files import OWN, PROJECT, exists, parent_folders
from cuenv.config.settings import HINT, KINDS, WRITTEN, Setting, merge, parse_table, parse_variables
from cuenv.core.errors import InputError
from cuenv.core.io.files import load_toml, path_text, read_text, reason_of
from cuenv.core.reading import Faults
from cuenv.core.record import dataclass, field

_LIMIT = 1024 * 1024
_NESTED = "in cuenv.toml the keys are at the top level, without [tool.cuenv]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings of the variables and the project."""

    settings: Mapping[str, Setting]  # every setting by its name, defaults included
    path: str = ""  # the file that was read, as it is shown; empty for none
    prefix: str = ""  # where the settings stand in it: ``tool.cuenv`` or empty
    profiles: Mapping[str, Any] = field(default_factory=dict)  # tables of the profiles in the file, not yet read
    warnings: tuple[str, ...] = ()  # what was passed over, one sentence each


def read_configuration(environ: Mapping[str, str], *, files: bool = True) -> Configuration:
    """The settings of ``CUENV_*`` variables and of the nearest file.

    Raises:
        UsageError: a variable is not what its option takes.
        InputError: the file cannot be read, is not valid TOML or holds what is no setting; all its faults at once.
    """
    variables = parse_variables(environ)
    warnings: list[str] = []
    for folder in parent_folders() if files else ():
        if not (exists(f"{folder}/{OWN}") or exists(f"{folder}/{PROJECT}")):
            continue
        own, project = (_settings_table(f"{folder}/{name}", name, warnings) for name in (OWN, PROJECT))
        if own is None and project is None:
            continue
        if own is not None and project is not None:
            warnings.append(
                f"{_short_path(folder, PROJECT)}: [tool.cuenv] is ignored, because {_short_path(folder, OWN)} exists"
            )
        name, prefix, data = (OWN, "", own) if own is not None else (PROJECT, "tool.cuenv", project)
        path = _short_path(folder, name)
        faults = Faults(path)
        found, profiles = parse_table(data, faults, path=prefix, folder="" if folder == _working_folder() else folder)
        _drop_foreign_folders(found, f"{folder}/{name}", path, warnings)
        faults.check(hint=_NESTED if name == OWN and isinstance(data, dict) and "tool" in data else HINT)
        return Configuration(
            settings=merge(variables, found), path=path, prefix=prefix, profiles=profiles, warnings=tuple(warnings)
        )
    return Configuration(settings=merge(variables), warnings=tuple(warnings))


def _settings_table(path: str, name: str, warnings: list[str]) -> Any:
    """The settings in a file; ``None`` if there are none, or if the file belongs to another user."""
    if not exists(path):
        return None
    label = _short_path(os.path.dirname(path) or "/", name)  # noqa: PTH120 - strings are kept, and `/` has no name
    if _is_foreign_file(path):
        warnings.append(
            f"{label}: the file is ignored, because another user owns it and everyone can write to its folder"
        )
        return None
    if name == PROJECT and not os.path.isfile(path):  # noqa: PTH113 - never an error
        return None
    text = _read(path, label)
    if name == PROJECT:
        if "cuenv" not in text:
            return None  # most projects: TOML is not read for them
        tool = _load(text, label).get("tool")
        return tool.get("cuenv") if isinstance(tool, dict) else None
    return _load(text, label)


def _read(path: str, label: str) -> str:
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - a pipe would block
    except OSError as error:
        raise InputError(f"cannot read {label}: {reason_of(error)}", hint=HINT) from error
    if not regular:
        raise InputError(f"cannot read {label}: it is not a regular file", hint=HINT)
    try:
        return read_text(path, limit=_LIMIT)
    except InputError as error:
        raise InputError(error.message.replace(path_text(path), label), hint=HINT) from error


def _load(text: str, source: str) -> dict[str, Any]:
    try:
        data = load_toml(text)
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise InputError(f"{source}: invalid TOML: {error}", hint=HINT) from error
    return data


def _is_foreign_file(path: str) -> bool:
    """Whether another user put the file into a folder such as /tmp, because settings name package sources."""
    try:
        owner = os.stat(path).st_uid  # noqa: PTH116 - as above
        folder = os.stat(os.path.dirname(path) or "/").st_mode  # noqa: PTH116, PTH120 - as above
    except OSError:
        return False
    return bool(folder & stat.S_IWOTH) and owner not in (0, os.geteuid())


def _drop_foreign_folders(found: dict[str, Setting], path: str, label: str, warnings: list[str]) -> None:
    """Drop folders to write to that a file of another user names."""
    asked = sorted(WRITTEN & set(found))
    if not asked or os.stat(path).st_uid == os.geteuid():  # noqa: PTH116 - as above
        return
    for setting in asked:
        del found[setting]
        variable = KINDS[setting].variable
        warnings.append(f"{label}: {setting} is ignored, because the file belongs to another user ({variable} sets it)")


def _working_folder() -> str:
    return next(iter(parent_folders()), "")


def _short_path(folder: str, name: str) -> str:
    """The path of a file for messages: its name in the working folder, otherwise the whole path."""
    return name if folder == _working_folder() else path_text(f"{folder.rstrip('/')}/{name}")
