"""When pixi takes a lock as it is: the laws of its check, as its sources at 0.77 state them.

See prefix-dev/pixi, ``crates/pixi_core/src/lock_file/satisfiability``. Written apart from cuenv, over py-rattler's
specs; what is returned are the laws that are broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from rattler import LockFile

from cuenv.core.io.files import load_toml
from cuenv.solve.io.solver import is_match_spec, matches
from cuenv.solve.model import LockedPackage, parse_package_url

_DEFAULTS = {"__unix=0=0", "__linux=4.18", "__glibc=2.28", "__archspec=0=x86_64"}
_KEYS = {"glibc": "__glibc", "linux": "__linux", "archspec": "__archspec"}


def broken(folder: Path) -> list[str]:
    """The laws that the lock in a folder breaks, by the manifest beside it."""
    manifest = load_toml((folder / "pixi.toml").read_text())
    lock = yaml.safe_load((folder / "pixi.lock").read_text())
    LockFile.from_path(folder / "pixi.lock")  # pixi reads it with the same library
    environments = manifest.get("environments", {"default": []})
    found = [f"environment {name}" for name in set(environments) ^ set(lock["environments"])]
    for name, features in environments.items():
        if name in lock["environments"]:
            found += [f"{name}: {text}" for text in _environment(manifest, lock, name, features)]
    return found


def declared(entry: dict[str, Any]) -> list[str]:
    """The virtual packages of a platform in the manifest, without pixi's defaults."""
    cuda = entry.get("cuda", {})
    found = [f"__cuda={cuda['driver']}"] if cuda else []
    found += [f"__cuda_arch={cuda['arch']}"] if "arch" in cuda else []
    found += [f"{name}={entry[key]}" for key, name in _KEYS.items() if key in entry]
    return sorted(set(found) - _DEFAULTS)


def _environment(manifest: dict[str, Any], lock: dict[str, Any], name: str, features: list[str]) -> Iterator[str]:
    workspace, own = manifest["workspace"], lock["environments"][name]
    if [url.rstrip("/") for url in workspace["channels"]] != [item["url"].rstrip("/") for item in own["channels"]]:
        yield "ChannelsMismatch"
    parts = [manifest, *(manifest["feature"][item] for item in features)]
    names = [item["name"] for item in workspace["platforms"]]
    for part in parts[1:]:
        names = [item for item in names if item in part.get("platforms", names)]
    known = {item["name"]: item for item in lock["platforms"]}
    for extra in set(own["packages"]) - set(names):
        yield f"AdditionalPlatformsInLockFile {extra}"
    listed = [row for rows in own["packages"].values() for row in rows]
    if any("pypi" in row for row in listed):
        options = manifest.get("pypi-options", {})
        if own.get("indexes") != [options.get("index-url"), *options.get("extra-index-urls", [])]:
            yield "IndexesMismatch"
        if own.get("find-links", []) != options.get("find-links", []):
            yield "IndexesMismatch of find-links"
    for entry in workspace["platforms"]:
        if entry["name"] not in names:
            continue
        there = known.get(entry["name"], {})
        if entry["platform"] != there.get("subdir") or declared(entry) != sorted(
            set(there.get("virtual-packages", [])) - _DEFAULTS
        ):
            yield f"PlatformDefinitionChanged {entry['name']}"
        yield from _platform(parts, lock, own["packages"].get(entry["name"], []), entry)


def _platform(
    parts: list[dict[str, Any]], lock: dict[str, Any], rows: list[Any], entry: dict[str, Any]
) -> Iterator[str]:
    every = {item.get("conda") or item.get("pypi"): item for item in lock["packages"]}
    conda = {parse_package_url(row["conda"]).name: every[row["conda"]] for row in rows if "conda" in row}
    pypi = {every[row["pypi"]]["name"]: every[row["pypi"]] for row in rows if "pypi" in row}
    virtual = _virtual([*declared(entry), *_DEFAULTS])
    tables = [*parts, *(part.get("target", {}).get(entry["name"], {}) for part in parts)]
    seen: set[str] = set()
    todo = [_spec(name, value) for part in tables for name, value in part.get("dependencies", {}).items()]
    while todo:
        text = todo.pop()
        name = text.split()[0].split("[")[0]
        if name.startswith("__"):
            if name not in virtual or not matches(text, virtual[name]):
                yield f"UnsatisfiableMatchSpec {text}"
        elif name not in conda:
            yield f"SourcePackageMissing {text}"
        elif not is_match_spec(text) or not matches(text, _package(conda[name])):
            yield f"UnsatisfiableMatchSpec {text}"
        if name in conda and name not in seen:
            seen.add(name)
            todo += conda[name].get("depends", [])
    if set(conda) - seen:
        yield f"TooManyCondaPackages {sorted(set(conda) - seen)}"
    if any("purls" not in item for item in conda.values()):
        yield "MissingPurls"
    asked = [pair for part in tables for pair in part.get("pypi-dependencies", {}).items()]
    yield from _pypi(asked, conda, pypi)


def _pypi(asked: list[tuple[str, Any]], conda: dict[str, Any], pypi: dict[str, Any]) -> Iterator[str]:
    purls = [purl.removeprefix("pkg:pypi/") for item in conda.values() for purl in item.get("purls") or ()]
    by_conda = dict(purl.split("@") for purl in purls)
    seen: set[str] = set()
    todo: list[tuple[str, str, str]] = []
    for name, value in asked:
        table = value if isinstance(value, dict) else {"version": value}
        version = table.get("version", "*")
        todo.append((name, "" if version == "*" else version, table.get("url", "")))
    while todo:
        name, specifier, url = todo.pop()
        if name in by_conda:
            if url or not SpecifierSet(specifier).contains(by_conda[name], prereleases=True):
                yield f"CondaUnsatisfiableRequirement {name} {specifier}"
            continue
        if name not in pypi:
            yield f"UnsatisfiableRequirement {name}"
            continue
        yield from _wheel(pypi[name], specifier, url)
        if name not in seen:
            seen.add(name)
            todo += [
                (one.name, str(one.specifier), "") for one in map(Requirement, pypi[name].get("requires_dist", ()))
            ]
    if set(pypi) - seen:
        yield f"TooManyPypiPackages {sorted(set(pypi) - seen)}"


def _wheel(item: dict[str, Any], specifier: str, url: str) -> Iterator[str]:
    if url and item["pypi"] != f"direct+{url}":
        yield f"LockedPyPIDirectUrlMismatch {item['name']}"
    if not url and not SpecifierSet(specifier).contains(item["version"], prereleases=True):
        yield f"LockedPyPIVersionsMismatch {item['name']}"


def _spec(name: str, value: str | dict[str, str]) -> str:
    if isinstance(value, str):
        return f"{name} {value}"
    inner = ",".join(f"{key}='{text}'" for key, text in value.items() if key in ("version", "build"))
    return f"{name}[{inner}]"


def _virtual(texts: list[str]) -> dict[str, LockedPackage]:
    """Virtual packages by name; what is declared stands before the defaults, and counts."""
    found: dict[str, LockedPackage] = {}
    for text in texts:
        name, number, build = (*text.split("="), "0")[:3]
        url = f"https://virtual.invalid/noarch/{name}-{number}-{build}.conda"
        found.setdefault(name, _package({"conda": url}))
    return found


def _package(row: dict[str, Any]) -> LockedPackage:
    parts = parse_package_url(row["conda"])
    return LockedPackage(
        name=parts.name,
        version=parts.version,
        build=parts.build,
        subdir=parts.subdir,
        channel=parts.channel,
        url=row["conda"],
        md5=None,
        sha256=None,
    )
