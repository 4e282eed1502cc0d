"""What a team wants: a profile read from a file, options laid over it, and the wishes that come of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuenv.core.errors import UsageError
from cuenv.core.reading import Faults, Reader, describe
from cuenv.core.versions import Wish, check_driver, parse_wish
from cuenv.knowledge.rows import STACKS

PREFER = ("newest", "native")
OFFLOAD = ("cpu", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Wishes for an environment.

    Attributes:
        name: of the profile, and of the environment unless another is asked for.
        story: where the profile comes from, for people.
        stack: where CUDA components come from; ``None`` lets cuenv choose.
        pytorch, cuda, python: wishes on versions; ``None`` for no wish.
        gpus: GPU names or capabilities that the environment must serve, whatever machine asks.
        lowest_driver: the oldest driver of the team.
        dev: compiler and headers for extensions that are built on first use.
        packages: further conda specs; ``pip``: requirements for the pip part.
        cpu: a CPU build, only ever when asked for.
        offload: ``cpu`` when training moves parameters or optimizer states to host memory, else ``none``.
        host_memory_gb: memory that the machine should have, in units of 10^9 bytes. 0 for nothing stated.
        disk_gb: disk that should be free where the command is started, in the same units.
        prefer: ``newest`` torch first, or ``native``: a toolkit within the driver's CUDA level first.
        origin: the profile that options were laid over, and how ``--profile`` names it; ``None`` without one.
    """

    name: str = "cuenv"
    story: str = ""
    stack: str | None = None
    pytorch: Wish | None = None
    cuda: Wish | None = None
    python: Wish | None = None
    gpus: tuple[str, ...] = ()
    lowest_driver: str | None = None
    dev: bool = True
    packages: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    cpu: bool = False
    prefer: str = "newest"
    offload: str = "none"
    host_memory_gb: int = 0
    disk_gb: int = 0
    origin: tuple[str, Request] | None = None


def parse(data: Any, source: str, path: str = "") -> Request:
    """Read a profile from decoded YAML or TOML.

    Args:
        data: what was decoded.
        source: the file, for errors.
        path: where the profile stands in it, such as ``tool.cuenv.profiles.lab``; empty for the whole file.

    Raises:
        InputError: with every fault in it and its path.
    """
    faults = Faults(source)
    reader = Reader(data, faults, path)
    dev = reader.get("dev", bool)
    profile = Request(
        name=reader.text("name"),
        story=reader.text("story"),
        stack=reader.parsed("stack", lambda text: _one_of(text, STACKS)),
        pytorch=reader.parsed("pytorch", lambda text: _wish(text, "pytorch")),
        cuda=reader.parsed("cuda", lambda text: _wish(text, "cuda")),
        python=reader.parsed("python", lambda text: _wish(text, "python")),
        gpus=reader.texts("gpus"),
        lowest_driver=reader.parsed("lowest_driver", check_driver),
        dev=True if dev is None else dev,
        packages=reader.texts("with"),
        pip=reader.texts("pip"),
        prefer=reader.parsed("prefer", lambda text: _one_of(text, PREFER)) or "newest",
        offload=reader.parsed("offload", lambda text: _one_of(text, OFFLOAD)) or "none",
        host_memory_gb=reader.get("host_memory_gb", int) or 0,
        disk_gb=reader.get("disk_gb", int) or 0,
    )
    reader.done()
    if profile.lowest_driver and not profile.gpus:
        faults.add(reader.at("lowest_driver"), "a driver without gpus says nothing; name the gpus it drives")
    for key, value in (("host_memory_gb", profile.host_memory_gb), ("disk_gb", profile.disk_gb)):
        if value < 0:
            faults.add(reader.at(key), f"expected a number of GB, got {value}")
    faults.check(hint="cuenv resolve --help names what a profile may hold; strings want quotes: python: '3.12'")
    return profile


def _one_of(text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ValueError(f"expected one of {', '.join(allowed)}, got {describe(text)}")
    return text


def _wish(text: str, what: str) -> Wish:
    try:
        return parse_wish(text, what=what)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
