"""Reading environment files and locks, and what a lock remembers of its inputs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import CuenvError, InputError, NotALockError
from cuenv.core.io.files import exists, is_file, is_folder, load_toml, ls_command, path_text, read_text
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, check_driver, version
from cuenv.host.facts import Driver, Evidence, Gpu, HostFacts, glibc
from cuenv.host.select import ARCH, CUDA, GLIBC, HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.formats import LockPart, other_than_environment, parse_lock, reader_of
from cuenv.solve.environment_spec import LISTS, WRITTEN_BY, EnvironmentSpec
from cuenv.solve.model import Lock, Solution, digest

LOCK_NAME = "conda-lock.yml"
ENVIRONMENT = "environment.yml"
REQUIREMENTS = "requirements.txt"
_DEPENDENCIES = regex(r"^dependencies:", re.MULTILINE)
_MAPPING = regex(r"^[A-Za-z_]+:(?:\s|$)", re.MULTILINE)
_SOURCES = regex(r"^ +sources:\n((?: +- .*\n)+)", re.MULTILINE)
_BESIDE = regex(r"[^/\\]+\.(?:ya?ml|txt|in)")
"""The name of an environment file, or of a list of requirements, that lies beside its lock."""
_PACKAGE = regex(r"^package:", re.MULTILINE)
_PYTHON_VERSION = ".python-version"
_PROJECT = 1024 * 1024  # bytes of a ``pyproject.toml``
_PINNED = regex(r"\s*(?:cpython-)?(3\.\d{1,2}(?:\.\d{1,3})?)\s*(?:\n|$)")
_REQUIREMENTS = regex(
    r"(?:\s*(?:#[^\n]*)?\n)*\s*(?:--?[a-zA-Z][a-zA-Z-]*[ =]\S|[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]\n]*\])?\s*"
    r"(?:[=<>!~;@][^\n]*)?(?:\n|\Z)|(?:git|hg|svn|bzr)\+[a-z]+://\S)"
)
"""How a list of requirements for pip begins."""
_CONDA_LIST = regex(
    r"(?:[ \t]*(?:#[^\n]*)?\n)*(?:[A-Za-z0-9_.-]+=[^=\s]+=[^=\s]+[ \t]*(?:\n|\Z)"
    r"|(?<=\n)(?:(?!#)[A-Za-z0-9_.-]+[ \t]+\d\S*[ \t]+[A-Za-z0-9_.<>]+(?:[ \t]+\S+)?[ \t]*(?:\n|\Z)))"
)
"""How an output of ``conda list`` begins, with ``--export`` or without."""
_NO_CHANNELS = (
    "channels: the file names no channels, so conda's default channels are used: repo.anaconda.com/pkgs/main "
    "and pkgs/r unless .condarc says "
    "otherwise, under Anaconda's terms of service; for conda-forge write channels: [conda-forge]"
)


def read_environment(path: Path, host: tuple[str, ...] = ()) -> tuple[EnvironmentSpec, tuple[str, ...]]:
    """Read an environment file.

    Args:
        host: the options that name a host, for the hint where the file is not there.
    """
    from cuenv.solve import environment_yml  # noqa: PLC0415 - YAML is read by lock and check only

    if not exists(path):
        listed = path.with_name(REQUIREMENTS)
        usual = str(path) == ENVIRONMENT
        words = [str(listed)] if usual and exists(listed) else ["--resolve", *([] if usual else [str(path)])]
        hint = shlex.join(["cuenv", "lock", *words, *host])
        raise InputError(f"{path} does not exist, so there is nothing to lock", hint=hint)
    text = read_text(path)
    if _CONDA_LIST.match(text.lstrip("\ufeff")):
        return _from_conda_list(text, path)
    named: tuple[str, ...] = ()
    if path.suffix in LISTS and _is_list(text, path):
        text, named = _environment_around_list(path)
    try:
        spec, warnings = environment_yml.parse(text, str(path))
    except InputError as error:
        other = other_than_environment(text, str(path))
        if other is None:
            again = f"correct the file, then: cuenv lock {shlex.quote(str(path))}"
            raise InputError(error.message, hint=error.hint or again) from None
        message = f"{path} is {other[0]}; cuenv lock reads an environment file, such as {ENVIRONMENT}"
        raise InputError(message, hint=other[1]) from None
    if spec.pip:
        from cuenv.lockfile.requirement_files import with_lists  # noqa: PLC0415 - many files have no pip part

        spec = with_lists(spec, path.parent)
    return spec, (*named, *warnings) if spec.channels else (*warnings, _NO_CHANNELS)


def _from_conda_list(text: str, path: Path) -> tuple[EnvironmentSpec, tuple[str, ...]]:
    """What ``conda list`` printed as an environment, with one remark.

    Raises:
        InputError: not every line is as that program prints it.
    """
    from cuenv.solve.package_list import listed_environment  # noqa: PLC0415 - few files are such

    try:
        listed = listed_environment(text)
    except ValueError as error:
        raise InputError(f"{path}: {error}", hint="conda env export --no-builds > environment.yml") from error
    if listed is None:
        message = f"{path} begins like the output of conda list, but continues like another file"
        raise InputError(message, hint="conda env export --no-builds > environment.yml")
    spec, what = listed
    channels = ", ".join(spec.channels)
    whose = f"the channels {channels} that its builds show" if what.endswith("export") else f"its channels {channels}"
    return spec, (f"it is the output of {what}, and is read as an environment file with {whose}",)


def is_requirements(text: str) -> bool:
    """Whether a text begins as a list of requirements for pip does."""
    return _REQUIREMENTS.match(text.lstrip("\ufeff")) is not None


def _is_list(text: str, path: Path) -> bool:
    """Whether what a ``.txt`` or ``.in`` file holds is to be read as a list: as pip does, unless it is another kind."""
    if not regex(r"(?m)^\s*[^#\s]").search(text.lstrip("\ufeff")):
        raise InputError(f"{path} names no package", hint=f"echo torch >> {shlex.quote(str(path))}")
    if "--hash=" in text:
        return False
    return is_requirements(text) or not (_MAPPING.search(text) or other_than_environment(text, str(path)))


def _environment_around_list(path: Path) -> tuple[str, tuple[str, ...]]:
    """An environment file that takes Python from conda-forge and asks pip for a list of requirements, with remarks."""
    file = path.with_name(_PYTHON_VERSION)
    pinned = _pinned_python(file)
    python = f"python={pinned}" if pinned else "python"
    entry = json.dumps(f"-r {path.name}")
    text = f"channels: [conda-forge]\ndependencies: [{python}, pip, {{pip: [{entry}]}}]\n"
    if pinned:
        return text, (f"it names no Python, but {_PYTHON_VERSION} names {pinned}",)
    unread = f"{_PYTHON_VERSION} is not used: it does not begin with a release of Python 3, such as 3.12"
    return text, (unread,) if is_file(file) else ()


def spec_digest(spec: EnvironmentSpec) -> str:
    """Digest over what an environment file says; comments and order of keys do not count."""
    pins = [[pin.channel, pin.name, pin.version, pin.build] for pin in spec.pins]
    parts = [spec.channels, sorted(pins), spec.platforms, sorted(spec.pip), sorted(spec.variables.items())]
    return digest(json.dumps([*parts, sorted(spec.constraints)] if spec.constraints else parts))


def is_locked_from(lock: Lock, spec: EnvironmentSpec) -> bool:
    """Whether a lock was made from what an environment file says; cuenv 0.1.0 did not read the lists that it names."""
    plain = replace(spec, pip=spec.listed or spec.pip, constraints=())
    return lock.metadata.get("cuenv_environment") in (spec_digest(spec), spec_digest(plain))


def environment_files(lock: Lock, folder: Path) -> Iterator[Path]:
    """The environment files that a lock names, of those that lie beside it: conda-lock takes others as well."""
    for source in lock.sources:
        file = folder / source
        if file.suffix in (".yml", ".yaml", *LISTS) and file.name != "meta.yaml" and is_file(file):
            yield file


def environments(lock: Lock, folder: Path) -> Iterator[tuple[Path, EnvironmentSpec]]:
    """Each of `environment_files` with what it says."""
    return ((file, read_environment(file)[0]) for file in environment_files(lock, folder))


def default_environment_file(folder: Path) -> Path:
    """The environment file that is meant where none is named: what the lock of a folder was made from, if it is there.

    ``environment.yml`` where no lock names one other file of that folder.
    """
    usual = folder / ENVIRONMENT
    try:
        text = read_text(folder / LOCK_NAME).partition("\npackage:")[0] if is_file(folder / LOCK_NAME) else ""
    except CuenvError:
        return usual
    found = _SOURCES.search(text)
    names = [_entry(line) for line in found[1].splitlines()] if found else []
    if len(names) != 1 or not _BESIDE.fullmatch(names[0]) or not is_file(folder / names[0]):
        return usual
    return folder / names[0]


def _entry(line: str) -> str:
    text = line.strip().removeprefix("-").strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def lock_file(path: Path) -> Path:
    """The file that is meant by a lock or by the folder that it lies in."""
    return path / LOCK_NAME if is_folder(path) else path


def lock_file_there(path: Path, words: Iterable[str] = ()) -> Path:
    """The same, of a lock that has to be there."""
    file = lock_file(path)
    if not exists(file):
        folder = file.parent
        message = f"{path_text(file)} does not exist"
        raise InputError(message, hint=command_to_lock(folder, words) if is_folder(folder) else ls_command(file))
    return file


def command_to_lock(folder: Path, words: Iterable[str] = ()) -> str:
    """The command that makes the lock of a folder: of its environment file, which is first chosen where none is."""
    file = folder / ENVIRONMENT
    first = () if exists(file) else ("--resolve",)
    return shlex.join(["cuenv", "lock", *first, *(() if folder == Path() else (str(file),)), *words])


def read_lock(
    path: Path, part: LockPart | None = None, *, to_install: LockPart | None = None, words: Iterable[str] = ()
) -> Lock:
    """Read a lock: ``conda-lock.yml``, the folder that it lies in, or an explicit file.

    Args:
        part: the locks of other programs are read as well, and this part of them; without it they are refused.
        to_install: the same, of those that cuenv installs.
    """
    path = lock_file(path)
    text = read_text(path)
    if _DEPENDENCIES.search(text) and not _PACKAGE.search(text):
        beside = path.parent / LOCK_NAME
        make = "" if exists(beside) else shlex.join(["cuenv", "lock", str(path), *words])
        check = shlex.join(["cuenv", "check", str(beside), *words])
        raise NotALockError(str(path), str(beside), make, hint=" && ".join(filter(None, (make, check))))
    reader = reader_of(text) if part or to_install else None
    if reader and to_install and (reader.installs or to_install.options):
        part = to_install
    if part and reader and not part.python and "--python" in reader.parts:
        python = _pinned_python(path.parent / _PYTHON_VERSION)  # as uv does
        part = part._replace(python=python, python_from=_PYTHON_VERSION) if python else part
    if part and reader and reader.program == "uv":
        part = part._replace(usual=_usual_groups(path.parent / "pyproject.toml"))
    lock = parse_lock(text, str(path), part)
    if lock.program and part is None:
        limits = (
            "checks, compares and installs, but does not"
            if reader_of(text).installs
            else "checks and compares, but does not install or"
        )
        message = f"{path} is a lock of {lock.program}, which cuenv {limits} change"
        raise InputError(message, hint=f"cuenv check {shlex.quote(str(path))}")
    return lock


def _pinned_python(file: Path) -> str:
    try:
        found = _PINNED.match(read_text(file, limit=1000)) if is_file(file) else None
    except CuenvError:
        return ""
    return found[1] if found else ""


def _usual_groups(file: Path) -> tuple[str, ...] | None:
    """The dependency groups that uv installs by default, where a project sets them."""
    try:
        project = load_toml(read_text(file, limit=_PROJECT)) if is_file(file) else {}
    except (CuenvError, ValueError):
        return None
    found: object = project
    for key in ("tool", "uv", "default-groups"):
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, str):
        return (found,)
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else None


def existing_lock(path: Path) -> Lock | None:
    """The lock that would be replaced, or ``None`` where there is none.

    Raises:
        InputError: it is not valid; the hint puts it aside.
    """
    if not exists(path):
        return None
    try:
        return read_lock(path)
    except InputError as error:
        old, aside = shlex.quote(str(path)), shlex.quote(f"{path}.bad")
        raise InputError(error.message, hint=f"mv {old} {aside}") from error


def host_metadata(facts: HostFacts) -> dict[str, str]:
    """What a lock remembers of its host beside the virtual packages: all GPUs, and the driver by its own number."""
    found = {}
    if facts.capabilities:
        found["cuenv_gpus"] = " ".join(str(item) for item in facts.capabilities)
    if facts.driver and facts.driver.version:
        found["cuenv_driver"] = facts.driver.version
    if facts.members:
        found["cuenv_machines"] = " ".join(map(_machine_text, facts.members))
    return found


def _machine_text(facts: HostFacts) -> str:
    driver = facts.driver.version if facts.driver else None
    return f"{'+'.join(map(str, facts.capabilities))}@{driver or ''}"


def _machines(lock: Lock) -> Iterator[tuple[tuple[Capability, ...], str | None]]:
    """The GPUs and the driver of each machine of a pool that a lock was made for.

    Raises:
        ValueError: the record is not as cuenv writes it.
    """
    for text in lock.metadata.get("cuenv_machines", "").split():
        gpus, _, driver = text.partition("@")
        capabilities = tuple(Capability.parse(item) for item in gpus.split("+") if item)
        yield capabilities, check_driver(driver) if driver else None


def solved_glibc(solution: Solution) -> str | None:
    """The version of the C library that a solution was made with."""
    return next((item.version for item in solution.virtual_packages if item.name == "__glibc"), None)


def recorded_host(lock: Lock, here: HostFacts, knowledge: Knowledge) -> HostFacts | None:
    """The host that a lock remembers, or ``None`` when it remembers no GPU.

    Args:
        here: its platform is taken of a lock for several; without one the first of the lock.
    """
    texts = lock.metadata.get("cuenv_gpus", "").split()
    solution = lock.solution(here.platform) or next(iter(lock.solutions), None)
    packages = {item.name: item.version for item in solution.virtual_packages} if solution else {}
    try:
        gpus = tuple(Gpu(index=i, name="", capability=Capability.parse(text)) for i, text in enumerate(texts))
        level = version(packages["__cuda"]) if "__cuda" in packages else None
        known = packages.get("__glibc") or lock.metadata.get("cuenv_glibc")
        libc = glibc(known) if known else None
        driver = lock.metadata.get("cuenv_driver")
        driver = check_driver(driver) if driver else None
        machines = tuple(_machines(lock))
    except ValueError as error:
        raise InputError(f"{LOCK_NAME}: metadata.custom_metadata: {error}", hint="cuenv lock") from error
    if not gpus:
        return None
    source = "the lock's record"
    platform = solution.platform if solution else here.platform
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


_HEAD = 16384  # characters of a file in which its head is looked for
_LOCK_IT = regex(r"^#   (cuenv lock ([A-Za-z0-9._/-]+)((?: --[a-z-]+ [A-Za-z0-9._/][A-Za-z0-9._/-]*)*))$")
"""What cuenv writes, and nothing that a shell would read as more than words, nor a file that is standard input."""
_FIELDS = {"--gpu": "gpus", "--host": "hosts", "--driver": "driver", "--glibc": "glibc", "--platform": "platform"}
_DAY = "--as-of"


def lock_words(text: str) -> tuple[str, ...]:
    """The command that the head of an environment file of ours gives, in words; none in any other file."""
    if not text.startswith(WRITTEN_BY):
        return ()
    for line in text[:_HEAD].splitlines():
        if not line.startswith("#"):
            break
        said = _LOCK_IT.fullmatch(line.rstrip())
        if said and set(said[3].split()[::2]) <= {*_FIELDS, _DAY}:
            return tuple(said[1].split())
    return ()


def day_in(path: Path) -> str:
    """The day that the head of an environment file of ours names: only builds that existed then are asked for."""
    try:
        words = lock_words(read_text(path)) if exists(path) else ()
    except CuenvError:
        return ""
    return dict(zip(words[3::2], words[4::2], strict=True)).get(_DAY, "")


def _host_words(text: str) -> tuple[str, ...]:
    words = lock_words(text)[3:]
    pairs = zip(words[::2], words[1::2], strict=True)
    return tuple(word for pair in pairs if pair[0] != _DAY for word in pair)


def options_in(text: str, environ: Mapping[str, str]) -> HostOptions | None:
    """The host options of that command; ``None`` where there are none."""
    words = _host_words(text)
    if not words:
        return None
    found: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        found.setdefault(_FIELDS[option], []).append(value)
    return HostOptions(
        hosts=tuple(found.get("hosts", ())),
        gpus=tuple(found.get("gpus", ())),
        driver=next(iter(found.get("driver", ())), None),
        glibc=next(iter(found.get("glibc", ())), None),
        platform=next(iter(found.get("platform", ())), None),
        environ=environ,
    )


def _beside(path: Path, name: str) -> str:
    """A recorded host that the head of a file names: one that lies beside the file, else as it is named."""
    return str(path.parent / name) if not exists(name) and exists(path.parent / name) else name


def host_for(
    path: Path, options: HostOptions, knowledge: Knowledge, platforms: tuple[str, ...] = ()
) -> tuple[HostFacts, str]:
    """The host to lock a file for: of the options or of conda's variables, else as its head names it, else this one.

    Args:
        platforms: of the file: a head that names none means the first.

    Returns:
        the host, and the options of the head that named it; empty where something else did.

    Raises:
        UsageError: an option or a variable names nothing that exists.
        InputError: a recorded host cannot be read.
    """
    if options.given or any(name in options.environ for name in (CUDA, ARCH)):
        return host_facts(options, knowledge), ""
    try:
        text = read_text(path)
    except CuenvError:
        return host_facts(options, knowledge), ""
    named = options_in(text, options.environ)
    if named is None:
        return host_facts(options, knowledge), ""
    try:
        libc = None if GLIBC in options.environ else named.glibc  # a variable is newer than the head
        platform = named.platform or next(iter(platforms), None)
        hosts = tuple(_beside(path, name) for name in named.hosts)
        facts = host_facts(replace(named, hosts=hosts, glibc=libc, platform=platform), knowledge)
    except CuenvError:  # it names a recorded host that is not here
        return host_facts(options, knowledge), ""
    label = f"the host that {path.name} names"
    return (facts if named.hosts else replace(facts, label=label)), shlex.join(_host_words(text))
