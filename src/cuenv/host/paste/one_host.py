"""All readers of pasted output, and one host made of the facts that they find.

`Passages` collects the output of tools in a log of any size in bounded memory. `pasted_host` combines facts, each with
its evidence; if two lines contradict each other, the fact becomes a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, version
from cuenv.host.facts import (
    Compiler,
    Driver,
    Evidence,
    Gap,
    Gpu,
    HostFacts,
    Mig,
    MigInstance,
    Resources,
    Surroundings,
    Switch,
    glibc,
)
from cuenv.host.paste import ansible, conda, dcgm, kubernetes, programs, slurm, smi
from cuenv.host.paste.reader import DocumentReader, PastedFact, PasteReader
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.gpu_names import find_gpu, gpu_by_pci
from cuenv.knowledge.rows import PLATFORMS, GpuModel

READERS: tuple[PasteReader, ...] = (
    smi.READER,
    smi.XML,
    programs.GPUSTAT,
    programs.COLLECT_ENV,
    programs.DEEPSPEED,
    conda.INFO,
    conda.LIST,
    programs.NVCC,
    programs.GPUS,
    programs.KERNEL,
    programs.MESSAGES,
    programs.UV_TREE,
    programs.CMAKE,
    programs.PANIC,
    programs.CROSS,
    programs.PROGRAM,
    programs.FRAMEWORKS,
)
"""The readers of a log; if several find the same fact, the evidence is that of the first."""

OF_ONE: tuple[PasteReader, ...] = (*(reader for reader in READERS if reader.of_host), programs.LIBC)
"""The readers of a text about one host; ldd is not read in logs, which have too many similar lines."""

OF_MANY: tuple[PasteReader, ...] = (slurm.READER, kubernetes.READER, dcgm.READER)
"""The readers of a text about many hosts."""

OF_DOCUMENTS: tuple[DocumentReader, ...] = (
    conda.DOCUMENT,
    slurm.DOCUMENT,
    kubernetes.DOCUMENT,
    dcgm.DOCUMENT,
    ansible.DOCUMENT,
)
"""The readers of JSON."""

_TIMES = 24  # the most passages of one log that begin with the same mark
_LINES = 4000  # the most lines of one log that are kept
_WIDTH = 20_000  # the most characters of a line that are kept
_SCALE = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


@lru_cache(maxsize=2)
def _lines_after_marks(readers: tuple[PasteReader, ...]) -> Mapping[bytes, int]:
    """The marks of readers, and the number of lines after each mark that belong to the output."""
    reach: dict[bytes, int] = {}
    for reader in readers:
        for mark in reader.marks:
            reach[mark.encode()] = max(reach.get(mark.encode(), 0), reader.reach)
    return reach


class Passages:
    """The parts of a log that readers need, collected block by block."""

    def __init__(self, readers: tuple[PasteReader, ...] = READERS) -> None:
        self._readers = readers
        self._reach = _lines_after_marks(readers)
        self._left = dict.fromkeys(self._reach, _TIMES)
        self._until = dict.fromkeys(self._reach, 0)
        self._lines: dict[int, str] = {}
        self._open = 0

    @property
    def marks(self) -> tuple[bytes, ...]:
        """The marks, one of which is in the first line of every part."""
        return tuple(self._reach)

    def wants(self, marks: Iterable[bytes], first: int) -> bool:
        """Whether lines from this number on, which contain these marks, are needed."""
        return self._open >= first or any(self._left[mark] > 0 for mark in marks)

    def look(self, text: bytes, first: int, marks: Iterable[bytes] | None = None) -> None:
        """Collect from whole lines; the first has this number, and they contain only these marks, or any by default."""
        if self._open >= first:
            self._keep(text, 0, first, self._open)
        for mark in self._reach if marks is None else sorted(marks, key=list(self._reach).index):
            reach = self._reach[mark]
            at = text.find(mark) if self._left[mark] > 0 else -1
            done, line = 0, first
            while at >= 0 and self._left[mark] > 0:
                start = text.rfind(b"\n", 0, at) + 1
                line += text.count(b"\n", done, start)
                done = start
                if line > self._until[mark]:  # a mark inside its own passage begins no new one
                    self._left[mark] -= 1
                    self._until[mark] = line + reach
                    self._open = max(self._open, line + reach)
                end = self._keep(text, start, line, self._until[mark])
                at = text.find(mark, max(end, at + 1))

    def _keep(self, text: bytes, start: int, line: int, last: int) -> int:
        """Keep the lines from a position up to a line number, and return the position after them."""
        while line <= last and start < len(text) and len(self._lines) < _LINES:
            end = text.find(b"\n", start)
            end = len(text) if end < 0 else end
            if line not in self._lines:
                self._lines[line] = text[start : min(end, start + _WIDTH)].decode("utf-8", "replace")
            start, line = end + 1, line + 1
        return max(start, 1)

    def facts(self) -> tuple[PastedFact, ...]:
        """The facts that all readers find, with the line numbers of the log."""
        numbers = sorted(self._lines)
        text = "\n".join(self._lines[number] for number in numbers)
        return tuple(item._replace(line=numbers[item.line - 1]) for item in read_facts(text, self._readers))


def traceback_paths(told: Iterable[PastedFact]) -> tuple[str, ...]:
    """The files in tracebacks, except those in temporary folders."""
    found = dict.fromkeys(item.value for item in told if item.fact == "path")
    return tuple(path for path in found if not path.startswith(("/tmp/", "/var/tmp/", "/dev/")))  # noqa: S108 - compared


def read_facts(text: str, readers: Iterable[PasteReader] = READERS) -> tuple[PastedFact, ...]:
    """The facts that the readers find in a text."""
    return tuple(item for reader in readers if reader.looks_like(text) for item in reader.read(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastedHost:
    """What pasted output says about a host and the environment on it."""

    facts: HostFacts  # the host, with evidence and gaps
    says: bool = False  # whether the output describes a host at all
    # software: ``torch``, ``cuda`` (torch's), ``nvcc``, ``python``, ``gcc``, and in messages the package that is
    # ``building``, the file that is ``importing``, ``companions`` of torch, ``image``, ``script``, ``nccl``, ``built``,
    # the ``file`` of an environment, the ``manager`` of the environment (conda, uv, poetry, pixi, or the system), a
    # ``hint`` of uv or apt, the torch that was ``requested`` of pip, ``clashings`` with it, the ``wanteds`` (releases
    # that packages want of what is there), the ``newer`` glibc that apt wants, the package of the ``toolkit`` that apt
    # was asked for with its driver, the torch that is ``unusable`` for uv, the ``lone`` index that uv was given, the
    # ``tree`` in which uv says what excludes what, what was ``asked`` of conda, the ``transaction`` that dnf was asked
    # for, the ``driver-package`` of Ubuntu, what ``cmake`` says below its error, ``versions`` where pip saw none, the
    # folder of ``sources`` that pip builds, the torch that pip ``fetched`` for a build alone, the ``oldest`` torch that
    # pip was offered, ``akmods`` where they build the driver's module, the release of the ``system-toolkit``, and
    # ``root`` where that user ran it
    others: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)  # the releases of packages by name
    builds: Mapping[str, str] = field(default_factory=dict)  # the build strings of conda packages by name
    system: str = ""  # ``Windows``, ``macOS`` or ``ROCm`` for such a machine, otherwise empty
    contradictions: tuple[str, ...] = ()  # sentences on facts that contradict each other
    refused: tuple[str, ...] = ()  # the contradictions because of which the output cannot be about one host


class _Tally:
    """The facts by name, each value with its first line, and the evidence, gaps and contradictions found so far."""

    def __init__(self, told: Iterable[PastedFact], source: str) -> None:
        self.by_fact: dict[str, dict[str, PastedFact]] = {}
        for item in told:
            self.by_fact.setdefault(item.fact, {}).setdefault(item.value, item)
        self.source = source
        self.evidence: list[Evidence] = []
        self.gaps: list[Gap] = []
        self.contradictions: list[str] = []
        self.refused: list[str] = []

    def refuse(self, sentence: str) -> None:
        """Add a contradiction because of which the output cannot be about one host."""
        self.contradictions.append(sentence)
        self.refused.append(sentence)

    def one(self, fact: str, word: str) -> str | None:
        """The value of a fact; two values are a contradiction."""
        values = self.by_fact.get(fact, {})
        if not values:
            return None
        if len(values) > 1:
            said = " and ".join(f"line {item.line} says {item.value}" for item in list(values.values())[:3])
            self.refuse(f"two values of the {word}: {said}")
            self.gaps.append(Gap(fact, self.source, said))
            return None
        (item,) = values.values()
        self.note(fact, item)
        return item.value

    def first(self, *facts: str) -> str | None:
        """The first value of facts that may differ within one log."""
        return next((value for fact in facts for value in self.by_fact.get(fact, {})), None)

    def note(self, fact: str, item: PastedFact) -> None:
        """Add the line of a fact as evidence."""
        self.evidence.append(Evidence(fact, f"{self.source}, line {item.line}", item.shows))


def pasted_host(
    told: Iterable[PastedFact], knowledge: Knowledge, label: str, source: str = "the log", name: str = ""
) -> PastedHost:
    """Make one host of the facts that readers found.

    Args:
        knowledge: the tables, for compute capabilities and the driver's CUDA version.
        label: the name of the host in sentences.
        source: the name of the text in evidence.
        name: the name of the host, if the text is about several.
    """
    items = tuple(told)
    tally = _Tally(items, source)
    driver = _driver(tally, knowledge)
    gpus = _gpus(items, tally, knowledge)
    libc = tally.one("libc", "C library")
    platform = _platform(tally) or _platform_of_gpus(gpus, tally, knowledge)
    shm = tally.first("shm")
    gcc = tally.first("gcc")
    tally.gaps += [Gap(item.about, source, item.value) for item in items if item.fact == "gap"]
    unnamed = any(gap.fact == "gpus" for gap in tally.gaps)
    if not gpus and "gpus.none" in tally.by_fact:
        tally.note("gpus", next(iter(tally.by_fact["gpus.none"].values())))
    elif not gpus and not unnamed:
        tally.gaps.append(Gap("gpus", source, "no line names a GPU"))
    for fact in ("kernel", "state"):
        for item in list(tally.by_fact.get(fact, {}).values())[:1]:
            tally.note(fact, item)
    if driver is None:
        tally.gaps.append(Gap("driver", source, "no line names a driver"))
    if libc is None and not any(gap.fact in ("libc", "C library") for gap in tally.gaps):
        tally.gaps.append(Gap("libc", source, "no line names a C library"))
    facts = HostFacts(
        label=label,
        name=name,
        platform=platform or PLATFORMS[0],
        kernel=tally.first("kernel"),
        driver=driver,
        gpus=gpus,
        libc=glibc(libc) if libc else None,
        compilers=(Compiler(name="gcc", path=source, version=gcc),) if gcc else (),
        environment=Surroundings(wsl="wsl" in tally.by_fact),
        resources=Resources(shm_mib=_mib(shm) if shm else None),
        evidence=tuple(tally.evidence),
        gaps=tuple(tally.gaps),
    )
    packages = {
        item.about.lower().replace("_", "-"): item.value.split(" ")
        for item in reversed(items)
        if item.fact == "package"
    }
    return PastedHost(
        facts=facts,
        says=bool(driver or gpus or libc or platform or "report" in tally.by_fact),
        others=dict(_software(tally, packages)),
        packages={name: words[0] for name, words in packages.items()},
        builds={name: words[1] for name, words in packages.items() if len(words) > 1},
        system=_system(tally),
        contradictions=tuple(tally.contradictions),
        refused=tuple(tally.refused),
    )


def _platform_of_gpus(gpus: Iterable[Gpu], tally: _Tally, knowledge: Knowledge) -> str | None:
    """linux-aarch64 if a GPU is on one board or chip with an Arm processor; otherwise ``None``."""
    for gpu in gpus:
        model = find_gpu(gpu.name, knowledge.gpus) if gpu.name else None
        if model and (model.kind in ("jetson", "desktop-soc") or model.name in _GRACE):
            tally.evidence.append(Evidence("platform", "knowledge base", f"{model.name} comes with an Arm processor"))
            return "linux-aarch64"
    return None


_GRACE = ("GH200", "GB200", "GB300")


def _driver(tally: _Tally, knowledge: Knowledge) -> Driver | None:
    text = tally.one("driver.version", "driver")
    module = tally.first("driver.module")
    if text is None and tally.by_fact.get("driver.version"):
        return None  # with two drivers it is unknown to which the CUDA version belongs
    text = text or tally.first("driver.library") or module
    known = text if text and knowledge.is_driver(text) else None
    levels = {value: item for value, item in tally.by_fact.get("driver.cuda", {}).items() if value[0].isdigit()}
    branch = knowledge.cuda_of(known) if known else None
    if branch:
        for value, item in levels.items():
            if version(value) > branch:
                tally.contradictions.append(
                    f"line {item.line} shows CUDA {value} beside driver {known}, whose branch supports CUDA {branch}: "
                    "an image's forward-compatibility libcuda precedes the driver's own"
                )
                tally.gaps.append(Gap("environment.libcuda", tally.source, tally.contradictions[-1]))
        tally.evidence.append(Evidence("driver.cuda", "knowledge base", f"driver {known} supports CUDA {branch}"))
        return Driver(version=known, cuda=branch, kernel_module=module)
    level = min(map(version, levels), default=None)
    if known and level is None:
        tally.gaps.append(Gap("driver.cuda", tally.source, f"no line shows the CUDA version of driver {known}"))
    for value, item in levels.items():
        if level and version(value) == level:
            tally.note("driver.cuda", item)
    return Driver(version=known, cuda=level, kernel_module=module) if known or level else None


def _models(
    items: tuple[PastedFact, ...], memory: Mapping[str, int], tally: _Tally, knowledge: Knowledge
) -> dict[str, tuple[PastedFact, GpuModel | None]]:
    """The fact that names each GPU, by its index, and the GPU's row; a whole name is preferred to a truncated one."""
    devices = {item.about: item.value for item in items if item.fact == "gpu.pci"}
    named: dict[str, tuple[PastedFact, GpuModel | None]] = {}
    for item in items:
        if item.fact == "gpu":
            named.setdefault(item.about, (item, None))
        if item.fact != "gpu.name":
            continue
        model = _model(item.value, memory.get(item.about), knowledge)
        if model is None and item.about in devices:
            model = gpu_by_pci(devices[item.about], knowledge.gpus)
            named[item.about] = item if model is None else item._replace(value=model.name), model
            continue
        before = named.get(item.about)
        if before and before[1] and model and model.capability != before[1].capability:
            tally.refuse(
                f"two GPUs of one index: line {before[0].line} names {before[0].value}, line {item.line} {item.value}"
            )
        elif before is None or (model and (before[1] is None or before[0].value.endswith(".."))):
            named[item.about] = item, model
    return named


def _gpus(items: tuple[PastedFact, ...], tally: _Tally, knowledge: Knowledge) -> tuple[Gpu, ...]:
    """The GPUs by their index; a truncated name is used only if all GPUs with that prefix have the same capability."""
    memory = {item.about: int(item.value) for item in items if item.fact == "gpu.memory"}
    capabilities = {item.about: item.value for item in items if item.fact == "gpu.capability"}
    named = _models(items, memory, tally, knowledge)
    found: list[Gpu] = []
    for about, (item, model) in named.items():
        own = capabilities.get(about)
        if own and model and Capability.parse(own) != model.capability:
            tally.refuse(
                f"line {item.line} names {item.value}, whose compute capability is {model.capability}, but the "
                f"text says {own}"
            )
        if model is None and own is None and item.fact == "gpu.name":
            tally.gaps.append(
                Gap("gpus", tally.source, f"line {item.line} names {item.value}, which may be several GPUs")
            )
        tally.note(f"gpus[{len(found)}].name", item)
        found.append(
            Gpu(
                index=len(found),
                name=item.value,
                capability=Capability.parse(own) if own else model.capability if model else None,
                memory_mib=memory.get(about),
                mig=_mig(items, about),
            )
        )
    if not found and "" in capabilities:
        item = next(item for item in items if item.fact == "gpu.capability")
        tally.note("gpus[0].capability", item)
        tally.gaps.append(Gap("gpus", tally.source, f"line {item.line} names only the lowest compute capability"))
        return (Gpu(index=0, name="", capability=Capability.parse(item.value)),)
    return _distinct(found, [about.isdigit() for about in named])


def _mig(items: tuple[PastedFact, ...], about: str) -> Mig | None:
    modes = [item.value for item in items if item.fact == "gpu.mig" and item.about == about]
    if not modes:
        return None
    slices = (item.value for item in items if item.fact == "gpu.slice" and item.about == about)
    on = modes[0] == "Enabled"
    return Mig(mode=Switch(on=on, pending=on), instances=tuple(MigInstance(profile=item) for item in slices))


def _distinct(gpus: list[Gpu], numbered: list[bool]) -> tuple[Gpu, ...]:
    """The GPUs without those that messages only mention again, and without unknown ones in messages."""
    rows = list(zip(gpus, numbered, strict=True))
    counted = {gpu.capability for gpu, number in rows if number}
    kept = [(gpu, number) for gpu, number in rows if number or gpu.capability not in counted]
    return tuple([gpu for gpu, number in kept if number or gpu.capability] or [gpu for gpu, _ in kept])


def _model(name: str, memory: int | None, knowledge: Knowledge) -> GpuModel | None:
    text = name.strip()
    if not text.endswith(("...", "..")):
        return find_gpu(text, knowledge.gpus)
    start = _letters(text.rstrip("."))
    able = [row for row in knowledge.gpus if any(_letters(word).startswith(start) for word in (row.name, *row.aka))]
    if memory:
        fitting = [
            row for row in able if not row.memory_gb or any(abs(memory / 1000 - gb) < gb * 0.1 for gb in row.memory_gb)
        ]
        able = fitting or able
    if not able:  # only a suffix of the name is truncated: A100-PCI...
        return find_gpu(text.rstrip(".").rpartition("-")[0], knowledge.gpus)
    return min(able, key=lambda row: len(row.name)) if len({row.capability for row in able}) == 1 else None


def _letters(text: str) -> str:
    lowered = text.lower()
    for word in ("nvidia", "geforce", "tesla"):
        lowered = lowered.replace(word, "")
    return "".join(letter for letter in lowered if letter.isalnum())


def _platform(tally: _Tally) -> str | None:
    told = tally.first("platform")
    machine = tally.first("machine")
    text = told or (f"linux-{'64' if machine == 'x86_64' else machine}" if machine else None)
    if text not in PLATFORMS:
        return None
    item = next(iter(tally.by_fact.get("platform", tally.by_fact.get("machine", {})).values()))
    tally.note("platform", item)
    return text


def _system(tally: _Tally) -> str:
    text = (tally.first("system") or tally.first("platform") or "").lower()
    if text.startswith(("win", "microsoft")) or "drive" in tally.by_fact:
        return "Windows"
    if text.startswith(("mac", "osx")):
        return "macOS"
    return "ROCm" if tally.by_fact.get("torch.hip") else ""


_SOFTWARE = {
    "torch": ("torch",),
    "cuda": ("torch.cuda",),
    "building": ("failed", "building"),
    **{
        name: (name,)
        for name in (
            "nvcc",
            "python",
            "gcc",
            "image",
            "nccl",
            "built",
            "script",
            "file",
            "hint",
            "lone",
            "newer",
            "toolkit",
            "tree",
            "held",
            "listed",
            "asked",
            "transaction",
            "driver-package",
            "cmake",
            "root",
            "unusable",
            "versions",
            "isolated",
            "fetched",
            "sources",
            "oldest",
            "akmods",
            "wsl-kernel",
            "system-toolkit",
            "ignored",
            "archive",
            "lacks",
            "step",
            "panic",
            "indexed",
            "apt-cuda",
            "uninstallable",
            "cross",
            "make",
            "module",
            "added",
            "prebuilt",
            "ptx",
        )
    },
    "interface": ("interface",),
    "requested": ("requested",),
}


def _software(tally: _Tally, packages: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    yield from (("torch", packages[name][0]) for name in ("pytorch", "torch") if name in packages)
    for name, facts in _SOFTWARE.items():
        value = tally.first(*facts)
        if value:
            yield name, value
    managers = (tally.first("manager"), *(name for name in ("conda", "system") if name in tally.by_fact))
    if manager := next(filter(None, managers), None):
        yield "manager", _MANAGERS.get(manager, manager)
    collected = [name for name in tally.by_fact.get("collecting", {}) if name.lower() not in _BUILD_TOOLS]
    if collected and not tally.first("failed", "building"):
        yield "building", collected[-1]
    paths = [*tally.by_fact.get("path", {})]
    own = [path for path in tally.by_fact.get("main", {}) if not _FOREIGN.search(path)]
    if own and not tally.first("script"):
        yield "script", own[0]
    for name in ("clashing", "companion", "framework", "wanted"):
        if name in tally.by_fact:
            yield f"{name}s", " ".join(sorted({value.lower() for value in tally.by_fact[name]}))
    packaged = [path for path in paths if "-packages/" in path]
    if packaged:
        yield "importing", packaged[-1]


_MANAGERS = {"Resolved": "uv", "returned": "uv", "rattler": "pixi", "PyPI packages for environment": "pixi"}
"""Managers by the words that only they print."""
_BUILD_TOOLS = frozenset({"setuptools", "wheel", "packaging", "ninja", "cmake", "pip", "cython", "scikit-build-core"})
"""Packages that pip collects for the environment of a build and seldom builds."""
_FOREIGN = regex(r"/(?:site|dist)-packages/|/lib/python3|/bin/|<|__init__|/torch/")


def _mib(text: str) -> int | None:
    number, _, unit = text.partition(" ")
    try:
        return round(float(number) * _SCALE[unit[:1]])
    except (ValueError, KeyError):
        return None
