"""The sample channels of ``cuenv demo``: built from a description of a few kilobytes that ships in the package.

The description (``data/sample/channel.json``) says what each row means. A row with ``each`` is written once for every
row of that table; a list in a table stands for one row per item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from cuenv.errors import OutsideError
from cuenv.urls import channel_url
from cuenv.world.files import look
from cuenv.world.packages import Package, write_channel
from cuenv.world.sources import Mirror

_WORD = re.compile(r"\{(\w+)\}")
_BUILD_NUMBER = re.compile(r"_(\d+)(?:_cp\d+)?$")


def write_sample(folder: Path, platform: str) -> tuple[Mirror, ...]:
    """Write the sample channels for one platform.

    Args:
        folder: a scratch folder.
        platform: ``linux-64`` or ``linux-aarch64``.

    Returns:
        The mirrors that replace the real channels by them.

    Raises:
        OutsideError: the folder cannot be written.
    """
    data = json.loads(files("cuenv").joinpath("data/sample/channel.json").read_bytes())
    mirrors = []
    for name, channel in data["channels"].items():
        place = folder / name
        packages = _packages(channel["packages"], data["tables"], data["platforms"], platform)
        try:
            write_channel(place, packages, subdirs=(platform, "noarch"), hashes=channel["hashes"])
        except OSError as error:
            raise OutsideError(
                f"the sample channels cannot be written to {folder}: {error.strerror}", hint=look(folder, error)
            ) from error
        mirrors.append(Mirror(origin=channel_url(name), target=str(place.absolute())))
    return tuple(mirrors)


def _packages(
    rows: list[dict[str, Any]], tables: Mapping[str, Any], platforms: Mapping[str, Any], platform: str
) -> Iterator[Package]:
    for row in rows:
        for words in _expanded(tables[row["each"]] if "each" in row else [{}]):
            if platform in {row.get("on", platform)} & {words.get("on", platform)}:
                yield _package(row, {**platforms[platform], **words, "subdir": platform})


def _expanded(table: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    for row in table:
        choices = [value if isinstance(value, list) else [value] for value in row.values()]
        for values in product(*choices):
            yield dict(zip(row, values, strict=True))


def _package(row: Mapping[str, Any], words: Mapping[str, str]) -> Package:
    known = {**words, **{f"{key}_digits": value.replace(".", "") for key, value in words.items()}}

    def fill(text: str) -> str:
        return _WORD.sub(lambda found: known[found[1]], text)

    build = fill(row.get("build", "sample_0"))
    number = _BUILD_NUMBER.search(build)
    return Package(
        name=fill(row["name"]),
        version=fill(row["version"]),
        build=build,
        build_number=int(number[1]) if number else 0,
        subdir="noarch" if "noarch" in row else words["subdir"],
        noarch=row.get("noarch", ""),
        depends=tuple(filter(None, map(fill, row.get("depends", ())))),
        constrains=tuple(filter(None, map(fill, row.get("constrains", ())))),
        files={fill(path): fill(text).encode() for path, text in row.get("files", {}).items()},
    )
