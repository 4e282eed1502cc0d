"""Explicit files (CEP 23): one URL per package, installed as they are and without a solver.

The hash behind ``#`` is MD5 where the channel gives one. It is the only form that every client takes: conda before
24.9 refuses SHA-256 (conda/conda#14048), mamba before 2 takes it with the prefix ``sha256:`` only, which therefore
stands before the SHA-256 of packages without MD5. `conda-lock.yml` beside it carries both.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from cuenv.core.reading import Faults, describe
from cuenv.core.regex import regex
from cuenv.core.urls import blanked, strip_credentials
from cuenv.lockfile.formats import PLATFORM, LockedFile, LockFormat, LockPart, LockReader
from cuenv.lockfile.formats.requirements_txt import content_lines, pip_command, pip_head
from cuenv.solve.match_spec import split_name
from cuenv.solve.model import Lock, LockedPackage, Solution, parse_package_url

_MARK = "@EXPLICIT"
_PLATFORM = regex(r"#\s*platform:\s*([a-z]+-[a-z0-9_]+)\s*")
_HASH = regex(r"([0-9a-f]{32})|(?:sha256:)?([0-9a-f]{64})")


def render(solution: Solution, *, head: tuple[str, ...]) -> str:
    """Write an explicit file: every package after those it depends on, since installers keep the order."""
    lines = [f"# {blanked(text)}".rstrip() for text in head]
    lines += [f"# platform: {solution.platform}", _MARK]
    return "\n".join([*lines, *map(_line, _sorted(solution.packages))]) + "\n"


def _line(package: LockedPackage) -> str:
    url = strip_credentials(package.url).partition("#")[0]
    if package.md5:
        return f"{url}#{package.md5}"
    return f"{url}#sha256:{package.sha256}" if package.sha256 else url


def _sorted(packages: tuple[LockedPackage, ...]) -> list[LockedPackage]:
    """Dependencies first, else by name."""
    by_name = {package.name: package for package in packages}
    waits = {
        name: {need for text in package.depends if (need := split_name(text)[0]) in by_name and need != name}
        for name, package in by_name.items()
    }
    ordered: list[LockedPackage] = []
    while waits:
        ready = sorted(name for name, needs in waits.items() if not needs) or _circle(waits)
        ordered += (by_name[name] for name in ready)
        for name in ready:
            del waits[name]
        for needs in waits.values():
            needs.difference_update(ready)
    return ordered


def _circle(waits: dict[str, set[str]]) -> list[str]:
    """Packages that wait for each other and for nothing else; those that most others wait for come first."""
    members = _reach(min(waits), waits)
    while smaller := next(
        (found for name in sorted(members) if len(found := _reach(name, waits)) < len(members)), None
    ):
        members = smaller
    return sorted(members, key=lambda name: (-sum(name in needs for needs in waits.values()), name))


def _reach(name: str, waits: dict[str, set[str]]) -> set[str]:
    """Everything that a package waits for, directly or not."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        new = waits[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def parse(text: str, source: str) -> Solution:
    """Read an explicit file of one platform. Requirements are not in it.

    Returns:
        the packages by name; the platform as the comment says it, else as the URLs do.

    Raises:
        InputError: no ``@EXPLICIT``, a line that is no URL of a package, two platforms, nothing at all.
    """
    faults = Faults(source)
    lines = [line.strip() for line in text.removeprefix("\ufeff").splitlines()]
    if _MARK not in lines:
        faults.add("", f"the line {_MARK} is missing, so this is not an explicit file")
        faults.check(hint="cuenv lock")
    said = [found[1] for line in lines if (found := _PLATFORM.fullmatch(line))]
    packages: dict[str, LockedPackage] = {}
    for number, line in enumerate(lines, 1):
        if not line or line == _MARK or line.startswith("#"):
            continue
        try:
            package = _package(line)
        except ValueError as error:
            faults.add(f"line {number}", str(error))
            continue
        if package.name in packages:
            faults.add(f"line {number}", f"{describe(package.name)} appears twice")
        packages[package.name] = package
    platforms = sorted({*said, *(package.subdir for package in packages.values())} - {"noarch"})
    if not packages and not faults.items:
        faults.add("", "the file lists no package")
    if len(platforms) != 1 and not faults.items:
        faults.add("", f"expected one platform, got {', '.join(platforms) or 'none'}")
    faults.check(hint="cuenv lock")
    ordered = tuple(package for _, package in sorted(packages.items()))
    return Solution(platform=platforms[0], packages=ordered)


def _package(line: str) -> LockedPackage:
    url, mark, text = line.partition("#")
    found = _HASH.fullmatch(text)
    if mark and not found:
        raise ValueError(f"expected an MD5 or SHA-256 after '#', got {describe(text)}")
    clean = strip_credentials(url)
    parts = parse_package_url(clean)
    return LockedPackage(
        name=parts.name,
        version=parts.version,
        build=parts.build,
        subdir=parts.subdir,
        channel=parts.channel,
        url=clean,
        md5=found[1] if found else None,
        sha256=found[2] if found else None,
    )


def _write(file: LockedFile) -> str:
    return render(file.solution, head=(file.origin, *pip_head(file.spec, file.solution)))


def _install(file: LockedFile) -> Iterable[tuple[str, str]]:
    platform = file.solution.platform
    explicit = shlex.quote(str(FORMAT.path(file.folder, platform)))
    pip = f" && conda run -n {file.name} {pip_command(platform, file.folder)}" if file.solution.pip else ""
    yield "conda", f"conda create -n {file.name} --no-default-packages --file {explicit}{pip}"


def _differences(file: LockedFile, text: str) -> Iterable[str]:
    wanted = content_lines(render(file.solution, head=()))
    return (ascii(line.rpartition("/")[2])[1:-1] for line in wanted ^ content_lines(text))


def _read(text: str, source: str, _: LockPart) -> Lock:
    return Lock(channels=(), sources=(), solutions=(parse(text, source),))


FORMAT = LockFormat(
    file=f"conda-{PLATFORM}.lock",
    order=2,
    purpose="explicit, with hashes; conda installs it without solving",
    write=_write,
    install=_install,
    differences=_differences,
)
READER = LockReader(file="explicit file", content=regex(rf"(?m)^\s*{_MARK}\s*$"), read=_read)
