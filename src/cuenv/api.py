"""The public API, which `cuenv` offers: it loads this module for its first name, and each function the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuenv.core.arguments import instance, naming_arguments, several, text, text_or_none
from cuenv.core.errors import Progress, RequirementError, UsageError
from cuenv.core.notebook import draw_with
from cuenv.core.record import replace
from cuenv.core.versions import parse_version_spec
from cuenv.host.facts import HostFacts
from cuenv.host.facts import glibc as library
from cuenv.host.request import PREFER, Request
from cuenv.host.request import pool as merge
from cuenv.host.select import HostOptions, check_day, checked_host, host_facts, recorded_hosts, this_machine
from cuenv.knowledge.io.load import load, load_guidance
from cuenv.knowledge.rows import EVERY_STACK

if TYPE_CHECKING:  # types only: whoever imports this module may ask nothing
    from collections.abc import Callable, Iterable, Sequence

    from cuenv.binary.gpu_code import Scanned
    from cuenv.diagnosis.causes import Diagnosis
    from cuenv.fleet.plan import FleetPlan
    from cuenv.knowledge.base import Knowledge
    from cuenv.lockfile.check import LockCheck
    from cuenv.lockfile.lock import Locked
    from cuenv.prefix.check import PrefixCheck
    from cuenv.resolver.candidates import Candidate
    from cuenv.resolver.decision import Decision
    from cuenv.resolver.resolve import Resolution
    from cuenv.resolver.why import Answer
    from cuenv.solve.environment_spec import EnvironmentSpec
    from cuenv.solve.io.sources import Sources


def _drawn(item: Any) -> str | None:
    """What a notebook shows of a value."""
    from cuenv.report.notebook import drawn  # noqa: PLC0415 - only in a notebook

    return drawn(item)


draw_with(_drawn)


def host_options(
    host: object, gpus: object, driver: object, glibc: object = None, platform: object = None, *, of: str
) -> HostOptions:
    """The options of the command line that name the same host.

    Raises:
        TypeError: one is of a wrong type.
    """
    return HostOptions(
        hosts=several(host, f"{of}: host", "rtx4090-535"),
        gpus=several(gpus, f"{of}: gpus", "RTX 4090"),
        driver=text_or_none(driver, f"{of}: driver", "535.129.03"),
        glibc=text_or_none(glibc, f"{of}: glibc", "2.31"),
        platform=text_or_none(platform, f"{of}: platform", "linux-64"),
    )


def load_knowledge(extra: Path | None = None) -> Knowledge:
    """The knowledge base, with the rows of further tables in a folder laid over it."""
    return load(extra)


def inspect_host() -> HostFacts:
    """This machine: driver, GPUs, C library, toolkits, compilers, torch; each fact with its evidence."""
    return this_machine(os.environ, load(None), deep=True)


def read_host(name_or_path: Path | str) -> HostFacts:
    """A host: a recorded one, a file of ``cuenv inspect --json`` or of what other tools print, or a shipped name.

    Several hosts of one text are a pool.

    Raises:
        InputError: it cannot be read or is not valid.
        UsageError: there is no such name, or its hosts do not share one platform.
        TypeError: neither a text nor a path.
    """
    names = several(name_or_path, "read_host", "rtx4090-535")
    if len(names) != 1:
        raise TypeError(f"read_host takes one host, got {len(names)}; pool(*map(read_host, ...)) takes several")
    with naming_arguments():
        return host_facts(host_options(names, (), None, None, None, of="read_host"), load(None))


def read_hosts(
    name_or_path: Path | str, *, broken: Callable[[str, int, str], None] | None = None
) -> tuple[HostFacts, ...]:
    """Every host of a file or folder: the JSON of `cuenv inspect`, one document or many, and what other tools print.

    Args:
        name_or_path: as `read_host` takes it; a folder without ``host.json`` is read file by file.
        broken: is told of each part that cannot be read: its file (empty unless a folder is read), the number of its
            line, and why. Without it such a part is an error.

    Raises:
        InputError: it cannot be read, describes no host, or part of it is broken and nobody is told.
        UsageError: there is no such name.
        TypeError: neither a text nor a path.
    """
    names = several(name_or_path, "read_hosts", "fleet.ndjson")
    if len(names) != 1:
        raise TypeError(f"read_hosts takes one file or folder, got {len(names)}")
    with naming_arguments():
        return recorded_hosts(names[0], load(None), broken)


def make_host(
    *gpus: str,
    driver: str | None = None,
    glibc: str | None = None,
    platform: str | None = None,
    paste: str | None = None,
) -> HostFacts:
    """A host from GPU names or capabilities, as ``--gpu``, ``--driver``, ``--glibc`` and ``--platform`` make one.

    Args:
        gpus: names of products, or compute capabilities.
        paste: in their place, what `nvidia-smi` or another tool printed there; what else is given goes before it.

    Raises:
        UsageError: a GPU, driver or platform that does not exist.
        InputError: the paste describes no host.
        TypeError: an argument is no text.
    """
    pasted = text_or_none(paste, "make_host: paste", "what nvidia-smi prints")
    if not gpus and pasted is None:
        raise UsageError("make_host needs a GPU", hint='make_host("RTX 4090", driver="535.129.03")')
    names = tuple(text(name, "make_host: gpus", "RTX 4090") for name in gpus)
    hosts = () if pasted is None else ("-",)
    with naming_arguments():
        options = host_options(hosts, names, driver, glibc, platform, of="make_host")
        return host_facts(replace(options, stdin=lambda: pasted or ""), load(None))


def pool(*hosts: HostFacts) -> HostFacts:
    """Several hosts as one: lowest driver, lowest C library, union of GPUs.

    Raises:
        ValueError: they do not share one platform.
        TypeError: an argument is no host.
    """
    return merge(instance(host, HostFacts, "pool: each host", "read_host() or make_host()") for host in hosts)


def make_request(
    name: str = "cuenv",
    *,
    stack: str | None = None,
    pytorch: str | None = None,
    cuda: str | None = None,
    python: str | None = None,
    packages: str | Sequence[str] = (),
    pip: str | Sequence[str] = (),
    dev: bool = True,
    cpu: bool = False,
    prefer: str = "newest",
    as_of: str | None = None,
) -> Request:
    """A request, as the options of ``cuenv resolve`` make it.

    Args:
        name: of the environment.
        stack: ``conda-forge``, ``pytorch`` or ``wheels``; ``None`` lets cuenv choose.
        pytorch: a prefix (``2.5``), an exact version (``==2.5.1``) or a range; so ``cuda`` and ``python``.
        packages: further conda specs.
        pip: requirements for the pip part.
        dev: with compiler and headers.
        cpu: a CPU build.
        prefer: ``newest`` or ``native``.
        as_of: a day ``YYYY-MM-DD`` (UTC): only builds that existed then.

    Raises:
        UsageError: a request that is not a version spec, or no day since the tables begin.
        TypeError: an argument is of another type: a version is a text, since the number 2.10 would be 2.1.
    """
    name = text(name, "make_request: name", "train")
    pytorch = text_or_none(pytorch, "make_request: pytorch", "2.5")
    cuda = text_or_none(cuda, "make_request: cuda", "12.4")
    python = text_or_none(python, "make_request: python", "3.12")
    if prefer not in PREFER or stack not in (None, *EVERY_STACK):
        message = f"prefer must be one of {', '.join(PREFER)}, stack must be one of {', '.join(EVERY_STACK)}"
        raise UsageError(message, hint="cuenv.make_request(prefer='native')")
    if cpu and cuda:
        raise UsageError("cpu and cuda exclude each other", hint="cuenv.make_request(cpu=True)")
    return Request(
        name=name,
        stack=stack,
        pytorch=parse_version_spec(pytorch, what="pytorch") if pytorch else None,
        cuda=parse_version_spec(cuda, what="cuda") if cuda else None,
        python=parse_version_spec(python, what="python") if python else None,
        packages=several(packages, "make_request: packages", "numpy>=1.26"),
        pip=several(pip, "make_request: pip", "einops"),
        dev=dev,
        cpu=cpu,
        prefer=prefer,
        as_of=_day(as_of, "make_request"),
    )


wishes = make_request
"""The name of `make_request` in version 0.1."""


def _day(value: object, of: str) -> str:
    """A day as of which builds are asked for; empty where none is given."""
    given = text_or_none(value, f"{of}: as_of", "2025-06-01")
    if given is None:
        return ""

    with naming_arguments():
        return check_day(given, load(None))


def resolve(
    host: HostFacts, asked: Request | None = None, *, prove: Sources | None = None, tables: Knowledge | None = None
) -> Resolution:
    """Choose an environment for a host.

    Args:
        host: from `inspect_host`, `read_host`, `make_host` or `pool`.
        asked: from `make_request`; none by default.
        prove: from `channels`: take the best choice that they can satisfy. No solver and no network otherwise.
        tables: from `load_knowledge`; the bundled ones by default.

    Returns:
        The decision, and the environment when something fits: ask ``fits`` before ``spec`` is used.

    Raises:
        TypeError: an argument is of another type.
    """
    from cuenv.resolver.resolve import resolve as choose  # noqa: PLC0415 - see the module docstring

    host = instance(host, HostFacts, "resolve: host", "read_host(), make_host(), inspect_host() or pool()")
    wanted = make_request() if asked is None else instance(asked, Request, "resolve: asked", "make_request()")
    if prove is not None:
        from cuenv.solve.io.sources import Sources as Reached  # noqa: PLC0415 - only with channels

        instance(prove, Reached, "resolve: prove", "channels()")
    return choose(host, wanted, tables or load(None), name=wanted.name, prove=prove)


def render(spec: EnvironmentSpec | None) -> str:
    """The text of ``environment.yml``.

    Args:
        spec: ``answer.spec`` of `resolve`, which is there when ``answer.fits``.

    Raises:
        UsageError: there is none, as nothing fits.
        TypeError: it is something else.
    """
    from cuenv.solve.environment_spec import EnvironmentSpec as Spec  # noqa: PLC0415 - as above
    from cuenv.solve.environment_yml import render as write  # noqa: PLC0415 - as above

    if spec is None:
        message = "render: nothing fits, so there is no environment; check answer.fits first"
        raise UsageError(message, hint="print(*(group.because for group in answer.decision.rejections), sep='\\n')")
    return write(instance(spec, Spec, "render", "resolve(...).spec"))


def channels(mirrors: str | Sequence[str] = (), *, offline: bool = False) -> Sources:
    """How channels are reached: mirrors as ``FROM=TO``, then the user's ``.condarc``.

    Raises:
        UsageError: a mirror has another form.
        InputError: a ``.condarc`` is not valid.
    """
    from cuenv.solve.io.sources import sources_here  # noqa: PLC0415 - as above

    texts = several(mirrors, "channels: mirrors", "conda-forge=/srv/conda-forge")
    with naming_arguments():
        return sources_here(texts, os.environ, offline=offline)


def lock(
    path: Path | str,
    host: str | Sequence[str] = (),
    *,
    gpus: str | Sequence[str] = (),
    driver: str | None = None,
    glibc: str | None = None,
    platform: str | None = None,
    sources: Sources | None = None,
    allow: str | Sequence[str] = (),
    as_of: str | None = None,
    progress: Progress | None = None,
) -> Locked:
    """Solve an environment file and write its lock files beside it.

    Args:
        path: the environment file.
        host: recorded hosts to lock for; so ``gpus``, ``driver``, ``glibc``, ``platform``. This machine by default.
        sources: from `channels`.
        allow: codes of findings that do not refuse.
        as_of: a day ``YYYY-MM-DD`` (UTC): only builds that existed then; the day that the file names by default.
        progress: called with what happens next.

    Raises:
        UsageError: a day in the future, or before the tables begin.
        InputError: the file or a channel cannot be read.
        OutsideError: the solver failed, or a file cannot be written.
    """
    from cuenv.lockfile.lock import LockRequest  # noqa: PLC0415 - as above
    from cuenv.lockfile.lock import lock as freeze  # noqa: PLC0415 - as above

    options = host_options(host, gpus, driver, glibc, platform, of="lock")
    codes = several(allow, "lock: allow", "CU104")
    day = _day(as_of, "lock")
    reached = replace(sources or channels(), as_of=day) if day else sources or channels()
    request = LockRequest(path=Path(path), host=options, sources=reached, allow=codes)
    with naming_arguments():
        return freeze(request, load(None), progress=progress)


def check(
    path: Path | str,
    host: str | Sequence[str] = (),
    *,
    gpus: str | Sequence[str] = (),
    driver: str | None = None,
    glibc: str | None = None,
    platform: str | None = None,
    environment: str = "",
    extras: str | Sequence[str] = (),
    groups: str | Sequence[str] = (),
    python: str = "",
) -> LockCheck:
    """Check a lock against a host, its environment file and the policy for CUDA packages.

    Args:
        path: the lock, of any format that ``cuenv check`` reads.
        host: as for `lock`; this machine by default.
        environment: the environment of a ``pixi.lock``; ``default`` where none is named.
        extras: of a ``uv.lock`` or ``pylock.toml``.
        groups: dependency groups of the same, beside those that are installed by default.
        python: the Python that a lock of wheels is read for, such as ``3.12``.

    Raises:
        InputError: the lock cannot be read.
        UsageError: it has no such part.
    """
    from cuenv.lockfile.check import check as look  # noqa: PLC0415 - as above
    from cuenv.lockfile.formats import LockPart  # noqa: PLC0415 - as above

    part = LockPart(
        environment=text(environment, "environment=", "gpu"),
        extras=several(extras, "extras=", "cu128") if extras else (),
        groups=several(groups, "groups=", "dev") if groups else (),
        python=text(python, "python=", "3.12"),
    )
    options = host_options(host, gpus, driver, glibc, platform, of="check")
    with naming_arguments():
        return look(Path(path), options, load(None), part=part)


def require(
    path: Path | str,
    host: str | Sequence[str] = (),
    *,
    gpus: str | Sequence[str] = (),
    driver: str | None = None,
    glibc: str | None = None,
    platform: str | None = None,
    strict: bool = False,
) -> LockCheck:
    """Go on only where a lock runs on this machine: a program that begins with it fails at once, and says why.

    It looks at the driver, the GPUs and the C library of the machine that the program runs on, whatever host the lock
    was made for; nothing is solved, downloaded or started, and torch is not imported.

    Args:
        path: the lock, of any format that ``cuenv check`` reads, or the folder that it lies in.
        host: a recorded host in place of this machine; so ``gpus``, ``driver``, ``glibc``, ``platform``.
        strict: raise on warnings too, and where the tables do not know whether the lock runs.

    Returns:
        What was found where nothing refuses.

    Raises:
        RequirementError: an error was found; ``code``, ``message``, ``fix`` are those of the finding that leads.
        InputError: the lock does not exist, or cannot be read.
        UsageError: an option names nothing that exists.
    """
    from cuenv.lockfile.check import CheckedLock  # noqa: PLC0415 - as above

    named, tables = several(path, "require", "conda-lock.yml"), load(None)
    if len(named) != 1:
        raise TypeError(f"require takes one lock, got {len(named)}")
    options = host_options(host, gpus, driver, glibc, platform, of="require")
    with naming_arguments():
        checked = CheckedLock(Path(named[0]), tables).check(checked_host(options, tables, None), options)
    refusal = checked.report.refusal(strict=strict)
    if refusal:
        raise RequirementError(refusal.message, code=refusal.code, fix=refusal.fix, report=checked.report)
    return checked


def why(decision: Decision, subject: str) -> Answer:
    """Why a decision is as it is, down to sourced facts.

    Raises:
        UsageError: nothing is known about such a subject.
    """
    from cuenv.resolver.decision import Decision as Decided  # noqa: PLC0415 - as above
    from cuenv.resolver.why import why as answer  # noqa: PLC0415 - as above

    decision = instance(decision, Decided, "why: decision", "resolve(...).decision")
    return answer(decision, text(subject, "why: subject", "pytorch"))


def why_not(decision: Decision, question: str) -> Answer:
    """Why something else was not chosen: ``cuda=13.0``, ``pytorch=2.12``, ``stack=pytorch``, ``python=3.13``.

    Raises:
        UsageError: the question has another form.
    """
    from cuenv.resolver.decision import Decision as Decided  # noqa: PLC0415 - as above
    from cuenv.resolver.why import why_not as answer  # noqa: PLC0415 - as above

    decision = instance(decision, Decided, "why_not: decision", "resolve(...).decision")
    return answer(decision, text(question, "why_not: question", "cuda=13.0"))


def choices(
    hosts: Iterable[HostFacts], asked: Request | None = None, *, tables: Knowledge | None = None
) -> tuple[Candidate | None, ...]:
    """What `cuenv.resolve` would choose for each of many hosts, without the reasons: ten thousand take seconds.

    Args:
        hosts: as for `cuenv.resolve`.
        asked: from `cuenv.make_request`; none by default.
        tables: from `cuenv.load_knowledge`; the bundled ones by default.

    Returns:
        In the order of the hosts, ``None`` where nothing fits.
    """
    from cuenv.resolver.batch import choices as choose  # noqa: PLC0415 - see the module docstring
    from cuenv.resolver.resolve import facts_for_decision  # noqa: PLC0415 - as above

    return choose(map(facts_for_decision, hosts), asked or Request(), tables or load(None))


def plan(
    hosts: Iterable[HostFacts],
    asked: Request | None = None,
    *,
    at_most: int | None = None,
    glibc: str | None = None,
    tables: Knowledge | None = None,
) -> FleetPlan:
    """The fewest environments that serve many hosts, what fewer would cost, and the hosts that prove it.

    Args:
        hosts: from `cuenv.read_hosts`, each with the name of its node.
        asked: from `cuenv.make_request`; none by default.
        at_most: how many environments there may be; as few as serve all GPUs as well as their best by default.
        glibc: assumed of hosts whose glibc is not known.
        tables: from `cuenv.load_knowledge`; the bundled ones by default.

    Raises:
        UsageError: two hosts have one name and other facts.
        TypeError: an argument is of another type.
    """
    from cuenv.fleet.nodes import unique_nodes  # noqa: PLC0415 - as above
    from cuenv.fleet.plan import plan as find  # noqa: PLC0415 - as above

    given = [instance(host, HostFacts, "plan: each host", "read_hosts() or make_host()") for host in hosts]
    nodes, odd = unique_nodes(given)
    if odd:
        raise UsageError("; ".join(odd), hint="keep one record of each node")
    libc = library(text(glibc, "plan: glibc", "2.28")) if glibc is not None else None
    return find(nodes, asked or make_request(), tables or load(None), at_most=at_most, glibc=libc)


def diagnose(log: str | bytes, host: HostFacts | None = None, *, prefix: Path | str | None = None) -> Diagnosis:
    """What an error means, why it happens on a host, and the one command that cures it.

    Args:
        log: a traceback or a whole log, as text or as it was read.
        host: from `cuenv.read_host`, `cuenv.make_host` or `cuenv.inspect_host`; without one the log speaks alone.
        prefix: the environment that it is from.

    Raises:
        InputError: the folder is not an environment.
    """
    from cuenv.diagnosis.causes import diagnose as judge  # noqa: PLC0415 - as above
    from cuenv.prefix.io.prefix import find_prefix  # noqa: PLC0415 - as above

    if not isinstance(log, (str, bytes)):
        text(log, "diagnose: log", "a traceback; a file is read with Path(...).read_bytes()")
    if host is not None:
        host = instance(host, HostFacts, "diagnose: host", "read_host(), make_host() or inspect_host()")
    knowledge = load(None)
    data = log.encode("utf-8", "surrogateescape") if isinstance(log, str) else log
    environment = find_prefix(Path(prefix)) if prefix else None
    return judge([data], load_guidance(knowledge).symptoms, knowledge, host, environment)


def check_prefix(
    prefix: Path | str,
    host: str | Sequence[str] = (),
    *,
    gpus: str | Sequence[str] = (),
    driver: str | None = None,
    glibc: str | None = None,
    lock: Path | str | None = None,
) -> PrefixCheck:
    """Check an installed environment by its files; torch is not imported, and no GPU is needed.

    Args:
        prefix: its folder.
        host: recorded hosts to judge for; so ``gpus``, ``driver``, ``glibc``. This machine by default.
        lock: that it was made from.

    Raises:
        InputError: it is not an environment, or the lock cannot be read.
    """
    from cuenv.prefix.check import check_prefix as look  # noqa: PLC0415 - as above

    options = host_options(host, gpus, driver, glibc, of="check_prefix")
    with naming_arguments():
        return look(Path(prefix), options, load(None), lock=Path(lock) if lock else None)


def scan(
    paths: str | Path | Sequence[str | Path],
    host: str | Sequence[str] = (),
    *,
    gpus: str | Sequence[str] = (),
    driver: str | None = None,
    deep: bool = False,
) -> Scanned:
    """Which GPUs the machine code in binaries supports.

    Args:
        paths: files or folders.
        host: as for `check_prefix`; so ``gpus`` and ``driver``.
        deep: look for device code outside of its own sections too.
    """
    from cuenv.binary.gpu_code import scan_paths  # noqa: PLC0415 - as above

    options = host_options(host, gpus, driver, of="scan")
    with naming_arguments():
        return scan_paths(several(paths, "scan: paths", "torch/lib"), options, load(None), deep=deep)
