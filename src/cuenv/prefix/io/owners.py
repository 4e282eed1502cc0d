"""Who brought a file of an environment: conda's records and the RECORDs of wheels say it."""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path

from cuenv.core.io.files import LIMIT, is_file, names_in
from cuenv.prefix.fixes import Owner
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.prefix.io.distributions import files_of, text_of

_TORCH = re.compile(r"^Requires-Dist: *torch(?![\w.-]).*==", re.MULTILINE | re.IGNORECASE)


def owner_of(prefix: Prefix, path: str) -> Owner | None:
    """Who brought a file, or should have brought it where it is gone; what pip wrote last counts first.

    Args:
        prefix: the environment.
        path: of the file, absolute, as it was found.
    """
    places = dict.fromkeys((posixpath.normpath(path), _real(path)))
    for wheel in prefix.wheels:
        if wheel.conda and not wheel.replaced:
            continue
        for place in places:
            name = place.removeprefix(f"{wheel.folder}/")
            if name != place and name in files_of(wheel):
                return Owner(wheel=wheel)
    for place in places:
        name = place.removeprefix(f"{prefix.path}/")
        if name != place and (package := _of_conda(prefix, name)):
            return Owner(package=prefix.package(package))
    return None


def _real(path: str) -> str:
    """The path with links of folders followed, and not that of the file itself, which may be gone."""
    folder, _, name = path.rpartition("/")
    return f"{os.path.realpath(folder)}/{name}"


def _of_conda(prefix: Prefix, name: str) -> str | None:
    """The conda package whose record lists a file; a record that cannot be read lists nothing."""
    quoted = json.dumps(name).encode()
    for entry in names_in(Path(prefix.path) / "conda-meta"):
        path = Path(prefix.path) / "conda-meta" / entry
        if not entry.endswith(".json") or not is_file(path):
            continue
        try:
            with path.open("rb") as stream:
                raw = stream.read(LIMIT + 1)
            if len(raw) > LIMIT or quoted not in raw:
                continue
            record = json.loads(raw)
        except (OSError, ValueError, RecursionError):
            continue
        files = record.get("files") if isinstance(record, dict) else None
        if isinstance(files, list) and name in files and isinstance(record.get("name"), str):
            return str(record["name"])
    return None


def pins_torch(wheel: Wheel) -> bool:
    """Whether its METADATA asks for one release of torch: then pip can find the release that is made for another."""
    return bool(_TORCH.search(text_of(wheel, "METADATA")))
