"""What must hold in every environment file: one CUDA channel, no silent CPU build, nothing that cannot exist."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from cuenv.core.findings import FileEdit, Finding, Severity, first_of
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import STACKS, CudaVariant, Discontinued
from cuenv.resolver.asked_cuda import (
    CPU_PACKAGES,
    asks_for_cpu,
    of_nvidia,
    release_of_pin,
    torch_channel,
    version_spec,
    version_spec_of,
    wants_cuda,
)
from cuenv.resolver.compilers import bounded_gcc, compiler_findings
from cuenv.resolver.conflicts import asked_conflicts
from cuenv.resolver.requirements import (
    OF_TORCH,
    Demand,
    demands_of,
    headers_missing,
    meets,
    newest_is_broken,
    over_pins,
    pin_demand,
    pip_demand,
    with_condition,
)
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name


def _broken_release_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """Findings on releases that the file admits and that are known to fail."""
    for demand in demands_of(spec, knowledge):
        for row, releases in newest_is_broken(demand, knowledge):
            parts = (demand.condition, *(f"!={item}" for item in releases))
            # A spec of one of them alone is mended by another release, not by leaving it out.
            left = any(meets(demand, each, releases) for each in knowledge.extension(demand.name))
            better = ",".join(parts) if left else f">={row.mended}"
            yield Finding(
                code="CU503",
                severity="warning",
                subject=demand.name,
                message=f"{demand.text} allows {demand.name} {' and '.join(map(str, releases))}, "
                f"which fail{'s' * (len(releases) == 1)} with {row.when}: {row.says} ({row.issue})",
                evidence=tuple(row.sources),
                edits=(_with_condition(demand, spec, better),),
                about=(demand.text,),
            )


def _with_condition(demand: Demand, spec: EnvironmentSpec, condition: str) -> FileEdit:
    """What was asked for with another condition; channel, build, extras and marker stay."""
    pin = (
        next((pin for pin in spec.pins if pin.yaml_text() == demand.text), None) if "wheel" not in demand.ways else None
    )
    better = replace(pin, version=condition).yaml_text() if pin else with_condition(demand.text, condition)
    return FileEdit(how="write", entries=(better,), pip=pin is None)


def _missing_compiler_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    lacking = headers_missing(spec, knowledge)
    for package in dict.fromkeys(item.package for item in lacking):
        mine = [item for item in lacking if item.package == package]
        holders = dict.fromkeys(bounded_gcc(item.holder, spec, knowledge) for item in mine if item.holder)
        yield Finding(
            code="CU504",
            severity="warning",
            subject=package,
            message=f"{package} compiles code for the GPUs, and the file lists no package that contains "
            f"{', '.join(item.what for item in mine)}",
            evidence=tuple(dict.fromkeys(source for item in mine for source in item.sources)),
            edits=(FileEdit(how="add", entries=tuple(holders)),) if holders else (),
        )


def judgeable_libraries(
    spec: EnvironmentSpec, knowledge: Knowledge, *, nvcc: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The libraries of a file that the rule on extensions can judge: conda specs, and requirements of pip.

    Without a compiler in the file those that must compile are left to ``CU504``: it may lie outside the environment.
    """
    judged = set()
    for demand in demands_of(spec, knowledge):
        rows = [row for row in knowledge.extension(demand.name) if meets(demand, row)]
        if rows and (nvcc or any(row.nvcc is None for row in rows)):
            judged.add(demand.text)
    packages = tuple(pin.yaml_text() for pin in spec.pins if pin.yaml_text() in judged)
    return packages, tuple(text for text in spec.pip if text in judged)


REPAIR = "cuenv lock --repair -o environment.new.yml"
"""What mends an environment file as a whole: the file that does what it was meant to do."""
_VARIANT_SELECTORS = regex(r"_?(?:pytorch|tflow|tensorflow)[-_](?:select|mutex)")
"""Packages whose build string chooses between CPU and CUDA builds of others."""
_WITH_TORCH = ("torchvision", "torchaudio", "torchtext", "pytorch-mutex")
_NO_COMPILER = (
    "; pytorch-cuda contains run-time libraries only, neither nvcc nor headers, so this environment cannot compile"
)


def spec_findings(spec: EnvironmentSpec, knowledge: Knowledge, *, libraries: bool = True) -> tuple[Finding, ...]:
    """Judge an environment file by what it says itself, before anything is solved.

    Where cuenv wrote the file, it promises that all CUDA components come from one channel, and another channel is an
    error. People take them from several channels on purpose, as PyTorch's own recipe does: there it is a warning.

    Args:
        libraries: there may be libraries on torch in it; their table is large.
    """
    found = [
        *_discontinued_findings(spec, knowledge),
        *_channel_findings(spec, knowledge),
        *_second_torch_findings(spec),
        *_torch_index_findings(spec, knowledge),
    ]
    found += [
        *_contradictions(spec),
        *_cudnn_contradiction(spec, knowledge),
        *_foreign_export_findings(spec),
        *compiler_findings(spec, knowledge),
        *asked_conflicts(spec, knowledge),
    ]
    if not asks_for_cpu(spec):
        found += _cpu_build_findings(spec, knowledge)
    elif wants_cuda(spec, knowledge):
        found += [pin for pin in _cpu_build_findings(spec, knowledge) if pin.severity == "error"]
    if libraries and (spec.pip or any(knowledge.extension(pin.name) for pin in spec.pins)):
        found += _broken_release_findings(spec, knowledge)
        if not asks_for_cpu(spec) and wants_cuda(spec, knowledge):
            found += _missing_compiler_findings(spec, knowledge)
    return tuple(over_pins(found, spec))


def with_file_in_fix(findings: Iterable[Finding], path: str) -> tuple[Finding, ...]:
    """The findings of a file by its name, which a repair has to name."""
    if path == "environment.yml":
        return tuple(findings)
    named = shlex.join(["cuenv", "lock", path, "--repair", "-o", f"{PurePath(path).stem}.new.yml"])
    return tuple(replace(item, fix=named) if item.fix == REPAIR else item for item in findings)


_PACKAGES_OF_SYSTEM = {
    "Windows": regex(
        r"m2w64-.+|m2-.+|msys2-conda-epoch|vs20\d\d_(?:runtime|win-64)|vc|vc14_runtime|ucrt|win_inet_pton|wincertstore|"
        r"pywin32|pywinpty|winpty|.+_win-64"
    ),
    "macOS": regex(r"pyobjc-.+|.+_osx-(?:64|arm64)"),
}
"""Packages that exist for one system alone."""
_PREFIX = {"Windows": regex(r"[A-Za-z]:[\\/]"), "macOS": regex(r"/Users/|/opt/homebrew/")}
"""How a folder begins that an environment has there."""
_SHOWN = 3


def prefix_is_foreign(spec: EnvironmentSpec) -> bool:
    """Whether the folder of the environment is one of macOS or Windows, where its owner uses the file."""
    return any(pattern.match(spec.prefix) for pattern in _PREFIX.values()) if spec.prefix else False


def _foreign_export_findings(spec: EnvironmentSpec) -> Iterator[Finding]:
    """A file that ``conda env export`` wrote on another system: its packages and builds are not those of Linux."""
    if any(not platform.startswith("linux") for platform in spec.platforms):
        return  # it is for several systems
    for system, name in _PACKAGES_OF_SYSTEM.items():
        foreign = [pin.yaml_text() for pin in spec.pins if name.fullmatch(pin.name)]
        place = f"prefix: {spec.prefix}" if spec.prefix and _PREFIX[system].match(spec.prefix) else ""
        if not foreign and not place:
            continue
        only = f"{first_of(foreign, _SHOWN)} exist{'s' if len(foreign) == 1 else ''} only for {system}"
        builds = sum(bool(pin.build.strip("*")) for pin in spec.pins)
        if not foreign and not builds:
            continue  # it was written there, and what it asks for exists on Linux as well
        told = [place, only if foreign else "", f"{builds} entries name a build string" if builds > 1 else ""]
        yield Finding(
            code="CU106",
            severity="error" if foreign else "warning",
            subject="dependencies",
            message=f"the file is for {system}: {'; '.join(filter(None, told))}",
            fix=f"export only what was requested, without builds: conda env export --from-history, or {REPAIR}",
            edits=tuple(FileEdit(how="remove", entries=(text,)) for text in foreign),
        )


_RELEASE = regex(r"={0,3}([0-9][0-9.]*?)(?:\.\*)?")


def _cudnn_contradiction(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """A cuDNN of another major release than the one that every build of conda-forge's torch requires."""
    torch, pin = spec.pin("pytorch"), spec.pin("cudnn") or spec.pin("libcudnn")
    demand, release = (pin_demand(torch), _RELEASE.fullmatch(pin.version)) if torch and pin else (None, None)
    if not torch or not pin or not demand or not release or torch_channel(spec) != "conda-forge":
        return
    rows = [row for row in knowledge.torch if row.stack == "conda-forge" and row.cuda and demand.admits(row.version)]
    needs = {row.cudnn.first.major if row.cudnn and row.cudnn.first else None for row in rows}
    if not needs or None in needs or int(release[1].split(".")[0]) in needs:
        return
    majors = " or ".join(map(str, sorted(item for item in needs if item)))
    message = f"{pin.yaml_text()} contradicts {torch.yaml_text()}: its builds in conda-forge require cuDNN {majors}"
    fix = f"remove {pin.yaml_text()}: conda's torch installs its own cuDNN"
    yield Finding(
        code="CU120",
        severity="error",
        subject=pin.name,
        message=message,
        evidence=tuple(rows[-1].sources),
        fix=fix,
        about=(pin.yaml_text(), torch.yaml_text()),
    )


def _hold_on_one_machine(one: str, other: str) -> bool:
    """Whether two markers hold on one machine."""
    from cuenv.resolver.asked_torch import places_on_linux  # noqa: PLC0415 - few lines have one

    return bool(places_on_linux(one) & places_on_linux(other))


def _contradictions(spec: EnvironmentSpec) -> Iterator[Finding]:
    """Two entries on one package that no release satisfies: ``python=3.11`` and ``python=3.12``."""
    entries = [("CU120", pin_demand(pin), "") for pin in spec.pins]
    entries += [("CU510", pip_demand(text), text.partition(";")[2]) for text in spec.pip]
    seen: dict[tuple[str, str], list[tuple[Demand, str]]] = {}
    for code, demand, marker in entries:
        if demand is None:
            continue
        for other, its in seen.setdefault((code, demand.name), []):
            if demand.excludes(other) and (not (marker or its) or _hold_on_one_machine(marker, its)):
                message = (
                    f"{demand.text} and {other.text} contradict each other: no release of {demand.name} satisfies both"
                )
                yield Finding(
                    code=code,
                    severity="error",
                    subject=demand.name,
                    message=message,
                    fix="remove one of the two",
                    about=(demand.text, other.text),
                )
                break
        seen[code, demand.name].append((demand, marker))


def _second_torch_findings(spec: EnvironmentSpec) -> Iterator[Finding]:
    """A torch from pip over the one from conda, which is named, or required by torchvision or torchaudio."""
    torch = spec.pin("pytorch") or spec.pin("pytorch-gpu")
    brings = next((pin for pin in map(spec.pin, OF_TORCH) if pin), None)
    conda = f"conda's {torch.yaml_text()}" if torch else ""
    conda = conda or (f"the one of conda that {brings.yaml_text()} requires" if brings else "")
    if not conda or not spec.pip:
        return

    for requirement in spec.pip:
        if requirement_name(requirement) == "torch":
            yield Finding(
                code="CU502",
                severity="error",
                subject="torch",
                message=f"pip: {requirement} would install torch over {conda}",
                edits=(FileEdit(how="remove", entries=(requirement,), pip=True),),
                about=(requirement,),
            )


def _torch_index_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """A torch that the indexes of the pip part do not have, and libraries that are made for another torch."""
    if spec.pin("pytorch") or any("torch" in text for text in spec.pip):
        from cuenv.resolver.torch_findings import index_findings, local_findings, pair_findings  # noqa: PLC0415 - many files have no torch

        yield from index_findings(spec.pip, version_spec_of(spec.pin("python")), knowledge, project=spec.project)
        yield from local_findings(spec.pip, project=spec.project)
        yield from pair_findings(spec, knowledge)


def _discontinued_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """Pins on releases that a package never had."""
    for pin in spec.pins:
        row = knowledge.discontinued(pin.name)
        if row is None or (pin.channel and pin.channel != row.channel):
            continue
        if row.channel not in [short_channel(channel) for channel in spec.channels] and not pin.channel:
            continue
        if (
            pin.name == "pytorch"
            or _admits_any(pin, row.versions)
            or (not pin.channel and _other_channel_may_have(row, spec))
        ):
            continue
        if pin.name == "cudatoolkit" and not pin.channel and _defaults_may_have(pin, spec, row.versions):
            continue
        also = _NO_COMPILER if pin.name == "cudatoolkit-dev" and spec.pin("pytorch-cuda") else ""
        message = f"{pin.yaml_text()} does not exist: {_nearest_releases(pin, row.versions)}{row.says}{also}"
        yield Finding(
            code="CU110",
            severity="error",
            subject=pin.name,
            message=message,
            evidence=tuple(row.sources),
            fix=row.instead,
            about=(pin.yaml_text(),),
        )


def _other_channel_may_have(row: Discontinued, spec: EnvironmentSpec) -> bool:
    """Whether a listed channel may hold releases of the package that its row does not know."""
    channels = {short_channel(channel) for channel in spec.channels} - {"nodefaults"}
    if row.alone:  # but its owner has channels such as pytorch-nightly
        return any(channel.startswith(f"{row.channel}-") for channel in channels)
    known = {channel for channel in channels if channel in ("conda-forge", "pytorch") or channel.startswith("nvidia/")}
    return bool(channels - known - (set() if row.package == "cudatoolkit" else {"nvidia", "defaults"}))


def _defaults_may_have(pin: Pin, spec: EnvironmentSpec, versions: Iterable[str]) -> bool:
    """Whether conda's default channels, which conda adds, may have a toolkit: CUDA before 9.2, and other patches."""
    asked = version_spec_of(pin)
    if "nodefaults" in spec.channels or asked is None or not asked.prefix:
        return False
    minors = {version(text).release[:2] for text in versions}
    return tuple(asked.prefix[:2]) in minors or tuple(asked.prefix[:2]) < min(minors)


def _admits_any(pin: Pin, versions: Iterable[str]) -> bool:
    """Whether a pin admits any of the releases, as conda compares them; one that cannot be read may admit all."""
    specs = map(version_spec, pin.condition().split("|"))
    return any(item is None or any(item.admits(version(text)) for text in versions) for item in specs)


def _nearest_releases(pin: Pin, releases: Iterable[str]) -> str:
    """The releases next to one that never was, where it is none after the last: why a pin on it finds nothing."""
    asked = version_spec_of(pin)
    if asked is None or asked.prefix is None:
        return ""
    below = [text for text in releases if version(text).release < asked.prefix]
    above = [text for text in releases if version(text).release > asked.prefix]
    if not above:
        return ""
    near = [*below[-1:], *above[:1]]
    verb = "is" if len(near) == 1 else "are"
    return f"the nearest {'release' if len(near) == 1 else 'releases'} {verb} {' and '.join(near)}; "


def _channel_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """Channels that hold CUDA components: one, named."""
    named = {pin.name: pin.channel for pin in spec.pins if pin.channel and knowledge.is_component(pin.name)}
    unnamed = [pin for pin in spec.pins if not pin.channel and knowledge.is_component(pin.name)]
    loose = [pin.name for pin in unnamed]
    whole = {row.name for row in knowledge.components if row.whole}
    channels = [short_channel(channel) for channel in spec.channels]
    holding = sorted(set(named.values()))
    if len(holding) > 1:
        parts = ", ".join(f"{name} from {channel}" for name, channel in sorted(named.items()))
        yield two_channels_finding(f"CUDA components are pinned to {len(holding)} channels: {parts}", ours=spec.ours)
        return
    torch = spec.pin("pytorch")
    home = torch and (torch.channel or next((channel for channel in channels if channel in STACKS), ""))
    if torch and home == "conda-forge" and "cuda" in torch.build and holding not in ([], ["conda-forge"]):
        parts = ", ".join(f"{name} from {channel}" for name, channel in sorted(named.items()))
        message = f"{parts}, and the CUDA libraries of conda-forge's torch from conda-forge"
        yield two_channels_finding(message, ours=spec.ours)
        return
    sources = [channel for channel in channels if channel == "conda-forge" or of_nvidia(channel)]
    nvidia = [channel for channel in sources if channel.startswith("nvidia")]
    if len(nvidia) > 1:
        yield two_channels_finding(f"{' and '.join(nvidia)} both contain CUDA components", ours=spec.ours)
    elif nvidia == ["nvidia"] and sources[0] == "conda-forge" and not spec.pin("pytorch-cuda"):
        if set(loose) - (whole - {"cuda-version"}) or (torch and home == "conda-forge" and "cuda" in torch.build):
            yield _nvidia_after_forge_finding(loose)
    elif nvidia == ["nvidia"] and torch and home == "conda-forge":
        yield from _nvidia_beside_forge_torch(torch, sources, spec)
    elif nvidia == ["nvidia"]:
        yield from _unbounded_nvidia(spec, knowledge)
    elif nvidia and "conda-forge" in sources and set(loose) - whole:
        first = next(pin for pin in unnamed if pin.name not in whole)
        yield Finding(
            code="CU101",
            severity="warning",
            subject=", ".join(loose),
            message=f"{', '.join(loose)} may come from {nvidia[0]} or from conda-forge: no channel is named",
            edits=(FileEdit(how="write", entries=(replace(first, channel=nvidia[0]).yaml_text(),)),),
        )


def _unbounded_nvidia(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """What the plain channel nvidia gives of its newest release, whatever release the file names."""
    pins = [pin for pin in spec.pins if pin.channel in ("", "nvidia") and knowledge.is_component(pin.name)]
    whole = {row.name for row in knowledge.components if row.whole or row.parts}
    given = {pin.name for pin in spec.pins if pin.version}
    many = [pin for pin in pins if set(knowledge.parts_of(pin.name)) - given]  # an export pins every part
    free = [pin.name for pin in pins if not pin.version and pin.name not in whole]
    torch = spec.pin("pytorch-cuda")
    row = knowledge.cuda(release) if torch and (release := release_of_pin(torch)) else None
    open_ = [text for text in (row.binds if row else ()) if not spec.pin(text.partition("=")[0])]
    newest = "the solver chooses the newest release on the channel nvidia"
    if many:
        names = ", ".join(pin.yaml_text() for pin in many)
        message = f"{names} {'sets' if len(many) == 1 else 'set'} no upper bound on the parts, so {newest} for them"
        yield two_channels_finding(message, ours=spec.ours, about=tuple(pin.yaml_text() for pin in many))
    if open_ or free:
        listed = [*free, *(text.partition("=")[0] for text in open_)]
        bound = [*(f"{name}={release}" for name in free), *open_] if torch else []
        lead = f"{torch.yaml_text()} sets no upper bound on" if torch else "no version is given for"
        about = (torch.yaml_text(),) if torch else ()
        finding = two_channels_finding(f"{lead} {', '.join(listed)}, so {newest}", ours=spec.ours, about=about)
        if bound and not spec.ours and not many:
            finding = replace(finding, fix=None, edits=(FileEdit(how="add", entries=tuple(bound)),))
        yield replace(finding, evidence=tuple(row.sources) if row else ())


def _nvidia_beside_forge_torch(torch: Pin, sources: Sequence[str], spec: EnvironmentSpec) -> Iterator[Finding]:
    """The channel nvidia beside a torch of conda-forge, which does not depend on the libraries of that channel."""
    if sources[0] != "conda-forge":
        message = (
            "the channel nvidia is listed before conda-forge, so strict channel priority takes the CUDA libraries of "
            "conda-forge's torch from nvidia"
        )
        yield two_channels_finding(message, ours=spec.ours, about=("nvidia",))
        return
    pins = " and ".join(pin.yaml_text() for pin in spec.pins if pin.name == "pytorch-cuda")
    yield Finding(
        code="CU101",
        severity="warning",
        subject="channels",
        message=f"conda-forge is listed before pytorch, so {torch.yaml_text()} comes from conda-forge, and {pins} "
        "selects only among builds of the channel pytorch",
        edits=(FileEdit(how="write", entries=(replace(torch, channel="pytorch").yaml_text(),)),),
    )


def _nvidia_after_forge_finding(loose: list[str]) -> Finding:
    """The channel nvidia behind conda-forge, which has every component: strict priority never reaches it."""
    message = "the channel nvidia is listed after conda-forge, so only strict channel priority excludes its releases"
    fix = f"remove nvidia from the channels{f', and write conda-forge::{loose[0]}' if loose else ''}"
    return Finding(code="CU101", severity="warning", subject="channels", message=message, fix=fix, about=("nvidia",))


def two_channels_finding(message: str, *, ours: bool = False, about: tuple[str, ...] = ()) -> Finding:
    """The finding that CUDA components come from more than one channel, or from one that mixes releases.

    It is an error in what cuenv wrote, which promises one channel, and a warning in what somebody else wrote.
    """
    return Finding(
        code="CU101",
        severity="error" if ours else "warning",
        subject="channels",
        message=message,
        fix=REPAIR
        if ours
        else "write each CUDA component as CHANNEL::PACKAGE=RELEASE, with one channel for all of them",
        about=about,
    )


def _cpu_build_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """Pins that ask for a CPU build in a CUDA environment, and pins that would let one in."""
    named, others = wants_cuda(spec, knowledge), list[tuple[Pin, str]]()
    for pin in spec.pins:
        if pin.name in CPU_PACKAGES or (_VARIANT_SELECTORS.fullmatch(pin.name) and "cpu" in pin.build):
            if named:
                yield _cpu_forced_finding(pin)
            continue
        own = _variant(pin, spec, knowledge)
        row = own or next((row for row in knowledge.twins if row.package == pin.name), None)
        if "cpu" in pin.build and named and row and row.essential:
            asked = (pin, own.any_cuda if own else "")
            if pin.name in ("pytorch", *_WITH_TORCH):
                yield _cpu_build_strings_finding([asked], "error")
            else:  # whoever wrote its build string may mean it
                others.append(asked)
        elif not pin.build and own and own.essential and _torch_in_tables(pin, knowledge):
            first = next((item for item in map(short_channel, spec.channels) if item in STACKS), own.channel)
            of_torch = pin.name in ("pytorch", *_WITH_TORCH)
            # the channel that comes first names its CUDA builds in another way
            home = pin.channel or (own.channel if of_torch and first != own.channel else "")
            build = replace(pin, version=pin.condition().removeprefix("=="), build=own.any_cuda, channel=home)
            guarded = build.exact_text()
            # whoever names torch or CUDA means GPUs; another program is as often meant for CPUs
            meant = named or spec.pin("pytorch") is not None or pin.name in _WITH_TORCH
            yield Finding(
                code="CU104",
                severity="warning",
                subject=pin.name,
                message=f"{pin.yaml_text()} has no CUDA build string: the solver may choose the CPU build",
                evidence=tuple(own.sources),
                fix=None if meant else f"for GPUs write {guarded}",
                edits=(FileEdit(how="write", entries=(guarded,)),) if meant else (),
                about=(pin.yaml_text(),),
            )
    if others:
        yield _cpu_build_strings_finding(others, "warning")


def _torch_in_tables(pin: Pin, knowledge: Knowledge) -> bool:
    """Whether the tables have a torch that is asked for: of others nobody knows how their CUDA builds are called."""
    demand = pin_demand(pin) if pin.name == "pytorch" else None
    return demand is None or any(demand.admits(row.version) for row in knowledge.torch)


def _variant(pin: Pin, spec: EnvironmentSpec, knowledge: Knowledge) -> CudaVariant | None:
    """The row of the CPU and CUDA builds of the channel of a pin, else of the first listed channel that has one."""
    torch = spec.pin("pytorch") if pin.name in ("pytorch", *_WITH_TORCH) else None
    named = pin.channel or (torch.channel if torch else "")
    home = named or (torch_channel(spec) if torch else "")
    homes = [home] if named or home in STACKS else map(short_channel, spec.channels)
    return next((row for place in homes if (row := knowledge.cuda_variant(pin.name, place))), None)


def _cpu_build_strings_finding(pins: Sequence[tuple[Pin, str]], severity: Severity) -> Finding:
    """Packages whose build strings ask for the CPU, each with the one that asks for CUDA where a row knows it."""
    *more, last = (pin.yaml_text() for pin, _ in pins)
    names = f"{', '.join(more)} and {last}" if more else last
    asked = [replace(pin, version=pin.condition().removeprefix("=="), build=build).exact_text() for pin, build in pins]
    return Finding(
        code="CU103",
        severity=severity,
        subject=pins[0][0].name,
        message=f"{names} {'are CPU builds' if more else 'is the CPU build'} in an environment that names CUDA",
        fix=None if pins[0][1] else f"write {', '.join(asked)} with a build string for CUDA",
        edits=(FileEdit(how="write", entries=tuple(asked), near=True),),
        about=tuple(pin.yaml_text() for pin, _ in pins),
    )


def _cpu_forced_finding(pin: Pin) -> Finding:
    """A package that makes every build one for the CPU."""
    named = pin.name if pin.name in CPU_PACKAGES else pin.yaml_text()
    return Finding(
        code="CU103",
        severity="error",
        subject=pin.name,
        message=f"{named} forces the CPU build in an environment that names CUDA",
        edits=(FileEdit(how="remove", entries=(pin.yaml_text(),)),),
        about=(pin.yaml_text(),),
    )
