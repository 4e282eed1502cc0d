"""A conda that answers what conda-lock asks: the real py-rattler solves, on folders, for what conda-lock hands over.

Called as ``stand_in_conda.py MODE LOG ARGUMENTS``: a test writes a program ``conda`` that adds the first two.

It also installs into an environment and removes from it, with the packages of the folder ``STAND_IN_CHANNELS``, as
conda does: without a channel it refuses, a package that the records hold as asked for stays as it is, and a URL that
they hold stays with ``--force-reinstall`` as well (conda since 4.9: conda/misc.py, install_explicit_packages). In mode
``micromamba`` ``--force-reinstall`` installs a URL anew. Without CONDA_OVERRIDE_CUDA it sees no GPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import sys
import tarfile
import time
from fnmatch import fnmatchcase
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
    if words[:1] in (["install"], ["remove"]):
        mend(words, mode)
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


def mend(words: list[str], mode: str) -> NoReturn:
    """Install or remove, as far as the commands go that cuenv prints."""
    verb, prefix, channels, asked, flags = parsed(words)
    if not (prefix / "conda-meta").is_dir() or "-y" not in flags:
        leave(f"EnvironmentLocationNotFound: {prefix}, or an answer is waited for", 1)
    again = "--force-reinstall" in flags
    for word in asked:
        if verb == "remove":
            if not unlinked(prefix, word):
                leave(f"PackagesNotFoundError: {word}", 1)
        elif "://" in word:
            known = word in {record["url"] for record in records(prefix)}
            if not known or (again and mode == "micromamba"):
                linked(prefix, word)
        elif channels:
            choose(prefix, word, channels, again=again)
        else:
            leave("NoChannelsConfiguredError", 1)
    leave("Executing transaction: done")


def parsed(words: list[str]) -> tuple[str, Path, list[str], list[str], set[str]]:
    """The verb, the environment, the channels, what is asked for, and the flags."""
    known = {"-y", "--force", "--force-reinstall", "--override-channels", "--strict-channel-priority"}
    verb, *rest = words
    prefix, channels, asked, flags = Path(), [], [], set()
    while rest:
        word = rest.pop(0)
        if word == "-p":
            prefix = Path(rest.pop(0))
        elif word == "-c":
            channels.append(rest.pop(0))
        elif word in known:
            flags.add(word)
        elif word.startswith("-"):
            leave(f"unrecognized arguments: {word}", 2)
        else:
            asked.append(word)
    return verb, prefix, channels, asked, flags


def records(prefix: Path) -> list[dict[str, Any]]:
    """What the environment holds."""
    return [json.loads(path.read_text()) for path in sorted((prefix / "conda-meta").glob("*.json"))]


def unlinked(prefix: Path, name: str) -> bool:
    """Take a package out by its record."""
    for path in (prefix / "conda-meta").glob("*.json"):
        record = json.loads(path.read_text())
        if record["name"] == name:
            for file in record["files"]:
                (prefix / file).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    (prefix / file).parent.rmdir()
            path.unlink()
            return True
    return False


def linked(prefix: Path, url: str) -> None:
    """Put a package of the folder of channels into an environment, over whatever lies there."""
    channel, subdir, file = url.removeprefix("https://conda.anaconda.org/").rsplit("/", 2)
    archive = Path(os.environ["STAND_IN_CHANNELS"]) / channel / subdir / file
    if not archive.is_file():
        leave(f"CondaHTTPError: HTTP 404 NOT FOUND for url <{url}>", 1)
    with tarfile.open(archive) as tar:
        content = {item.name: tar.extractfile(item) for item in tar if item.isfile()}
        read = {name: stream.read() for name, stream in content.items() if stream}
    index = json.loads(read["info/index.json"])
    unlinked(prefix, index["name"])
    files = {name: data for name, data in read.items() if not name.startswith("info/")}
    for name, data in files.items():
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).unlink(missing_ok=True)
        (prefix / name).write_bytes(data)
    paths = [{"_path": name, "sha256_in_prefix": hashlib.sha256(data).hexdigest()} for name, data in files.items()]
    sums = {kind: hashlib.new(kind, archive.read_bytes()).hexdigest() for kind in ("md5", "sha256")}
    more = {
        "url": url,
        "fn": file,
        "files": list(files),
        "paths_data": {"paths": paths},
        "channel": url.rsplit("/", 2)[0],
    }
    record = {**index, **sums, **more, "subdir": subdir}
    name = file.removesuffix(".tar.bz2").removesuffix(".conda")
    (prefix / "conda-meta" / f"{name}.json").write_text(json.dumps(record))


def choose(prefix: Path, spec: str, channels: list[str], *, again: bool) -> None:
    """The last package of the channels that fits; without GPU no CUDA build does."""
    bare = spec.rpartition("::")[2]
    name, version, build = [*re.split(r"=+", bare), "", ""][:3]
    mine = next((record for record in records(prefix) if record["name"] == name), None)
    homes = [spec.rpartition("::")[0]] if "::" in spec else channels
    found = []
    for channel in homes:
        for data in (Path(os.environ["STAND_IN_CHANNELS"]) / channel).glob("*/repodata.json"):
            for file, record in json.loads(data.read_text())["packages"].items():
                fits = record["name"] == name and f"{record['version']}.".startswith(
                    f"{version.rstrip('.*')}." if version else ""
                )
                if fits and fnmatchcase(record["build"], build or "*"):
                    found.append(f"https://conda.anaconda.org/{channel}/{data.parent.name}/{file}")
    if not os.environ.get("CONDA_OVERRIDE_CUDA"):
        found = [url for url in found if "-cuda1" not in url]
    if not found:
        leave(f"PackagesNotFoundError: {spec}", 1)
    if mine and mine["url"] in found and not again:
        return
    linked(prefix, mine["url"] if mine and mine["url"] in found else max(found))


def leave(text: str, code: int = 0) -> NoReturn:
    """Say it and leave as cuenv does: rattler can kill an interpreter that finalises."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
