"""Which container images an environment is built in and runs in, and why.

conda fills an environment wherever its channels hold everything; then micromamba installs it and a slim image runs it.
A compiler that conda cannot give comes with NVIDIA's image of the toolkit; without a lock, PyTorch's own image may hold
the very torch that was chosen, with its toolkit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from packaging.version import Version

from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex
from cuenv.core.versions import check_driver, version
from cuenv.export.tables import Delivery, Image
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.host_check import candidate_of
from cuenv.resolver.decision import Decision
from cuenv.resolver.rules import Context, minimum_driver
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec
from cuenv.solve.model import Lock, Solution

_HOST_COMPILERS = ("gxx_linux-*", "gxx")
_NUMBERS = regex(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerContent:
    """What a container contains."""

    locked: bool  # exact packages with hashes; else an environment file that is solved while the image is built
    platforms: tuple[str, ...]
    cuda: Version | None  # the minor of its CUDA; ``None`` for a CPU build
    torch: Version | None  # its release, where it is known
    stack: str  # where torch comes from
    python: str  # its minor
    glibc: Version | None  # the lowest that its packages ask for; ``None`` when the file does not say
    nvcc: bool  # whether it has a CUDA compiler of its own
    # what compiles CUDA code on first use, or is there to compile with; empty for nothing
    compiling: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()  # further conda packages that are asked for; only without a lock
    pip: tuple[str, ...] = ()  # requirements for pip; only without a lock
    driver: str | None = None  # the lowest driver that runs it
    variables: Mapping[str, str] = field(default_factory=dict)  # those of the environment file
    host: tuple[str, ...] = ()  # options of the host that it is for


def content_of_lock(
    lock: Lock, spec: EnvironmentSpec | None, knowledge: Knowledge, host: tuple[str, ...] = ()
) -> ContainerContent:
    """The content of a container for a lock.

    Args:
        lock: with one solution at least.
        spec: its environment file, where that lies beside it, for its variables.

    Raises:
        ValueError: what the lock remembers is not as cuenv writes it.
    """
    first = lock.solutions[0]
    candidate = candidate_of(first, knowledge)
    cuda = candidate.cuda if candidate else None
    remembered = lock.metadata.get("cuenv_minimum_driver")
    nowhere = Context(facts=HostFacts(label="", platform=first.platform), request=Request(), knowledge=knowledge)
    lowest = minimum_driver(candidate, nowhere) if candidate else None
    python = first.package("python")
    glibcs = [lowest for solution in lock.solutions for _, lowest in solution.glibcs]
    return ContainerContent(
        locked=True,
        platforms=tuple(item.platform for item in lock.solutions),
        cuda=cuda,
        torch=candidate.build.version if candidate else None,
        stack=candidate.build.stack if candidate else "",
        python=".".join(python.version.split(".")[:2]) if python else "",
        glibc=max([*glibcs, *_glibc_in_lock(lock)], default=None),
        nvcc=any(first.package(name) for name in NVCC),
        compiling=tuple(_compiling(first, knowledge)),
        driver=check_driver(remembered) if remembered else lowest,
        variables=dict(spec.variables) if spec else {},
        host=host,
    )


def content_of_decision(decision: Decision, spec: EnvironmentSpec, host: tuple[str, ...] = ()) -> ContainerContent:
    """The content of a container for a decision that is not locked yet.

    Raises:
        ValueError: nothing was chosen.
    """
    if decision.chosen is None:
        raise ValueError("nothing was chosen")
    candidate, request = decision.chosen.candidate, decision.context.request
    row = decision.context.knowledge.cuda(candidate.cuda) if candidate.cuda else None
    known = [item for item in (candidate.build.glibc, row.glibc if row else None) if item]
    return ContainerContent(
        locked=False,
        platforms=spec.platforms or (decision.context.facts.platform,),
        cuda=candidate.cuda,
        torch=candidate.build.version,
        stack=candidate.build.stack,
        python=candidate.python,
        glibc=max(known, default=None),
        nvcc=any(pin.role == "cudatoolkit-dev" for pin in spec.pins),
        compiling=("a compiler is requested (--dev)",) if request.dev and candidate.cuda else (),
        conda=request.packages,
        pip=spec.pip,
        driver=decision.minimum_driver,
        variables=dict(spec.variables),
        host=host,
    )


def _compiling(solution: Solution, knowledge: Knowledge) -> Iterator[str]:
    """What compiles CUDA code: libraries that do so on first use, or an installed host compiler."""
    for name, release, ways in _libraries(solution):
        rows = [row for row in knowledge.extensions if row.package == name and ways & frozenset(row.comes)]
        try:
            covering = [row for row in rows if row.covers(version(release))]
        except ValueError:
            continue
        if covering and all(row.nvcc for row in covering):
            yield f"{name} {release}"
    for package in solution.packages:
        if any(fnmatchcase(package.name, glob) for glob in _HOST_COMPILERS):
            yield f"{package.name} {package.version}"


def _libraries(solution: Solution) -> Iterator[tuple[str, str, frozenset[str]]]:
    for package in solution.packages:
        yield package.name, package.version, frozenset({package.channel_name})
    for item in solution.pip:
        yield item.name, item.version, frozenset({"source" if item.from_source else "wheel"})


def _glibc_in_lock(lock: Lock) -> Iterator[Version]:
    """The C library that the lock requires, including that of wheels."""
    text = lock.metadata.get("cuenv_minimum_glibc", "")
    if _NUMBERS.fullmatch(text):
        yield version(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The images of a container."""

    base: str  # ``micromamba``, ``cuda`` or ``pytorch``
    why: tuple[str, ...]
    build: Image
    run: Image  # what it runs in; the same where the compiler has to be there
    installer: Image | None = None  # where micromamba is copied from, when ``build`` does not have it

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


def stages(content: ContainerContent, delivery: Delivery, base: str = "auto") -> Stages | Refused:
    """Choose the images that a container is built in and run from, or say why there are none.

    Args:
        base: one of `cuenv.export.tables.BASES`.
    """
    lacking = bool(content.compiling) and not content.nvcc and content.cuda is not None
    whole = _pytorch_image(content, delivery)
    if base == "pytorch":
        return whole
    if base == "auto" and lacking and isinstance(whole, Stages):
        return whole
    if base == "cuda" or (base == "auto" and lacking):
        return _with_toolkit(content, delivery, lacking=lacking)
    return _slim(content, delivery, lacking=lacking)


def _slim(content: ContainerContent, delivery: Delivery, *, lacking: bool) -> Stages | Refused:
    build = _lowest(delivery.for_role("micromamba", content.platforms), content.glibc)
    run = _lowest(delivery.for_role("run", content.platforms), build.glibc if build else None)
    if build is None or run is None:
        return Refused(_too_old("micromamba", content))
    why = "conda has every part, so micromamba installs it and a slim image runs it"
    if lacking:
        why = f"as asked for, although {_lacks(content)}"
    return Stages(base="micromamba", why=(why, _glibc(build, content)), build=build, run=run)


def _with_toolkit(content: ContainerContent, delivery: Delivery, *, lacking: bool) -> Stages | Refused:
    rows = delivery.for_role("cuda", content.platforms)
    fitting = tuple(row for row in rows if row.cuda == content.cuda)
    if not fitting:
        known = ", ".join(sorted({str(row.cuda) for row in rows}, key=Version))
        what = f"CUDA {content.cuda}" if content.cuda else "a CPU build"
        return Refused(f"cuenv knows no toolkit image for {what}; it knows images for {known}")
    build = _lowest(fitting, content.glibc)
    installer = _lowest(delivery.for_role("micromamba", content.platforms), None)
    if build is None or installer is None:
        return Refused(_too_old("nvidia/cuda", content))
    if not lacking:
        run = _lowest(delivery.for_role("run", content.platforms), build.glibc)
        if run is None:
            return Refused(_too_old("run", content))
        why: tuple[str, ...] = (f"as requested: built with the CUDA {content.cuda} toolkit, run without it",)
    else:
        run = build
        why = (
            _lacks(content),
            "so the image's toolkit is used for the build and at run time: libraries compile on first use",
        )
    return Stages(base="cuda", why=(*why, _glibc(build, content)), build=build, run=run, installer=installer)


def _lacks(content: ContainerContent) -> str:
    return f"CUDA code is compiled ({', '.join(content.compiling)}), and conda gives no nvcc for CUDA {content.cuda}"


def _pytorch_image(content: ContainerContent, delivery: Delivery) -> Stages | Refused:
    """PyTorch's own image, for a decision that adds nothing from conda to torch."""
    if content.locked:
        return Refused(
            "PyTorch's image contains its own torch, but the lock has another", "cuenv export dockerfile --base cuda"
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
            f"cuenv knows no PyTorch image with {what} from the stack pytorch; it knows {known}",
            "cuenv export dockerfile --base micromamba",
        )
    why = (
        f"PyTorch's own image holds torch {content.torch} for CUDA {content.cuda}, its cuDNN and NCCL, and nvcc",
        "conda has no compiler that is proven to fit that build, and no other conda package is requested",
    )
    return Stages(base="pytorch", why=why, build=fitting[0], run=fitting[0])


def _lowest(rows: tuple[Image, ...], need: Version | None) -> Image | None:
    """The image with the lowest sufficient C library, which is the longest in use."""
    able = [row for row in rows if row.glibc and (need is None or row.glibc >= need)]
    return min(able, key=lambda row: (row.glibc or Version("0"), row.image, row.tag), default=None)


def _glibc(build: Image, content: ContainerContent) -> str:
    if content.glibc is None:
        return f"{build.name} has glibc {build.glibc}; the glibc that the packages need is not known before the check"
    return f"{build.name} has glibc {build.glibc}, and the packages need {content.glibc} or later"


def _too_old(what: str, content: ContainerContent) -> str:
    need = f" with glibc {content.glibc} or later" if content.glibc else ""
    return f"the cuenv tables list no image of {what}{need} for {' and '.join(content.platforms)}"
