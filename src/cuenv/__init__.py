"""cuenv: CUDA + PyTorch conda environments that are known to run on the GPUs you have.

The same line as the command line, as functions: look at a host, choose an environment for it, lock it, check it.

    >>> import cuenv
    >>> host = cuenv.read_host("rtx4090-535")
    >>> answer = cuenv.resolve(host, cuenv.wishes(pytorch="2.5"))
    >>> str(answer.decision.chosen.candidate.build.version)
    '2.5.1'

Importing this package loads nothing else; each function loads what it needs. What a user can cause is raised as
`cuenv.errors.CuenvError` with a message and a hint; a "no" is a value of the answer.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""As in typing, which would be loaded for it: until `cuenv.__main__` runs, Ctrl-C is a traceback of Python's own."""

if TYPE_CHECKING:  # types only: `import cuenv` stays light
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from cuenv.ask import check_prefix, choices, diagnose, scan, why, why_not
    from cuenv.environment import EnvironmentSpec
    from cuenv.facts import HostFacts
    from cuenv.flows.checking import Checked
    from cuenv.flows.locking import Locked
    from cuenv.flows.resolving import Resolution
    from cuenv.knowledge import Knowledge
    from cuenv.profile import Profile
    from cuenv.world.sources import Sources

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "channels",
    "check",
    "check_prefix",
    "choices",
    "diagnose",
    "inspect_host",
    "load_knowledge",
    "lock",
    "make_host",
    "pool",
    "read_host",
    "render",
    "resolve",
    "scan",
    "why",
    "why_not",
    "wishes",
]


def load_knowledge(extra: Path | None = None) -> Knowledge:
    """The knowledge base, with the rows of further tables in a folder laid over it."""
    from cuenv.world.knowledge import load  # noqa: PLC0415 - see the module docstring

    return load(extra)


def inspect_host() -> HostFacts:
    """This machine: driver, GPUs, C library, toolkits, compilers, torch; each fact with its evidence."""
    import os  # noqa: PLC0415 - see the module docstring

    from cuenv.flows.hosts import this_machine  # noqa: PLC0415 - as above

    return this_machine(os.environ, load_knowledge(), deep=True)


def read_host(name_or_path: Path | str) -> HostFacts:
    """A recorded host: a folder, a JSON file of ``cuenv inspect --json``, or a shipped name.

    Raises:
        InputError: it cannot be read or is not valid.
        UsageError: there is no such name.
        TypeError: it is no text and no path.
    """
    from cuenv.arguments import several, spoken  # noqa: PLC0415 - see the module docstring
    from cuenv.world.record import read_host as read  # noqa: PLC0415 - as above

    names = several(name_or_path, "read_host", "rtx4090-535")
    if len(names) != 1:
        raise TypeError(f"read_host takes one host, got {len(names)}; pool(*map(read_host, ...)) takes several")
    with spoken():
        return read(names[0], lambda: "")


def make_host(
    *gpus: str, driver: str | None = None, glibc: str | None = None, platform: str | None = None
) -> HostFacts:
    """A host from GPU names or capabilities, as ``--gpu``, ``--driver``, ``--glibc`` and ``--platform`` make one.

    Raises:
        UsageError: a GPU, driver or platform that does not exist.
        TypeError: an argument is no text.
    """
    from cuenv.arguments import host_options, spoken, text  # noqa: PLC0415 - see the module docstring
    from cuenv.flows.hosts import host_facts  # noqa: PLC0415 - as above

    if not gpus:
        from cuenv.errors import UsageError  # noqa: PLC0415 - as above

        raise UsageError("make_host needs a GPU", hint='make_host("RTX 4090", driver="535.129.03")')
    names = tuple(text(name, "make_host: gpus", "RTX 4090") for name in gpus)
    with spoken():
        return host_facts(host_options((), names, driver, glibc, platform, of="make_host"), load_knowledge())


def pool(*hosts: HostFacts) -> HostFacts:
    """Several hosts as one: lowest driver, lowest C library, union of GPUs.

    Raises:
        ValueError: they do not share one platform.
        TypeError: an argument is no host.
    """
    from cuenv.arguments import instance  # noqa: PLC0415 - see the module docstring
    from cuenv.facts import HostFacts as Host  # noqa: PLC0415 - as above
    from cuenv.pools import pool as merge  # noqa: PLC0415 - as above

    return merge(instance(host, Host, "pool: each host", "read_host() or make_host()") for host in hosts)


def wishes(
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
) -> Profile:
    """Wishes, as the options of ``cuenv resolve`` make them.

    Args:
        name: of the environment.
        stack: ``conda-forge`` or ``pytorch``; ``None`` lets cuenv choose.
        pytorch: a prefix (``2.5``), an exact version (``==2.5.1``) or a range; so ``cuda`` and ``python``.
        cuda: see ``pytorch``.
        python: see ``pytorch``.
        packages: further conda specs.
        pip: requirements for the pip part.
        dev: with compiler and headers.
        cpu: a CPU build.
        prefer: ``newest`` or ``native``.

    Raises:
        UsageError: a wish that is no version wish.
        TypeError: an argument is of another type: a version is a text, since the number 2.10 would be 2.1.
    """
    from cuenv.arguments import several, text, text_or_none  # noqa: PLC0415 - see the module docstring
    from cuenv.errors import UsageError  # noqa: PLC0415 - as above
    from cuenv.profile import PREFER, STACKS  # noqa: PLC0415 - as above
    from cuenv.profile import Profile as Wishes  # noqa: PLC0415 - as above
    from cuenv.versions import parse_wish  # noqa: PLC0415 - as above

    name = text(name, "wishes: name", "train")
    pytorch = text_or_none(pytorch, "wishes: pytorch", "2.5")
    cuda = text_or_none(cuda, "wishes: cuda", "12.4")
    python = text_or_none(python, "wishes: python", "3.12")
    if prefer not in PREFER or stack not in (None, *STACKS):
        raise UsageError(
            f"prefer is one of {', '.join(PREFER)}, stack one of {', '.join(STACKS)}",
            hint="cuenv.wishes(prefer='native')",
        )
    if cpu and cuda:
        raise UsageError("cpu and cuda exclude each other", hint="cuenv.wishes(cpu=True)")
    return Wishes(
        name=name,
        stack=stack,
        pytorch=parse_wish(pytorch, what="pytorch") if pytorch else None,
        cuda=parse_wish(cuda, what="cuda") if cuda else None,
        python=parse_wish(python, what="python") if python else None,
        packages=several(packages, "wishes: packages", "numpy>=1.26"),
        pip=several(pip, "wishes: pip", "einops"),
        dev=dev,
        cpu=cpu,
        prefer=prefer,
    )


def resolve(
    host: HostFacts, asked: Profile | None = None, *, prove: Sources | None = None, tables: Knowledge | None = None
) -> Resolution:
    """Choose an environment for a host.

    Args:
        host: from `inspect_host`, `read_host`, `make_host` or `pool`.
        asked: from `wishes`; none by default.
        prove: from `channels`: take the best choice that closes on them. No solver and no network otherwise.
        tables: from `load_knowledge`; the bundled ones by default.

    Returns:
        The decision, and the environment when something fits: ask ``fits`` before ``spec`` is used.

    Raises:
        TypeError: an argument is of another type.
    """
    from cuenv.arguments import instance  # noqa: PLC0415 - see the module docstring
    from cuenv.facts import HostFacts as Host  # noqa: PLC0415 - as above
    from cuenv.flows.resolving import resolve as choose  # noqa: PLC0415 - as above
    from cuenv.profile import Profile as Wishes  # noqa: PLC0415 - as above

    host = instance(host, Host, "resolve: host", "read_host(), make_host(), inspect_host() or pool()")
    wanted = wishes() if asked is None else instance(asked, Wishes, "resolve: asked", "wishes()")
    if prove is not None:
        from cuenv.world.sources import Sources as Reached  # noqa: PLC0415 - only with channels

        instance(prove, Reached, "resolve: prove", "channels()")
    return choose(host, wanted, tables or load_knowledge(), name=wanted.name, prove=prove)


def render(spec: EnvironmentSpec | None) -> str:
    """The text of ``environment.yml``.

    Args:
        spec: ``answer.spec`` of `resolve`, which is there when ``answer.fits``.

    Raises:
        UsageError: there is none, as nothing fits.
        TypeError: it is something else.
    """
    from cuenv.arguments import instance  # noqa: PLC0415 - see the module docstring
    from cuenv.environment import EnvironmentSpec as Spec  # noqa: PLC0415 - as above
    from cuenv.formats.environment_yml import render as write  # noqa: PLC0415 - as above

    if spec is None:
        from cuenv.errors import UsageError  # noqa: PLC0415 - as above

        raise UsageError(
            "render: nothing fits, so there is no environment; ask answer.fits first",
            hint="print(*(group.because for group in answer.decision.rejections), sep='\\n')",
        )
    return write(instance(spec, Spec, "render", "resolve(...).spec"))


def channels(mirrors: str | Sequence[str] = (), *, offline: bool = False) -> Sources:
    """How channels are reached: mirrors as ``FROM=TO``, then the user's ``.condarc``.

    Raises:
        UsageError: a mirror has another form.
        InputError: a ``.condarc`` is not valid.
    """
    import os  # noqa: PLC0415 - see the module docstring

    from cuenv.arguments import several, spoken  # noqa: PLC0415 - as above
    from cuenv.world.condarc import condarc_files, read_condarc, sources_from  # noqa: PLC0415 - as above
    from cuenv.world.sources import parse_mirrors  # noqa: PLC0415 - as above

    settings = read_condarc(condarc_files(os.environ), os.environ)
    with spoken():
        found = parse_mirrors(several(mirrors, "channels: mirrors", "conda-forge=/srv/conda-forge"))
    return sources_from(settings, found, offline=offline, environment=os.environ)


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
    progress: Callable[[str], None] | None = None,
) -> Locked:
    """Solve an environment file and write its lock files beside it.

    Args:
        path: the environment file.
        host: recorded hosts to lock for; so ``gpus``, ``driver``, ``glibc``, ``platform``. This machine by default.
        gpus: see ``host``.
        driver: see ``host``.
        glibc: see ``host``.
        platform: see ``host``.
        sources: from `channels`.
        allow: codes of findings that do not refuse.
        progress: called with what happens next.

    Raises:
        InputError: the file or a channel cannot be read.
        OutsideError: the solver failed, or a file cannot be written.
    """
    from pathlib import Path  # noqa: PLC0415 - see the module docstring

    from cuenv.arguments import host_options, several, spoken  # noqa: PLC0415 - as above
    from cuenv.flows.locking import LockRequest  # noqa: PLC0415 - as above
    from cuenv.flows.locking import lock as freeze  # noqa: PLC0415 - as above

    options = host_options(host, gpus, driver, glibc, platform, of="lock")
    codes = several(allow, "lock: allow", "CU104")
    request = LockRequest(path=Path(path), host=options, sources=sources or channels(), allow=codes)
    with spoken():
        return freeze(request, load_knowledge(), progress=progress)


def check(
    path: Path | str,
    host: str | Sequence[str] = (),
    *,
    gpus: str | Sequence[str] = (),
    driver: str | None = None,
    glibc: str | None = None,
    platform: str | None = None,
) -> Checked:
    """Check a lock against a host, its environment file and the laws.

    Args:
        path: the lock.
        host: as for `lock`; this machine by default.
        gpus: see ``host``.
        driver: see ``host``.
        glibc: see ``host``.
        platform: see ``host``.

    Raises:
        InputError: the lock cannot be read.
    """
    from pathlib import Path  # noqa: PLC0415 - see the module docstring

    from cuenv.arguments import host_options, spoken  # noqa: PLC0415 - as above
    from cuenv.flows.checking import check as look  # noqa: PLC0415 - as above

    with spoken():
        return look(Path(path), host_options(host, gpus, driver, glibc, platform, of="check"), load_knowledge())


def __dir__() -> list[str]:
    """What is offered, the modules that are used by name included."""
    return sorted([*__all__, "errors", "runtime", "__doc__", "__file__", "__name__", "__path__"])


def __getattr__(name: str) -> Any:
    """What lies in modules of its own is loaded when it is asked for: the questions, ``errors`` and ``runtime``."""
    if name in ("errors", "runtime"):
        from importlib import import_module  # noqa: PLC0415 - see the module docstring

        return import_module(f"cuenv.{name}")
    if name not in ("check_prefix", "choices", "diagnose", "scan", "why", "why_not"):
        raise AttributeError(f"module 'cuenv' has no attribute {name!r}")
    from cuenv import ask  # noqa: PLC0415 - see the module docstring

    return getattr(ask, name)
