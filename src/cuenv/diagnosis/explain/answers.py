"""Lines from the tables and the host that complete the answer of a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from packaging.version import Version

from cuenv.core.versions import Capability, target_for, version
from cuenv.diagnosis.cures.context import LogContext, minimum_driver_verdict, newest_supported_cuda, text_with_code
from cuenv.diagnosis.explain.question import MAJOR, RELEASE, AskedQuestion
from cuenv.host.describe import gpu_text
from cuenv.host.facts import Gpu, HostFacts, feature_sentence
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import AnswerPage
from cuenv.knowledge.io.load import load_guidance
from cuenv.knowledge.rows import PLATFORMS, Cuda, Extension, LibrarySupport, TorchBuild
from cuenv.resolver.candidates import Candidate, bare_candidate
from cuenv.resolver.rules import Context, minimum_driver, verdict_of
from cuenv.resolver.verdict import and_list


def table_lines(
    row: AnswerPage, asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None
) -> tuple[str, ...]:
    """The lines of the tables for what the question names, and for the host."""
    return tuple(dict.fromkeys(ANSWER_LINES[row.join](asked, knowledge, facts))) if row.join else ()


def _driver_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    for capability in asked.gpus:
        row = knowledge.compute_capability(capability)
        for cuda in asked.cudas or ([row.first_cuda] if row and row.first_cuda else []):
            yield from _lowest_driver_lines(cuda, capability, asked, knowledge)
    for floor in () if asked.cudas else knowledge.floors:
        yield f"CUDA {floor.major}.x needs driver {floor.driver} or later"
    context = LogContext(knowledge=knowledge, facts=facts)
    for cuda in asked.cudas:
        minimum, native = knowledge.minimum_driver(cuda), knowledge.native_driver(cuda)
        if minimum:
            came = f"; driver {native} came with it, which PTX and new functions of {cuda} need" if native else ""
            yield f"CUDA {cuda} runs from driver {minimum.driver} on{came}"
    driver = facts.driver if facts else None
    if facts is None or driver is None:
        return
    named = f"driver {driver.version}" if driver.version else "the driver"
    yield (
        f"{facts.label} has {named}, which supports CUDA {driver.cuda}" if driver.cuda else f"{facts.label} has {named}"
    )
    for cuda in asked.cudas:
        verdict = minimum_driver_verdict(context, cuda)
        yield text_with_code(verdict) if verdict.outcome != "pass" else f"CUDA {cuda} runs on {named} of {facts.label}"
    if not asked.cudas and (runs := newest_supported_cuda(context)):
        yield f"torch builds up to CUDA {runs} run on it"


def _three_versions_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    for cuda in asked.cudas:
        minimum = knowledge.minimum_driver(cuda)
        branch = knowledge.branch_for(cuda)
        if minimum and branch:
            yield (
                f"CUDA {cuda}: nvidia-smi shows it, or more, from driver branch {branch.number} on; "
                f"programs built with it run from driver {minimum.driver} on"
            )
    if facts is None:
        return
    if facts.driver and facts.driver.cuda:
        yield f"nvidia-smi on {facts.label} shows CUDA {facts.driver.cuda}"
    yield from _toolkit_lines(asked, knowledge, facts)
    for torch in facts.torch:
        yield f"torch {torch.version} in the {torch.where} is built for CUDA {torch.cuda or '(a CPU build)'}"


def _toolkit_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    del asked, knowledge
    for item in facts.toolkits if facts else ():
        where = "on PATH" if item.on_path else f"found by {item.via}"
        yield f"{facts.label if facts else ''} has toolkit {item.release or 'of unknown release'}, {where}"
    if facts and facts.detected and not facts.toolkits:
        yield f"{facts.label} has no CUDA toolkit"


def _virtual_package_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    del asked, knowledge
    if facts is None:
        return
    level = facts.driver.cuda if facts.driver else None
    yield f"{facts.label}: __cuda is {level}" if level else f"{facts.label}: __cuda is absent, because it has no driver"
    if facts.libc and facts.libc.family == "glibc":
        yield f"{facts.label}: __glibc is {facts.libc.version}"


def capabilities_of(asked: AskedQuestion, facts: HostFacts | None) -> tuple[Capability, ...]:
    """The compute capabilities that a question names, or those of the host."""
    return asked.gpus or (facts.capabilities if facts else ())


def _capability_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    for model in asked.models:
        yield f"{model.name}: compute capability {model.capability} ({model.architecture})"
    named = {model.capability for model in asked.models}
    for capability in asked.gpus:
        row = knowledge.compute_capability(capability)
        if row and capability not in named:
            yield f"compute capability {capability} is {row.architecture}"
    if not asked.gpus and facts and facts.gpus:
        yield f"{facts.label} has {gpu_text(facts)}"


def _torch_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    for capability in capabilities_of(asked, facts):
        yield from _torch_release_lines((capability,), asked, knowledge, facts.platform if facts else PLATFORMS[0])
    yield from _nccl_lines(asked, knowledge, facts)


def _nccl_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    """What NCCL, which several GPUs need, has code for; only for GPUs that some release does not support."""
    rows = nccl_rows(knowledge, facts)
    for capability in capabilities_of(asked, facts):
        of = capability_text((capability,), asked)
        lacks = [row for row in rows if capability < row.serves_from]
        if lacks and lacks[0].first:
            yield f"{of}: NCCL {lacks[0].first} and later has no code for it, so several such GPUs need an older one"
        elif lacks:
            yield f"{of}: no release of NCCL for this CUDA has code for it"


def nccl_rows(knowledge: Knowledge, facts: HostFacts | None) -> tuple[LibrarySupport, ...]:
    """The compute capability from which each release of NCCL supports GPUs, for the CUDA of the driver."""
    return knowledge.layers_of("nccl", facts.driver.cuda if facts and facts.driver else None)


def number_format_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    """The number formats in which the GPUs compute."""
    for capability in capabilities_of(asked, facts):
        if feature := knowledge.feature(capability, ""):
            yield f"{capability_text((capability,), asked)}: {feature_sentence(feature)}"


def lowest_capability(package: str, knowledge: Knowledge) -> Capability | None:
    """The lowest compute capability for which a package can be compiled."""
    text = load_guidance(knowledge).gives("capability", package)
    return Capability.parse(text) if text else None


def _lowest_capability_lines(package: str) -> Callable[[AskedQuestion, Knowledge, HostFacts | None], Iterator[str]]:
    def fill(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
        lowest = lowest_capability(package, knowledge)
        for capability in capabilities_of(asked, facts) if lowest else ():
            runs = "can" if lowest and capability >= lowest else "cannot"
            yield f"{capability_text((capability,), asked)}: {package} {runs} run on it, as it needs {lowest} or later"

    return fill


def named_libraries(asked: AskedQuestion, knowledge: Knowledge) -> list[str]:
    """The compiled libraries that a question names."""
    words = re.findall(r"[a-z0-9]+", asked.question.lower())
    text = f" {' '.join(words)} "
    return [name for name in sorted({row.package for row in knowledge.extensions}) if f" {plain_name(name)} " in text]


def plain_name(package: str) -> str:
    """A name as people write it in a sentence."""
    return re.sub(r"[-_]+", " ", package.lower())


def newest_library_wheel(package: str, capability: Capability, knowledge: Knowledge) -> tuple[Extension | None, bool]:
    """The newest wheels of a library whose torch has code for a GPU, and whether no wheels are newer."""
    wheels = [row for row in knowledge.wheels if row.platform == PLATFORMS[0] and row.cuda and row.code]
    torches = {row.version for row in _builds_for(wheels, (capability,), knowledge)[0]}
    rows = [row for row in knowledge.extension(package) if "wheel" in row.comes]
    rows.sort(key=lambda row: row.first or max(row.releases, default=version("0")), reverse=True)
    for row in rows:
        serves = row.serves_from is None or capability >= row.serves_from
        if serves and (row.torch is None or any(map(row.torch.admits, torches))):
            return row, row is rows[0]
    return None, False


def _library_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    """The newest release of each named library for the GPUs, and the torch for them."""
    for capability in capabilities_of(asked, facts):
        of = capability_text((capability,), asked)
        for package in named_libraries(asked, knowledge):
            if not any("wheel" in row.comes for row in knowledge.extension(package)):
                continue
            row, newest = newest_library_wheel(package, capability, knowledge)
            if row is None:
                yield f"{of}: the cuenv tables list no wheel of {package} that runs on it"
                continue
            releases = row.releases[-1:] or ((row.first,) if row.first else ())
            span = f"{package} {releases[0]}" if releases else package
            since = f" to before {row.below}" if row.below else " and later" if row.first else ""
            torch = f", with torch {row.torch.span}" if row.torch else ""
            if row.serves_from is None:
                yield f"{of}: {span}{since}{torch}, has a torch with code for it; its own kernels are not listed"
            else:
                yield f"{of}: {span}{since}{torch}, runs on it" + ("" if newest else "; newer wheels do not")
    yield from _torch_lines(asked, knowledge, facts)


def _mixed_gpu_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    """The builds for all GPUs together, or for each of them if no build supports all."""
    if found := tuple(capabilities_of(asked, facts)):
        yield from _torch_release_lines(found, asked, knowledge, facts.platform if facts else PLATFORMS[0])


def _which_cuda_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    if asked.gpus:
        yield from _cuda_gpu_lines(asked, knowledge, facts)
    else:
        yield from _driver_lines(asked, knowledge, facts)


def _cuda_gpu_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    """For each GPU the CUDA releases that support it, those of the question, the lowest driver, and torch."""
    platform = facts.platform if facts else PLATFORMS[0]
    for capability in capabilities_of(asked, facts):
        of, row = capability_text((capability,), asked), knowledge.compute_capability(capability)
        if row is None or row.first_cuda is None:
            yield f"{of}: the cuenv tables do not list the CUDA releases for it"
            continue
        last = (
            f"to CUDA {row.last_cuda}, the last"
            if row.last_cuda
            else f"on, up to {knowledge.cudas[-1].version}, the newest"
        )
        yield f"{of}: nvcc compiles for it from CUDA {row.first_cuda} {last}"
        wanted = named_cudas(asked, knowledge, capability)
        for cuda in wanted:
            yield f"{of}: {_cuda_support_text(cuda, capability)}"
        able = [cuda.version for cuda in wanted if target_for(capability, cuda.targets)] or [row.first_cuda]
        for release in dict.fromkeys(able):
            yield from _lowest_driver_lines(release, capability, asked, knowledge)
        yield from _torch_release_lines((capability,), asked, knowledge, platform)
    if asked.driver:
        yield from _driver_lines(asked, knowledge, facts)


def _lowest_driver_lines(
    cuda: Version, capability: Capability, asked: AskedQuestion, knowledge: Knowledge
) -> Iterator[str]:
    gpu = Gpu(index=0, name="", capability=capability)
    facts = HostFacts(label="the host", platform=PLATFORMS[0], gpus=(gpu,))
    context = Context(facts=facts, request=Request(), knowledge=knowledge)
    if lowest := minimum_driver(bare_candidate(cuda, facts.platform), context):
        yield f"{capability_text((capability,), asked)}: CUDA {cuda} needs driver {lowest} or later"


def named_cudas(asked: AskedQuestion, knowledge: Knowledge, capability: Capability) -> list[Cuda]:
    """The CUDA releases that a question names; for a major version alone the first that supports the GPU."""
    found = [row for row in map(knowledge.cuda, asked.cudas) if row]
    for major in () if found else map(int, MAJOR.findall(asked.question)):
        rows = [row for row in knowledge.cudas if row.version.major == major]
        own = [row for row in rows if target_for(capability, row.targets) == capability]
        near = [row for row in rows if target_for(capability, row.targets)]
        found += (own or near or rows)[:1]
    return found


def _cuda_support_text(cuda: Cuda, capability: Capability) -> str:
    target = target_for(capability, cuda.targets)
    if target is None:
        return f"CUDA {cuda.version} does not support it"
    by = "" if target == capability else f" only with code for compute capability {target}, which runs there"
    return f"CUDA {cuda.version} supports it{by}"


def _torch_release_lines(
    capabilities: tuple[Capability, ...], asked: AskedQuestion, knowledge: Knowledge, platform: str
) -> Iterator[str]:
    """The first and last wheels with machine code for GPUs, or with PTX, and the newest conda build."""
    wheels = [row for row in knowledge.wheels if row.platform == platform and row.cuda and row.code]
    builds = [row for row in knowledge.torch if row.platform == platform and row.cuda and row.code]
    of = capability_text(capabilities, asked)
    native, jit = _builds_for(wheels, capabilities, knowledge)
    if able := native or jit:
        last, newest = max(row.version for row in able), max(row.version for row in wheels)
        first = min(row.version for row in able)
        oldest = ", the oldest release that cuenv lists," if first == min(row.version for row in wheels) else ""
        span = (
            _with_builds(able, last)
            if first == last
            else f"{_with_builds(able, first)}{oldest} to {_with_builds(able, last)}"
        )
        until = "" if last == newest else f"; the newest release is {newest}"
        how = "" if native else ", as PTX, which the driver compiles at the first start"
        yield f"{of}: wheels of torch {span}{how}{until}"
    else:
        them = "all of them" if len(capabilities) > 1 else "it"
        yield f"{of}: no wheel that the cuenv tables list has code for {them}"
    conda = [row for row in builds if row.stack == "conda-forge"]
    native, jit = _builds_for(conda, capabilities, knowledge)
    if able := native or jit:
        top = max(row.version for row in able)
        cudas = sorted({row.cuda for row in able if row.version == top and row.cuda})
        yield f"{of}: builds of conda-forge up to torch {top}, for CUDA {', '.join(map(str, cudas))}"


def capability_text(capabilities: tuple[Capability, ...], asked: AskedQuestion) -> str:
    """``compute capability 7.0 (V100) and 12.0 (GeForce RTX 5090)``."""
    parts = []
    for capability in capabilities:
        names = ", ".join(model.name for model in asked.models if model.capability == capability)
        parts.append(f"{capability} ({names})" if names else f"{capability}")
    return f"compute capability {and_list(parts)}"


def _with_builds(rows: Sequence[TorchBuild], release: Version) -> str:
    """A release with its builds: ``2.15.0 (cu130, cu132)``."""
    return f"{release} ({', '.join(dict.fromkeys(row.build for row in rows if row.version == release))})"


def _builds_for(
    rows: Sequence[TorchBuild], capabilities: tuple[Capability, ...], knowledge: Knowledge
) -> tuple[list[TorchBuild], list[TorchBuild]]:
    """The builds with machine code for all GPUs, and those of the newest release with PTX for some of them.

    The rule on GPU code judges them. PTX of an older release would be years older than the GPU.
    """
    gpus = tuple(Gpu(index=index, name="", capability=item) for index, item in enumerate(capabilities))
    facts = HostFacts(label="the host", platform=PLATFORMS[0], gpus=gpus)
    context = Context(facts=facts, request=Request(), knowledge=knowledge)
    newest = max((row.version for row in rows), default=None)
    judged = [
        (row, verdict_of("device-code", Candidate(build=row, cuda=row.cuda, python="3"), context).outcome)
        for row in rows
    ]
    native = [row for row, outcome in judged if outcome == "pass"]
    return native, [row for row, outcome in judged if outcome == "unknown" and row.version == newest]


def _torch_python_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    """The CUDA and Python versions of the wheels of the named torch releases, or of the newest."""
    platform = facts.platform if facts else PLATFORMS[0]
    rows = [row for row in knowledge.wheels if row.platform == platform]
    named = [version(text) for text in RELEASE.findall(asked.question)]
    wanted = named or [max(row.version for row in rows)]
    for release in wanted:
        patches = {row.version for row in rows if row.version.release[:2] == release.release[:2]}
        if not patches:
            yield f"torch {release}: the cuenv tables list no wheel of it"
            continue
        newest = max(patches)
        builds = [row for row in rows if row.version == newest]
        cudas = sorted({row.cuda for row in builds if row.cuda})
        pythons = sorted({version(text) for row in builds for text in row.pythons if text.replace(".", "").isdigit()})
        yield (
            f"torch {newest}: wheels for CUDA {', '.join(map(str, cudas))} and for Python "
            f"{', '.join(map(str, pythons))} on {platform}"
        )


def _gcc_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    """The GCC versions that nvcc accepts, for the named CUDA releases, or for each."""
    del facts
    for row in knowledge.cudas:
        if row.gcc_max and (not asked.cudas or row.version in asked.cudas):
            yield f"nvcc {row.version} takes GCC {row.gcc_min or 'of any older release'} to {row.gcc_max}"


def _arch_list_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    found = capabilities_of(asked, facts)
    if not found:
        return
    whose = "the GPUs of the question" if asked.gpus else f"the GPUs of {facts.label}" if facts else "these GPUs"
    yield f'for {whose}: export TORCH_CUDA_ARCH_LIST="{";".join(map(str, found))}"'
    for capability in found:
        able = [row.version for row in knowledge.cudas if target_for(capability, row.targets) == capability]
        if able:
            yield f"nvcc {min(able)} to {max(able)} compile for compute capability {capability}"


def _visible_gpu_lines(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> Iterator[str]:
    del asked
    if facts is None:
        return
    inside = f" inside {facts.environment.container}" if facts.environment.container else ""
    if facts.driver is None:
        yield f"{facts.label} has no NVIDIA driver{inside}, so no program can use a GPU there"
        return
    runs = newest_supported_cuda(LogContext(knowledge=knowledge, facts=facts))
    upto = f", which runs torch builds up to CUDA {runs}" if runs else ""
    yield f"{facts.label} has driver {facts.driver.version or 'unknown'}{upto}, and {gpu_text(facts)}"
    for torch in facts.torch:
        kind = f"is built for CUDA {torch.cuda}" if torch.cuda else "is a CPU build"
        yield f"torch {torch.version} in the {torch.where} {kind}"


ANSWER_LINES: dict[str, Callable[[AskedQuestion, Knowledge, HostFacts | None], Iterator[str]]] = {
    "archs": _arch_list_lines,
    "capability": _capability_lines,
    "cuda_gpu": _cuda_gpu_lines,
    "drivers": _driver_lines,
    "flash_attn": _lowest_capability_lines("flash-attn"),
    "gcc": _gcc_lines,
    "libraries": _library_lines,
    "mixed": _mixed_gpu_lines,
    "nccl": _nccl_lines,
    "numbers": number_format_lines,
    "releases": _torch_python_lines,
    "sees": _visible_gpu_lines,
    "three_versions": _three_versions_lines,
    "toolkits": _toolkit_lines,
    "torch": _torch_lines,
    "triton": _lowest_capability_lines("triton"),
    "virtual": _virtual_package_lines,
    "which_cuda": _which_cuda_lines,
}
"""What fills an answer, by the names that rows give."""
