"""Which container images an environment is built in and runs in, and why.

conda fills an environment wherever its channels hold everything; then micromamba installs it and a slim image runs it.
A compiler that conda cannot give comes with NVIDIA's image of the toolkit; without a lock, PyTorch's own image may hold
the very torch that was chosen, with its toolkit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.version import Version

from cuenv.export.tables import Delivery, Image

BASES = ("auto", "micromamba", "cuda", "pytorch")
"""What may be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a container is to hold.

    Attributes:
        locked: exact packages with hashes; else an environment file that is solved while the image is built.
        platforms: the conda platforms.
        cuda: the minor of its CUDA; ``None`` for a CPU build.
        torch: its release, where it is known.
        stack: where torch comes from.
        python: its minor.
        glibc: the lowest that its packages ask for; ``None`` when the file does not say.
        nvcc: whether it has a CUDA compiler of its own.
        compiling: what compiles CUDA code on first use, or is there to compile with; empty for nothing.
        conda: further conda packages that are asked for; only without a lock.
        pip: requirements for pip; only without a lock.
        driver: the lowest driver that runs it.
        variables: those of the environment file.
        host: options of the host that it is for.
    """

    locked: bool
    platforms: tuple[str, ...]
    cuda: Version | None
    torch: Version | None
    stack: str
    python: str
    glibc: Version | None
    nvcc: bool
    compiling: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    driver: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    host: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The images of a container.

    Attributes:
        base: ``micromamba``, ``cuda`` or ``pytorch``.
        why: one sentence each.
        build: what it is built in.
        run: what it runs in; the same where the compiler has to be there.
        installer: where micromamba is copied from, when ``build`` does not have it.
    """

    base: str
    why: tuple[str, ...]
    build: Image
    run: Image
    installer: Image | None = None

    @property
    def images(self) -> tuple[Image, ...]:
        """Each image once."""
        found = (self.build, self.installer, self.run)
        return tuple({item.name: item for item in found if item}.values())


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing is delivered, and what would help."""

    because: str
    hint: str | None = None


def stages(content: Content, delivery: Delivery, base: str = "auto") -> Stages | Refused:
    """Choose the images.

    Args:
        content: what the container is to hold.
        delivery: the images that are known to exist.
        base: one of `BASES`.
    """
    lacking = bool(content.compiling) and not content.nvcc and content.cuda is not None
    whole = _whole(content, delivery)
    if base == "pytorch":
        return whole
    if base == "auto" and lacking and isinstance(whole, Stages):
        return whole
    if base == "cuda" or (base == "auto" and lacking):
        return _with_toolkit(content, delivery, lacking=lacking)
    return _slim(content, delivery, lacking=lacking)


def _slim(content: Content, delivery: Delivery, *, lacking: bool) -> Stages | Refused:
    build = _lowest(delivery.for_role("micromamba", content.platforms), content.glibc)
    run = _lowest(delivery.for_role("run", content.platforms), build.glibc if build else None)
    if build is None or run is None:
        return Refused(_too_old("micromamba", content))
    why = "conda gives every part, so micromamba installs it and a slim image runs it"
    if lacking:
        why = f"as asked for, although {_lacks(content)}"
    return Stages(base="micromamba", why=(why, _glibc(build, content)), build=build, run=run)


def _with_toolkit(content: Content, delivery: Delivery, *, lacking: bool) -> Stages | Refused:
    rows = delivery.for_role("cuda", content.platforms)
    fitting = tuple(row for row in rows if row.cuda == content.cuda)
    if not fitting:
        known = ", ".join(sorted({str(row.cuda) for row in rows}, key=Version))
        what = f"CUDA {content.cuda}" if content.cuda else "a CPU build"
        return Refused(f"no image of a toolkit is known for {what}; there are images for {known}")
    build = _lowest(fitting, content.glibc)
    installer = _lowest(delivery.for_role("micromamba", content.platforms), None)
    if build is None or installer is None:
        return Refused(_too_old("nvidia/cuda", content))
    if not lacking:
        run = _lowest(delivery.for_role("run", content.platforms), build.glibc)
        if run is None:
            return Refused(_too_old("run", content))
        why: tuple[str, ...] = (f"as asked for: built beside the toolkit of CUDA {content.cuda}, run without it",)
    else:
        run = build
        why = (
            _lacks(content),
            "so the toolkit is the image's, in the build and where it runs: libraries compile on first use",
        )
    return Stages(base="cuda", why=(*why, _glibc(build, content)), build=build, run=run, installer=installer)


def _lacks(content: Content) -> str:
    return f"CUDA code is compiled ({', '.join(content.compiling)}), and conda gives no nvcc for CUDA {content.cuda}"


def _whole(content: Content, delivery: Delivery) -> Stages | Refused:
    """PyTorch's own image: for a decision alone, with nothing from conda beside torch."""
    if content.locked:
        return Refused(
            "PyTorch's image holds a torch of its own, and the lock another", "cuenv export dockerfile --base cuda"
        )
    if content.conda:
        return Refused(
            f"PyTorch's image has no conda channels for {', '.join(content.conda)}",
            "cuenv export dockerfile --base micromamba",
        )
    rows = delivery.for_role("pytorch", content.platforms)
    fitting = tuple(row for row in rows if (row.torch, row.cuda) == (content.torch, content.cuda))
    if content.stack != "pytorch" or not fitting:
        known = ", ".join(row.tag for row in rows)
        what = f"torch {content.torch} with CUDA {content.cuda}" if content.cuda else "a CPU build"
        return Refused(
            f"no image of PyTorch is known that holds {what} as the stack pytorch builds it; known are {known}",
            "cuenv export dockerfile --base micromamba",
        )
    why = (
        f"PyTorch's own image holds torch {content.torch} for CUDA {content.cuda}, its cuDNN and NCCL, and nvcc",
        "conda has no compiler that is proven to fit that build, and nothing else is asked of conda",
    )
    return Stages(base="pytorch", why=why, build=fitting[0], run=fitting[0])


def _lowest(rows: tuple[Image, ...], need: Version | None) -> Image | None:
    """The image with the lowest C library that is enough: the longest in use, and so the best known."""
    able = [row for row in rows if row.glibc and (need is None or row.glibc >= need)]
    return min(able, key=lambda row: (row.glibc or Version("0"), row.image, row.tag), default=None)


def _glibc(build: Image, content: Content) -> str:
    if content.glibc is None:
        return f"{build.name} has glibc {build.glibc}; which one the packages need is not said, and the check tells"
    return f"{build.name} has glibc {build.glibc}, and the packages need {content.glibc} or later"


def _too_old(what: str, content: Content) -> str:
    need = f" with glibc {content.glibc} or later" if content.glibc else ""
    return f"no image of {what} is known{need} for {' and '.join(content.platforms)}"
