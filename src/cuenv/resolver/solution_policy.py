"""What holds of every lock by itself: one CUDA channel, one release, no CPU variant, hashes, the right platform."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from cuenv.core.findings import FileEdit, Finding, LockFix, first_of
from cuenv.core.regex import regex
from cuenv.core.versions import version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import CudaVariant
from cuenv.resolver.requirements import OF_TORCH
from cuenv.solve.model import Lock, LockedPackage, Solution, build_cuda, content_digest, names_cpu, names_cuda

_SHOWN = 3
_RELEASE = regex(r"[1-9][0-9]\.[0-9]+")
"""How a version of the toolkit's own number begins; others count years, or from 0."""
_SHOWN = 3
_TORCH_FAMILY = frozenset({"pytorch", "pytorch-gpu", "libtorch", "pytorch-mutex", "python", *OF_TORCH})
"""Torch and what goes with it; no other package asks for a CPU build of them."""
_NVCC = regex(r"cuda-(?:nvcc|crt|nvvm|toolkit|compiler)")
_COMPILERS = regex(rf"{_NVCC.pattern}|cuda-.*-dev")
"""Parts of the toolkit that compile: headers and nvcc of two releases do not fit together."""


def undated_findings(solution: Solution, as_of: str) -> Iterator[Finding]:
    """What was taken without knowing that it existed on a day: its record, or its index, tells no day."""
    names = solution.undated
    if not names:
        return
    one = len(names) == 1
    message = (
        f"{first_of(names, _SHOWN)} {'is' if one else 'are'} chosen, but it is unknown whether "
        f"{'it' if one else 'they'} existed as of {as_of}: the channel or index gives no date"
    )
    subject = names[0].partition(" ")[0] if one else solution.platform
    yield Finding(code="CU119", severity="warning", subject=subject, message=message)


def lock_findings(
    packages: Iterable[LockedPackage],
    platform: str,
    knowledge: Knowledge,
    offered: Mapping[str, str] | None = None,
    asked: Collection[str] = (),
    *,
    explicit: bool = False,
    ours: bool = False,
    of_cpu: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Judge what is locked by itself: one CUDA channel, one release, no CPU variant, hashes, platform.

    Args:
        offered: CUDA builds that the channels have of packages that are locked without CUDA; ``None``: not asked.
        asked: names of the packages that the environment file asks for.
        explicit: it stands in a file of URLs.
        ours: it was locked from a file that cuenv wrote, which promises one channel for CUDA.
        of_cpu: names of the packages whose CPU builds the environment file asks for.
    """
    all_packages = tuple(packages)
    cuda = cuda_components(all_packages, knowledge)
    found = [
        *one_channel_findings(all_packages, knowledge, ours=ours),
        *missing_hash_findings(all_packages, explicit=explicit),
        *_platform_findings(all_packages, platform),
        *mixed_torch_findings(all_packages),
    ]
    if cuda:
        found += cpu_finding(all_packages, knowledge, of_cpu)
        found += unlisted_cpu_builds(all_packages, knowledge, offered, asked, of_cpu)
    return tuple(found)


def cuda_components(packages: Iterable[LockedPackage], knowledge: Knowledge) -> list[LockedPackage]:
    """The packages of NVIDIA's, which must come from one channel."""
    return [package for package in packages if knowledge.is_component(package.name)]


def one_channel_findings(
    packages: Collection[LockedPackage], knowledge: Knowledge, *, ours: bool = False
) -> Iterator[Finding]:
    """One channel and one release for the CUDA components of a lock, or of an installed environment."""
    cuda = cuda_components(packages, knowledge)
    yield from _channel_findings(cuda, ours=ours)
    yield from _release_findings(cuda, {package.name: package for package in packages}, knowledge)


def _channel_findings(cuda: list[LockedPackage], *, ours: bool) -> Iterator[Finding]:
    """The finding that CUDA components come from several channels, or from the plain channel nvidia."""
    homes: dict[str, list[str]] = {}
    for package in cuda:
        homes.setdefault(package.channel_name, []).append(package.name)
    message = ""
    if len(homes) > 1:
        parts = "; ".join(
            f"{len(names)} from {home} ({', '.join(sorted(names)[:3])})" for home, names in sorted(homes.items())
        )
        message = f"CUDA components come from {len(homes)} channels: {parts}"
    elif homes and next(iter(homes)) == "nvidia" and ours:
        message = "CUDA components come from the plain channel nvidia, which mixes releases"
    if message:
        from cuenv.resolver.policy import two_channels_finding  # noqa: PLC0415 - a lock that is in order needs no other rules

        yield two_channels_finding(message, ours=ours)


def _wanted_cuda(releases: Mapping[str, list[str]], packages: Mapping[str, LockedPackage]) -> tuple[str, bool]:
    """The CUDA release X.Y that all components should have, and whether it is torch's.

    ``pytorch-cuda`` names it, or conda-forge's ``cuda-version``, which is of the major that torch is made for; else
    torch's build string, else the release of most components.
    """
    own = build_cuda(packages["pytorch"].build) if "pytorch" in packages else None
    if "pytorch-cuda" in packages:
        return ".".join(packages["pytorch-cuda"].version.split(".")[:2]), True
    named = next((release for release, names in releases.items() if "cuda-version" in names), "")
    if named and (own is None or version(named).major == own.major):
        return named, False
    return (str(own), True) if own else (max(releases, key=lambda release: len(releases[release]), default=""), False)


def _release_findings(
    cuda: list[LockedPackage], packages: Mapping[str, LockedPackage], knowledge: Knowledge
) -> Iterator[Finding]:
    """Packages that carry the toolkit's own number agree on the release X.Y.

    The ``cuda-version`` of the channel nvidia binds nothing, and is not looked at. A run-time library of a later minor
    than torch's runs what was made for an earlier one, and its headers compile nothing without an nvcc; all other
    differences are errors.
    """
    releases: dict[str, list[str]] = {}
    for package in cuda:
        found = _RELEASE.match(package.version) if package.name.startswith("cuda-") else None
        if found and not (package.name == "cuda-version" and package.channel_name.startswith("nvidia")):
            releases.setdefault(found[0], []).append(package.name)
    wanted, of_torch = _wanted_cuda(releases, packages)
    bound = any("cuda-version" in names for names in releases.values())
    compiling = _COMPILERS if any(map(_NVCC.match, packages)) else _NVCC
    for release, found_names in sorted(releases.items()):
        if release == wanted:
            continue
        names = sorted(found_names, key=lambda name: (name != "cuda-version", name))
        runs = release.split(".")[0] == wanted.split(".")[0] and version(release) > version(wanted)
        shown = first_of(names, _SHOWN)
        verb = "is" if len(names) == 1 else "are"
        binding = ["cuda-version"] if bound else names
        row = knowledge.cuda(version(wanted)) if len(binding) > _SHOWN else None
        label = f"nvidia/label/cuda-{row.labels[-1]}" if row and row.labels else ""
        yield Finding(
            code="CU102",
            severity="warning" if runs and not any(map(compiling.match, names)) else "error",
            subject=", ".join(names[:_SHOWN]),
            message=(
                f"{shown} {verb} from CUDA {release}, but {'torch' if of_torch else 'the rest'} is from CUDA {wanted}"
            ),
            fix=f"use the channel {label}, which has CUDA {wanted} alone, instead of nvidia" if label else None,
            edits=(FileEdit(how="add", entries=tuple(f"{name}={wanted}" for name in binding)),),
        )


def _build_edit(package: LockedPackage, build: str) -> FileEdit:
    """Another build of what is locked."""
    return FileEdit(how="write", entries=(_with_build(package, build),))


def _with_build(package: LockedPackage, build: str) -> str:
    return f"{package.channel_name}::{package.name}={package.version}={build}"


def cpu_variants(packages: Iterable[LockedPackage], knowledge: Knowledge) -> Iterator[Finding]:
    """The CPU builds among packages that have CUDA builds as well, where those matter, each by itself."""
    for package, variant in _cpu_packages(packages, knowledge):
        yield _cpu_packages_finding([(package, variant)])


def cpu_finding(
    packages: Iterable[LockedPackage], knowledge: Knowledge, of_cpu: Collection[str] = ()
) -> tuple[Finding, ...]:
    """As `cpu_variants`, in one finding that the main package leads: they are CPU builds for one reason.

    What is asked for as a CPU build (``of_cpu``), what that requires, and what belongs to such a torch is none of them.
    """
    found = sorted(_cpu_packages(packages, knowledge, of_cpu), key=lambda pair: _lead_order(pair[0].name))
    return (_cpu_packages_finding(found),) if found else ()


def cuda_finding(packages: Iterable[LockedPackage]) -> tuple[Finding, ...]:
    """The CUDA build of torch, where the environment file asks for the CPU build."""
    torch = next((item for item in packages if item.name == "pytorch" and names_cuda(item.build)), None)
    if torch is None:
        return ()
    return (
        Finding(
            code="CU103",
            severity="warning",
            subject="pytorch",
            message=f"pytorch {torch.version} {torch.build} is a CUDA build, but the file requests the CPU build",
            edits=(_build_edit(torch, "*cpu*"),),
        ),
    )


def mixed_torch_findings(packages: Collection[LockedPackage]) -> Iterator[Finding]:
    """The CUDA builds of torchvision and torchaudio beside a CPU build of torch, which older records do not exclude."""
    torch = next((item for item in packages if item.name == "pytorch" and names_cpu(item.build)), None)
    for item in packages if torch else ():
        if torch and item.name in OF_TORCH and names_cuda(item.build):
            yield Finding(
                code="CU103",
                severity="error",
                subject=item.name,
                message=f"{item.name} {item.version} {item.build} is linked against the CUDA build of PyTorch, but "
                f"pytorch {torch.version} {torch.build} is a CPU build, so its operators do not load",
                edits=(_build_edit(item, "*cpu*"),),
            )


def _lead_order(name: str) -> tuple[bool, bool, int]:
    """The order of packages in a finding on them all: torch, then ``tensorflow`` before ``libtensorflow_cc``."""
    return name != "pytorch", name.startswith("lib"), len(name)


def _with_dependencies(there: Collection[LockedPackage], names: Collection[str]) -> frozenset[str]:
    """Some packages and all that they require; what torch requires is torch's own."""
    depends = {item.name: {text.split(" ")[0] for text in item.depends} for item in there}
    found, more = frozenset[str](), frozenset(names) - _TORCH_FAMILY
    while more:
        found |= more
        more = frozenset(name for one in more for name in depends.get(one, ())) - found - _TORCH_FAMILY
    return found


def _cpu_packages(
    packages: Iterable[LockedPackage], knowledge: Knowledge, meant: Collection[str] = ()
) -> Iterator[tuple[LockedPackage, CudaVariant]]:
    """The packages that are CPU builds though their channel has CUDA builds, each with its row."""
    there = tuple(packages)
    torch = next((item.channel_name for item in there if item.name == "pytorch"), "")
    of_cpu = (text for item in there if item.name.endswith("-cpu") for text in item.depends)
    # the library of faiss-cpu, which says what it is
    asked = _with_dependencies(there, meant) | {text.split(" ")[0] for text in of_cpu} - {"pytorch"}
    asked |= _TORCH_FAMILY if "pytorch" in meant else frozenset()
    for package in (item for item in there if item.name not in asked):
        if package.name == "pytorch-mutex" and torch not in ("", package.channel_name):
            continue  # it chooses among the builds of its own channel
        variant = knowledge.cuda_variant(package.name, package.channel_name)
        cuda = variant and (fnmatchcase(package.build, variant.any_cuda) or names_cuda(package.build))
        if variant and variant.essential and not cuda:
            yield package, variant


def _cpu_packages_finding(found: Sequence[tuple[LockedPackage, CudaVariant]]) -> Finding:
    """One finding on packages that are CPU builds."""
    *more, last = (f"{package.name} {package.version} {package.build}" for package, _ in found)
    are = f"{', '.join(more)} and {last} are CPU builds" if more else f"{last} is the CPU build"
    homes = " and ".join(dict.fromkeys(package.channel_name for package, _ in found))
    return Finding(
        code="CU103",
        severity="error",
        subject=found[0][0].name,
        message=f"{are}, though {homes} has CUDA builds of {'them' if more else found[0][0].name}",
        evidence=tuple(dict.fromkeys(source for _, variant in found for source in variant.sources)),
        edits=(
            FileEdit(how="write", entries=tuple(_with_build(package, variant.any_cuda) for package, variant in found)),
        ),
    )


def unlisted_cpu_builds(
    packages: Collection[LockedPackage],
    knowledge: Knowledge,
    offered: Mapping[str, str] | None = None,
    asked: Collection[str] = (),
    of_cpu: Collection[str] = (),
) -> Iterator[Finding]:
    """The CPU builds of packages that no row knows: by their own build strings, or since a CUDA build lies beside.

    A package that is for the CPU by its name (``faiss-cpu``) is one where the name without it has CUDA builds. One
    that was asked for while its channel has a CUDA build of that release is an error; all else a warning.
    """
    for package in packages:
        base = package.name.removesuffix("-cpu")
        if base not in (package.name, *of_cpu) and knowledge.cuda_variant(base, package.channel_name):
            yield Finding(
                code="CU103",
                severity="warning",
                subject=package.name,
                message=f"{package.name} {package.version} is a CPU-only package, but {base} has CUDA builds",
                edits=(FileEdit(how="write", entries=(base,), over=package.name),),
            )
    plain: list[LockedPackage] = []
    for package in possible_cpu_builds(packages, knowledge):
        build = (offered or {}).get(package.name)
        if build is None:
            plain += [package] if names_cpu(package.build) else []
            continue
        yield Finding(
            code="CU103",
            severity="error" if package.name in asked else "warning",
            subject=package.name,
            message=f"{package.name} {package.version} {package.build} is built without CUDA, but "
            f"{package.channel_name} has the CUDA build {build} of it",
            edits=(_build_edit(package, _any_cuda(build)),),
        )
    for channel in dict.fromkeys(package.channel_name for package in plain):
        yield _cpu_build_strings_finding(
            [item for item in plain if item.channel_name == channel], sure=offered is not None
        )


def _cpu_build_strings_finding(plain: list[LockedPackage], *, sure: bool) -> Finding:
    """Packages of one channel that are CPU builds by their build strings.

    Args:
        sure: the channel was asked, and has no CUDA build of these releases.
    """
    first = plain[0]
    names = [f"{item.name} {item.version} {item.build}" for item in plain]
    one = len(plain) == 1
    what = names[0] if one else f"{len(plain)} packages"
    listed = "" if one else f" ({', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})"
    there = f", and {first.channel_name} has no CUDA build of {'that release' if one else 'them'}" if sure else ""
    is_one = "is a CPU build by its build string" if one else "are CPU builds by their build strings"
    builds = shlex.quote(f"{first.name}={first.version}=*cuda*")
    look = f"list its CUDA builds: conda search --override-channels -c {first.channel_name} {builds}"
    return Finding(
        code="CU103",
        severity="info" if sure else "warning",  # where there is none, nothing of it can be mended
        subject=first.name,
        message=f"{what} {is_one}{listed}{there}",
        fix=None if sure else look,
    )


def possible_cpu_builds(packages: Iterable[LockedPackage], knowledge: Knowledge) -> Iterator[LockedPackage]:
    """The packages that may be CPU builds for all that the tables know: no row, no component, no CUDA in the build."""
    for package in packages:
        plain = package.subdir != "noarch" or names_cpu(package.build)
        known = knowledge.cuda_variant(package.name, package.channel_name) or knowledge.is_component(package.name)
        if plain and not known and not names_cuda(package.build):
            yield package


def _any_cuda(build: str) -> str:
    """A glob that the CUDA builds of a package match, by one of them."""
    word = names_cuda(build)
    return f"{'' if build.startswith(word) else '*'}{word}*"


def missing_hash_findings(packages: Iterable[LockedPackage], *, explicit: bool = False) -> Iterator[Finding]:
    """The packages that no installer can verify, in one finding.

    Args:
        explicit: it is a file of URLs, which conda writes without hashes unless it is told to.
    """
    listed = list(packages)
    bare = [f"{package.name} {package.version}" for package in listed if not package.md5 and not package.sha256]
    if bare:
        shown = ", ".join(bare[:3]) + (", ..." if len(bare) > 3 else "")
        several = f"{len(bare)} of {len(listed)} packages have no hash ({shown}): an installer cannot verify them"
        yield Finding(
            code="CU105",
            severity="error",
            subject=bare[0].partition(" ")[0] if len(bare) == 1 else "packages",
            message=several if len(bare) > 1 else f"{bare[0]} has no hash: an installer cannot verify it",
            fix="conda list --explicit --sha256 > conda-linux-64.new.lock, in the activated environment"
            if explicit
            else LockFix.of("--mirror", "CHANNEL=A-MIRROR-WITH-HASHES"),
        )


def _platform_findings(packages: tuple[LockedPackage, ...], platform: str) -> Iterator[Finding]:
    """Findings on packages that are for another platform than the lock."""
    for package in packages:
        if package.subdir not in (platform, "noarch"):
            message = f"{package.name} is for {package.subdir}, but the lock is for {platform}"
            fix = LockFix.of("--platform", platform)
            yield Finding(code="CU106", severity="error", subject=package.name, message=message, fix=fix)


def edit_findings(lock: Lock) -> Iterator[Finding]:
    """Packages and least hosts that are not those have changed, by the digest that the lock carries."""
    recorded = lock.metadata.get("cuenv_content")
    if recorded and recorded != content_digest(lock.solutions, lock.metadata):
        message = "the lock was edited after it was made: its packages or its hosts have changed"
        yield Finding(code="CU108", severity="error", subject="packages", message=message, fix=LockFix.of())
