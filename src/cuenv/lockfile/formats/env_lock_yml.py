"""``conda-<subdir>.lock.yml``: an environment file of exact packages, for ``conda env create -f``.

Conda solves it again, so that it needs the channels and the virtual packages; the answer can only be the lock's.
"""

from __future__ import annotations

from dataclasses import replace

from cuenv.core.urls import redact, short_channel, strip_credentials
from cuenv.lockfile.formats import requirements_txt
from cuenv.solve import environment_yml
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Solution


def render(spec: EnvironmentSpec, solution: Solution, *, head: tuple[str, ...]) -> str:
    """Write the file: name, channels and variables of the environment, and every package exactly.

    Args:
        spec: the environment file that was locked; its requirements for pip stay as they are when none is locked.
        solution: the packages of one platform.
        head: lines for the comment at the top.
    """
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
    pip = requirements_txt.lines(solution.pip) if solution.pip else tuple(map(redact, spec.pip))
    exact = replace(spec, header=head, channels=channels, pins=pins, platforms=(), pip=pip)
    return environment_yml.render(exact)
