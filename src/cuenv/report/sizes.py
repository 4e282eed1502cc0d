"""The size of an environment as a map of areas, NVIDIA's parts apart from the others."""

from __future__ import annotations

from collections.abc import Iterable

from cuenv.core.record import NamedTuple
from cuenv.knowledge.base import Knowledge
from cuenv.report.picture import Picture, area, said, squarified
from cuenv.solve.model import LockedPackage, PipLocked, Solution

_WIDTH, _HEIGHT = 940, 380
_MOST = 10**13  # bytes above which no package is: a stranger's lock may say anything
_LEAST = 0.004  # the share of the whole below which parts are told together
_TORCH = frozenset({"pytorch", "libtorch", "torch", "triton", "pytorch-triton"})
_KINDS = {"NVIDIA": "t-a", "PyTorch": "t-b", "others": "t-c"}


class SizedPackage(NamedTuple):
    """A package and its size in bytes."""

    name: str
    version: str
    size: int
    group: str


def parts_of(solution: Solution, knowledge: Knowledge) -> tuple[tuple[SizedPackage, ...], int]:
    """The packages with a known size, and the number of the others."""
    packages: list[LockedPackage | PipLocked] = [*solution.packages, *solution.pip]
    found = [
        SizedPackage(item.name, item.version, item.size, group_of(item.name, knowledge))
        for item in packages
        if item.size and 0 < item.size < _MOST
    ]
    return tuple(found), len(packages) - len(found)


def group_of(name: str, knowledge: Knowledge) -> str:
    """The group of a package: NVIDIA, PyTorch, or other."""
    if name in _TORCH:
        return "PyTorch"
    return "NVIDIA" if knowledge.is_component(name) or name.startswith(("nvidia-", "cuda-")) else "others"


def megabytes(size: float) -> str:
    """A size in MB: ``1210 MB``."""
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def sizes(parts: Iterable[SizedPackage], unknown: int, what: str) -> Picture | None:
    """A picture of the packages by size, the largest first; ``None`` where no size is known.

    Args:
        unknown: of how many more the size is not known.
        what: what is counted: the files to download, or the files of the environment.
    """
    found = sorted(parts, key=lambda part: (-part.size, part.name))
    total = sum(part.size for part in found)
    if not total:
        return None
    groups = {name: [part for part in found if part.group == name] for name in _KINDS}
    told = {name: sum(part.size for part in some) for name, some in groups.items() if some}
    body, x = [], 0.0
    for name, size in told.items():  # each group is a column of its own
        wide = _WIDTH * size / total
        body += _column(name, groups[name], total, x, wide)
        x += wide
    shares = ", ".join(f"{name} {megabytes(size)} ({100 * size / total:.0f} %)" for name, size in told.items())
    more = f"; the size of {unknown} more is unknown" if unknown else ""
    return Picture(
        name="size",
        title=f"The size of the environment: {megabytes(total)}",
        desc=f"{shares}. {len(found)} packages, {what}{more}. The largest: "
        + ", ".join(f"{part.name} {megabytes(part.size)}" for part in found[:5])
        + ".",
        width=_WIDTH,
        height=_HEIGHT + 26,
        body="".join(body),
        columns=("package", "version", "part", "size", "share"),
        rows=tuple(
            (part.name, part.version, part.group, megabytes(part.size), f"{100 * part.size / total:.1f} %")
            for part in found
        ),
        legend=f"An area is as large as the package's share: {shares}; {what}{more}.",
    )


def _column(name: str, parts: list[SizedPackage], total: int, x: float, wide: float) -> list[str]:
    big = [part for part in parts if part.size >= _LEAST * total]
    small = [part for part in parts if part.size < _LEAST * total]
    rest = sum(part.size for part in small)
    if rest:
        big.append(SizedPackage(f"{len(small)} smaller", "", rest, name))
    head = f"{name} {megabytes(sum(part.size for part in parts))}"
    body = [said(x + 2, 16, head if wide > 120 else name if wide > 60 else "", "h")]
    for place in squarified([part.size for part in big], x, 26, wide, _HEIGHT):
        part = big[place.at]
        body.append(area(place, _KINDS[name], part.name, megabytes(part.size)))
    return body
