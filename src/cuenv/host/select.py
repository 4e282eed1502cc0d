"""Which host a question is about: options, a recorded host, a profile's GPUs, or this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from cuenv.core.errors import UsageError
from cuenv.core.io.files import real_path
from cuenv.core.io.process import environment
from cuenv.core.reading import describe
from cuenv.core.record import NamedTuple, dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, check_driver, version
from cuenv.host.facts import Driver, Evidence, Gpu, HostFacts, Libc, glibc
from cuenv.host.request import Request, pool
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS

_LAST_GLIBC = 60  # glibc gains one minor in half a year, and had reached 2.44 in 2026
_TARGET = regex(r"(?:sm|compute)_?(\d{1,2})(\d)")  # how nvcc writes a capability: ``sm_90``
_NUMBER = regex(r"\s*\d+,\d+\s*")  # how some countries write 8.9, which is not a list


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The options that describe a host, as they were typed."""

    hosts: tuple[str, ...] = ()  # recorded hosts: a folder, a file, a shipped name or ``-``
    gpus: tuple[str, ...] = ()  # product names or capabilities ``X.Y``
    driver: str | None = None
    glibc: str | None = None
    platform: str | None = None
    environ: Mapping[str, str] = field(default_factory=environment)
    stdin: Callable[[], str] = field(default=lambda: "")

    @property
    def given(self) -> bool:
        """Whether any option names a host."""
        return bool(self.hosts or self.gpus or self.driver or self.glibc or self.platform)

    @property
    def words(self) -> tuple[str, ...]:
        """The options as they were typed, for another command."""
        found = [
            word
            for option, texts in (("--host", self.hosts), ("--gpu", self.gpus))
            for text in texts
            for word in (option, text)
        ]
        for option, text in (("--driver", self.driver), ("--glibc", self.glibc), ("--platform", self.platform)):
            found += [option, text] if text else []
        return tuple(found)


def host_facts(options: HostOptions, knowledge: Knowledge, profile: Request | None = None) -> HostFacts:
    """The host that the options describe.

    ``--host`` first, else the GPUs of the options, else those of the profile, else this machine. Options override
    the fact of the same name. GPUs from options or a profile never take this machine's driver.

    Raises:
        UsageError: an option or the profile names nothing that exists.
        InputError: a recorded host cannot be read.
    """
    stated = _stated(options, knowledge)
    if options.hosts:
        facts = _recorded(options, knowledge)
    elif stated.gpus:
        facts = _here_without_gpu("the given host", options)
    elif profile and profile.gpus:
        facts = _of_profile(profile, options, knowledge)
    else:
        facts = this_machine(options.environ, knowledge)
        facts = with_disk(facts, profile) if profile else facts
    facts = _override(facts, stated)
    if options.driver and not facts.gpus:
        message = f"--driver {options.driver} needs the GPU of the host"
        raise UsageError(message, hint=f"cuenv resolve --gpu 'RTX 4090' --driver {options.driver}")
    return facts


def host_of_log(options: HostOptions, known: HostFacts, knowledge: Knowledge) -> HostFacts:
    """A host that is partly known, such as from its log, with the options laid over it.

    A driver alone is enough here. With ``--host`` nothing else counts.

    Raises:
        UsageError: an option names nothing that exists.
        InputError: a recorded host cannot be read.
    """
    if options.hosts:
        return host_facts(options, knowledge)
    return _override(known, _stated(options, knowledge))


class _GivenFacts(NamedTuple):
    """The facts in options; missing ones are empty."""

    gpus: tuple[Gpu, ...]
    driver: Driver | None
    libc: Libc | None
    platform: str | None


def _stated(options: HostOptions, knowledge: Knowledge) -> _GivenFacts:
    driver, libc, platform = _driver(options.driver, knowledge), _libc(options.glibc), _platform(options.platform)
    gpus = named_gpus("--gpu", options.gpus, knowledge)
    return _GivenFacts(gpus, driver, libc, platform)


def this_machine(environ: Mapping[str, str], knowledge: Knowledge, *, deep: bool = False) -> HostFacts:
    """This machine, with conda's override variables applied."""
    from cuenv.host.io.probe import probe  # noqa: PLC0415 - most resolves name their host

    def capability(name: str) -> Capability | None:
        return _capability(name, knowledge)

    def device(number: str) -> str | None:
        from cuenv.knowledge.gpu_names import gpu_by_pci  # noqa: PLC0415 - only for a GPU that no driver names

        row = gpu_by_pci(number, knowledge.gpus)
        return row.name if row else None

    facts = probe(environ, deep=deep, name_to_capability=capability, device_to_name=device, level_of=knowledge.cuda_of)
    return apply_overrides(facts, environ)


def checked_host(options: HostOptions, knowledge: Knowledge, request: Request | None) -> HostFacts:
    """The host of a check; of a profile only the memory and disk count, not its GPUs.

    Raises:
        UsageError: an option names nothing that exists.
        InputError: a recorded host cannot be read.
    """
    facts = host_facts(options, knowledge)
    return with_disk(facts, request) if request and not options.given else facts


def without_environment(options: HostOptions, folder: str) -> HostOptions:
    """The options without the programs of an environment, so that probing the machine does not run them.

    Args:
        folder: the environment, which may be the active one.
    """
    real = real_path(folder)
    entries = options.environ.get("PATH", "").split(":")
    kept = [item for item in entries if not f"{real_path(item)}/".startswith(f"{real}/")]
    return options if kept == entries else replace(options, environ={**options.environ, "PATH": ":".join(kept)})


def with_disk(facts: HostFacts, request: Request) -> HostFacts:
    """This machine with the free space of the working folder, if a profile requires disk space."""
    if not request.disk_gb or facts.resources.disk_mib is not None:
        return facts
    from cuenv.host.io.system import free_disk  # noqa: PLC0415 - few profiles ask for disk

    found = free_disk()
    resources = replace(facts.resources, disk_mib=found.resources.disk_mib)
    return replace(
        facts, resources=resources, evidence=(*facts.evidence, *found.evidence), gaps=(*facts.gaps, *found.gaps)
    )


def _recorded(options: HostOptions, knowledge: Knowledge) -> HostFacts:
    from cuenv.host.io.record import read_host  # noqa: PLC0415 - only with --host

    if options.hosts.count("-") > 1:
        message = "--host - was given twice, but standard input can be read only once"
        raise UsageError(message, hint="cuenv resolve --host - --host node2.json")
    try:
        return pool(
            replace(_complete_names(host, knowledge), asked_as=name)
            for name in options.hosts
            for host in read_host(name, options.stdin, knowledge).machines
        )
    except ValueError as error:
        raise UsageError(str(error), hint="run once for each platform") from error


def recorded_hosts(
    name: str,
    knowledge: Knowledge,
    broken: Callable[[str, int, str], None] | None = None,
    stdin: Callable[[], str] = str,
) -> tuple[HostFacts, ...]:
    """Every host of a file or folder, or of standard input (``-``), in its order.

    Args:
        name: as `--host` takes it.
        broken: is told of each part that cannot be read: its file (empty unless a folder is read), the number of its
            line, and why. Without it such a part is an error.
        stdin: reads standard input to its end.

    Raises:
        InputError: it cannot be read, tells of no host, or part of it is broken and nobody is told.
        UsageError: there is no such name.
    """
    from cuenv.host.io.record import read_hosts, refuse_broken  # noqa: PLC0415 - as above

    told = read_hosts(name, stdin, knowledge)
    if broken is None:
        refuse_broken(name, told.broken)
    else:
        for item in told.broken:
            broken(item.file, item.line, item.says)
    return tuple(replace(_complete_names(host, knowledge), asked_as=name) for host in told.hosts)


def _complete_names(facts: HostFacts, knowledge: Knowledge) -> HostFacts:
    """A recorded host with what follows from names: missing capabilities, and the driver's CUDA version."""
    gpus = tuple(
        replace(gpu, capability=_capability(gpu.name, knowledge)) if gpu.capability is None and gpu.name else gpu
        for gpu in facts.gpus
    )
    driver = facts.driver
    if driver and driver.version and driver.cuda is None:
        driver = replace(driver, cuda=knowledge.cuda_of(driver.version))
    members = tuple(_complete_names(member, knowledge) for member in facts.members)
    return replace(facts, gpus=gpus, driver=driver, members=members)


def _capability(name: str, knowledge: Knowledge) -> Capability | None:
    from cuenv.knowledge.gpu_names import find_gpu  # noqa: PLC0415 - only where a source does not tell it

    row = find_gpu(name, knowledge.gpus)
    return row.capability if row else None


def _here_without_gpu(label: str, options: HostOptions) -> HostFacts:
    """The C library and platform of this machine, without its driver, GPUs and kernel.

    The solver needs some C library; the kernel constrains nothing, and would make every machine's lock another one.
    """
    from cuenv.host.io.surroundings import surroundings  # noqa: PLC0415 - only where options leave something open

    here = replace(surroundings(), label=label, detected=False, kernel=None)
    # A CUDA version that somebody set is no fact of this machine, and counts where no option says more.
    level = not options.driver and options.environ.get(CUDA, "").strip()
    hidden = {ARCH} if level else {ARCH, CUDA}
    return apply_overrides(here, {key: value for key, value in options.environ.items() if key not in hidden})


def _of_profile(profile: Request, options: HostOptions, knowledge: Knowledge) -> HostFacts:
    source = f"profile {profile.name}"
    facts = _here_without_gpu(source, options)
    gpus = named_gpus(f"{source}: gpus:", profile.gpus, knowledge)
    driver = _driver(profile.lowest_driver, knowledge)
    evidence = [Evidence("gpus", source, ", ".join(profile.gpus))]
    if driver:
        evidence.append(Evidence("driver.version", source, f"lowest_driver: {driver.version}"))
    return replace(facts, gpus=gpus, driver=driver or facts.driver, evidence=(*facts.evidence, *evidence))


def _override(facts: HostFacts, stated: _GivenFacts) -> HostFacts:
    """The facts with options in place of the facts with the same name, for every member of a pool."""
    gpus, driver, libc, platform = stated
    if facts.members and not gpus:
        return pool(_override(member, stated) for member in facts.members)
    evidence = {item.fact: item for item in facts.evidence}
    if gpus:
        facts = replace(facts, gpus=gpus, members=(), detected=False)
        evidence["gpus"] = Evidence(
            "gpus", "override:--gpu", ", ".join(str(gpu.name or gpu.capability) for gpu in gpus)
        )
    if driver:
        facts = replace(facts, driver=driver)
        evidence["driver.version"] = Evidence("driver.version", "override:--driver", driver.version or "")
        evidence["driver.cuda"] = Evidence("driver.cuda", "override:--driver", f"CUDA {driver.cuda} by its branch")
    if libc:
        facts = replace(facts, libc=libc)
        evidence["libc"] = Evidence("libc", "override:--glibc", str(libc.version))
    if platform:
        facts = replace(facts, platform=platform)
        evidence["platform"] = Evidence("platform", "override:--platform", platform)
    return replace(facts, evidence=tuple(evidence.values()))


def named_gpus(named_by: str, texts: tuple[str, ...], knowledge: Knowledge) -> tuple[Gpu, ...]:
    """GPUs by name or capability; one text may contain several, separated by commas.

    Raises:
        UsageError: one is neither.
    """
    texts = tuple(part for text in texts for part in ([text] if _NUMBER.fullmatch(text) else text.split(",")))
    return tuple(_gpu(named_by, text, index, knowledge) for index, text in enumerate(texts))


def _gpu(named_by: str, text: str, index: int, knowledge: Knowledge) -> Gpu:
    target = _TARGET.fullmatch(text.strip().lower())
    try:
        return Gpu(
            index=index, name="", capability=Capability.parse(f"{target[1]}.{target[2]}" if target else text.strip())
        )
    except ValueError:
        pass
    from cuenv.knowledge.gpu_names import find_gpu, unknown_gpu  # noqa: PLC0415 - a capability needs no names

    row = find_gpu(text, knowledge.gpus)
    if row:
        return Gpu(index=index, name=row.name, capability=row.capability)
    near, hint = unknown_gpu(text, knowledge.gpus)
    raise UsageError(f"{named_by} {text!r}: unknown GPU name{near}", hint=hint)


def _driver(text: str | None, knowledge: Knowledge) -> Driver | None:
    if text is None:
        return None
    try:
        version = check_driver(text.strip())
    except ValueError as error:
        raise UsageError(f"--driver: {error}", hint="nvidia-smi --query-gpu=driver_version --format=csv") from error
    if not knowledge.is_driver(version):
        newest = max(row.number for row in knowledge.branches)
        message = f"--driver {version}: this driver does not exist; the newest known branch is {newest}"
        raise UsageError(message, hint="nvidia-smi --query-gpu=driver_version --format=csv")
    return Driver(version=version, cuda=knowledge.cuda_of(version))


def _libc(text: str | None) -> Libc | None:
    if text is None:
        return None
    try:
        found = glibc(text.strip())
    except ValueError as error:
        raise UsageError(f"--glibc: {error}", hint="ldd --version") from error
    if found.version.major != 2 or found.version.minor > _LAST_GLIBC:
        raise UsageError(f"--glibc {text}: this glibc version does not exist", hint="ldd --version")
    return found


def _platform(text: str | None) -> str | None:
    if text is not None and text not in PLATFORMS:
        message = f"--platform {text!r} is not supported; cuenv resolves for {' and '.join(PLATFORMS)}"
        raise UsageError(message, hint=f"cuenv resolve --platform {PLATFORMS[0]}")
    return text


T = TypeVar("T")

CUDA = "CONDA_OVERRIDE_CUDA"
ARCH = "CONDA_OVERRIDE_CUDA_ARCH"
GLIBC = "CONDA_OVERRIDE_GLIBC"
LINUX = "CONDA_OVERRIDE_LINUX"
ARCHSPEC = "CONDA_OVERRIDE_ARCHSPEC"

_RELEASE = regex(r"[0-9]{1,3}(\.[0-9]{1,4}){0,2}")
_ARCHSPEC = regex(r"[a-z0-9][a-z0-9_]{0,39}")
_KERNEL = regex(r"[0-9]{1,4}(\.[0-9]{1,6}){1,3}")


def apply_overrides(facts: HostFacts, environ: Mapping[str, str]) -> HostFacts:
    """The facts, changed by the ``CONDA_OVERRIDE_*`` variables.

    Raises:
        UsageError: a variable is set to something that conda would not understand; the message names it.
    """
    if CUDA in environ:
        facts = _cuda(facts, environ[CUDA])
    if ARCH in environ:
        facts = _arch(facts, environ[ARCH], hidden=CUDA in environ and not environ[CUDA].strip())
    if GLIBC in environ:
        libc = _read(environ[GLIBC], GLIBC, "2.31", lambda text: glibc(_matching(_RELEASE, text)))
        facts = _forget(
            replace(facts, libc=libc), "libc", Evidence("libc", _source(GLIBC), _say(libc and libc.version))
        )
    if LINUX in environ:
        kernel = _read(environ[LINUX], LINUX, "5.15.0", lambda text: _matching(_KERNEL, text))
        facts = _forget(replace(facts, kernel=kernel), "kernel", Evidence("kernel", _source(LINUX), _say(kernel)))
    if ARCHSPEC in environ:
        name = _read(environ[ARCHSPEC], ARCHSPEC, "x86_64_v3", lambda text: _matching(_ARCHSPEC, text))
        note = Evidence("archspec", _source(ARCHSPEC), _say(name))
        facts = _forget(replace(facts, archspec=name), "archspec", note)
    return facts


def _cuda(facts: HostFacts, text: str) -> HostFacts:
    level = _read(text, CUDA, "12.4", lambda word: version(_matching(_RELEASE, word)))
    if level is None:
        note = Evidence("driver.cuda", _source(CUDA), "no CUDA: driver and GPUs count as absent")
        return _forget(_forget(replace(facts, detected=False, driver=None, gpus=()), "gpus"), "driver", note)
    known = facts.driver.version if facts.driver else None
    text = f"a driver that supports CUDA {level}" + (f", in place of driver {known}" if known else "")
    note = Evidence("driver.cuda", _source(CUDA), text)
    return _forget(replace(facts, detected=False, driver=Driver(cuda=level)), "driver", note)


def _arch(facts: HostFacts, text: str, *, hidden: bool) -> HostFacts:
    lowest = _read(text, ARCH, "8.9", Capability.parse)
    if hidden:
        return facts
    gpus = () if lowest is None else (Gpu(index=0, name="", capability=lowest),)
    instead = f", in place of {len(facts.gpus)} detected" if facts.gpus else ""
    note = Evidence("gpus[0].capability" if gpus else "gpus", _source(ARCH), f"{_say(lowest)}{instead}")
    return _forget(replace(facts, detected=False, gpus=gpus), "gpus", note)


def _read(text: str, name: str, example: str, parse: Callable[[str], T]) -> T | None:
    stripped = text.strip()
    if not stripped:
        return None
    try:
        return parse(stripped)
    except ValueError as error:
        message = f"the variable {name} is {describe(text)}, expected one like {example} (or empty for absent)"
        raise UsageError(message, hint=f"unset {name}") from error


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(text)
    return text


def _source(name: str) -> str:
    return f"override:{name}"


def _say(value: object) -> str:
    return "absent" if value is None else str(value)


def _forget(facts: HostFacts, fact: str, *notes: Evidence) -> HostFacts:
    """Remove the evidence and gaps of a fact that an override replaces."""
    return replace(
        facts,
        evidence=(*(item for item in facts.evidence if not _within(item.fact, fact)), *notes),
        gaps=tuple(item for item in facts.gaps if not _within(item.fact, fact)),
    )


def _within(name: str, fact: str) -> bool:
    return name == fact or name.startswith((f"{fact}.", f"{fact}["))


def check_day(text: str, knowledge: Knowledge) -> str:
    """Check the day ``YYYY-MM-DD`` (UTC) of ``--as-of``.

    Args:
        knowledge: the tables, which date builds from some day on.

    Raises:
        UsageError: the text is not a day, or a day in the future or before the tables begin.
    """
    from cuenv.host.io.surroundings import is_day, today  # noqa: PLC0415 - most requests name no day

    given, now, first = text.strip(), today(), knowledge.first_day
    if not is_day(given):
        message = f"--as-of: expected a day YYYY-MM-DD, got {describe(text)}"
        raise UsageError(message, hint=f"cuenv resolve --as-of {now}")
    if given > now:
        raise UsageError(f"--as-of {given} is in the future; today is {now} (UTC)", hint=f"cuenv resolve --as-of {now}")
    if given < first:
        message = f"--as-of {given} is before the cuenv tables begin: their first PyTorch build is from {first}"
        raise UsageError(message, hint=f"cuenv resolve --as-of {first}")
    return given
