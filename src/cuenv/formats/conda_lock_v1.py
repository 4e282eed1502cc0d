"""``conda-lock.yml``, version 1 (CEP 37): read by conda-lock, micromamba and conda-lockfiles.

Two things that the format has no place for are kept in ``custom_metadata``, per platform: the virtual packages that
the solver was told of, and the solver. A requirement keeps its build (``2.5.1 cuda*``), which conda-lock drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cuenv.environment import EnvironmentSpec, together
from cuenv.errors import InputError
from cuenv.formats.conda_lock_hash import content_hash
from cuenv.formats.conda_lock_v1_read import SOLVER, VIRTUAL, parse
from cuenv.formats.yaml_write import quote
from cuenv.lockfile import CREATED_BY, Lock, LockedPackage, PipLocked, Solution
from cuenv.pip_part import requirement_name
from cuenv.specs import parse_spec, split_name
from cuenv.urls import index_url, strip_credentials

__all__ = ["parse", "render"]

OWN = "# A lock written by cuenv"
"""How every lock of ours begins."""
_HEAD = """\
# A lock written by cuenv: exact packages with their hashes. Do not edit it; change the environment file and lock again.
# Install it with one of
#   micromamba create -n NAME -f conda-lock.yml
#   conda-lock install -n NAME conda-lock.yml
"""


def render(lock: Lock, spec: EnvironmentSpec) -> str:
    """Write the lock: the same bytes for the same values.

    Args:
        lock: what was solved; ``created_by`` in its metadata names the writer.
        spec: the environment file that was locked, for the content hash.

    Raises:
        InputError: a package without md5, which conda-lock refuses.
    """
    solutions = sorted(lock.solutions, key=lambda solution: solution.platform)
    _refuse_without_md5(solutions)
    hashes = {item.platform: content_hash(spec, item.platform, item.virtual_packages) for item in solutions}
    entries = [
        *(
            (package.name, item.platform, "", _package(package, item.platform))
            for item in solutions
            for package in item.packages
        ),
        *(
            (package.name, item.platform, "pip", _pip(package, item.platform))
            for item in solutions
            for package in item.pip
        ),
    ]
    lines = [
        _HEAD + "version: 1",
        "metadata:",
        *_mapping("content_hash", hashes, "  "),
        *_list("channels", (f"url: {quote(strip_credentials(url))}\n      used_env_vars: []" for url in lock.channels)),
        *_list("platforms", (quote(item.platform) for item in solutions)),
        *_list("sources", map(quote, lock.sources)),
        *_mapping("custom_metadata", _metadata(lock, solutions), "  "),
        "package:" if entries else "package: []",
    ]
    for _, _, _, text in sorted(entries, key=lambda entry: entry[:3]):
        lines += text
    return "\n".join(lines) + "\n"


def _refuse_without_md5(solutions: Iterable[Solution]) -> None:
    names = sorted({package.name for item in solutions for package in item.packages if not package.md5})
    if names:
        raise InputError(
            f"conda-lock.yml cannot hold {len(names)} packages without md5 (their channel gives only sha256): "
            + ", ".join(names),
            hint="the explicit file conda-<platform>.lock can hold them",
        )


def _metadata(lock: Lock, solutions: Iterable[Solution]) -> dict[str, str]:
    found = {"created_by": CREATED_BY, **lock.metadata}
    for item in solutions:
        found[VIRTUAL + item.platform] = " ".join(map(str, item.virtual_packages))
        found[SOLVER + item.platform] = item.solver
    return dict(sorted(found.items()))


def _mapping(key: str, items: Mapping[str, str], indent: str) -> list[str]:
    rows = [f"{indent}  {quote(name)}: {quote(value)}" for name, value in items.items()]
    return [f"{indent}{key}:", *rows] if rows else [f"{indent}{key}: {{}}"]


def _list(key: str, items: Iterable[str]) -> list[str]:
    rows = [f"    - {item}" for item in items]
    return [f"  {key}:", *rows] if rows else [f"  {key}: []"]


def _package(package: LockedPackage, platform: str) -> list[str]:
    hashes = {"md5": package.md5, "sha256": package.sha256}
    return [
        f"- name: {quote(package.name)}",
        f"  version: {quote(package.version)}",
        '  manager: "conda"',
        f"  platform: {quote(platform)}",
        *_mapping("dependencies", _dependencies(package.depends), "  "),
        f"  url: {quote(strip_credentials(package.url))}",
        "  hash:",
        *(f"    {kind}: {quote(value)}" for kind, value in hashes.items() if value),
        '  category: "main"',
        "  optional: false",
    ]


def _pip(package: PipLocked, platform: str) -> list[str]:
    depends = {name: text[len(name) :].strip() or "*" for text in package.depends for name in (requirement_name(text),)}
    return [
        f"- name: {quote(package.name)}",
        f"  version: {quote(package.version)}",
        '  manager: "pip"',
        f"  platform: {quote(platform)}",
        *_mapping("dependencies", depends, "  "),
        f"  url: {quote(index_url(package.url))}",
        *(["  hash:", f"    sha256: {quote(package.sha256)}"] if package.sha256 else ["  hash: {}"]),
        '  category: "main"',
        "  optional: false",
    ]


def _dependencies(depends: Iterable[str]) -> dict[str, str]:
    """Requirements by name, as the record words them; several on one name become one that holds all."""
    grouped: dict[str, dict[str, None]] = {}
    for text in depends:
        name, rest = split_name(text)
        grouped.setdefault(name, {})[rest] = None
    return {name: _join(name, [text for text in texts if text]) for name, texts in sorted(grouped.items())}


def _join(name: str, constraints: list[str]) -> str:
    if len(constraints) < 2:
        return "".join(constraints)
    try:
        pins = [parse_spec(f"{name} {text}") for text in constraints]
    except ValueError:
        return constraints[-1]  # a record that conda itself cannot read; conda-lock keeps the last one
    version = together(pin.condition() for pin in pins) or "*"
    builds = [pin.build for pin in pins if pin.build]
    return f"{version} {builds[-1]}" if builds else version
