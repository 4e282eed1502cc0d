"""A yes or no before the rest of a page, from the tables and the host or from the page itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from packaging.version import Version

from cuenv.core.regex import regex
from cuenv.core.versions import target_for, version
from cuenv.diagnosis.cures.context import LogContext, minimum_driver_verdict
from cuenv.diagnosis.explain.answers import (
    capabilities_of,
    capability_text,
    lowest_capability,
    named_cudas,
    named_libraries,
    nccl_rows,
    newest_library_wheel,
    number_format_lines,
)
from cuenv.diagnosis.explain.question import MAJOR, RELEASE, AskedQuestion
from cuenv.host.facts import Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import AnswerPage
from cuenv.knowledge.rows import NUMBERS, PLATFORMS, TorchWheel
from cuenv.knowledge.search import significant_words
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import Context, verdict_of

_YES_NO_QUESTION = regex(
    r"(?i)^\W*(?:(?:so|and|but|ok|okay|hi|hello|please)\W+)*(?:is|are|am|was|do|does|did|can|could|will|would|shall|"
    r"should|may|might|must|has|have|need)\b"
)
_NEGATIVE_QUESTION = regex(r"(?i)\btoo (?:old|new)\b|\b(?:outdated|obsolete|unsupported)\b")
_CHOICE = regex(r"(?i)\bor\b")  # what asks for one of two things wants more than yes or no
_GPU_WORD = regex(r"(?i)\b(?:gpu|card|device)s?\b")
_PYTHON = regex(r"(?i)\bpython ?(3\.[0-9]{1,2})\b")
_MIN_SHARED_WORDS = 2  # words that a question has to share with an answer of the page

YesNo = tuple[bool, str] | None  # whether it is so, and why; ``None`` where nobody can say


def yes_or_no(row: AnswerPage, asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> tuple[str, ...]:
    """The answer to a yes-or-no question; empty for other questions, and if the tables do not decide it."""
    if not _YES_NO_QUESTION.match(asked.question) or _CHOICE.search(asked.question):
        return ()
    judge = JUDGES.get(row.topic)
    judged = judge(asked, knowledge, facts) if judge else None
    if judged is None:
        return _short_answer(row, asked)
    so, why = judged
    return (f"{'Yes' if so != bool(_NEGATIVE_QUESTION.search(asked.question)) else 'No'}: {why}",)


def _short_answer(row: AnswerPage, asked: AskedQuestion) -> tuple[str, ...]:
    """The short answer of the page that shares most words with the question; empty if two share as many."""
    wanted = set(significant_words(asked.question))
    shared = sorted(((len(wanted & set(significant_words(text))), text) for text in row.short), reverse=True)
    if not shared or shared[0][0] < _MIN_SHARED_WORDS or (len(shared) > 1 and shared[0][0] == shared[1][0]):
        return ()
    return (shared[0][1],)


def _driver_runs_cuda(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
    """Whether the driver of the host runs the CUDA releases of the question."""
    cudas = asked.cudas or tuple(version(f"{major}.0") for major in MAJOR.findall(asked.question))
    driver = facts.driver if facts else None
    if facts is None or driver is None or not cudas:
        return None
    has = f"{facts.label} has driver {driver.version}" if driver.version else f"{facts.label} has CUDA {driver.cuda}"
    context = LogContext(knowledge=knowledge, facts=facts)
    for cuda in cudas:
        floor = knowledge.minimum_driver(cuda)
        outcome = minimum_driver_verdict(context, cuda).outcome
        if floor is None or outcome not in ("pass", "reject"):
            return None
        if outcome == "reject":
            return False, f"CUDA {cuda.major}.x needs driver {floor.driver} or later, and {has}"
    return True, f"{has}, and CUDA {' and '.join(dict.fromkeys(f'{cuda.major}.x' for cuda in cudas))} runs on it"


def _torch_runs_on_gpus(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
    """Whether a torch wheel of the named release has code for the GPUs and a CUDA for the driver."""
    found = capabilities_of(asked, facts)
    if not found:
        return None
    platform = facts.platform if facts else PLATFORMS[0]
    named = [version(text).release[:2] for text in RELEASE.findall(asked.question)][:1]
    what = f"torch {'.'.join(map(str, named[0]))}" if named else "torch"
    gpus = tuple(Gpu(index=index, name="", capability=item) for index, item in enumerate(found))
    host = HostFacts(label="the host", platform=platform, driver=facts.driver if facts else None, gpus=gpus)
    rows = [
        row
        for row in knowledge.wheels
        if row.platform == platform and row.cuda and row.code and (not named or row.version.release[:2] == named[0])
    ]
    if not rows:
        return None
    able = [row for row in rows if _rule_passes("device-code", row, host, knowledge)]
    if not able:
        return False, f"no wheel of {what} that the cuenv tables list has code for {capability_text(found, asked)}"
    runs = [row for row in able if host.driver is None or _rule_passes("driver-floor", row, host, knowledge)]
    if not runs:
        cudas = " and ".join(dict.fromkeys(f"{row.cuda.major}.x" for row in able if row.cuda))
        return (
            False,
            f"the wheels of {what} for {capability_text(found, asked)} are for CUDA {cudas}, and the driver is too old",
        )
    best = max(runs, key=lambda row: (row.version, row.cuda or Version("0")))
    driver = f", and driver {host.driver.version} supports it" if host.driver and host.driver.version else ""
    return True, f"torch {best.version} for CUDA {best.cuda} has code for {capability_text(found, asked)}{driver}"


def _rule_passes(rule: str, row: TorchWheel, host: HostFacts, knowledge: Knowledge) -> bool:
    candidate = Candidate(build=row, cuda=row.cuda, python=row.pythons[-1])
    context = Context(facts=host, request=Request(), knowledge=knowledge)
    return verdict_of(rule, candidate, context).outcome == "pass"


def _cuda_supports_gpus(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
    """Whether the named CUDA releases compile for the GPUs."""
    if not asked.gpus and not _GPU_WORD.search(asked.question):
        return None
    pairs = [
        (capability, cuda)
        for capability in capabilities_of(asked, facts)
        for cuda in named_cudas(asked, knowledge, capability)
    ]
    if not pairs:
        return None
    for capability, cuda in pairs:
        if target_for(capability, cuda.targets) is None:
            return False, f"CUDA {cuda.version} does not support {capability_text((capability,), asked)}"
    capability, cuda = pairs[0]
    return True, f"CUDA {cuda.version} supports {capability_text((capability,), asked)}"


def _release_has_wheels(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
    """Whether a named torch release has wheels for the named Python or CUDA."""
    platform = facts.platform if facts else PLATFORMS[0]
    named = [version(text).release[:2] for text in RELEASE.findall(asked.question)]
    rows = [row for row in knowledge.wheels if row.platform == platform and row.version.release[:2] in named[:1]]
    python = _PYTHON.search(asked.question)
    if not rows or not (python or asked.cudas):
        return None
    newest = max(row.version for row in rows)
    builds = [row for row in rows if row.version == newest]
    if python:
        pythons = sorted({text for row in builds for text in row.pythons}, key=version)
        return python[1] in pythons, f"torch {newest} has wheels for Python {', '.join(pythons)}"
    cudas = sorted({row.cuda for row in builds if row.cuda})
    says = f"torch {newest} has wheels for CUDA {', '.join(map(str, cudas))}"
    if asked.cudas[0] in cudas or not cudas:
        return bool(cudas), says
    above = asked.cudas[0] > cudas[0]
    return False, says + (f", which run on a driver for CUDA {asked.cudas[0]} as well" if above else "")


def _capability_suffices(package: str) -> Callable[[AskedQuestion, Knowledge, HostFacts | None], YesNo]:
    def judge(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
        found, lowest = capabilities_of(asked, facts), lowest_capability(package, knowledge)
        if not found or lowest is None:
            return None
        needs = f"{package} needs compute capability {lowest} or later"
        return all(item >= lowest for item in found), f"{needs}, and this is {capability_text(found, asked)}"

    return judge


def _library_runs_on_gpus(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
    """Whether a wheel of the one named library runs on the GPUs, if the tables list what it supports."""
    found, named = capabilities_of(asked, facts), named_libraries(asked, knowledge)
    if not found or len(named) != 1:
        return None
    rows = [newest_library_wheel(named[0], item, knowledge)[0] for item in found]
    lowest = [row.serves_from for row in knowledge.extension(named[0]) if row.serves_from]
    if not lowest or any(row is not None and row.serves_from is None for row in rows):
        return None
    if None in rows and all(item >= min(lowest) for item in found):
        return (
            False,
            f"the cuenv tables list no wheel of {named[0]} whose torch has code for {capability_text(found, asked)}",
        )
    needs = f"{named[0]} needs compute capability {min(lowest)} or later"
    return None not in rows, f"{needs}, and this is {capability_text(found, asked)}"


def _computes_numbers(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
    """Whether the GPUs have tensor cores, and compute in the named number formats, otherwise in bfloat16."""
    found = capabilities_of(asked, facts)
    features = [knowledge.feature(item, "") for item in found]
    if not features or any(feature is None for feature in features):
        return None
    told = [feature for feature in features if feature]
    wanted = [number for number in NUMBERS if number in asked.question.lower()]
    if "tensor core" in asked.question.lower():
        so = all(set(wanted) <= set(feature.tensor) and feature.tensor for feature in told)
    elif set(wanted) - {"bf16"}:
        so = all(set(wanted) <= set(feature.tensor) for feature in told)
    else:
        so = all(feature.bf16 for feature in told)
    return so, f"{capability_text(found, asked)}: {_without_gpu_names(number_format_lines(asked, knowledge, facts))}"


def _without_gpu_names(lines: Iterable[str]) -> str:
    return "; ".join(line.partition(": ")[2] for line in lines)


def _nccl_has_code(asked: AskedQuestion, knowledge: Knowledge, facts: HostFacts | None) -> YesNo:
    """Whether any release of NCCL has code for the GPUs; the page answers a question on installation."""
    found = capabilities_of(asked, facts)
    if not found or "install" in asked.question.lower():
        return None
    rows = nccl_rows(knowledge, facts)
    able = [row for row in rows if all(item >= row.serves_from for item in found)]
    if not rows:
        return None
    if not able:
        return False, f"no release of NCCL that the cuenv tables list has code for {capability_text(found, asked)}"
    until = able[-1].below
    if able[-1] is rows[-1] or until is None:
        return True, f"NCCL has code for {capability_text(found, asked)}"
    return True, (
        f"NCCL before {until} has code for {capability_text(found, asked)}; from {until} on it supports compute "
        f"capability {rows[-1].serves_from} and later, so use a torch with an older NCCL"
    )


JUDGES: dict[str, Callable[[AskedQuestion, Knowledge, HostFacts | None], YesNo]] = {
    "bf16": _computes_numbers,
    "cuda-13-gpus": _cuda_supports_gpus,
    "cuda-and-gpu": _cuda_supports_gpus,
    "driver": _driver_runs_cuda,
    "flash-attn": _capability_suffices("flash-attn"),
    "library-on-gpu": _library_runs_on_gpus,
    "minor-version-compatibility": _driver_runs_cuda,
    "nccl": _nccl_has_code,
    "torch-compile": _capability_suffices("triton"),
    "torch-for-gpu": _torch_runs_on_gpus,
    "torch-release": _release_has_wheels,
}
"""What answers a question of yes or no, by the topic of its page."""
