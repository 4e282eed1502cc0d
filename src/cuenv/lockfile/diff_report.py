"""A difference of two locks in three forms: ``cuenv/diff/1`` as JSON, Markdown for a pull request, plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cuenv.core.findings import CheckResult, Finding, Report
from cuenv.core.render import cell
from cuenv.host.describe import host_line
from cuenv.lockfile.diff import HostEffect, LockDiff, PackageChange
from cuenv.solve.model import LockedPackage

if TYPE_CHECKING:  # types alone
    from cuenv.core.documents import BriefFinding, DiffDocument, PackageDifference, PackageFields

_GROUPS = ((True, "CUDA core"), (False, "other packages"))


def plain(diff: LockDiff, old: str, new: str) -> DiffDocument:
    """A difference as plain data, schema ``cuenv/diff/1``.

    Args:
        diff: what differs.
        old: where the first lock was read; ``new`` the second.
        new: see ``old``.
    """
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
    return {
        "version": package.version,
        "build": package.build,
        "channel": package.channel_name,
        "url": package.url,
    }


def _finding(finding: Finding) -> BriefFinding:
    return {"code": finding.code, "severity": finding.severity, "message": finding.message, "fix": finding.fix}


def lines(diff: LockDiff, old: str, new: str) -> list[str]:
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
    return [*found, *_meaning(diff)]


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
    meaning = _meaning(diff)
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


def _meaning(diff: LockDiff) -> list[str]:
    """What it means for GPUs and hosts; silence where nothing changes."""
    found = [
        f"GPU {item.capability} on {item.platform}: {_WAYS[item.old]} before, {_WAYS[item.new]} after"
        for item in diff.services
    ]
    for effect in diff.hosts:
        found += _effect(effect)
    return found


_WAYS = {"native": "native", "jit": "by JIT of PTX", "no": "not supported", "unknown": "not known"}


def _effect(effect: HostEffect) -> Iterator[str]:
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
