"""Lock: from an environment file to the three lock files, judged before and after solving."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core import __version__
from cuenv.core.errors import CuenvError, Progress, UsageError
from cuenv.core.findings import UNSATISFIABLE, Finding, Report, allowed, report
from cuenv.core.io.exclusive import meanwhile, side_by_side
from cuenv.core.io.files import exists, is_file, read_text, shown
from cuenv.core.notebook import Drawable
from cuenv.core.record import dataclass, field, replace
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.host.select import HostOptions, check_day
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.companions import create_commands, write_formats
from cuenv.lockfile.engines import Engine, compared, of_defaults, solved
from cuenv.lockfile.file_check import judge_file, named_cuda, oldest_cuda
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
from cuenv.lockfile.left_open import TRIED, open_pythons, pip_bounds, pythons_instead, with_python
from cuenv.lockfile.minimum_host import minimum_host
from cuenv.lockfile.pip import before_pip, lock_pip
from cuenv.lockfile.setups import build_findings
from cuenv.lockfile.wheel_lock import (
    install_commands,
    left_out,
    nothing_to_lock,
    wheel_path,
    wheel_solutions,
    write_wheels,
)
from cuenv.resolver.policy import cpu_builds_asked, for_file, spec_findings, wants_cuda
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

if TYPE_CHECKING:  # most locks are no updates
    from cuenv.lockfile.update import Update


@dataclass(frozen=True, kw_only=True)
class LockRequest:
    """What to lock and how.

    Attributes:
        path: the environment file.
        platforms: to lock for; empty for those of the file, else the host's.
        allow: codes of error findings that do not refuse.
        builds: whether torch may be downloaded to read what a source distribution for pip requires.
        strict: whether a warning refuses as an error does.
        update: packages of the existing lock that may move; everything else stays. Empty for a plain lock.
        anew: whether an existing lock counts for nothing.
        facts: the host, where it is known already; the options count no more.
        wheels: the lock without conda that is asked for, one of `cuenv.solve.WHEEL_LOCKS`; empty for a usual one.
        output: its file, where it is not to have its usual name.
        quick: whether a no of pip is enough, and nobody asks what would end it.
        engine: the solver; only the embedded one keeps packages of an existing lock, and updates.
    """

    path: Path
    host: HostOptions
    sources: Sources
    platforms: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    builds: bool = False
    strict: bool = False
    update: tuple[str, ...] = ()
    anew: bool = False
    facts: HostFacts | None = None
    wheels: str = ""
    output: Path | None = None
    quick: bool = False
    engine: Engine = field(default_factory=Engine)

    @property
    def updating(self) -> Update:
        """What is asked of an update."""
        from cuenv.lockfile.update import Update  # noqa: PLC0415 - only for an update

        return Update(path=self.path, host=self.host, sources=self.sources, names=self.update)


@dataclass(frozen=True, kw_only=True)
class Locked(Drawable):
    """The result of ``cuenv lock``.

    Attributes:
        report: findings before and after the solve, without the solver's own no.
        facts: the host it is locked for.
        lock: ``None`` when it was refused or cannot be solved.
        written: the files, in the order they were written.
        kept: files of other programs that were replaced, and where what they held is kept.
        unsatisfiable: the solver's no.
        warnings: what was noticed when the environment file was read.
        wheels: the kind of lock that was asked for in place of the usual ones.
        named: the host options that the head of the file gave, where nothing else said which host it is for.
        conda: what conda's part was solved to, where the file was refused after that.
    """

    report: Report
    spec: EnvironmentSpec
    facts: HostFacts
    lock: Lock | None = None
    written: tuple[Path, ...] = ()
    kept: tuple[tuple[Path, Path], ...] = ()
    unsatisfiable: Unsatisfiable | None = None
    warnings: tuple[str, ...] = ()
    named: str = ""
    wheels: str = ""
    conda: tuple[Solution, ...] = ()

    @property
    def told(self) -> Report:
        """The findings, and among them the solver's no."""
        if self.unsatisfiable is None:
            return self.report
        from cuenv.resolver.prove import unsatisfiable_text  # noqa: PLC0415 - the solver is heavy

        return unsatisfied(self.report, unsatisfiable_text(self.unsatisfiable, self.spec))

    @property
    def making(self) -> Mapping[str, tuple[str, ...]]:
        """For each platform the commands that make the environment from what was written; none when it was refused."""
        if self.lock and self.wheels == PIXI:
            from cuenv.lockfile.formats.others.pixi_lock import install_command  # noqa: PLC0415 - only for pixi

            command = install_command(self.written[0].parent)
            return {item.platform: (command,) for item in self.lock.solutions}
        if self.lock and self.wheels:
            return install_commands(self.wheels, self.lock, self.written)
        return create_commands(self.lock, self.spec, self.written[0].parent) if self.lock else {}

    @property
    def commands(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(command for commands in self.making.values() for command in commands))

    @property
    def afterwards(self) -> Mapping[str, str]:
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


def unsatisfied(found: Report, why: str) -> Report:
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
    found = locked(request, spec, knowledge, progress=progress)
    warnings = (*warnings, *found.warnings)
    found = replace(found, warnings=warnings)
    made = found.lock
    if made is None:
        return found
    if not request.wheels:
        found = replace(found, warnings=(*warnings, *_of_before(request.path, made)))
    if request.wheels:
        written, aside = write_wheels(request.wheels, request.path, made, spec, request.output)
    else:
        written, aside = write_formats(request.path, made, spec)
    return replace(found, written=written, kept=aside)


def locked(
    request: LockRequest, spec: EnvironmentSpec, knowledge: Knowledge, *, progress: Progress | None = None
) -> Locked:
    """What locking an environment would come to; nothing is written.

    A Python that a file with a pip part leaves open is the newest with which that part resolves: of a list of
    requirements, which names none, up to 3.12 first; of another file the one that the solver takes first.

    Raises:
        InputError: an existing lock or a channel cannot be read.
        OutsideError: the solver crashed.
    """
    pythons = open_pythons(spec, knowledge) if spec.pip and not request.update else ()
    listed = request.path.suffix in LISTS and spec.for_pip_alone
    if not pythons:
        return _locked(request, spec, knowledge, progress)
    tried = pythons[0] if listed else ""
    first = found = _locked(request, with_python(spec, tried) if tried else spec, knowledge, progress)
    queue: Sequence[str] = pythons[1:] if listed else pythons[:TRIED]
    while True:
        if found.lock and tried:
            metadata = {**found.lock.metadata, "cuenv_environment": spec_digest(spec)}
            taken = f"it leaves Python open: {tried} is taken, with which its pip part can be locked"
            if listed:
                taken = f"it names no Python: {tried} is taken; for another one: echo 3.11 > .python-version"
            return replace(found, spec=spec, lock=replace(found.lock, metadata=metadata), warnings=(taken,))
        if found.lock or not (found.unsatisfiable or found.report.errors):
            return found
        if not found.unsatisfiable:  # a Python that conda does not have is passed over
            queue = pythons_instead(found.report, found.facts, spec, knowledge, python=tried, others=queue)
        if not queue or (found.unsatisfiable and found is first):
            return first
        tried, *queue = queue
        if progress:
            progress(f"trying Python {tried}")
        found = _locked(replace(request, quick=True), with_python(spec, tried), knowledge, progress)


def _locked(request: LockRequest, spec: EnvironmentSpec, knowledge: Knowledge, progress: Progress | None) -> Locked:
    request = _as_of_day(request, knowledge)
    asked = (request.host.platform,) if request.host.platform else ()
    kept, facts, named = _standing(request, spec, knowledge)
    named_of_file, moved = _of_linux(spec, request)
    platforms = request.platforms or asked or kept or named_of_file
    moved = () if request.platforms or asked or kept else moved
    if platforms and facts.platform not in platforms:
        moved += _moved(facts, platforms, request)
        facts = replace(facts, platform=platforms[0])
    hosts = [replace(facts, platform=item) for item in _supported(platforms or (facts.platform,), request.path)]
    _open_ahead(spec, hosts[0], request)
    whole = _with_own_indexes(spec, request)
    before = [
        *moved,
        *for_file(spec_findings(whole, knowledge), str(request.path)),
        *before_pip(spec, request.allow),
        *_without_cuda(spec, facts, request, knowledge),
    ]
    if not any(item.code == "CU413" for item in before):
        before += [finding for host in hosts for finding in judge_file(whole, host, knowledge)]
    early = report(request.path.name, allowed(before, request.allow))
    refused = Locked(report=early, spec=spec, facts=facts, named=named, wheels=request.wheels)
    if early.errors:
        return refused
    with _known(early):
        solutions = _solve(request, spec, hosts, knowledge, progress)
    if isinstance(solutions, Finding):
        return replace(refused, report=report(request.path.name, [*early.findings, solutions]))
    if isinstance(solutions, Unsatisfiable):
        old = [] if solutions.missing else _of_driver(request, spec, hosts, knowledge)
        if old:
            return replace(refused, report=report(request.path.name, [*early.findings, *old]))
        return replace(refused, unsatisfiable=solutions)
    with _known(early):
        solutions, of_engine = compared(request.engine, spec, solutions, request.sources)
        solutions, of_pip = _with_pip(request, spec, hosts, solutions, knowledge=knowledge, progress=progress)
    refused_by_pip = any(item.severity == "error" for item in of_pip)
    if request.wheels and of_pip and not refused_by_pip and not any(item.pip for item in solutions):
        of_pip.append(nothing_to_lock(request.path.name))
    # which release the file leaves open is known now
    after = [*(item for item in early.findings if item.code != "CU116"), *of_engine, *of_pip]
    added = of_defaults(spec, solutions, request.sources)
    after += added
    of_solutions, least = _judged(spec, hosts, solutions, request, knowledge)
    after += of_solutions
    of_cpu = [item for item in after if (item.code, item.subject) == ("CU103", "torch")]
    if any(item not in early.findings for item in of_cpu):  # the wheel that was taken says it, and what to take instead
        after = [item for item in after if item not in of_cpu or item not in early.findings]
    late = report(request.path.name, allowed(after, request.allow))
    if late.errors or late.verdict(strict=request.strict) == "not fine":
        return replace(refused, report=late, conda=tuple(solutions))
    made = Lock(
        channels=with_named((*spec.channels, "defaults") if added else spec.channels or ("defaults",), spec.pins),
        sources=(request.path.name,),
        solutions=tuple(solutions),
        metadata=_metadata(spec, hosts[0], solutions, request, knowledge, least=least),
    )
    return replace(refused, report=late, lock=made)


def _with_pip(
    request: LockRequest,
    spec: EnvironmentSpec,
    hosts: list[HostFacts],
    solutions: list[Solution],
    *,
    knowledge: Knowledge,
    progress: Progress | None,
) -> tuple[list[Solution], list[Finding]]:
    """The solutions with their pip part.

    A torch that the file leaves open is the newest that runs on the hosts, and a package that it leaves open is none
    of which its torch dies.
    """

    def ask(asked: EnvironmentSpec, *, quick: bool) -> tuple[list[Solution], list[Finding]]:
        return lock_pip(
            asked,
            solutions,
            _earlier(request, solutions),
            knowledge=knowledge,
            folder=request.path.parent,
            update=request.update,
            environ=request.host.environ,
            allow=request.allow,
            builds=request.builds,
            quick=quick,
            certificates=request.sources.certificates,
            offline=request.sources.offline,
            as_of=request.sources.as_of,
            progress=progress,
        )

    bounds, told = pip_bounds(spec, hosts, solutions, knowledge)
    if bounds:
        made, found = ask(replace(spec, constraints=(*spec.constraints, *bounds)), quick=True)
        if not any(item.code == "CU510" for item in found):
            taken = {item.name for solution in made for item in solution.pip}
            said = {item.subject: item for item in told if item.subject in taken}
            return made, [*found, *said.values()]
    return ask(spec, quick=request.quick)  # as another package wants its torch: the host is what objects then


def _judged(
    spec: EnvironmentSpec,
    hosts: list[HostFacts],
    solutions: list[Solution],
    request: LockRequest,
    knowledge: Knowledge,
) -> tuple[list[Finding], dict[str, str]]:
    """What is found about the solutions, and the least host that runs them; the channels are asked meanwhile."""
    from cuenv.resolver.prove import cuda_offered, solved_findings  # noqa: PLC0415 - the solver is heavy

    questions = [cuda_offered(solution, spec, request.sources, knowledge) for solution in solutions]

    def of_tables() -> tuple[list[list[Finding]], dict[str, str]]:
        found = [
            [
                *host_findings(solution, host, knowledge),
                *drift_findings(spec, solution, knowledge),
                *build_findings(solution, host, knowledge),
                *undated_findings(solution, request.sources.as_of),
            ]
            for host, solution in zip(hosts, solutions, strict=True)
        ]
        return found, minimum_host(solutions, hosts[0], knowledge)

    after: list[Finding] = []
    offers, (judged, least) = meanwhile(lambda: [ask() for ask in questions], of_tables)
    for host, solution, offered, found in zip(hosts, solutions, offers, judged, strict=True):
        of_solution = solved_findings(solution, spec, host, offered, knowledge)
        after += [*for_file(of_solution, str(request.path)), *found]
    return after, least


@contextmanager
def _known(early: Report) -> Iterator[None]:
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


def _of_before(path: Path, made: Lock) -> Iterator[str]:
    """What the lock that is replaced was, and the new one is not; nothing of one that cannot be read."""
    try:
        old = existing_lock(path.parent / LOCK_NAME)
    except CuenvError:
        return
    if old is None:
        return
    before = old.metadata.get(AS_OF, "")
    if before and AS_OF not in made.metadata:
        yield f"the lock that was there was made as of {before}, and this one of today: --as-of {before} keeps the day"
    if old.sources and path.name not in old.sources and "cuenv_environment" in old.metadata:
        yield f"the lock that was there was that of {', '.join(map(shown, old.sources))}, and is replaced by this one"


def _earlier(request: LockRequest, solutions: list[Solution]) -> Lock | None:
    """The lock that would be replaced, whose packages for pip stay while they satisfy the file."""
    if request.anew:
        return None
    if not request.wheels:
        path = request.path.parent / LOCK_NAME
        return read_lock(path) if exists(path) else None
    path = request.output or wheel_path(request.wheels, request.path.parent)
    ours = len(solutions) < 2 and is_file(path) and read_text(path).startswith(WRITTEN_BY)
    return read_lock(path, LockPart(python=solutions[0].python)) if ours else None


def _with_own_indexes(spec: EnvironmentSpec, request: LockRequest) -> EnvironmentSpec:
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


def _standing(
    request: LockRequest, spec: EnvironmentSpec, knowledge: Knowledge
) -> tuple[tuple[str, ...], HostFacts, str]:
    if request.facts:
        return (), request.facts, ""
    if not request.update or request.wheels:
        return (), *host_for(request.path, request.host, knowledge, request.platforms or spec.platforms)
    from cuenv.lockfile.update import standing  # noqa: PLC0415 - most locks are no updates

    return *standing(request.updating, knowledge), ""


def _open_ahead(spec: EnvironmentSpec, host: HostFacts, request: LockRequest) -> None:
    from cuenv.solve.io.solver import open_ahead  # noqa: PLC0415 - the solver is heavy

    if not request.engine.foreign and not request.wheels:
        open_ahead(spec.reached, host.platform, request.sources)


def _solve(
    request: LockRequest,
    spec: EnvironmentSpec,
    hosts: list[HostFacts],
    knowledge: Knowledge,
    progress: Progress | None,
) -> list[Solution] | Unsatisfiable | Finding:
    """Solve for each platform, side by side; packages of an existing lock stay while they satisfy the file.

    What fails beside others is asked again alone: one may have mended the cache under another. So what is returned or
    raised is what one platform after another would say.
    """
    if request.wheels:
        return wheel_solutions(spec, hosts, knowledge)
    old = None if request.anew else existing_lock(request.path.parent / LOCK_NAME)
    if spec.pip and not spec.pin("pip"):
        spec = replace(spec, pins=(*spec.pins, Pin(name="pip")))  # as conda does

    def ask(host: HostFacts) -> Solution | Unsatisfiable | Finding:
        if progress:
            progress(f"solving for {host.platform}")
        kept = old.solution(host.platform) if old else None
        question = SolveRequest(
            spec=spec,
            channels=spec.channels or ("defaults",),
            platform=host.platform,
            virtual_packages=virtual_packages(host),
            prefer=kept.packages if kept else (),
        )
        if request.update:
            from cuenv.lockfile.update import updated  # noqa: PLC0415 - most locks are no updates

            return updated(request.updating, question, old, knowledge)
        return solved(request.engine, question, request.sources, request.host.environ, progress)

    def attempt(host: HostFacts) -> Solution | None:
        try:
            answer = ask(host)
        except (CuenvError, OSError):
            return None
        return answer if isinstance(answer, Solution) else None

    alone = len(hosts) < 2 or request.engine.foreign
    ahead = [None] * len(hosts) if alone else side_by_side(attempt, hosts)
    solutions: list[Solution] = []
    for host, known in zip(hosts, ahead, strict=True):
        answer = known or ask(host)
        if not isinstance(answer, Solution):
            return answer
        solutions.append(answer)
    return solutions


def _of_driver(
    request: LockRequest, spec: EnvironmentSpec, hosts: list[HostFacts], knowledge: Knowledge
) -> list[Finding]:
    """What says that the driver is too old, where the same file can be solved for the newest driver."""
    newest = max(row.number for row in knowledge.branches)
    later = knowledge.first_driver(newest)
    levels = [knowledge.cuda_of(later) for _ in hosts]
    if request.update or request.engine.foreign or not all(host.driver and host.driver.cuda for host in hosts):
        return []
    able = [
        replace(host, driver=replace(host.driver, version=later, cuda=level))
        for host, level in zip(hosts, levels, strict=True)
        if host.driver
    ]
    try:
        answer = _solve(request, spec, able, knowledge, None)
    except CuenvError:
        return []
    if not isinstance(answer, list):
        return []
    found = [item for host, each in zip(hosts, answer, strict=True) for item in host_findings(each, host, knowledge)]
    return [item for item in found if item.code == "CU401" and item.severity == "error"]


def _of_linux(spec: EnvironmentSpec, request: LockRequest) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The platforms of a file that cuenv locks for, and what it says of the others beside them."""
    known = tuple(item for item in spec.platforms if item in PLATFORMS)
    others = [item for item in spec.platforms if item not in PLATFORMS]
    if not known or not others:
        return spec.platforms, ()
    left = Finding(
        code="CU106",
        severity="warning",
        subject="platforms",
        message=f"{request.path.name} is for {', '.join(others)} too; cuenv locks for {' and '.join(PLATFORMS)}, so "
        f"the lock is for {' and '.join(known)} alone",
    )
    return known, (left,)


def _supported(platforms: tuple[str, ...], path: Path) -> tuple[str, ...]:
    for platform in platforms:
        if platform not in PLATFORMS:
            raise UsageError(
                f"{path}: {platform} is not supported; cuenv locks for {' and '.join(PLATFORMS)}",
                hint=f"cuenv lock {shlex.quote(str(path))} --platform {PLATFORMS[0]}",
            )
    return platforms


def _moved(facts: HostFacts, platforms: tuple[str, ...], request: LockRequest) -> tuple[Finding, ...]:
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


def _without_cuda(
    spec: EnvironmentSpec, facts: HostFacts, request: LockRequest, knowledge: Knowledge
) -> tuple[Finding, ...]:
    """A file that names CUDA cannot be solved without a driver's CUDA version; a lock without conda leaves it out."""
    if request.wheels:
        return tuple(left_out(spec))
    if not wants_cuda(spec, knowledge) or (facts.driver and facts.driver.cuda):
        return ()
    words = lock_words(read_text(request.path))
    named = shlex.join([*words[:2], str(request.path), *words[3:]]) if words[3:] else ""
    cuda = named_cuda(spec) or oldest_cuda(spec) or "12.4"
    pretend = f"CONDA_OVERRIDE_CUDA={cuda} cuenv lock {shlex.quote(str(request.path))}"
    return (
        Finding(
            code="CU413",
            severity="error",
            subject="__cuda",
            message=f"{request.path.name} names a CUDA build, but the driver's CUDA version (__cuda) is not known: "
            "name the host with --host, or with --gpu and --driver, or set CONDA_OVERRIDE_CUDA",
            fix=named or pretend,
        ),
    )


def _metadata(
    spec: EnvironmentSpec,
    facts: HostFacts,
    solutions: list[Solution],
    request: LockRequest,
    knowledge: Knowledge,
    *,
    least: dict[str, str],
) -> dict[str, str]:
    """What the lock remembers: its inputs, the host it was made for, and a digest over what it locks."""
    least = {**least}
    if spec.variables:
        least[VARIABLES] = json.dumps(dict(sorted(spec.variables.items())))
    if request.sources.as_of:
        least[AS_OF] = request.sources.as_of
    of_cpu = cpu_builds_asked(spec)
    if of_cpu:
        least[OF_CPU] = " ".join(sorted(of_cpu))
    found = {
        "created_by": f"{CREATED_BY} {__version__}",
        "cuenv_content": content_digest(solutions, least),
        "cuenv_environment": spec_digest(spec),
        "cuenv_knowledge": knowledge.edition,
        **host_metadata(facts),
        **least,
    }
    if request.allow:
        found["cuenv_allowed"] = " ".join(sorted(request.allow))
    return found
