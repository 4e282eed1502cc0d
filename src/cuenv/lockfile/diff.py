"""Two locks side by side: what changed, the CUDA core first, and what that means for hosts; and its three forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cuenv.core.findings import CheckResult, Finding, How, Report
from cuenv.core.record import dataclass, replace
from cuenv.core.render import cell
from cuenv.core.versions import Capability, Native, support_of
from cuenv.host.describe import host_line
from cuenv.host.facts import Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.files import lock_file, read_lock, recorded_host
from cuenv.lockfile.formats import LockPart
from cuenv.lockfile.host_check import candidate_of, host_findings
from cuenv.resolver.rules import Context, minimum_driver
from cuenv.solve.model import Lock, LockedPackage, Solution

if TYPE_CHECKING:
    from cuenv.core.documents import BriefFinding
    from cuenv.lockfile.documents import DiffDocument, PackageDifference, PackageFields
_CORE = ("python", "pytorch-cuda", "torchtriton", "triton")
"""Parts of the CUDA core that are neither NVIDIA's nor have a CPU build."""
_LAYERS = ("CU403", "CU405", "CU406")  # findings that say that a component does not support a GPU


def is_core(package: LockedPackage, knowledge: Knowledge) -> bool:
    """Whether a package is of the CUDA core: NVIDIA's components, what has CPU and CUDA builds, Python."""
    return (
        package.name in _CORE
        or knowledge.is_component(package.name)
        or any(row.package == package.name and row.essential for row in knowledge.twins)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageChange:
    """One package that is in only one of two locks, or another in the second."""

    platform: str
    name: str
    kind: Literal["added", "removed", "changed"]  # ``added``, ``removed`` or ``changed``
    core: bool  # it is of the CUDA core
    old: LockedPackage | None
    new: LockedPackage | None
    # of a changed package: ``version``, ``build``, ``channel``, or ``hash`` where nothing else differs
    what: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEffect:
    """What a change means for one host on one platform."""

    host: HostFacts
    platform: str
    # the lowest driver that runs the old and the new lock there; ``None`` where no row says it
    minimum_driver: tuple[str | None, str | None]
    # appear, vanish: findings of the rules that only the new, or only the old lock has
    appear: tuple[Finding, ...]
    vanish: tuple[Finding, ...]

    @property
    def same(self) -> bool:
        """Nothing changes for the host."""
        return self.minimum_driver[0] == self.minimum_driver[1] and not self.appear and not self.vanish


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportChange:
    """How two locks support one capability: ``native``, ``jit``, ``no`` or ``unknown``."""

    platform: str
    capability: Capability
    old: How
    new: How


@dataclass(frozen=True, slots=True, kw_only=True)
class LockDiff:
    """How two locks differ."""

    changes: tuple[PackageChange, ...]  # for each platform that both have, the CUDA core first, then by name
    # platforms_added, platforms_removed: those that only one of them has
    platforms_added: tuple[str, ...] = ()
    platforms_removed: tuple[str, ...] = ()
    # pip_added, pip_removed: ``name==version`` of the pip part, with the hash where nothing else differs
    pip_added: tuple[str, ...] = ()
    pip_removed: tuple[str, ...] = ()
    services: tuple[SupportChange, ...] = ()  # the capabilities that the new lock supports in another way
    hosts: tuple[HostEffect, ...] = ()  # the effect on each host that was judged

    @property
    def equal(self) -> bool:
        """Both lock the same."""
        return not (
            self.changes or self.platforms_added or self.platforms_removed or self.pip_added or self.pip_removed
        )


def diff(old: Lock, new: Lock, hosts: Iterable[HostFacts], knowledge: Knowledge) -> LockDiff:
    """Compare the packages of two locks, and what both say on each host.

    Args:
        hosts: both locks are judged for each of them, on its platform and on every other that both have.
    """
    before = {item.platform: item for item in old.solutions}
    after = {item.platform: item for item in new.solutions}
    both = [(before[name], after[name]) for name in before if name in after]
    known, now = {*old.pip, *_rehashed(old, new)}, {*new.pip, *_rehashed(new, old)}
    judged = tuple(hosts)
    return LockDiff(
        changes=tuple(change for pair in both for change in _changes(*pair, knowledge)),
        platforms_added=tuple(name for name in after if name not in before),
        platforms_removed=tuple(name for name in before if name not in after),
        pip_added=tuple(sorted(now - known)),
        pip_removed=tuple(sorted(known - now)),
        services=tuple(service for pair in both for service in _support_changes(*pair, knowledge)),
        hosts=tuple(_effect(host, *pair, knowledge) for pair in both for host in judged),
    )


def _rehashed(lock: Lock, other: Lock) -> Iterator[str]:
    """The releases of the pip part that both hold, of which the other holds another file for the same platform."""
    hashes = {(one.platform, item.name, item.version): item.sha256 for one in other.solutions for item in one.pip}
    for one in lock.solutions:
        for item in one.pip:
            theirs = hashes.get((one.platform, item.name, item.version))
            if item.sha256 and theirs and theirs != item.sha256:
                yield f"{item.name}=={item.version} (sha256 {item.sha256[:12]})"


def _changes(old: Solution, new: Solution, knowledge: Knowledge) -> list[PackageChange]:
    """The packages of one platform that differ, the CUDA core first."""
    before = {package.name: package for package in old.packages}
    after = {package.name: package for package in new.packages}
    found = []
    for name in sorted({*before, *after}):
        first, second = before.get(name), after.get(name)
        what = _differences(first, second) if first and second else ()
        if first and second and not what:
            continue
        found.append(
            PackageChange(
                platform=new.platform,
                name=name,
                kind="changed" if first and second else "removed" if first else "added",
                core=any(is_core(package, knowledge) for package in (first, second) if package),
                old=first,
                new=second,
                what=what,
            )
        )
    return sorted(found, key=lambda change: not change.core)


def _differences(old: LockedPackage, new: LockedPackage) -> tuple[str, ...]:
    """In what two packages of one name differ."""
    parts = {
        "version": (old.version, new.version),
        "build": (old.build, new.build),
        "channel": (old.channel, new.channel),
    }
    differ = tuple(name for name, (first, second) in parts.items() if first != second)
    hashes = ((old.sha256, new.sha256), (old.md5, new.md5))
    if not differ and any(first and second and first != second for first, second in hashes):
        return ("hash",)
    return differ


def _effect(host: HostFacts, old: Solution, new: Solution, knowledge: Knowledge) -> HostEffect:
    """What the change of a lock means for one host."""
    there = replace(host, platform=new.platform)
    before, after = host_findings(old, there, knowledge), host_findings(new, there, knowledge)
    had, has = {_key(item) for item in before}, {_key(item) for item in after}
    return HostEffect(
        host=there,
        platform=new.platform,
        minimum_driver=(_minimum(old, there, knowledge), _minimum(new, there, knowledge)),
        appear=tuple(item for item in after if _key(item) not in had),
        vanish=tuple(item for item in before if _key(item) not in has),
    )


def _key(finding: Finding) -> tuple[str, str, str]:
    """What makes a finding the same one in two locks: its words may name another release."""
    return finding.code, finding.severity, finding.subject


def _minimum(solution: Solution, host: HostFacts, knowledge: Knowledge) -> str | None:
    """The minimum driver of a solution on a host."""
    candidate = candidate_of(solution, knowledge)
    return minimum_driver(candidate, Context(facts=host, request=Request(), knowledge=knowledge)) if candidate else None


def _support_changes(old: Solution, new: Solution, knowledge: Knowledge) -> Iterator[SupportChange]:
    """The compute capabilities that two solutions support in different ways."""
    for row in sorted(knowledge.generations, key=lambda row: row.capability):
        ways = [_support(item, row.capability, knowledge) for item in (old, new)]
        if ways[0] != ways[1]:
            yield SupportChange(platform=new.platform, capability=row.capability, old=ways[0], new=ways[1])


def _support(solution: Solution, capability: Capability, knowledge: Knowledge) -> How:
    """How a lock supports a capability: by torch's code, unless another component lacks it."""
    candidate = candidate_of(solution, knowledge)
    if candidate is None or candidate.build.code is None:
        return "unknown"
    gpu = Gpu(index=0, name="", capability=capability)
    host = HostFacts(label="any", platform=solution.platform, gpus=(gpu,))
    found = host_findings(solution, host, knowledge)
    if any(item.severity == "error" and item.code in _LAYERS for item in found):
        return "no"
    return "native" if isinstance(support_of(candidate.build.code, capability), Native) else "jit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A difference, where the two locks were read, and which part of each."""

    diff: LockDiff
    old: str
    new: str
    parts: tuple[str, str] = ("", "")


def compare(old: Path, new: Path, options: HostOptions, knowledge: Knowledge, part: LockPart | None = None) -> Compared:
    """Read two locks and compare them.

    Args:
        options: the host to judge both for; without any, the hosts that the locks were made for.
        part: which part is meant of locks that hold several.
    """
    first, second = (read_lock(path, part or LockPart()) for path in (old, new))
    if options.given:
        hosts = [host_facts(options, knowledge)]
    else:
        nowhere = HostFacts(label="", platform="")
        recorded = (recorded_host(item, nowhere, knowledge) for item in (first, second))
        hosts = list({host_line(host): host for host in recorded if host}.values())
    found = diff(first, second, hosts, knowledge)
    files = str(lock_file(old)), str(lock_file(new))
    return Compared(diff=found, old=files[0], new=files[1], parts=(first.part, second.part))


_GROUPS = ((True, "CUDA core"), (False, "other packages"))


def plain(diff: LockDiff, old: str, new: str) -> DiffDocument:
    """A difference as plain data, schema ``cuenv/diff/1``."""
    return {
        "schema": "cuenv/diff/1",
        "old": old,
        "new": new,
        "equal": diff.equal,
        "changes": [_change(item) for item in diff.changes],
        "platforms": {"added": list(diff.platforms_added), "removed": list(diff.platforms_removed)},
        "pip": {"added": list(diff.pip_added), "removed": list(diff.pip_removed)},
        "gpus": [
            {"platform": item.platform, "capability": str(item.capability), "old": item.old, "new": item.new}
            for item in diff.services
        ],
        "hosts": [
            {
                "host": host_line(item.host),
                "platform": item.platform,
                "minimum_driver": {"old": item.minimum_driver[0], "new": item.minimum_driver[1]},
                "appear": [_finding(found) for found in item.appear],
                "vanish": [_finding(found) for found in item.vanish],
            }
            for item in diff.hosts
        ],
    }


def results(diff: LockDiff, new: str) -> list[CheckResult]:
    """The findings that only the second lock has, for each host."""
    return [
        CheckResult(report=Report(title=new, findings=item.appear), host=host_line(item.host), file=new)
        for item in diff.hosts
    ]


def _change(change: PackageChange) -> PackageDifference:
    return {
        "platform": change.platform,
        "name": change.name,
        "kind": change.kind,
        "core": change.core,
        "what": list(change.what),
        "old": _package(change.old),
        "new": _package(change.new),
    }


def _package(package: LockedPackage | None) -> PackageFields | None:
    if package is None:
        return None
    return {"version": package.version, "build": package.build, "channel": package.channel_name, "url": package.url}


def _finding(finding: Finding) -> BriefFinding:
    return {"code": finding.code, "severity": finding.severity, "message": finding.message, "fix": finding.fix}


def lines_of(diff: LockDiff, old: str, new: str) -> list[str]:
    """A difference for a terminal: per platform the CUDA core, then the rest, then what it means for hosts."""
    found = [f"{old} -> {new}: {_counts(diff)}"]
    for platform, title, changes in _grouped(diff):
        found.append(f"{title}, {platform}:")
        width = max(len(change.name) for change in changes)
        found += [f"  {change_line(change, width)}" for change in changes]
    found += [f"  + platform {name}" for name in diff.platforms_added]
    found += [f"  - platform {name}" for name in diff.platforms_removed]
    if diff.pip_added or diff.pip_removed:
        found += ["pip:", *(f"  {line}" for line in pip_lines(diff))]
    return [*found, *_effect_summary(diff)]


def pip_lines(diff: LockDiff) -> list[str]:
    """What changed in the pip part, one line for each release that went or came."""
    return [f"- {text}" for text in diff.pip_removed] + [f"+ {text}" for text in diff.pip_added]


_SIGN = {"added": "+", "removed": "-", "changed": "~"}


def markdown(diff: LockDiff, old: str, new: str) -> str:
    """A difference as tables for a pull request."""
    found = [f"### `{old}` → `{new}`: {_counts(diff)}", ""]
    for platform, title, changes in _grouped(diff):
        found += [
            f"**{title[0].upper()}{title[1:]}, {platform}**",
            "",
            "| package | before | after |",
            "| --- | --- | --- |",
        ]
        found += [f"| {cell(item.name)} | {_side(item, item.old)} | {_side(item, item.new)} |" for item in changes]
        found.append("")
    rows = [("platform", name, "") for name in diff.platforms_removed]
    rows += [("platform", "", name) for name in diff.platforms_added]
    rows += [("pip", text, "") for text in diff.pip_removed] + [("pip", "", text) for text in diff.pip_added]
    if rows:
        found += ["| | before | after |", "| --- | --- | --- |"]
        found += [f"| {kind} | {cell(before)} | {cell(after)} |" for kind, before, after in rows] + [""]
    meaning = _effect_summary(diff)
    found += [f"- {cell(line.strip())}" for line in meaning]
    return "\n".join(found).rstrip() + "\n"


def _side(change: PackageChange, package: LockedPackage | None) -> str:
    return cell(_shown(package, change.what)) if package else ""


def _counts(diff: LockDiff) -> str:
    if diff.equal:
        return "equal"
    kinds = {kind: sum(item.kind == kind for item in diff.changes) for kind in ("changed", "added", "removed")}
    parts = [f"{count} {kind}" for kind, count in kinds.items() if count]
    parts += ["other platforms"] if diff.platforms_added or diff.platforms_removed else []
    parts += ["different pip packages"] if diff.pip_added or diff.pip_removed else []
    return ", ".join(parts)


def _grouped(diff: LockDiff) -> Iterator[tuple[str, str, list[PackageChange]]]:
    for platform in dict.fromkeys(item.platform for item in diff.changes):
        for core, title in _GROUPS:
            changes = [item for item in diff.changes if item.platform == platform and item.core is core]
            if changes:
                yield platform, title, changes


def change_line(change: PackageChange, width: int = 0) -> str:
    """A change in one line: ``~ numpy  2.4.1 -> 2.5.2``."""
    sides = [_shown(item, change.what) for item in (change.old, change.new) if item]
    return f"{_SIGN[change.kind]} {change.name:{width}}  {' -> '.join(sides)}"


def _shown(package: LockedPackage, what: Iterable[str]) -> str:
    """A side of a change: the version, and what else differs."""
    parts = [package.version]
    if not what or "build" in what:
        parts.append(package.build)
    if "channel" in what:
        parts.append(f"from {package.channel_name}")
    if "hash" in what:
        parts.append(f"sha256 {package.sha256[:12]}" if package.sha256 else f"md5 {(package.md5 or '')[:12]}")
    return " ".join(parts)


def _effect_summary(diff: LockDiff) -> list[str]:
    """What it means for GPUs and hosts; silence where nothing changes."""
    found = [
        f"GPU {item.capability} on {item.platform}: {_SUPPORT_TEXT[item.old]} before, {_SUPPORT_TEXT[item.new]} after"
        for item in diff.services
    ]
    for effect in diff.hosts:
        found += _effect_lines(effect)
    return found


_SUPPORT_TEXT = {"native": "native", "jit": "by JIT of PTX", "no": "not supported", "unknown": "unknown"}


def _effect_lines(effect: HostEffect) -> Iterator[str]:
    if effect.same:
        yield f"unchanged for {host_line(effect.host)}"
        return
    yield f"for {host_line(effect.host)}:"
    before, after = effect.minimum_driver
    if before != after:
        yield f"  minimum driver: {before or 'unknown'} before, {after or 'unknown'} after"
    for item in effect.appear:
        yield f"  now     {item.severity} {item.code} {item.message}" + (f" (fix: {item.fix})" if item.fix else "")
    for item in effect.vanish:
        yield f"  fixed   {item.severity} {item.code} {item.message}"
