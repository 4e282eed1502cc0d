"""A conda that answers what conda-lock asks: the real py-rattler solves, on folders, for what conda-lock hands over.

Called as ``stand_in_conda.py MODE LOG ARGUMENTS``: a test writes a program ``conda`` that adds the first two.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

FAR = "CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://user:s3cretpw@far.example/conda-forge>"
MASKED = "odd 'http//user:s3cretpw@far.example/t/tk-123456789/x' \x1b[31m"


def main() -> None:
    mode, log, *words = sys.argv[1:]
    with Path(log).open("a") as file:
        file.write(json.dumps({"argv": words, "environ": dict(os.environ), "pid": os.getpid()}) + "\n")
    if words == ["--version"]:
        leave("conda 26.7.1")
    if mode == "hang":
        time.sleep(60)
    if mode == "crash":
        os.write(2, f"Segmentation fault\n{MASKED}\n".encode())
        os._exit(139)
    if mode == "far":
        leave(json.dumps({"exception_name": "CondaHTTPError", "message": f"{FAR}\n{MASKED}\n\nmore"}), 1)
    if mode == "nonsense":
        leave("no JSON at all")
    if words[:1] != ["create"] or "--dry-run" not in words or "--json" not in words:
        leave(json.dumps({"exception_name": "ArgumentError", "message": f"unexpected {words}"}), 2)
    create(words, mode)


def create(words: list[str], mode: str) -> NoReturn:
    """Answer ``create --dry-run --json``."""
    places = [index + 1 for index, word in enumerate(words) if word == "--channel"]
    named = [words[index] for index in places]
    specs = words[max(places) + 1 :]
    *real, fake = named
    if mode == "lie":
        specs = [spec.partition("=")[0].partition(" ")[0] for spec in specs]
    if not fake.startswith("file://"):
        leave(json.dumps({"exception_name": "ArgumentError", "message": "no channel of virtual packages"}), 2)
    settings = json.loads(Path(os.environ["CONDARC"]).read_text())
    found = asyncio.run(solve(real, specs, settings["custom_channels"]))
    if isinstance(found, str):
        kind = {"exception_name": "UnsatisfiableError", "message": found, "packages": []}
        leave(json.dumps(kind), 1)
    if mode == "hash":
        found[0]["sha256"] = "0" * 64
    leave(json.dumps({"actions": {"FETCH": found, "LINK": found}, "success": True}))


async def solve(named: list[str], specs: list[str], bases: dict[str, str]) -> list[dict[str, Any]] | str:
    """Solve as conda would: channels by the settings file, virtual packages by ``CONDA_OVERRIDE_*``."""
    from rattler import (
        Channel,
        ChannelPriority,
        Gateway,
        GenericVirtualPackage,
        MatchSpec,
        PackageName,
        SparseRepoData,
        Version,
    )
    from rattler import solve as rattler_solve
    from rattler.exceptions import SolverError
    from rattler.package import BuildString

    subdir = os.environ["CONDA_SUBDIR"]
    folders = {name: Path(f"{bases[name].removeprefix('file://')}/{name}") for name in named}
    sources = [
        SparseRepoData(Channel(f"https://conda.anaconda.org/{name}"), part, folder / part / "repodata.json")
        for name, folder in folders.items()
        for part in (subdir, "noarch")
    ]
    virtual = []
    for variable, value in sorted(os.environ.items()):
        name = f"__{variable.removeprefix('CONDA_OVERRIDE_').lower()}"
        if variable.startswith("CONDA_OVERRIDE_") and value:
            version, build = ("1", value) if name == "__archspec" else (value, "0")
            virtual.append(GenericVirtualPackage(PackageName(name), Version(version), BuildString.new_unchecked(build)))
    try:
        records = await rattler_solve(
            sources,
            [MatchSpec(spec) for spec in specs],
            gateway=Gateway(),
            platforms=[subdir, "noarch"],  # type: ignore[list-item] # any subdir
            virtual_packages=virtual,
            channel_priority=ChannelPriority.Strict
            if os.environ.get("CONDA_CHANNEL_PRIORITY") == "strict"
            else ChannelPriority.Disabled,
        )
    except SolverError as error:
        return str(error)
    return [fetched(record, folders) for record in records]


def fetched(record: Any, folders: dict[str, Path]) -> dict[str, Any]:
    """What conda says of a package to fetch."""
    name = record.channel.rstrip("/").removeprefix("https://conda.anaconda.org/")
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "channel": name,
        "subdir": record.subdir,
        "fn": record.file_name,
        "url": f"file://{folders[name]}/{record.subdir}/{record.file_name}",
        "md5": record.md5.hex(),
        "sha256": record.sha256.hex(),
        "depends": list(record.depends),
        "constrains": list(record.constrains),
        "timestamp": 0,
    }


def leave(text: str, code: int = 0) -> NoReturn:
    """Say it and leave as cuenv does: rattler can kill an interpreter that finalises."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
