"""``conda-<subdir>.lock.yml``: an environment file of exact packages, for ``conda env create -f``.

Conda solves it again, so that it needs the channels and the virtual packages; the answer can only be the lock's.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from cuenv.core.record import replace
from cuenv.core.urls import redact, short_channel, strip_credentials
from cuenv.lockfile.formats import PLATFORM, LockedFile, LockFormat, requirements_txt
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Solution


def render(spec: EnvironmentSpec, solution: Solution, *, head: tuple[str, ...]) -> str:
    """Write the file: name, channels and variables of the environment, and every package exactly.

    Args:
        spec: the environment file that was locked; its requirements for pip stay as they are when none is locked.
    """
    from cuenv.solve import environment_yml  # noqa: PLC0415 - YAML is not read where only the registry is asked

    asked = [short_channel(strip_credentials(channel)) for channel in spec.channels]
    used = sorted({short_channel(strip_credentials(package.channel)) for package in solution.packages})
    pins = tuple(
        Pin(
            name=package.name,
            version=package.version,
            build=package.build,
            channel=short_channel(strip_credentials(package.channel)),
        )
        for package in sorted(solution.packages, key=lambda package: package.name)
    )
    channels = tuple(dict.fromkeys([*asked, *used]))
    pip = tuple(map(redact, spec.listed or spec.pip))
    if solution.pip:
        pip = (*requirements_txt.indexes(spec), *requirements_txt.lines(requirements_txt.findable(solution.pip)))
    exact = replace(spec, header=head, channels=channels, pins=pins, platforms=(), pip=pip, constrained=())
    return environment_yml.render(exact)


def _write(file: LockedFile) -> str:
    asked = replace(file.spec, pip=(), listed=()) if _apart(file) else file.spec
    return render(asked, file.solution, head=(file.origin, *requirements_txt.pip_head(file.spec, file.solution)))


def _apart(file: LockedFile) -> bool:
    """Whether what is not locked stands in a file of its own, and not here."""
    return bool(file.solution.aside) and requirements_txt.UNLOCKED not in file.lock.allowed


def _install(file: LockedFile) -> Iterable[tuple[str, str]]:
    """``conda env create`` solves again: it is told the CUDA release, and not to add pip to every Python."""
    solution = file.solution
    cuda = next((item.version for item in solution.virtual_packages if item.name == "__cuda"), None)
    alone = solution.package("python") and not solution.package("pip")
    variables = "CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY=false " if alone else ""
    variables += f"CONDA_OVERRIDE_CUDA={cuda} " if cuda else ""
    exact = shlex.quote(str(FORMAT.path(file.folder, solution.platform)))
    yield "conda", f"{variables}conda env create -n {file.name} --no-default-packages -f {exact}"


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if not line.startswith("#")]


def _differences(file: LockedFile, text: str) -> Iterator[str]:
    """What differs: packages, channels, the pip part, variables."""
    from cuenv.solve import environment_yml  # noqa: PLC0415 - as above

    solution, asked = file.solution, file.asked()
    if asked and _lines(_write(file)) == _lines(text):
        return
    spec, _ = environment_yml.parse(text, FORMAT.path(file.folder, solution.platform).name)
    there = {(pin.channel, pin.name, pin.version, pin.build) for pin in spec.pins}
    wanted = {(item.channel_name, item.name, item.version, item.build) for item in solution.packages}
    yield from {ascii(name)[1:-1] for _, name, _, _ in there ^ wanted}
    known = {*map(short_channel, file.lock.channels), *(item.channel_name for item in solution.packages)}
    yield from (f"channel {ascii(name)[1:-1]}" for name in map(short_channel, spec.channels) if name not in known)
    if solution.pip:
        yield from requirements_txt.requirement_differences(set(spec.pip), solution.pip)
    elif _apart(file):
        yield from (ascii(item)[1:60] for item in spec.pip)
    elif asked:  # left out of the lock (CU501), or by its markers: it stands there as it was asked for
        yield from (ascii(item)[1:60] for item in set(spec.pip) ^ set(map(redact, asked.listed or asked.pip)))
    elif requirements_txt.UNLOCKED not in file.lock.allowed:
        yield from (ascii(item)[1:60] for item in spec.pip)
    if asked and asked.variables != spec.variables:
        yield "variables"


FORMAT = LockFormat(
    file=f"conda-{PLATFORM}.lock.yml",
    order=3,
    purpose="for conda env create",
    write=_write,
    install=_install,
    differences=_differences,
)
