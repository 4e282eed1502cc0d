"""Profiles of cuenv (``NAME.cuenv.yml``) as environment files of conda: read by resolving them, written as wishes."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from conda_cuenv.program import Unanswered, output

PATTERNS = ("*.cuenv.yml", "*.cuenv.yaml")
SECONDS = 120
_NAME = re.compile(r"[^a-z0-9_-]+")
_PLATFORMS = re.compile(r"^platforms:\n(?: +- .*\n)+", re.MULTILINE)
"""conda warns of this key, which conda-lock and cuenv read."""
_OWN = {"python": "python", "pytorch": "pytorch", "pytorch-gpu": "pytorch", "cuda-version": "cuda"}
"""Packages whose version has a key of its own in a profile."""


def resolved(file: str) -> str:
    """The environment.yml that cuenv makes of a profile, for this machine or for the GPUs that it names.

    Raises:
        ValueError: cuenv has none; the text says why.
    """
    try:
        data, code = output("resolve", "--profile", os.path.abspath(file), seconds=SECONDS)  # noqa: PTH100
    except Unanswered as error:
        raise ValueError(f"{file}: {error}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if code or "dependencies:" not in text:
        raise ValueError(f"cuenv made no environment of {file}; 'conda cuenv resolve --profile {file}' says why")
    return _PLATFORMS.sub("", text)


def specifier_class() -> Any:
    """The class that conda makes an object of for each file that it is given."""
    from conda.env.specs.yaml_file import YamlFileSpec  # noqa: PLC0415 - loaded by conda
    from conda.exceptions import CondaValueError  # noqa: PLC0415 - loaded by conda
    from conda.plugins.types import EnvironmentSpecBase  # noqa: PLC0415 - loaded by conda

    class ProfileSpec(EnvironmentSpecBase):  # type: ignore[misc]  # conda has no types here
        """A profile of cuenv."""

        def __init__(self, filename: str | None = None, **_: Any) -> None:
            self.filename = str(filename or "")

        def can_handle(self) -> bool:
            """Whether the name says so: the files of others are not even opened."""
            name = Path(self.filename).name
            return any(fnmatch(name, one) for one in PATTERNS) and Path(self.filename).is_file()

        @property
        def env(self) -> Any:
            """What conda itself reads in the environment.yml that cuenv makes."""
            with tempfile.TemporaryDirectory(prefix="conda-cuenv-") as folder:
                file = Path(folder) / "environment.yml"
                try:
                    file.write_text(resolved(self.filename), encoding="utf-8")
                except ValueError as error:
                    raise CondaValueError(str(error)) from error
                return YamlFileSpec(filename=str(file)).env

    return ProfileSpec


def export(environment: Any) -> str:
    """A profile that asks for what an environment has: versions, and neither builds nor what only came along."""
    return "".join(f"{one}\n" for one in _lines(environment))


def _lines(environment: Any) -> Iterator[str]:
    yield f"name: {_quoted(_NAME.sub('-', str(environment.name or '').lower()).strip('-') or 'exported')}"
    records = {record.name: record for record in environment.explicit_packages}
    for name, key in _OWN.items():
        if name in records and name != "pytorch-gpu":
            version = str(records[name].version)
            yield f"{key}: {_quoted(_minor(version) if key != 'pytorch' else f'=={version}')}"
    yield 'story: "Exported by conda: versions without builds, to be resolved for the GPUs of another machine."'
    yield f"dev: {'true' if any(name.startswith('cuda-nvcc') for name in records) else 'false'}"
    names = _requested(environment) & set(records) - set(_OWN)
    listed = [f"{name}={records[name].version}" for name in sorted(names) if not _of_cuda(name)]
    yield from _list("with", listed)
    pip = (environment.external_packages or {}).get("pip") or ()
    yield from _list("pip", sorted(str(one) for one in pip if not str(one).lower().startswith("nvidia-")))


def _requested(environment: Any) -> set[str]:
    """The names that somebody asked for by the environment's history; else all that the environment asks for."""
    from conda.history import History  # noqa: PLC0415 - loaded by conda

    asked = set(History(environment.prefix).get_requested_specs_map()) if environment.prefix else set()
    return asked or {spec.name for spec in environment.requested_packages}


def _of_cuda(name: str) -> bool:
    """What cuenv chooses itself, with the release of CUDA."""
    return name.startswith(("cuda-", "libcu", "libnv", "libnpp")) or name in {"cudatoolkit", "cudnn", "nccl"}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _quoted(text: str) -> str:
    """A string of YAML: JSON's are."""
    return json.dumps(text)


def _list(key: str, items: list[str]) -> Iterator[str]:
    if items:
        yield f"{key}:"
        yield from (f"  - {_quoted(one)}" for one in items)
