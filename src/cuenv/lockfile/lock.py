"""Lock: from an environment file to the three lock files, judged before and after solving."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from cuenv.core import __version__
from cuenv.core.errors import CuenvError, Progress, UsageError
from cuenv.core.findings import UNSATISFIABLE, Finding, Report, allowed, report
from cuenv.core.io.exclusive import begin, run_parallel
from cuenv.core.io.files import exists, is_file, path_text, read_text
from cuenv.core.notebook import Drawable
from cuenv.core.record import NamedTuple, dataclass, field, replace
from cuenv.host.facts import Driver, HostFacts, virtual_packages
from cuenv.host.select import HostOptions, check_day
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.companions import create_commands, write_formats
from cuenv.lockfile.engines import Engine, default_channel_findings, solve_with, verify_answer
from cuenv.lockfile.file_check import judge_file
from cuenv.lockfile.files import (
    LOCK_NAME,
    day_in,
    existing_lock,
    host_for,
    host_metadata,
    lock_words,
    read_environment,
    read_lock,
    spec_digest,
)
from cuenv.lockfile.formats import LockPart, unlocked_txt
from cuenv.lockfile.host_check import drift_findings, host_findings
from cuenv.lockfile.left_open import PYTHONS_TRIED, open_pythons, pip_bounds, pythons_to_try, with_python
from cuenv.lockfile.minimum_host import minimum_host
from cuenv.lockfile.pip import PipJob, before_pip, lock_pip
from cuenv.lockfile.setups import build_findings
from cuenv.lockfile.wheel_lock import (
    install_commands,
    left_out,
    nothing_to_lock,
    wheel_path,
    wheel_solutions,
    write_wheels,
)
from cuenv.resolver.asked_cuda import cpu_builds_asked, named_cuda, oldest_cuda, wants_cuda
from cuenv.resolver.policy import spec_findings, with_file_in_fix
from cuenv.resolver.requirements import over_pins
from cuenv.resolver.solution_policy import undated_findings
from cuenv.solve import PIXI
from cuenv.solve.environment_spec import LISTS, WRITTEN_BY, EnvironmentSpec, Pin, with_named
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import (
    AS_OF,
    CREATED_BY,
    OF_CPU,
    VARIABLES,
    Lock,
    Solution,
    SolveRequest,
    Unsatisfiable,
    content_digest,
)
from cuenv.solve.pip_part import Unbuilt


@dataclass(frozen=True, kw_only=True)
class LockRequest:
    """What to lock and how."""

    path: Path
    host: HostOptions
    sources: Sources
    platforms: tuple[str, ...] = ()  # to lock for; empty for those of the file, else the host's
    allow: tuple[str, ...] = ()  # codes of error findings that do not refuse
    builds: bool = False  # whether torch may be downloaded to read what a source distribution for pip requires
    strict: bool = False  # whether a warning refuses as an error does
    # packages of the existing lock that may move; everything else stays. Empty for a plain lock
    update: tuple[str, ...] = ()
    anew: bool = False  # whether an existing lock counts for nothing
    facts: HostFacts | None = None  # the host, where it is known already; the options count no more
    # the lock without conda that is asked for, one of `cuenv.solve.WHEEL_LOCKS`; empty for a usual one
    wheels: str = ""
    output: Path | None = None  # its file, where it is not to have its usual name
    quick: bool = False  # whether a no of pip is enough, and nobody asks what would end it
    # what pip could not build so far, as `PipJob` has it, so that a further lock does not try again
    unbuilt: dict[str, tuple[Unbuilt, ...]] = field(default_factory=dict, compare=False)
    # where many environments are locked on the same records: what each conda part was solved to, so that another pip
    # part does not solve it again; it grows
    solved: dict[Hashable, Solution | Unsatisfiable | Finding] | None = field(default=None, compare=False)
    # the solver; only the embedded one keeps packages of an existing lock, and updates
    engine: Engine = field(default_factory=Engine)


@dataclass(frozen=True, kw_only=True)
class Locked(Drawable):
    """The result of ``cuenv lock``."""

    report: Report  # findings before and after the solve, without the solver's own no
    spec: EnvironmentSpec
    facts: HostFacts  # the host it is locked for
    lock: Lock | None = None  # ``None`` when it was refused or cannot be solved
    written: tuple[Path, ...] = ()  # the files, in the order they were written
    # files of other programs that were replaced, and where what they held is kept
    kept: tuple[tuple[Path, Path], ...] = ()
    unsatisfiable: Unsatisfiable | None = None  # the solver's no
    warnings: tuple[str, ...] = ()  # what was noticed when the environment file was read
    # the host options that the head of the file gave, where nothing else said which host it is for
    host_named: str = ""
    wheels: str = ""  # the kind of lock that was asked for in place of the usual ones
    conda_solutions: tuple[Solution, ...] = ()  # what conda's part was solved to, where the file was refused after that

    @property
    def whole_report(self) -> Report:
        """The findings, the solver's refusal among them."""
        if self.unsatisfiable is None:
            return self.report
        from cuenv.resolver.prove import unsatisfiable_text  # noqa: PLC0415 - the solver is heavy

        return unsatisfied_report(self.report, unsatisfiable_text(self.unsatisfiable, self.spec))

    @property
    def commands_by_platform(self) -> Mapping[str, tuple[str, ...]]:
        """For each platform the commands that install the environment from the files; none when it was refused."""
        if self.lock and self.wheels == PIXI:
            from cuenv.lockfile.formats.others.pixi_lock import install_command  # noqa: PLC0415 - only for pixi

            command = install_command(self.written[0].parent)
            return {item.platform: (command,) for item in self.lock.solutions}
        if self.lock and self.wheels:
            return install_commands(self.wheels, self.lock, self.written)
        return create_commands(self.lock, self.spec, self.written[0].parent) if self.lock else {}

    @property
    def commands(self) -> tuple[str, ...]:
        """The install commands of all platforms, each once."""
        return tuple(dict.fromkeys(command for commands in self.commands_by_platform.values() for command in commands))

    @property
    def unlocked_commands(self) -> Mapping[str, str]:
        """For each platform with something that is not locked, the command that installs it after the rest."""
        if self.lock is None:
            return {}
        files = {file.name: file.parent for file in self.written}
        names = {item.platform: unlocked_txt.FORMAT.path(Path(), item.platform).name for item in self.lock.solutions}
        return {
            item.platform: unlocked_txt.aside_command(item, files[names[item.platform]])
            for item in self.lock.solutions
            if item.aside and names[item.platform] in files
        }


def unsatisfied_report(found: Report, why: str) -> Report:
    """A report on an environment file that the channels do not satisfy."""
    message = f"the channels cannot satisfy the environment file: {why}"
    refusal = Finding(code=UNSATISFIABLE, severity="error", subject=found.title, message=message)
    return report(found.title, [*found.findings, refusal])


def lock(request: LockRequest, knowledge: Knowledge, *, progress: Progress | None = None) -> Locked:
    """Solve an environment file and write its locks beside it; write nothing when a finding refuses.

    Raises:
        UsageError: an update by another engine than the embedded one.
        InputError: the file, an existing lock or a channel cannot be read.
        OutsideError: the solver crashed, or a file cannot be written.
    """
    if request.update:
        request.engine.refuse("--update", " --update ".join(request.update))
    spec, warnings = read_environment(request.path, request.host.words)
    answer = lock_spec(request, spec, knowledge, progress=progress)
    answer = replace(answer, warnings=(*warnings, *answer.warnings))
    made = answer.lock
    if made is None:
        return answer
    if request.wheels:
        written, kept = write_wheels(request.wheels, request.path, made, spec, request.output)
    else:
        answer = replace(answer, warnings=(*answer.warnings, *_replaced_lock_warnings(request.path, made)))
        written, kept = write_formats(request.path, made, spec)
    return replace(answer, written=written, kept=kept)


def lock_spec(
    request: LockRequest, spec: EnvironmentSpec, knowledge: Knowledge, *, progress: Progress | None = None
) -> Locked:
    """Solve and judge an environment as `lock` does; write nothing.

    A file with a pip part may leave Python open. A list of requirements names none: it is locked with 3.12, then with
    older releases, until its pip part resolves. Another file is locked with the Python that the solver takes, and
    with others only where its pip part does not resolve with that one.
    """
    pythons = open_pythons(spec, knowledge) if spec.pip and not request.update else ()
    if not pythons:
        return _lock_once(_Job(request, spec, knowledge, progress))
    requirements = _Job(request, spec, knowledge, progress).of_list
    python = pythons[0] if requirements else ""
    queue: Sequence[str] = pythons[1:] if requirements else pythons[:PYTHONS_TRIED]
    answer = first = _lock_once(_Job(request, with_python(spec, python) if python else spec, knowledge, progress))
    while not answer.lock:
        if not (answer.unsatisfiable or answer.report.errors):
            return answer
        if not answer.unsatisfiable:  # a Python that conda does not have is passed over
            queue = pythons_to_try(answer.report, answer.facts, spec, knowledge, python=python, others=queue)
        if not queue or (answer.unsatisfiable and answer is first):
            return first
        python, *queue = queue
        if progress:
            progress(f"trying Python {python}")
        answer = _lock_once(_Job(replace(request, quick=True), with_python(spec, python), knowledge, progress))
    if not python:
        return answer
    metadata = {**answer.lock.metadata, "cuenv_environment": spec_digest(spec)}
    warning = f"it leaves Python open; cuenv uses {python}, with which its pip part can be locked"
    if requirements:
        other = "3.10" if python == "3.11" else "3.11"
        warning = f"it names no Python; cuenv uses {python}; for another one: echo {other} > .python-version"
    return replace(answer, spec=spec, lock=replace(answer.lock, metadata=metadata), warnings=(warning,))


_Answer: TypeAlias = list[Solution] | Unsatisfiable | Finding
"""The solutions for the platforms, or why there are none."""


class _Job(NamedTuple):
    """What is locked, with which tables, and for which hosts: the same host with each platform of the lock."""

    request: LockRequest
    spec: EnvironmentSpec
    knowledge: Knowledge
    progress: Progress | None
    hosts: tuple[HostFacts, ...] = ()  # empty until `_host_findings` has found them

    @property
    def name(self) -> str:
        """The name of the environment file, for reports."""
        return self.request.path.name

    @property
    def of_list(self) -> bool:
        """Whether the file is a list for pip, to which no entry of conda can be added."""
        return self.request.path.suffix in LISTS and self.spec.for_pip_alone


def _lock_once(job: _Job) -> Locked:
    """Lock an environment with the Python that it names, or that the solver takes."""
    job = job._replace(request=_as_of_day(job.request, job.knowledge))
    request, spec = job.request, job.spec
    job, facts, host_named, findings = _with_hosts(job)
    asked = _ask_ahead(job)
    early = report(job.name, allowed([*findings, *_file_findings(job, facts)], request.allow))
    refused = Locked(report=early, spec=spec, facts=facts, host_named=host_named, wheels=request.wheels)
    if early.errors:
        return refused
    with _errors_carry(early):
        answer = asked()
        if isinstance(answer, Finding):
            return replace(refused, report=report(job.name, [*early.findings, answer]))
        if isinstance(answer, Unsatisfiable):
            # the solver names all that is in a conflict: where it is not the driver, a newer one changes nothing
            too_old = _driver_findings(job) if "__cuda" in answer.text and not answer.missing else []
            if too_old:
                return replace(refused, report=report(job.name, [*early.findings, *too_old]))
            return replace(refused, unsatisfiable=answer)
        solutions, of_engine = verify_answer(request.engine, spec, answer, request.sources)
        solutions, of_pip = _with_pip_part(job, solutions)
    refused_by_pip = any(item.severity == "error" for item in of_pip)
    if request.wheels and of_pip and not refused_by_pip and not any(item.pip for item in solutions):
        of_pip.append(nothing_to_lock(job.name))
    of_defaults = default_channel_findings(spec, solutions, request.sources)
    of_solutions, least = _solution_findings(job, solutions)
    late = _late_report(job, early, [*of_engine, *of_pip, *of_defaults, *of_solutions])
    if late.errors or late.verdict(strict=request.strict) == "not fine":
        return replace(refused, report=late, conda_solutions=tuple(solutions))
    made = Lock(
        channels=with_named((*spec.channels, "defaults") if of_defaults else spec.channels or ("defaults",), spec.pins),
        sources=(job.name,),
        solutions=tuple(solutions),
        metadata=_metadata(job, solutions, least),
    )
    return replace(refused, report=late, lock=made)


def _with_hosts(job: _Job) -> tuple[_Job, HostFacts, str, tuple[Finding, ...]]:
    """Find the host and the platforms to lock for.

    Returns:
        The job with its hosts; the host with the first platform of the lock; the host options that the head of the
        file gave; and findings on platforms of the file or of the host that are not those of the lock.
    """
    request = job.request
    locked_platforms, facts, host_named = _host(job)
    asked = request.platforms or ((request.host.platform,) if request.host.platform else ()) or locked_platforms
    of_file, findings = _platforms_of_file(job.spec, request)
    platforms = asked or of_file
    findings = () if asked else findings
    if platforms and facts.platform not in platforms:
        findings += _other_platform(facts, platforms, request)
        facts = replace(facts, platform=platforms[0])
    _check_supported(platforms or (facts.platform,), request.path)
    hosts = tuple(replace(facts, platform=item) for item in platforms or (facts.platform,))
    return job._replace(hosts=hosts), facts, host_named, findings


def _file_findings(job: _Job, facts: HostFacts) -> list[Finding]:
    """What is wrong with the environment file itself, and on each host, before anything is solved."""
    spec = _with_user_indexes(job.spec, job.request)
    found = [
        *with_file_in_fix(spec_findings(spec, job.knowledge), str(job.request.path)),
        *before_pip(job.spec, job.request.allow),
        *_without_cuda(job, facts),
    ]
    if not any(item.code == "CU413" for item in found):
        found += [finding for host in job.hosts for finding in judge_file(spec, host, job.knowledge)]
    return found


def _late_report(job: _Job, early: Report, found: list[Finding]) -> Report:
    """The report after the solve: what was found before it, without what the solution now says better, and the rest."""
    # which release the file leaves open is known now
    findings = [*(item for item in early.findings if item.code != "CU116"), *found]
    cpu_torch = [item for item in findings if (item.code, item.subject) == ("CU103", "torch")]
    asked = [item for item in cpu_torch if item in early.findings]
    if len(asked) < len(cpu_torch):  # the wheel that was taken says it, and what to take instead
        findings = [item for item in findings if item not in asked]
    return report(job.name, allowed(over_pins(findings, job.spec), job.request.allow))


def _with_pip_part(job: _Job, solutions: list[Solution]) -> tuple[list[Solution], list[Finding]]:
    """The solutions with their pip part, and what is found about it.

    Where the file leaves torch open, pip takes the newest release that runs on the hosts, and no release of another
    package with which that torch fails; where the pip part does not resolve so, it is resolved without these bounds.
    """
    request = job.request
    pip = PipJob(
        spec=job.spec,
        folder=request.path.parent,
        knowledge=job.knowledge,
        environ=request.host.environ,
        sources=request.sources,
        old=_replaced_lock(request, solutions) if job.spec.pip else None,
        update=request.update,
        allow=request.allow,
        builds=request.builds,
        quick=request.quick,
        unbuilt=request.unbuilt,
        of_list=job.of_list,
        progress=job.progress,
    )
    bounds, reasons = pip_bounds(job.spec, job.hosts, solutions, job.knowledge)
    if bounds:
        bounded = replace(job.spec, constraints=(*job.spec.constraints, *bounds))
        made, found = lock_pip(pip._replace(spec=bounded, quick=True), solutions)
        if not any(item.code == "CU510" for item in found):
            taken = {item.name for solution in made for item in solution.pip}
            return made, [*found, *{item.subject: item for item in reasons if item.subject in taken}.values()]
    return lock_pip(pip, solutions)


def _solution_findings(job: _Job, solutions: list[Solution]) -> tuple[list[Finding], dict[str, str]]:
    """What is found about the solutions, and the least host that runs them; the channels are asked meanwhile."""
    from cuenv.resolver.prove import cuda_offered, solved_findings  # noqa: PLC0415 - the solver is heavy

    sources, knowledge = job.request.sources, job.knowledge
    questions = [cuda_offered(solution, job.spec, sources, knowledge) for solution in solutions]

    offers = begin(lambda: [ask() for ask in questions])
    judged = [
        [
            *host_findings(solution, host, knowledge),
            *drift_findings(job.spec, solution, knowledge),
            *build_findings(solution, host, knowledge, of_list=job.of_list),
            *undated_findings(solution, sources.as_of),
        ]
        for host, solution in zip(job.hosts, solutions, strict=True)
    ]
    least = minimum_host(solutions, job.hosts[0], knowledge)
    after: list[Finding] = []
    for host, solution, offered, found in zip(job.hosts, solutions, offers(), judged, strict=True):
        of_solution = solved_findings(solution, job.spec, host, offered, knowledge)
        after += [*with_file_in_fix(of_solution, str(job.request.path)), *found]
    return after, least


@contextmanager
def _errors_carry(early: Report) -> Iterator[None]:
    """What was found before an index or a channel fails goes with the error."""
    try:
        yield
    except CuenvError as error:
        error.report = early
        raise


def _as_of_day(request: LockRequest, knowledge: Knowledge) -> LockRequest:
    """The request as of the day of the options, else of the head of the file, else of the lock that is updated."""
    old = existing_lock(request.path.parent / LOCK_NAME) if request.update and not request.wheels else None
    named = day_in(request.path) or (old.metadata.get(AS_OF, "") if old else "")
    day = request.sources.as_of or (check_day(named, knowledge) if named else "")
    if day:
        request.engine.refuse("--as-of", day)
    return replace(request, sources=replace(request.sources, as_of=day))


def _replaced_lock_warnings(path: Path, made: Lock) -> Iterator[str]:
    """What the lock that is replaced was, and the new one is not; nothing of one that cannot be read."""
    try:
        old = existing_lock(path.parent / LOCK_NAME)
    except CuenvError:
        return
    if old is None:
        return
    before = old.metadata.get(AS_OF, "")
    if before and AS_OF not in made.metadata:
        yield f"the previous lock was made as of {before}, but this one as of today: --as-of {before} keeps the day"
    if old.sources and path.name not in old.sources and "cuenv_environment" in old.metadata:
        yield f"this lock replaces the one of {', '.join(map(path_text, old.sources))}"


def _replaced_lock(request: LockRequest, solutions: list[Solution]) -> Lock | None:
    """The lock that would be replaced, whose packages for pip stay while they satisfy the file."""
    if request.anew:
        return None
    if not request.wheels:
        path = request.path.parent / LOCK_NAME
        return read_lock(path) if exists(path) else None
    path = request.output or wheel_path(request.wheels, request.path.parent)
    ours = len(solutions) < 2 and is_file(path) and read_text(path).startswith(WRITTEN_BY)
    return read_lock(path, LockPart(python=solutions[0].python)) if ours else None


def _with_user_indexes(spec: EnvironmentSpec, request: LockRequest) -> EnvironmentSpec:
    """The file as uv sees it where it asks pip for torch: the indexes of the user's settings are options of pip."""
    if not any("torch" in text for text in spec.pip):
        return spec
    from cuenv.solve.io.pip import index_variables  # noqa: PLC0415 - most files ask pip for no torch

    given = index_variables(request.host.environ, request.sources.certificates)
    options = [
        f"{_OPTIONS[name]} {url}" for name in _OPTIONS for url in re.split(r"[\s,]+", given.get(name, "")) if url
    ]
    return replace(spec, pip=(*options, *spec.pip))


_OPTIONS = {
    "UV_DEFAULT_INDEX": "--index-url",
    "UV_INDEX_URL": "--index-url",
    "UV_INDEX": "--extra-index-url",
    "UV_EXTRA_INDEX_URL": "--extra-index-url",
    "UV_FIND_LINKS": "--find-links",
}
"""What each variable of uv is as an option of pip."""


def _host(job: _Job) -> tuple[tuple[str, ...], HostFacts, str]:
    """The platforms of the lock that is updated, the host, and the host options that the head of the file gave."""
    request = job.request
    if request.facts:
        return (), request.facts, ""
    if not request.update or request.wheels:
        return (), *host_for(request.path, request.host, job.knowledge, request.platforms or job.spec.platforms)
    from cuenv.lockfile.update import host_of_update  # noqa: PLC0415 - most locks are no updates

    return *host_of_update(request.path, request.host, job.knowledge), ""


def _ask_ahead(job: _Job) -> Callable[[], _Answer]:
    """`_solve`, of which as much as can be is done while the file is judged.

    A file that cuenv wrote is rarely refused: the solve itself begins. Of another file only the channels are read.
    """
    from cuenv.solve.io.solver import open_ahead  # noqa: PLC0415 - the solver is heavy

    solve = partial(_solve, job)
    if job.request.engine.foreign or job.request.wheels:
        return solve
    open_ahead(job.spec.reached, job.hosts[0].platform, job.request.sources)
    return begin(solve) if job.spec.ours else solve


def _solve(job: _Job) -> _Answer:
    """Solve for each platform, side by side; packages of an existing lock stay while they satisfy the file.

    What fails beside others is asked again alone: one may have mended the cache under another. So what is returned or
    raised is what one platform after another would say.
    """
    request, spec = job.request, job.spec
    if request.wheels:
        return wheel_solutions(spec, job.hosts, job.knowledge)
    old = None if request.anew else existing_lock(request.path.parent / LOCK_NAME)
    if spec.pip and not spec.pin("pip"):
        spec = replace(spec, pins=(*spec.pins, Pin(name="pip")))  # as conda does

    def ask(host: HostFacts) -> Solution | Unsatisfiable | Finding:
        if job.progress:
            job.progress(f"solving for {host.platform}")
        kept = old.solution(host.platform) if old else None
        question = SolveRequest(
            spec=spec,
            channels=spec.channels or ("defaults",),
            platform=host.platform,
            virtual_packages=virtual_packages(host),
            prefer=kept.packages if kept else (),
        )
        if request.update:
            from cuenv.lockfile.update import solve_update  # noqa: PLC0415 - most locks are no updates

            return solve_update(
                question,
                old,
                job.knowledge,
                path=request.path,
                options=request.host,
                sources=request.sources,
                names=request.update,
            )
        return _solved_once(job, question)

    def attempt(host: HostFacts) -> Solution | None:
        try:
            answer = ask(host)
        except (CuenvError, OSError):
            return None
        return answer if isinstance(answer, Solution) else None

    alone = len(job.hosts) < 2 or request.engine.foreign
    ahead = [None] * len(job.hosts) if alone else run_parallel(attempt, job.hosts)
    solutions: list[Solution] = []
    for host, known in zip(job.hosts, ahead, strict=True):
        answer = known or ask(host)
        if not isinstance(answer, Solution):
            return answer
        solutions.append(answer)
    return solutions


def _solved_once(job: _Job, question: SolveRequest) -> Solution | Unsatisfiable | Finding:
    """What the engine answers; a question that was answered for another pip part is not asked again."""
    request = job.request
    pins = tuple(pin.match_spec() for pin in question.spec.pins)
    key = pins, question.channels, question.platform, question.virtual_packages, question.prefer
    answer = request.solved.get(key) if request.solved is not None else None
    if answer is None:
        answer = solve_with(request.engine, question, request.sources, request.host.environ, job.progress)
        if request.solved is not None:
            request.solved[key] = answer
    return answer


def _driver_findings(job: _Job) -> list[Finding]:
    """The errors that the driver is too old, where the same file can be solved for the newest driver."""
    request, knowledge = job.request, job.knowledge
    newest = knowledge.first_driver(max(row.number for row in knowledge.branches))
    cuda = knowledge.cuda_of(newest)
    if request.update or request.engine.foreign or not all(host.driver and host.driver.cuda for host in job.hosts):
        return []
    able = (replace(host, driver=replace(host.driver or Driver(), version=newest, cuda=cuda)) for host in job.hosts)
    try:
        answer = _solve(job._replace(hosts=tuple(able), progress=None))
    except CuenvError:
        return []
    solved = zip(job.hosts, answer, strict=True) if isinstance(answer, list) else ()
    found = [item for host, solution in solved for item in host_findings(solution, host, knowledge)]
    return [item for item in found if item.code == "CU401" and item.severity == "error"]


def _platforms_of_file(spec: EnvironmentSpec, request: LockRequest) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The platforms of a file that cuenv locks for, and what it says of the others beside them."""
    known = tuple(item for item in spec.platforms if item in PLATFORMS)
    others = [item for item in spec.platforms if item not in PLATFORMS]
    if not known or not others:
        return spec.platforms, ()
    message = (
        f"{request.path.name} is for {', '.join(others)} too; cuenv locks for {' and '.join(PLATFORMS)}, so "
        f"the lock is for {' and '.join(known)} alone"
    )
    left = Finding(code="CU106", severity="warning", subject="platforms", message=message)
    return known, (left,)


def _check_supported(platforms: tuple[str, ...], path: Path) -> None:
    """Refuse a platform that cuenv does not lock for."""
    for platform in platforms:
        if platform not in PLATFORMS:
            message = f"{path}: {platform} is not supported; cuenv locks for {' and '.join(PLATFORMS)}"
            raise UsageError(message, hint=f"cuenv lock {shlex.quote(str(path))} --platform {PLATFORMS[0]}")


def _other_platform(facts: HostFacts, platforms: tuple[str, ...], request: LockRequest) -> tuple[Finding, ...]:
    """The host is of another platform than the file; a platform that the options leave open is not."""
    if request.host.gpus and not request.host.hosts:
        return ()
    return (
        Finding(
            code="CU106",
            severity="warning",
            subject="platform",
            message=f"{request.path.name} is for {', '.join(platforms)}, {facts.label} is {facts.platform}",
            fix=f"cuenv lock {shlex.quote(str(request.path))} --platform {facts.platform}",
        ),
    )


def _without_cuda(job: _Job, facts: HostFacts) -> tuple[Finding, ...]:
    """A file that names CUDA cannot be solved without a driver's CUDA version; a lock without conda leaves it out."""
    request, spec = job.request, job.spec
    if request.wheels:
        return tuple(left_out(spec))
    if not wants_cuda(spec, job.knowledge) or (facts.driver and facts.driver.cuda):
        return ()
    words = lock_words(read_text(request.path))
    named = shlex.join([*words[:2], str(request.path), *words[3:]]) if words[3:] else ""
    cuda = named_cuda(spec) or oldest_cuda(spec) or "12.4"
    lack = "no NVIDIA driver was found on this machine" if facts.detected else "no driver is given"
    lack = f"the tables do not have driver {facts.driver.version}" if facts.driver else lack
    pretend = f"CONDA_OVERRIDE_CUDA={cuda} cuenv lock {shlex.quote(str(request.path))}"
    return (
        Finding(
            code="CU413",
            severity="error",
            subject="__cuda",
            message=f"{request.path.name} names a CUDA build, and {lack}, so the virtual package __cuda has no "
            "version: name the host with --host, or with --gpu and --driver, or set CONDA_OVERRIDE_CUDA",
            fix=named or pretend,
        ),
    )


def _metadata(job: _Job, solutions: list[Solution], least_host: dict[str, str]) -> dict[str, str]:
    """What the lock remembers: its inputs, the host it was made for, and a digest over what it locks."""
    spec, request = job.spec, job.request
    digested = {**least_host}
    if spec.variables:
        digested[VARIABLES] = json.dumps(dict(sorted(spec.variables.items())))
    if request.sources.as_of:
        digested[AS_OF] = request.sources.as_of
    if cpu_builds := cpu_builds_asked(spec):
        digested[OF_CPU] = " ".join(sorted(cpu_builds))
    found = {
        "created_by": f"{CREATED_BY} {__version__}",
        "cuenv_content": content_digest(solutions, digested),
        "cuenv_environment": spec_digest(spec),
        "cuenv_knowledge": job.knowledge.edition,
        **host_metadata(job.hosts[0]),
        **digested,
    }
    if request.allow:
        found["cuenv_allowed"] = " ".join(sorted(request.allow))
    return found
