"""What holds of every installed environment: conda's records are true, each distribution is there once, one torch."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from cuenv.installed.mending import conda_exactly, pip_again, pip_command, put_back
from cuenv.installed.prefix import Prefix, Site, Wheel, told_by
from cuenv.knowledge import Knowledge
from cuenv.pip_part import normalise
from cuenv.report import Finding, Severity

_GRAVE = frozenset({"torch", "torchvision", "torchaudio", "triton", "numpy"})
"""Where a second copy breaks what was compiled against the first one."""
_SHOWN = 5
_NUMPY_2 = (2, 3)
"""The first torch that was compiled for NumPy 2 as well (github.com/pytorch/pytorch/issues/107302)."""
_NUMBERS = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_RECORD = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*)-([A-Za-z0-9._!+]+)-([A-Za-z0-9._]+)\.json")
"""How conda-meta names its records: name, version, build."""


def cpu_torch(torch: str | None, cuda: str | None, *, wanted: str, grave: bool, fix: str) -> Iterator[Finding]:
    """A torch from pip that cannot use a GPU, where something says that one is wanted.

    Args:
        torch: its version; ``None`` without one.
        cuda: the CUDA that ``torch/version.py`` names; ``None`` in a CPU build.
        wanted: what says so; empty when nothing does.
        grave: the environment itself says so, and not only the machine.
        fix: how to get the other one.
    """
    if torch and cuda is None and wanted:
        yield Finding(
            code="CU209",
            severity="error" if grave else "warning",
            subject="torch",
            message=f"torch {torch} is a CPU build, and {wanted}",
            evidence=("torch/version.py names no CUDA",),
            fix=fix,
        )


def numpy_findings(prefix: Prefix, torch: str | None) -> Iterator[Finding]:
    """NumPy 2 beside a torch that was compiled for NumPy 1: every exchange of arrays fails.

    Builds of conda-forge say in their records which NumPy they take, and its solver minds it.

    Args:
        prefix: the environment.
        torch: its version, by its files; ``None`` without one.
    """
    package, wheel = prefix.package("pytorch"), prefix.wheel("torch")
    mind = package is not None and package.channel_name == "conda-forge" and (wheel is None or bool(wheel.conda))
    numpy = prefix.wheel("numpy")
    built, there = _release(torch), _release(numpy.version) if numpy else None
    if numpy is None or built is None or there is None or mind or built >= _NUMPY_2 or there < (2,):
        return
    own = prefix.package("numpy")
    by_conda = own is not None and bool(numpy.conda) and not numpy.replaced
    yield Finding(
        code="CU216",
        severity="error",
        subject="numpy",
        message=f"torch {torch} was compiled for NumPy 1, and numpy {numpy.version} is installed: "
        "torch.from_numpy and Tensor.numpy fail with 'Numpy is not available'",
        evidence=(f"{numpy.folder}/{numpy.info}",),
        fix=conda_exactly(prefix, "numpy<2") if by_conda else pip_command(prefix, "install", "numpy<2"),
    )


def _release(text: str | None) -> tuple[int, ...] | None:
    """The first two numbers of a version; ``None`` for what is none."""
    found = _NUMBERS.match(text or "")
    return (int(found[1]), int(found[2])) if found else None


def prefix_findings(
    prefix: Prefix, sites: Iterable[Site], knowledge: Knowledge, names: Mapping[str, str], torch: str | None = None
) -> Iterator[Finding]:
    """Judge an environment by itself.

    Args:
        prefix: the environment.
        sites: folders outside of it that its Python reads as well.
        knowledge: for what matters with CPU and CUDA builds.
        names: conda names and names on PyPI, where they differ.
        torch: the release that torch's own files say.
    """
    yield from _over_conda(prefix, knowledge, names)
    yield from _twice(prefix, torch)
    yield from _damaged(prefix)
    yield from _outside(prefix, sites)


def _over_conda(prefix: Prefix, knowledge: Knowledge, names: Mapping[str, str]) -> Iterator[Finding]:
    """What pip put over a package of conda: conda's record still says its own, and Python finds pip's."""
    gone = {wheel.name: wheel for wheel in prefix.gone}
    conda = {names.get(item.name) or normalise(item.name): item for item in prefix.conda}
    seen: set[str] = set()
    for wheel in prefix.wheels:
        package = prefix.package(wheel.conda) if wheel.conda else conda.get(wheel.name)
        if package is None and wheel.name in gone:
            package = prefix.package(gone[wheel.name].conda or "")
        if package is None or (wheel.conda and not wheel.replaced):
            continue
        seen.add(wheel.name)
        how = "wrote over its files" if wheel.replaced else "took its files away" if wheel.name in gone else "is beside"
        out = [pip_command(prefix, "uninstall", "-y", wheel.name)]
        grave = wheel.name in _GRAVE or knowledge.twin(package.name, package.channel_name) is not None
        yield Finding(
            code="CU204",
            severity="error" if grave else "warning",
            subject=wheel.name,
            message=f"{_who(wheel)} put {wheel.name} {wheel.version} over conda's {package.name} {package.version} "
            f"{package.build} and {how}",
            evidence=(f"{wheel.folder}/{wheel.info}", f"conda-meta says {package.url}"),
            fix=" && ".join([*out * (1 + (how == "is beside")), put_back(package, prefix)]),
        )
    for wheel in prefix.gone:
        package = prefix.package(wheel.conda or "")
        if wheel.name not in seen and package:
            yield Finding(
                code="CU205",
                severity="error",
                subject=package.name,
                message=f"conda-meta says that {package.name} {package.version} is installed, and its "
                f"{wheel.info} is gone",
                evidence=(f"{wheel.folder}/{wheel.info}",),
                fix=put_back(package, prefix),
            )


def _who(wheel: Wheel) -> str:
    return wheel.installer if wheel.installer and wheel.installer != "conda" else "pip"


def _twice(prefix: Prefix, torch: str | None) -> Iterator[Finding]:
    """One distribution by two dist-infos, none of them conda's: which one is true depends on who asks.

    Of torch its own files say which one they are; of others the newest is taken for what was installed last.
    """
    copies: dict[str, list[Wheel]] = {}
    for wheel in prefix.wheels:
        copies.setdefault(wheel.name, []).append(wheel)
    gone = {wheel.name for wheel in prefix.gone}
    for name, wheels in copies.items():
        if len(wheels) > 1 and name not in gone and not any(wheel.conda for wheel in wheels):
            versions = ", ".join(wheel.version for wheel in wheels)
            yield Finding(
                code="CU206",
                severity="error" if name in _GRAVE else "warning",
                subject=name,
                message=f"{name} is installed {len(wheels)} times: {versions}",
                evidence=tuple(f"{wheel.folder}/{wheel.info}" for wheel in wheels),
                fix=_keep_one(prefix, wheels, torch if name == "torch" else None),
            )


def _keep_one(prefix: Prefix, wheels: list[Wheel], files: str | None) -> str:
    """Take the records of the others away, which pip would stumble over, and install the one that stays again."""
    stays = told_by(wheels, files)
    others = [f"{wheel.folder}/{wheel.info}" for wheel in wheels if wheel is not stays]
    return f"{shlex.join(['rm', '-r', *others])} && {pip_again(prefix, stays)}"


def _damaged(prefix: Prefix) -> Iterator[Finding]:
    for path, reason in prefix.damaged:
        name = path.rpartition("/")[2]
        record = _RECORD.fullmatch(name) if "/conda-meta/" in path else None
        quoted = shlex.quote(path)
        mend = f"rm -r {quoted}"
        if reason.endswith("permission denied"):
            mend = f"chmod a+r {quoted}"
        elif record:
            mend = f"mv {quoted} {shlex.quote(path + '.bad')} && {conda_exactly(prefix, '='.join(record.groups()))}"
        yield Finding(
            code="CU207",
            severity="error" if "/conda-meta/" in path else "warning",
            subject=name,
            message=f"a record of the environment is damaged: {reason}",
            fix=mend if path.isprintable() else None,
        )


def _outside(prefix: Prefix, sites: Iterable[Site]) -> Iterator[Finding]:
    """A torch, or what torch needs, that Python finds outside of the environment."""
    own = {wheel.name for wheel in prefix.wheels}
    torch = prefix.wheel("torch")
    inside = f"the environment's {torch.version}" if torch else ""
    for site in sites:
        shadowed = sorted({wheel.name for wheel in site.wheels} & own)
        if site.torch and (site.first or not inside):
            there = f"torch {site.torch} of {site.path} ({site.via})"
            told = (
                f"Python finds {there} before {inside}" if inside else f"Python takes {there}: the environment has none"
            )
            severity: Severity = "error" if inside else "warning" if site.first else "info"
            yield _site_finding(prefix, site, "torch", told, severity)
        elif site.first and shadowed:
            more = f" and {len(shadowed) - _SHOWN} more" if len(shadowed) > _SHOWN else ""
            listed = ", ".join(shadowed[:_SHOWN])
            told = f"Python finds {listed}{more} in {site.path} ({site.via}) before the environment's"
            grave: Severity = "error" if _GRAVE & set(shadowed) else "warning"
            yield _site_finding(prefix, site, site.via, told, grave)


def _site_finding(prefix: Prefix, site: Site, subject: str, message: str, severity: Severity) -> Finding:
    evidence = tuple(f"{wheel.name} {wheel.version}: {wheel.folder}/{wheel.info}" for wheel in site.wheels[:20])
    return Finding(
        code="CU208", severity=severity, subject=subject, message=message, evidence=evidence, fix=_without(prefix, site)
    )


def _without(prefix: Prefix, site: Site) -> str | None:
    if site.via == "PYTHONPATH":
        return "unset PYTHONPATH"
    if site.via != "user site":
        return None
    words = ["conda", "env", "config", "vars", "set", "-p", prefix.path, "PYTHONNOUSERSITE=1"]
    return shlex.join(words) if prefix.kind == "conda" else "export PYTHONNOUSERSITE=1"
