"""Check: a lock against a host, against its environment file, and against the policy for CUDA packages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.findings import SET_ASIDE, ComponentSupport, Finding, LockFix, Report, allowed, counted, report
from cuenv.core.notebook import Drawable
from cuenv.core.record import dataclass, replace
from cuenv.core.urls import redact
from cuenv.host.describe import host_line
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, checked_host
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.companions import companion_findings
from cuenv.lockfile.coverage import coverage
from cuenv.lockfile.files import LOCK_NAME, environments, is_locked_from, lock_file_there, read_lock, recorded_host
from cuenv.lockfile.formats import LockPart, mended_there
from cuenv.lockfile.formats.requirements_txt import UNLOCKED
from cuenv.lockfile.host_check import candidate_of, cpu_torch_findings, host_findings
from cuenv.lockfile.minimum_host import record_findings
from cuenv.lockfile.setups import build_findings
from cuenv.resolver.effective_driver import with_effective_driver
from cuenv.resolver.health import driver_findings, machine_findings
from cuenv.resolver.solution_policy import edit_findings, lock_findings
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import OF_CPU, Lock, Solution


@dataclass(frozen=True, kw_only=True)
class LockCheck(Drawable):
    """A report, the host that it was made for, how its components support the GPUs, the part of it, and it."""

    report: Report
    facts: HostFacts
    components: tuple[ComponentSupport, ...] = ()
    part: str = ""
    lock: Lock | None = None


def check(
    path: Path,
    options: HostOptions,
    knowledge: Knowledge,
    request: Request | None = None,
    facts: HostFacts | None = None,
    *,
    part: LockPart | None = None,
) -> LockCheck:
    """Check a lock: its file, or the folder that it lies in.

    Without host options the machine at hand is asked; when it has no GPU, the host that the lock was made for.

    Args:
        facts: the host of the options, where it was asked already.
        part: which part of a lock is meant that holds several.
    """
    one = CheckedLock(path, knowledge, part, options.words)
    facts = facts or checked_host(options, knowledge, request)
    notes: list[Finding] = []
    if not options.given and not facts.gpus:
        recorded = recorded_host(one.lock, facts, knowledge)
        if recorded:
            # Why this machine shows none is worth a word, and decides nothing: the answer is for the other host.
            hidden = (replace(item, severity="info") for item in driver_findings(facts, knowledge))
            notes += [_recorded_host_finding(recorded), *hidden]
            facts = recorded
    return one.check(facts, options, request, notes)


class CheckedLock:
    """A lock that is checked for one host or for many: what is true of it for any host is found once."""

    def __init__(
        self, path: Path, knowledge: Knowledge, part: LockPart | None = None, words: Iterable[str] = ()
    ) -> None:
        self.path = path = lock_file_there(path, words)
        self.lock = lock = read_lock(path, part or LockPart(), words=words)
        self._knowledge = knowledge
        asked = cache(lambda: tuple(environments(lock, path.parent)))
        changed = [(file, spec) for file, spec in asked() if not is_locked_from(lock, spec)]
        unsatisfied = (item for file, spec in changed for item in _unsatisfied_findings(lock, spec, file))
        self._own = (*edit_findings(lock), *companion_findings(lock, path, asked), *unsatisfied)
        self._alone: dict[str, tuple[Finding, ...]] = {}

    def check(
        self, facts: HostFacts, options: HostOptions, request: Request | None = None, notes: Iterable[Finding] = ()
    ) -> LockCheck:
        """Check it for a host."""
        lock, knowledge = self.lock, self._knowledge
        judged = with_effective_driver(facts, knowledge)
        found = [*notes, *self._own]
        chosen = _checked_solutions(lock, facts, options)
        mine = lock.solution(facts.platform)
        if not mine:  # nothing else is true of packages that the host cannot install
            found.append(_platform_finding(lock, facts))
            chosen = ()
        for solution in chosen:
            host = judged if options.platform else replace(judged, platform=solution.platform)
            one = [*self._package_findings(solution), *host_findings(solution, host, knowledge)]
            one += build_findings(solution, host, knowledge)
            if not any((item.code, item.subject) == ("CU103", "pytorch") for item in one):
                one += cpu_torch_findings(solution, host, asked="cuenv_content" in lock.metadata)
            by_record = _record_findings(lock, solution, host, knowledge)
            # where the lock itself says what it serves, the silence of the tables is no doubt
            one = [replace(item, unknown=item.unknown and not by_record) for item in one] + [*by_record]
            if lock.program:
                one = [mended_there(item, lock) for item in one]
            other = len(lock.solutions) > 1 and solution.platform != facts.platform
            found += (named_platform(item, solution.platform) for item in one) if other else one
        components = coverage(mine, judged, knowledge) if mine else ()
        found += machine_findings(facts, candidate_of(mine, knowledge) if mine else None, knowledge, request)
        looked = (_summary(chosen, lock), host_line(facts))
        lenient = allowed(_joined_with_missing_files(found), lock.allowed)
        told = report(str(self.path), lenient, looked)
        return LockCheck(report=told, facts=facts, components=components, part=lock.part, lock=lock)

    def _package_findings(self, solution: Solution) -> tuple[Finding, ...]:
        """What is true of the packages of one platform, whatever the host."""
        if solution.platform not in self._alone:
            lock = self.lock
            alone = lock_findings(
                solution.packages,
                solution.platform,
                self._knowledge,
                explicit=not lock.channels,
                of_cpu=lock.metadata.get(OF_CPU, "").split(),
            )
            # what another solver mixed at flexible channel priority, cuenv locks at strict priority
            if "cuenv_content" not in lock.metadata:
                alone = tuple(replace(item, fix=LockFix.of()) if item.code == "CU101" else item for item in alone)
            whole = (*solution.remarks, *alone, *_pip_findings(solution, lock.program, self.path.parent))
            self._alone[solution.platform] = whole
        return self._alone[solution.platform]


def named_platform(finding: Finding, platform: str) -> Finding:
    """A finding of a platform that is not the host's says which it is."""
    if platform in finding.message:
        return finding
    return replace(finding, message=f"{platform}: {finding.message}")


def _platform_finding(lock: Lock, facts: HostFacts) -> Finding:
    """The finding that the lock has no packages for the platform of the host."""
    there = ", ".join(item.platform for item in lock.solutions)
    return Finding(
        code="CU106",
        severity="error",
        subject="platform",
        message=f"the lock is for {there}, but {facts.label} is {facts.platform}"
        if there
        else "the lock has no package for any platform",
        fix=f"add the platform {facts.platform} to the project, then: {lock.again}"
        if lock.program
        else LockFix.of("--platform", facts.platform),
    )


def _summary(chosen: Sequence[Solution], lock: Lock) -> str:
    """What was looked at, for people: how many packages, and of which part of a lock that holds more."""
    conda, pip = sum(len(item.packages) for item in chosen), sum(len(item.pip) for item in chosen)
    said = counted(conda, "package") + (f" and {pip} for pip" if pip else "")
    if pip and not conda:
        said = f"{counted(pip, 'package')} for pip"
    part = [lock.part] if lock.part else []
    if len(chosen) < len(lock.solutions) and lock.program in ("", "pixi"):
        part.append(f"{len(chosen)} of {len(lock.solutions)} platforms")
    return f"{said} ({', '.join(part)})" if part else said


def _checked_solutions(lock: Lock, facts: HostFacts, options: HostOptions) -> tuple[Solution, ...]:
    """The platform of the host, where the lock has it; of a lock that cuenv made, all, unless the options name one."""
    mine = lock.solution(facts.platform)
    all_of_it = "cuenv_content" in lock.metadata and not options.platform
    return (mine,) if mine and not all_of_it else lock.solutions


def _recorded_host_finding(facts: HostFacts) -> Finding:
    """The finding that the lock was checked for the host that it records."""
    message = f"this machine has no NVIDIA GPU; the lock was checked for {host_line(facts)}"
    return Finding(code="CU409", severity="info", subject="host", message=message)


def _record_findings(lock: Lock, solution: Solution, facts: HostFacts, knowledge: Knowledge) -> tuple[Finding, ...]:
    """What the lock itself records about the hosts that it runs on."""
    try:
        return tuple(record_findings(lock, solution, facts, knowledge))
    except ValueError as error:
        raise InputError(f"{LOCK_NAME}: metadata.custom_metadata: {error}", hint="cuenv lock") from error


def _pip_findings(solution: Solution, program: str, folder: Path) -> Iterator[Finding]:
    """What is wrong with the pip part of a solution, and what pip installs afterwards."""
    if solution.pip or solution.aside:
        from cuenv.lockfile.pip_findings import aside_findings, pip_findings  # noqa: PLC0415 - most locks have no pip part

        yield from pip_findings(solution, program)
        for item in aside_findings(solution, folder):  # what --allow left out is no news
            yield replace(item, severity="info") if item.code == UNLOCKED else item


def _joined_with_missing_files(found: list[Finding]) -> Iterator[Finding]:
    """What is set aside, and that its file is missing, as one finding: to make the file comes first."""
    missing = {item.subject: item for item in found if item.code == "CU108" and item.severity == "warning"}
    told = set()
    for item in found:
        fix = item.fix if item.fix and item.code in (SET_ASIDE, UNLOCKED) else ""
        gone = next((missing[name] for name in missing if name in fix), None) if fix else None
        if gone:
            told.add(gone.subject)
            yield replace(
                item, message=f"{item.message}; {gone.subject}, which names it for pip, is missing", fix=gone.fix
            )
        elif item not in missing.values():
            yield item
    yield from (item for name, item in missing.items() if name not in told)


def _unsatisfied_findings(lock: Lock, spec: EnvironmentSpec, file: Path) -> Iterator[Finding]:
    """Findings on what an environment file asks for since it changed, and the lock does not contain."""
    from cuenv.lockfile.pip_findings import unlocked  # noqa: PLC0415 - only when the file changed
    from cuenv.solve.io.pip import pypi_names  # noqa: PLC0415 - as above
    from cuenv.solve.io.solver import matches  # noqa: PLC0415 - as above

    again = lock.again if lock.program else f"cuenv lock {shlex.quote(str(file))}"
    for solution in lock.solutions:
        asked = [pin for pin in spec.pins if not pin.name.startswith("__") and not lock.program]  # packages of conda
        broken = [
            pin
            for pin in asked
            if (package := solution.package(pin.name)) is None or not matches(pin.match_spec(), package)
        ]
        for pin in broken:
            package = solution.package(pin.name)
            have = f"{package.version} {package.build} from {package.channel_name}" if package else "nothing"
            message = f"{file.name} asks for {pin.yaml_text()}, but the lock for {solution.platform} contains {have}"
            yield Finding(code="CU107", severity="error", subject=pin.name, message=message, fix=again)
        lacking = [*unlocked(spec.pip, solution, pypi_names())]
        for requirement in map(redact, lacking):
            message = (
                f"{file.name} asks pip for {requirement}, but the lock for {solution.platform} does not contain it"
            )
            yield Finding(code="CU107", severity="error", subject=requirement, message=message, fix=again)
        if not broken and not lacking and "cuenv_environment" in lock.metadata:
            message = f"{file.name} changed since it was locked, but the lock still satisfies it"
            yield Finding(code="CU107", severity="warning", subject=file.name, message=message, fix=again)
