"""Check: a lock against a host, against its environment file, and against the laws."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cuenv.candidates import Candidate
from cuenv.coverage import LayerCoverage, coverage
from cuenv.environment import EnvironmentSpec
from cuenv.errors import InputError
from cuenv.facts import Driver, Evidence, Gpu, HostFacts, glibc
from cuenv.flows.hosts import HostOptions, host_facts
from cuenv.flows.lock_files import (
    LOCK_NAME,
    host_metadata,
    read_environment,
    read_lock,
    recorded_machines,
    spec_digest,
    virtual_version,
)
from cuenv.host_text import host_line, host_options
from cuenv.knowledge import Knowledge
from cuenv.lock_laws import lock_findings
from cuenv.lockfile import Lock, Solution, content_digest
from cuenv.machine import machine_findings
from cuenv.report import Finding, Report, report
from cuenv.urls import redact
from cuenv.verify import candidate_of, host_findings
from cuenv.versions import Capability, check_driver, version
from cuenv.world.files import is_file


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A report, the host that it was made for, and how each layer of the lock serves its GPUs."""

    report: Report
    facts: HostFacts
    layers: tuple[LayerCoverage, ...] = ()


def check(path: Path, options: HostOptions, knowledge: Knowledge) -> Checked:
    """Check a lock.

    Without host options the machine at hand is asked; when it has no GPU, the host that the lock was made for.

    Raises:
        InputError: the lock cannot be read.
    """
    lock = _read(path)
    facts = host_facts(options, knowledge)
    notes: list[Finding] = []
    if not options.given and not facts.gpus:
        recorded = recorded_host(lock, facts, knowledge)
        if recorded:
            facts = recorded
            notes.append(_judged_for(recorded))
    found = [*notes, *_edited(lock), *_environment(lock, path)]
    for solution in _asked_for(lock, facts, options):
        found += lock_findings(solution.packages, solution.platform, knowledge)
        found += _pip(solution)
        host = facts if facts.platform == solution.platform or options.platform else _moved(facts, lock, solution)
        found += host_findings(solution, host, knowledge)
    mine = lock.solution(facts.platform)
    layers = coverage(mine, facts, knowledge) if mine else ()
    found += machine_findings(facts, _chosen(lock, facts, knowledge), knowledge)
    by_pip = sum(len(item.pip) for item in lock.solutions)
    also = f" and {by_pip} for pip" if by_pip else ""
    looked = (f"{sum(len(item.packages) for item in lock.solutions)} packages{also}", host_line(facts))
    allowed = lock.metadata.get("cuenv_allowed", "").split()
    lenient = [
        replace(item, severity="warning") if item.severity == "error" and item.code in allowed else item
        for item in found
    ]
    return Checked(report=report(str(path), lenient, looked), facts=facts, layers=layers)


def _asked_for(lock: Lock, facts: HostFacts, options: HostOptions) -> tuple[Solution, ...]:
    """The platform that the options name, where the lock has it; else all of the lock."""
    named = lock.solution(facts.platform) if options.platform else None
    return (named,) if named else lock.solutions


def out_of_date(path: Path, options: HostOptions, knowledge: Knowledge, platforms: tuple[str, ...] = ()) -> Report:
    """Whether a lock still belongs to its environment file and to the given options: no solve, no GPU, no network.

    Args:
        path: the environment file.
        options: host options; only those that are given are compared with what the lock recorded.
        knowledge: the tables.
        platforms: asked for, where the options ask for several.
    """
    spec, _ = read_environment(path)
    target = path.parent / LOCK_NAME
    if not target.exists():
        missing = Finding(
            code="CU107",
            severity="error",
            subject=LOCK_NAME,
            message=f"{target} is not there",
            fix=f"cuenv lock {shlex.quote(str(path))}",
        )
        return report(str(target), [missing])
    lock = _read(target)
    facts = (
        host_facts(options, knowledge)
        if options.given
        else recorded_host(lock, HostFacts(label="", platform=""), knowledge)
    )
    again = shlex.join(["cuenv", "lock", str(path), *(host_options(facts) if facts else ())])
    if platforms or (options.platform and "--platform" not in again):
        again += "".join(f" --platform {name}" for name in platforms or (options.platform,))
    found = [*_edited(lock)]
    recorded = lock.metadata.get("cuenv_environment")
    if recorded is None:
        found.append(_foreign(target))
    elif recorded != spec_digest(spec):
        found.append(_changed(f"{path.name}", "its content is not what was locked", again))
    if options.given and facts:
        asked = _asked(options, facts)
        asked |= {"platform": " ".join(sorted(platforms))} if platforms else {}
        found += [
            _changed(name, f"locked for {old or 'nothing'}, asked for {value or 'nothing'}", again)
            for name, value in asked.items()
            if value != (old := _recorded(lock, name))
        ]
    return report(str(target), found)


def _asked(options: HostOptions, facts: HostFacts) -> dict[str, str | None]:
    """What the options say about the host, as a lock would record it; what they leave open is not compared."""
    now = host_metadata(facts)
    asked: dict[str, str | None] = {}
    if options.hosts or options.gpus:
        asked["gpus"] = now.get("cuenv_gpus")
    if options.hosts or options.driver:
        asked["driver"] = now.get("cuenv_driver")
    if options.hosts or options.glibc:
        asked["glibc"] = str(facts.libc.version) if facts.libc else None
    if options.hosts or options.platform:
        asked["platform"] = facts.platform
    return asked


def _recorded(lock: Lock, name: str) -> str | None:
    platforms = [solution.platform for solution in lock.solutions]
    if name == "glibc":
        return virtual_version(lock.solutions[0], "__glibc") if lock.solutions else None
    return " ".join(sorted(platforms)) if name == "platform" else lock.metadata.get(f"cuenv_{name}")


def _changed(what: str, how: str, again: str) -> Finding:
    return Finding(code="CU107", severity="error", subject=what, message=f"{what} changed: {how}", fix=again)


def _foreign(target: Path) -> Finding:
    return Finding(
        code="CU107",
        severity="error",
        subject=target.name,
        message=f"{target.name} was not made by cuenv: it does not say what it was made from",
        fix="cuenv lock",
    )


def _read(path: Path) -> Lock:
    if not path.exists():
        raise InputError(f"{path} is not there", hint="cuenv lock environment.yml")
    return read_lock(path)


def recorded_host(lock: Lock, here: HostFacts, knowledge: Knowledge) -> HostFacts | None:
    """The host that a lock remembers, or ``None`` when it remembers no GPU.

    Raises:
        InputError: the record is not as cuenv writes it.
    """
    texts = lock.metadata.get("cuenv_gpus", "").split()
    packages = {item.name: item.version for item in lock.solutions[0].virtual_packages} if lock.solutions else {}
    try:
        gpus = tuple(Gpu(index=i, name="", capability=Capability.parse(text)) for i, text in enumerate(texts))
        level = version(packages["__cuda"]) if "__cuda" in packages else None
        libc = glibc(packages["__glibc"]) if "__glibc" in packages else None
        driver = lock.metadata.get("cuenv_driver")
        driver = check_driver(driver) if driver else None
        machines = tuple(recorded_machines(lock))
    except ValueError as error:
        raise InputError(f"{LOCK_NAME}: metadata.custom_metadata: {error}", hint="cuenv lock") from error
    if not gpus:
        return None
    source = "the lock's record"
    platform = lock.solutions[0].platform if lock.solutions else here.platform
    members = tuple(
        HostFacts(
            label=f"machine {number} it was made for",
            platform=platform,
            driver=Driver(version=own, cuda=knowledge.cuda_of(own)) if own else None,
            gpus=tuple(Gpu(index=i, name="", capability=item) for i, item in enumerate(capabilities)),
            libc=libc,
        )
        for number, (capabilities, own) in enumerate(machines, 1)
    )
    return HostFacts(
        label="the host it was made for",
        platform=platform,
        driver=Driver(version=driver, cuda=level) if driver or level else None,
        gpus=gpus,
        libc=libc,
        kernel=packages.get("__linux"),
        members=members,
        evidence=tuple(Evidence(fact, source, "custom_metadata") for fact in ("gpus", "driver.version", "libc")),
    )


def _judged_for(facts: HostFacts) -> Finding:
    return Finding(
        code="CU409",
        severity="info",
        subject="host",
        message=f"this machine has no NVIDIA GPU: judged for {host_line(facts)}",
    )


def _moved(facts: HostFacts, lock: Lock, solution: Solution) -> HostFacts:
    """A lock for several platforms is judged for each; a lock for another platform alone is a finding."""
    several = len(lock.solutions) > 1
    return replace(facts, platform=solution.platform) if several else facts


def _chosen(lock: Lock, facts: HostFacts, knowledge: Knowledge) -> Candidate | None:
    solution = lock.solution(facts.platform)
    return candidate_of(solution, knowledge) if solution else None


def _edited(lock: Lock) -> Iterator[Finding]:
    recorded = lock.metadata.get("cuenv_content")
    if recorded and recorded != content_digest(lock.solutions):
        yield Finding(
            code="CU108",
            severity="error",
            subject="packages",
            message="the lock was edited after it was made: its packages are not those that were locked",
            fix="cuenv lock",
        )


def _environment(lock: Lock, path: Path) -> Iterator[Finding]:
    """The lock against the environment file that it names, if that lies beside it."""
    for source in lock.sources:
        file = path.parent / source
        if not is_file(file) or file.suffix not in (".yml", ".yaml") or file.name == "meta.yaml":
            continue  # conda-lock locks from meta.yaml and pyproject.toml as well
        spec, _ = read_environment(file)
        if lock.metadata.get("cuenv_environment") == spec_digest(spec):
            continue
        yield from _unsatisfied(lock, spec, file)


def _pip(solution: Solution) -> Iterator[Finding]:
    if solution.pip:
        from cuenv.pip_laws import pip_findings  # noqa: PLC0415 - most locks have no pip part

        yield from pip_findings(solution)


def _unsatisfied(lock: Lock, spec: EnvironmentSpec, file: Path) -> Iterator[Finding]:
    from cuenv.pip_laws import unlocked  # noqa: PLC0415 - only when the file changed
    from cuenv.world.pip_names import pypi_names  # noqa: PLC0415 - as above
    from cuenv.world.solve import matches  # noqa: PLC0415 - as above

    for solution in lock.solutions:
        asked = [pin for pin in spec.pins if not pin.name.startswith("__")]
        broken = [
            pin
            for pin in asked
            if (package := solution.package(pin.name)) is None or not matches(pin.match_spec(), package)
        ]
        for pin in broken:
            package = solution.package(pin.name)
            have = f"{package.version} {package.build} from {package.channel_name}" if package else "nothing"
            yield Finding(
                code="CU107",
                severity="error",
                subject=pin.name,
                message=f"{file.name} asks for {pin.yaml_text()}, the lock for {solution.platform} holds {have}",
                fix=f"cuenv lock {file}",
            )
        lacking = [*unlocked(spec.pip, solution, pypi_names())]
        for requirement in map(redact, lacking):
            yield Finding(
                code="CU107",
                severity="error",
                subject=requirement,
                message=f"{file.name} asks pip for {requirement}, which the lock for {solution.platform} does not hold",
                fix=f"cuenv lock {file}",
            )
        if not broken and not lacking and "cuenv_environment" in lock.metadata:
            yield Finding(
                code="CU107",
                severity="warning",
                subject=file.name,
                message=f"{file.name} changed since it was locked; the lock still satisfies it",
                fix=f"cuenv lock {file}",
            )
