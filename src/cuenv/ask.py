"""The questions of the public API: why a choice is as it is, what an error means, what is in an environment.

They stand here for `cuenv` alone, which offers them; like it, this module loads nothing until it is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # types only: `import cuenv` stays light
    from collections.abc import Iterable, Sequence

    from cuenv.binary.scanned import Scanned
    from cuenv.candidates import Candidate
    from cuenv.decision import Decision
    from cuenv.diagnosis.diagnose import Diagnosis
    from cuenv.facts import HostFacts
    from cuenv.flows.prefix_checking import PrefixChecked
    from cuenv.knowledge import Knowledge
    from cuenv.profile import Profile
    from cuenv.questions import Answer


def why(decision: Decision, subject: str) -> Answer:
    """Why a decision is as it is, down to sourced facts.

    Raises:
        UsageError: nothing is known about such a subject.
    """
    from cuenv.arguments import instance, text  # noqa: PLC0415 - see the module docstring
    from cuenv.decision import Decision as Decided  # noqa: PLC0415 - as above
    from cuenv.questions import why as answer  # noqa: PLC0415 - as above

    decision = instance(decision, Decided, "why: decision", "resolve(...).decision")
    return answer(decision, text(subject, "why: subject", "pytorch"))


def why_not(decision: Decision, question: str) -> Answer:
    """Why something else was not chosen: ``cuda=13.0``, ``pytorch=2.12``, ``stack=pytorch``, ``python=3.13``.

    Raises:
        UsageError: the question has another form.
    """
    from cuenv.arguments import instance, text  # noqa: PLC0415 - see the module docstring
    from cuenv.decision import Decision as Decided  # noqa: PLC0415 - as above
    from cuenv.questions import why_not as answer  # noqa: PLC0415 - as above

    decision = instance(decision, Decided, "why_not: decision", "resolve(...).decision")
    return answer(decision, text(question, "why_not: question", "cuda=13.0"))


def choices(
    hosts: Iterable[HostFacts], asked: Profile | None = None, *, tables: Knowledge | None = None
) -> tuple[Candidate | None, ...]:
    """What `cuenv.resolve` would choose for each of many hosts, without the reasons: ten thousand take seconds.

    Args:
        hosts: as for `cuenv.resolve`.
        asked: from `cuenv.wishes`; none by default.
        tables: from `cuenv.load_knowledge`; the bundled ones by default.

    Returns:
        In the order of the hosts, ``None`` where nothing fits.
    """
    from cuenv.choosing import choices as choose  # noqa: PLC0415 - see the module docstring
    from cuenv.flows.resolving import decidable  # noqa: PLC0415 - as above
    from cuenv.profile import Profile  # noqa: PLC0415 - as above
    from cuenv.world.knowledge import load  # noqa: PLC0415 - as above

    return choose(map(decidable, hosts), asked or Profile(), tables or load(None))


def diagnose(log: str | bytes, host: HostFacts | None = None, *, prefix: Path | str | None = None) -> Diagnosis:
    """What an error means, why it happens on a host, and the one command that cures it.

    Args:
        log: a traceback or a whole log, as text or as it was read.
        host: from `cuenv.read_host`, `cuenv.make_host` or `cuenv.inspect_host`; without one the log speaks alone.
        prefix: the environment that it is from.

    Raises:
        InputError: the folder is no environment.
    """
    from cuenv.arguments import instance, text  # noqa: PLC0415 - see the module docstring
    from cuenv.diagnosis.diagnose import diagnose as judge  # noqa: PLC0415 - as above
    from cuenv.facts import HostFacts as Host  # noqa: PLC0415 - as above
    from cuenv.world.guidance import load_guidance  # noqa: PLC0415 - as above
    from cuenv.world.knowledge import load  # noqa: PLC0415 - as above
    from cuenv.world.prefix import find_prefix  # noqa: PLC0415 - as above

    if not isinstance(log, (str, bytes)):
        text(log, "diagnose: log", "a traceback; a file is read with Path(...).read_bytes()")
    if host is not None:
        host = instance(host, Host, "diagnose: host", "read_host(), make_host() or inspect_host()")
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
) -> PrefixChecked:
    """Check an installed environment by its files; torch is not imported, and no GPU is needed.

    Args:
        prefix: its folder.
        host: recorded hosts to judge for; so ``gpus``, ``driver``, ``glibc``. This machine by default.
        gpus: see ``host``.
        driver: see ``host``.
        glibc: see ``host``.
        lock: that it was made from.

    Raises:
        InputError: it is no environment, or the lock cannot be read.
    """
    from cuenv.arguments import host_options, spoken  # noqa: PLC0415 - see the module docstring
    from cuenv.flows.prefix_checking import check_prefix as look  # noqa: PLC0415 - as above
    from cuenv.world.knowledge import load  # noqa: PLC0415 - as above

    options = host_options(host, gpus, driver, glibc, of="check_prefix")
    with spoken():
        return look(Path(prefix), options, load(None), lock=Path(lock) if lock else None)


def scan(
    paths: str | Path | Sequence[str | Path],
    host: str | Sequence[str] = (),
    *,
    gpus: str | Sequence[str] = (),
    driver: str | None = None,
    deep: bool = False,
) -> Scanned:
    """Which GPUs the machine code in binaries serves.

    Args:
        paths: files or folders.
        host: as for `check_prefix`; so ``gpus`` and ``driver``.
        gpus: see ``host``.
        driver: see ``host``.
        deep: look for device code outside of its own sections too.
    """
    from cuenv.arguments import host_options, several, spoken  # noqa: PLC0415 - see the module docstring
    from cuenv.flows.scanning import scan_paths  # noqa: PLC0415 - as above
    from cuenv.world.knowledge import load  # noqa: PLC0415 - as above

    options = host_options(host, gpus, driver, of="scan")
    with spoken():
        return scan_paths(several(paths, "scan: paths", "torch/lib"), options, load(None), deep=deep)
