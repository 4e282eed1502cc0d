"""The words of the linkage findings: paths, counts, and commands to copy."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import replace as changed

from cuenv.binary.loader import Loaded
from cuenv.installed.mending import bring_again, conda_install, pip_command, pip_exactly, with_torch
from cuenv.linkage.opening import Ground, Root, stem_of
from cuenv.report import Finding
from cuenv.urls import one_line


def short(path: str, ground: Ground) -> str:
    """A file's path, from the environment or its site-packages on where it lies in them."""
    text = posixpath.normpath(path)
    text = text.removeprefix(f"{ground.prefix}/") if ground.inside(text) else text
    text = re.sub(r"^lib(?:64)?/python3\.[0-9]+t?/site-packages/", "", text)
    return text if text.isprintable() else repr(text)


def more(askers: list[Loaded]) -> str:
    """How many further files are concerned, for the end of a sentence."""
    others = len({asker.path for asker in askers}) - 1
    return f" (and {others} more)" if others else ""


def count(names: list[str]) -> str:
    """How many further names there are, for the end of a sentence."""
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def again(root: Root, ground: Ground) -> str | None:
    """What brings a build of an extension for the torch that is here; ``None`` when nobody says where it is from."""
    if root.built:
        return f"rm -r {shlex.quote(posixpath.dirname(root.path))}"
    return ground.fitting(root.owner) if root.owner else None


def unspoiled(path: str, ground: Ground) -> str | None:
    """What installs once more the package that a file belongs to; ``None`` when no record names one."""
    return bring_again(ground.owner(path), ground.home)


def install(name: str, ground: Ground) -> str | None:
    """What brings a library; ``None`` when no row says which package does."""
    package = ground.packages.get(stem_of(name))
    if not package:
        return None
    if ground.home.kind == "conda" and not package.startswith("nvidia-"):
        return conda_install(ground.home, package)
    if package in ground.pinned:
        return pip_exactly(ground.home, f"{package}=={ground.pinned[package]}")
    return pip_command(ground.home, "install", "--force-reinstall", "--no-deps", "--upgrade", package)


def replace(name: str, winner: Loaded, ground: Ground) -> str | None:
    """What makes another file win."""
    if not ground.inside(winner.path):
        return unset(winner.via, winner)
    package = ground.packages.get(stem_of(name), "")
    known = ground.home.kind == "conda" and ground.home.package(package)
    return with_torch(ground.home, package) if known else install(name, ground)


def unset(via: str, winner: Loaded) -> str | None:
    """What takes a library out of the search again; ``None`` when no variable put it there."""
    if via == "LD_LIBRARY_PATH":
        return f"unset LD_LIBRARY_PATH, or take {winner.path.rsplit('/', 1)[0]} out of it"
    return "unset LD_PRELOAD" if via == "LD_PRELOAD" else None


def printable(finding: Finding) -> Finding:
    """The finding with what does not print escaped: names in a binary or a folder can hold anything."""
    return changed(
        finding,
        subject=one_line(finding.subject),
        message=one_line(finding.message),
        evidence=tuple(map(one_line, finding.evidence)),
        fix=one_line(finding.fix) if finding.fix else None,
    )
