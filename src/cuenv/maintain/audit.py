"""The tables against the records of a channel: what they do not know, what is gone, and what they say wrongly.

A record is a fact. A row that contradicts one is an error (CU603 to CU605); a build that no row knows is a warning
(CU601), for which ``cuenv kb learn`` has the row; a row without a record is information (CU602): a channel may be
partial, a mirror often is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from packaging.version import Version

from cuenv.core.findings import Finding, Severity
from cuenv.core.record import NamedTuple
from cuenv.core.versions import minor, version, version_or_none
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import BuildKey, Discontinued, LabelFit, TorchBuild
from cuenv.solve.match_spec import split_name
from cuenv.solve.observed import ChannelBuild, Record

_SHOWN = 4
_LEARN = "cuenv kb learn --channel {} --save DIR, then --knowledge DIR"


class Fault(NamedTuple):
    """A cell of a row that contradicts the records."""

    code: str
    severity: Severity
    cell: str
    says: str


def torch_findings(seen: Iterable[ChannelBuild], stack: str, platform: str, knowledge: Knowledge) -> Iterator[Finding]:
    """Compare the rows of ``torch`` with the builds of a channel.

    Args:
        stack: the channel, ``conda-forge`` or ``pytorch``.
    """
    rows = {row.key: row for row in knowledge.torch if (row.stack, row.platform) == (stack, platform)}
    builds = {build.key: build for build in seen}
    first = min((row.version for row in rows.values()), default=None)
    older, cpu = [], []
    for key, build in builds.items():
        row = rows.get(key)
        if row is not None:
            yield from (_fault_finding(fault, build, row) for fault in row_faults(build, row))
        elif first is not None and build.version < first:
            older.append(str(build))
        elif build.cuda is None and not any(item.cuda is None for item in rows.values()):
            cpu.append(str(build))
        else:
            yield _unlisted_finding(build)
    yield from _joint_finding(older, "builds older than the first row of this channel are not compared")
    yield from _joint_finding(
        cpu, "CPU builds are not compared, because the cuenv tables list no CPU build of this channel"
    )
    first_seen = [str(build) for key, build in builds.items() if key in rows and rows[key].seen is None]
    says = f"builds of this channel are known to the cuenv tables only by their recipe ({_LEARN.format(stack)})"
    yield from _joint_finding(first_seen, says)
    gone = [f"pytorch {row.version} {row.build}" for key, row in rows.items() if key not in builds]
    yield from _joint_finding(gone, "builds of the tables are not in this channel")
    yield from _joint_finding(_lost_pythons(rows, builds), "builds of the tables are not in this channel for a Python")


def _lost_pythons(rows: dict[BuildKey, TorchBuild], builds: dict[BuildKey, ChannelBuild]) -> list[str]:
    found = []
    for key, row in rows.items():
        lost = [text for text in row.pythons if key in builds and text not in builds[key].pythons]
        if lost:
            found.append(f"pytorch {row.version} {row.build} for Python {', '.join(lost)}")
    return found


def _joint_finding(items: list[str], says: str) -> Iterator[Finding]:
    """One finding for many builds of a kind, with all of them as evidence."""
    if items:
        shown = "; ".join(items[:_SHOWN]) + (f"; and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")
        message = f"{len(items)} {says}: {shown}"
        yield Finding(code="CU602", severity="info", subject="pytorch", message=message, evidence=tuple(items))


def _unlisted_finding(build: ChannelBuild) -> Finding:
    message = f"the cuenv tables do not list {build}, for Python {', '.join(build.pythons)}"
    subject = f"pytorch {build.version}"
    fix = _LEARN.format(build.stack)
    return Finding(code="CU601", severity="warning", subject=subject, message=message, evidence=build.builds, fix=fix)


def _fault_finding(fault: Fault, build: ChannelBuild, row: TorchBuild) -> Finding:
    return Finding(
        code=fault.code,
        severity=fault.severity,
        subject=f"pytorch {build.version}",
        message=f"{build}, {fault.cell}: {fault.says}",
        evidence=(*build.builds, f"the row cites {', '.join(row.sources)}"),
        fix=_LEARN.format(build.stack),
    )


def row_faults(build: ChannelBuild, row: TorchBuild) -> Iterator[Fault]:
    """The cells of a row that contradict the records of its build."""
    strangers = [text for text in build.builds if not fnmatchcase(text, row.build)]
    if strangers:
        yield Fault("CU603", "error", "build", f"{row.build} does not match {strangers[0]}")
    fresh = [text for text in build.pythons if text not in row.pythons]
    if fresh:
        yield Fault("CU601", "warning", "pythons", f"the row does not list Python {', '.join(fresh)}")
    yield from _requirement_fault("cudnn", row.cudnn, build.cudnn)
    yield from _requirement_fault("nccl", row.nccl, build.nccl)
    yield from _glibc_fault(row.glibc, build.glibc)


def loosest_requirement(asked: Iterable[Requirement]) -> Requirement:
    """The loosest of several requirements, as a row has it.

    Raises:
        ValueError: nothing is asked.
    """
    return min(asked, key=lambda item: item.first or version("0"))


def _requirement_fault(cell: str, says: Requirement | None, asked: tuple[Requirement, ...]) -> Iterator[Fault]:
    if not asked:
        return
    least = loosest_requirement(asked)
    if says is None:
        yield Fault("CU601", "warning", cell, f"the row has no value, but the records require {least}")
        return
    told = f"the row says {says}, but the records require {'; '.join(map(str, asked[:_SHOWN]))}"
    if says.package not in {item.package for item in asked}:
        yield Fault("CU603", "error", cell, told)
    elif not says.package:
        if says.first and least.first and says.first.release[:3] != least.first.release[:3]:
            inside = f"the row says {says.first}, but the build string says {least.first}"
            yield Fault("CU603", "error", cell, inside)
    elif says.below not in {item.below for item in asked}:
        yield Fault("CU603", "error", cell, told)
    elif says.first != least.first:
        # A bound that names a major alone admits that nobody has read the rest.
        vague = says.first is not None and len(says.first.release) == 1 and says.first < (least.first or says.first)
        yield Fault("CU603", "warning" if vague else "error", cell, told)


def _glibc_fault(says: Version | None, asked: tuple[Version, ...]) -> Iterator[Fault]:
    if not asked:
        return
    if says is None:
        yield Fault("CU601", "warning", "glibc", f"the row has no value, but the records need {asked[0]}")
    elif says != asked[0]:
        yield Fault(
            "CU603", "error", "glibc", f"the row says {says}, but the records need {', '.join(map(str, asked))}"
        )


def discontinued_findings(rows: Iterable[Discontinued], records: Iterable[Record]) -> Iterator[Finding]:
    """Packages that a row calls discontinued, but that have a later release."""
    there = tuple(records)
    for row in rows:
        last = max(filter(None, map(version_or_none, row.versions)), default=_NO_VERSION)
        later = sorted({release for item in there if item.name == row.package and (release := release_of(item)) > last})
        if later:
            message = (
                f"the row says that {row.package} of {row.channel} ended with {last}, but the channel has {later[-1]}"
            )
            evidence = tuple(map(str, later))
            yield Finding(code="CU604", severity="error", subject=row.package, message=message, evidence=evidence)


def nvcc_findings(records: Iterable[Record], knowledge: Knowledge) -> Iterator[Finding]:
    """Releases of conda-forge's nvcc that the tables do not list."""
    known = {row.version for row in knowledge.cudas if row.conda_nvcc}
    there = nvcc_minors(records)
    for cuda in sorted(there - known):
        message = f"the cuenv tables do not say that conda-forge has cuda-nvcc of CUDA {cuda}"
        fix = _LEARN.format("conda-forge")
        yield Finding(code="CU601", severity="warning", subject=f"CUDA {cuda}", message=message, fix=fix)


def nvcc_minors(records: Iterable[Record]) -> set[Version]:
    """The CUDA minors with a ``cuda-nvcc`` package."""
    releases = (release_of(item) for item in records if item.name == "cuda-nvcc")
    return {minor(item) for item in releases if len(item.release) > 1}


_NO_VERSION = version("0")


def release_of(record: Record) -> Version:
    """The version of a record; the lowest version for text that Python does not accept (``2019a_1``)."""
    return version_or_none(record.version) or _NO_VERSION


def label_findings(row: LabelFit, pins: Iterable[Record], label: Iterable[Record]) -> Iterator[Finding]:
    """A label of the nvidia channel whose libraries are outside the bounds of ``pytorch-cuda``.

    Args:
        label: the records of the label, as far as ``pytorch-cuda`` asks for them.
    """
    there: dict[str, list[Version]] = {}
    for record in label:
        there.setdefault(record.name, []).append(release_of(record))
    for pin in pins:
        if release_of(pin) != row.cuda or not fnmatchcase(pin.build, row.build):
            continue
        for text in pin.depends:
            name, asked = split_name(text)
            if name not in there or not asked.startswith(">="):
                continue
            bound = _requirement_range(asked.split(" ")[0])
            if bound and not any(map(bound.admits, there[name])):
                has = ", ".join(map(str, sorted(there[name])[:_SHOWN]))
                message = (
                    f"the row says that label {row.label} fits pytorch-cuda {pin.version} "
                    f"{pin.build}, which requires {name} {asked}, but the label has {has}"
                )
                yield Finding(code="CU605", severity="error", subject=f"label {row.label}", message=message)


def _requirement_range(text: str) -> Requirement | None:
    try:
        return Requirement.parse(text)
    except ValueError:
        return None
