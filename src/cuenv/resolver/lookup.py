"""What the tables say about one thing, with the source of each row: the answers of ``cuenv kb``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cuenv.core.errors import UsageError
from cuenv.core.record import dataclass
from cuenv.core.versions import Capability, arch_list, check_driver, driver_key, minor, parse_version_spec, version
from cuenv.host.facts import Driver, feature_sentence, feature_title
from cuenv.knowledge.base import TEGRA_DRIVERS, Knowledge
from cuenv.knowledge.gpu_names import find_gpu, unknown_gpu
from cuenv.knowledge.rows import ComputeCapability, Extension, GpuModel, Row, TorchBuild, TorchWheel
from cuenv.knowledge.tables import TABLES, rows_of
from cuenv.resolver.rules.driver import driver_floor, driver_gpu, minimum_driver_of
from cuenv.resolver.wheels import INDEX


def extension_line(row: Extension) -> str:
    """What its releases need: ``deepspeed 0.17.2 to below 0.19.8 (source): nvcc >=10.0, ...``."""
    parts = []
    if row.torch:
        parts.append(f"torch {row.torch.span}")
    if row.cuda:
        how = {"major": ", or another release with this major version", "toolkit": " of the environment's runtime"}
        parts.append(f"CUDA {', '.join(map(str, row.cuda))}{how.get(row.match, '')}")
    if row.platforms:
        parts.append(f"for {' and '.join(row.platforms)}")
    if row.serves_from:
        parts.append(f"GPUs of compute capability {row.serves_from} or later")
    if row.nvcc:
        parts.append(f"compiles with nvcc {row.nvcc.span}")
    if row.checks:
        parts.append(
            f"nvcc and torch may differ only within one major version, among {', '.join(map(str, row.tolerates))}"
        )
    if row.headers:
        parts.append(f"includes {', '.join(row.headers)}")
    if row.tools:
        parts.append(f"calls {', '.join(row.tools)}")
    needs = "; ".join(parts) or "depends on neither torch nor CUDA"
    return f"{row.package} {row.span()} ({', '.join(row.comes)}): {needs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """One row of the tables in words, as ``cuenv kb`` prints it."""

    table: str  # the table it stands in; empty for what follows from several
    says: str
    sources: tuple[str, ...]  # ids of its sources
    low: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All entries on one thing."""

    title: str
    entries: tuple[TableEntry, ...]


def _entry(table: str, row: Row, says: str) -> TableEntry:
    return TableEntry(table=table, says=says, sources=row.sources, low=row.low, note=row.note)


def overview(knowledge: Knowledge) -> tuple[tuple[str, int], ...]:
    """The tables and how many rows each has."""
    last = "sources"
    return tuple((name, len(rows_of(knowledge, name))) for name in (*(name for name in TABLES if name != last), last))


def which_gpu(text: str, knowledge: Knowledge) -> tuple[GpuModel | None, Capability]:
    """The GPU that a name or a capability means; of a capability alone there is no row."""
    try:
        return None, Capability.parse(text)
    except ValueError:
        row = find_gpu(text, knowledge.gpus)
    if row is None:
        near, hint = unknown_gpu(text, knowledge.gpus)
        raise UsageError(f"unknown GPU {text!r}{near}", hint=hint)
    return row, row.capability


def gpu(text: str, knowledge: Knowledge) -> Page:
    """A GPU by name or capability: its generation, the drivers and toolkits for it, the newest builds."""
    row, capability = which_gpu(text, knowledge)
    entries = []
    if row:
        chip = f", chip {row.chip}" if row.chip else ""
        memory = f", {'/'.join(map(str, row.memory_gb))} GB" if row.memory_gb else ""
        says = f"{row.name}: compute capability {capability}, {row.architecture}{chip}, {row.kind}{memory}"
        entries.append(_entry("gpus", row, says))
    generation = knowledge.compute_capability(capability)
    if generation is None:
        known = ", ".join(str(item.capability) for item in knowledge.generations)
        raise UsageError(f"unknown compute capability {capability}; known are {known}", hint="cuenv kb gpu 8.9")
    entries.append(_generation(generation))
    feature = knowledge.feature(capability, row.chip if row else "")
    if feature:
        entries.append(
            _entry("features", feature, f"compute capability {feature_title(feature)} has {feature_sentence(feature)}")
        )
    for build in _newest(knowledge, lambda item: item.code is not None and _runs(item, capability)):
        entries.append(_build(build))
    return Page(title=row.name if row else f"compute capability {capability}", entries=tuple(entries))


def driver(text: str, knowledge: Knowledge) -> Page:
    """A driver: what it speaks, which CUDA majors it runs, which GPUs it drives."""
    try:
        release = check_driver(text)
    except ValueError as error:
        raise UsageError(str(error), hint="cuenv kb driver 535.129.03") from error
    if not knowledge.is_driver(release):
        newest = max(row.number for row in knowledge.branches)
        message = f"driver {release} does not exist; the newest known driver branch is {newest}"
        raise UsageError(message, hint="cuenv kb driver 535.129.03")
    entries = []
    asked = Driver(version=release, cuda=knowledge.cuda_of(release))
    branch = knowledge.branch_of(release)
    if branch:
        ends = f"; NVIDIA's data-center support for it ends {branch.ends}" if branch.ends else ""
        entries.append(_entry("branches", branch, f"branch {branch.number} supports CUDA {branch.cuda}{ends}"))
    for floor in knowledge.floors:
        last = version(f"{floor.major}.99")  # only the first minor of a major may run on earlier drivers
        verdict = driver_floor(last, asked, knowledge)
        word = {"pass": "runs", "reject": "does not run"}.get(verdict.outcome, "in its later releases runs")
        says = f"{word} programs built with CUDA {floor.major}.x (minimum driver {floor.driver})"
        entries.append(_entry("floors", floor, says))
    for row in knowledge.generations:
        verdict = driver_gpu(asked, row.capability, knowledge)
        if verdict.outcome != "reject" or verdict.remedy is None:
            continue
        what = f"{row.capability} ({row.architecture})"
        says = f"does not support {what}: the first driver that does is {verdict.remedy.driver}"
        if verdict.remedy.upto:
            says = f"dropped {what}: the last branch that supports it is {row.last_branch}"
        elif not row.first_driver:
            says = f"does not support {what}: the first branch that does is {row.first_branch}"
        entries.append(_entry("generations", row, says))
    jetson = (
        ""
        if driver_key(release)[0] not in TEGRA_DRIVERS
        else (
            ", a release of Jetson Linux, which belongs to no driver branch; nvidia-smi "
            "on the Jetson shows its CUDA version"
        )
    )
    return Page(title=f"driver {release}{jetson}", entries=tuple(entries))


def cuda(text: str, knowledge: Knowledge) -> Page:
    """A CUDA release: drivers, compiler, host compilers, channels."""
    try:
        wanted = minor(version(text))
    except ValueError as error:
        raise UsageError(str(error), hint="cuenv kb cuda 12.1") from error
    row = knowledge.cuda(wanted)
    if row is None:
        levels = [branch for branch in knowledge.branches if branch.cuda == wanted]
        also = f"; {wanted} is only the CUDA version of driver branch {levels[0].number}" if levels else ""
        known = ", ".join(str(item.version) for item in knowledge.cudas)
        raise UsageError(f"CUDA toolkit {wanted} does not exist{also}; known are {known}", hint="cuenv kb cuda 12.1")
    entries = []
    floor = minimum_driver_of(wanted, knowledge)
    if floor:
        entries.append(_entry("floors", floor[1], f"runs on driver {floor[0]} and later"))
    for toolkit in knowledge.toolkits:
        if minor(toolkit.version) == wanted:
            branch = f"branch {toolkit.branch}" if toolkit.branch else "of unknown version"
            says = (
                f"{toolkit.version} shipped with driver {toolkit.driver or branch}, which supports "
                "all its features and compiles its PTX"
            )
            entries.append(_entry("toolkits", toolkit, says))
    targets = ", ".join(map(str, row.targets)) or "unknown"
    entries.append(_entry("cudas", row, f"nvcc compiles for {targets}; PTX ISA {row.isa or 'unknown'}"))
    entries.append(_entry("cudas", row, f"host compiler gcc {row.gcc_min or '?'} to {row.gcc_max or '?'}"))
    where = (
        "has nvcc and headers that a lock file can pin" if row.conda_nvcc else "has no nvcc that a lock file can pin"
    )
    labels = ", ".join(row.labels) or "none"
    entries.append(_entry("cudas", row, f"conda-forge {where}; labels of the nvidia channel: {labels}"))
    for build in _newest(knowledge, lambda item: item.cuda == wanted):
        entries.append(_build(build))
    return Page(title=f"CUDA {wanted}", entries=tuple(entries))


def pytorch(text: str, knowledge: Knowledge) -> Page:
    """Every build of a PyTorch release, and every wheel: channel, CUDA, Pythons, GPUs."""
    request = parse_version_spec(text, what="kb pytorch")
    builds = [row for row in (*knowledge.torch, *knowledge.wheels) if request.admits(row.version)]
    if not builds:
        every = sorted({row.version for row in (*knowledge.torch, *knowledge.wheels)})
        known = ", ".join(map(str, every))
        raise UsageError(f"unknown PyTorch release {text}; known are {known}", hint="cuenv kb pytorch 2.5")
    return Page(title=f"pytorch {text}", entries=tuple(_build(row) for row in builds))


def package(text: str, knowledge: Knowledge) -> Page:
    """A package: the role it fills, its CPU variant, its end, what it needs as a library that uses PyTorch."""
    entries = []
    component = knowledge.component(text)
    if component:
        role = f"fills the role {component.role}" if component.role else "is an NVIDIA component"
        headers = f"; holds {', '.join(component.headers)}" if component.headers else ""
        entries.append(
            _entry("components", component, f"{text} {role}; all CUDA components come from one channel{headers}")
        )
    for variant in knowledge.twins:
        if variant.package == text:
            says = (
                f"{text} of {variant.channel} has CPU and CUDA builds; the build string "
                f"{variant.any_cuda} selects a CUDA build"
            )
            entries.append(_entry("twins", variant, says))
    for ending in knowledge.endings:
        if ending.package == text:
            says = f"{text} of {ending.channel} is discontinued: {ending.says}; use instead: {ending.instead}"
            entries.append(_entry("endings", ending, says))
    for extension in knowledge.extension(text):
        entries.append(_entry("extensions", extension, extension_line(extension)))
    for program in (row for row in knowledge.programs if row.package == text):
        tested = f" and cuDNN {program.cudnn}" if program.cudnn else ""
        loads = f"load the libraries of CUDA {program.cuda}{tested}" if program.cuda else "are CPU builds"
        says = f"the wheels of {text} {program.first} to below {program.below} {loads}"
        entries.append(_entry("programs", program, says))
    entries += _failing(text, knowledge)
    if not entries:
        raise UsageError(f"the cuenv tables do not list the package {text!r}", hint="cuenv kb package cudatoolkit-dev")
    return Page(title=f"package {text}", entries=tuple(entries))


def _failing(text: str, knowledge: Knowledge) -> Iterator[TableEntry]:
    """The releases of a package that fail, by themselves or with a torch."""
    for regression in knowledge.regression(text):
        releases = ", ".join(map(str, regression.releases))
        says = f"{text} {releases} is broken with {regression.when}: {regression.says} ({regression.issue})"
        yield _entry("regressions", regression, says)
    for conflict in knowledge.conflicts:
        if conflict.package == text:
            homes = " and ".join(conflict.stacks)
            says = f"{text} {conflict.first} and later fail with torch before {conflict.torch_below} ({homes}): "
            yield _entry("conflicts", conflict, f"{says}{conflict.says} ({conflict.issue})")


TOPICS: dict[str, Callable[[str, Knowledge], Page]] = {
    "gpu": gpu,
    "driver": driver,
    "cuda": cuda,
    "pytorch": pytorch,
    "package": package,
}


def topic_overview(topic: str, knowledge: Knowledge) -> Page:
    """What there is to look up under a topic, in a line for each kind."""
    return Page(title=f"{topic}: what the tables know", entries=tuple(_LISTS[topic](knowledge)))


def _lines(table: str, rows: Iterable[Row], says: str) -> TableEntry:
    """One line on rows; their notes stand where one of them is looked up."""
    return TableEntry(table=table, says=says, sources=tuple(dict.fromkeys(one for row in rows for one in row.sources)))


def _gpus(knowledge: Knowledge) -> Iterator[TableEntry]:
    for row in knowledge.generations:
        names = ", ".join(model.name for model in knowledge.gpus if model.capability == row.capability)
        if names:
            yield _lines("generations", [row], f"{row.capability} ({row.architecture}): {names}")


def _drivers(knowledge: Knowledge) -> Iterator[TableEntry]:
    for floor in knowledge.floors:
        yield _lines("floors", [floor], f"CUDA {floor.major}.x needs driver {floor.driver} or later")
    for branch in knowledge.branches:
        yield _lines("branches", [branch], f"branch {branch.number} supports CUDA {branch.cuda}")


def _cudas(knowledge: Knowledge) -> Iterator[TableEntry]:
    for row in knowledge.cudas:
        floor = minimum_driver_of(row.version, knowledge)
        runs = f"runs on driver {floor[0]} and later; " if floor else ""
        span = f"{min(row.targets)} to {max(row.targets)}" if row.targets else "unknown GPUs"
        yield _lines("cudas", [row], f"{row.version}: {runs}nvcc compiles for {span}")


def _releases(knowledge: Knowledge) -> Iterator[TableEntry]:
    every = (*knowledge.torch, *knowledge.wheels)
    for release in sorted({row.version for row in every}, reverse=True):
        rows = [row for row in every if row.version == release]
        cudas = sorted({row.cuda for row in rows if row.cuda})
        built = f"CUDA {', '.join(map(str, cudas))}" if cudas else "the CPU alone"
        yield _lines("torch", rows, f"{release}: builds for {built}")


def _packages(knowledge: Knowledge) -> Iterator[TableEntry]:
    named: tuple[tuple[str, str, dict[str, Row]], ...] = (
        ("extensions", "libraries that use PyTorch", {row.package: row for row in knowledge.extensions}),
        ("components", "NVIDIA's packages", {row.name: row for row in knowledge.components}),
        ("twins", "packages with CPU and CUDA builds", {row.package: row for row in knowledge.twins}),
        ("endings", "discontinued", {f"{row.package} of {row.channel}": row for row in knowledge.endings}),
        ("programs", "programs with wheels of their own", {row.package: row for row in knowledge.programs}),
    )
    for table, what, rows in named:
        yield _lines(table, rows.values(), f"{what}: {', '.join(sorted(rows))}")


_LISTS: dict[str, Callable[[Knowledge], Iterator[TableEntry]]] = {
    "gpu": _gpus,
    "driver": _drivers,
    "cuda": _cudas,
    "pytorch": _releases,
    "package": _packages,
}


def _generation(row: ComputeCapability) -> TableEntry:
    drivers = f"drivers {row.first_driver}" if row.first_driver else f"driver branches {row.first_branch or '?'}"
    drivers += f" to {row.last_branch or 'now'}"
    toolkits = f"nvcc {row.first_cuda or '?'} to {row.last_cuda or 'now'}"
    module = f", kernel module {row.module}" if row.module else ""
    says = f"compute capability {row.capability} ({row.architecture}): {drivers}, {toolkits}{module}"
    return _entry("generations", row, says)


def _build(row: TorchBuild) -> TableEntry:
    cuda = f"CUDA {row.cuda}" if row.cuda else "CPU"
    holds = f", code for {arch_list(row.code)}" if row.code and row.code.sass else ""
    if isinstance(row, TorchWheel):
        return _entry("wheels", row, _wheel(row, f"{cuda}, Python {', '.join(row.pythons)}{holds}"))
    layers = "".join(f", {item}" for item in (row.cudnn, row.nccl) if item and item.package)
    seen = f"last seen {row.seen}" if row.seen else "not seen in a channel yet"
    says = (
        f"{row.version} {row.build} of {row.stack} for {row.platform}: {cuda}, python {', '.join(row.pythons)}"
        f"{holds}, glibc {row.glibc or '?'}{layers}, {seen}"
    )
    return _entry("torch", row, says)


def _wheel(row: TorchWheel, has: str) -> str:
    also = f"torch=={row.version} of PyPI" if "pypi" in row.comes else ""
    own = f"torch=={row.name} from {INDEX}{row.build}" if "index" in row.comes else ""
    inside = "".join(
        f", {name} {item.first}" for name, item in (("cuDNN", row.cudnn), ("NCCL", row.nccl)) if item and item.first
    )
    return (
        f"wheel {' and '.join(filter(None, (own, also)))} for {row.platform}: {has}, glibc {row.glibc or '?'}{inside}"
    )


def _runs(build: TorchBuild, capability: Capability) -> bool:
    return build.code is not None and any(target.sass_runs_on(capability) for target in build.code.sass)


def _newest(knowledge: Knowledge, wanted: Callable[[TorchBuild], bool]) -> list[TorchBuild]:
    """The newest build of each channel and CUDA major that answers, newest first."""
    best: dict[tuple[str, int, str], TorchBuild] = {}
    for row in (*knowledge.torch, *knowledge.wheels):
        if row.cuda is not None and wanted(row):
            key = (row.stack, row.cuda.major, row.platform)
            if key not in best or (row.version, row.cuda) > (best[key].version, best[key].cuda or row.cuda):
                best[key] = row
    return sorted(best.values(), key=lambda row: row.version, reverse=True)
