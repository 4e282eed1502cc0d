"""The probes that run in an environment: their answers, and the check that each answer becomes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from shlex import quote
from types import MappingProxyType

from cuenv.core.errors import InputError
from cuenv.core.findings import Check, Finding, Severity, counted, judged, skipped
from cuenv.core.reading import Faults, Reader, unique_keys
from cuenv.core.record import dataclass, field
from cuenv.core.urls import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailure:
    """One attempt of a probe that failed."""

    what: str  # the part of the probe, such as a device; empty for the whole probe
    why: str  # the error with its type, or what is wrong with the result; it may have several lines
    where: tuple[str, ...] = ()  # further lines, such as positions in the code


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """The answer of a probe: what works, what fails, what it skipped, and facts by name."""

    done: tuple[str, ...] = ()
    failed: tuple[ProbeFailure, ...] = ()
    skipped: tuple[str, ...] = ()
    facts: Mapping[str, str | int | None] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """How the process of a probe ended."""

    answer: ProbeAnswer | None  # the answer; ``None`` if there is none or it cannot be read
    reason: str | None = None  # why it failed, in a few words; ``None`` after exit status 0
    signal: str | None = None  # the name of the signal that killed it, such as ``SIGSEGV``
    late: bool = False  # whether it was stopped at its time limit
    last: tuple[str, ...] = ()  # the last lines on standard error
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeContext:
    """The environment in which the probes ran, and their variables."""

    prefix: str  # the environment's folder, with links resolved
    python: str
    gpus: int  # the number of GPUs of this machine
    environ: Mapping[str, str]  # the user's variables that were passed to the probes


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe: its name, the code and the message of its finding, and the module that it needs."""

    name: str
    code: str
    fails: str
    module: str = "torch"


PROBES = (
    Probe(name="torch", code="CU270", fails="torch cannot be imported"),
    Probe(name="cuda", code="CU274", fails="torch cannot use a GPU"),
    Probe(name="matmul", code="CU275", fails="a matrix product fails or is wrong"),
    Probe(name="nccl", code="CU276", fails="NCCL's all-reduce fails"),
    Probe(name="extension", code="CU277", fails="torch's cpp_extension does not build and run a kernel"),
    Probe(name="deepspeed", code="CU278", fails="DeepSpeed's FusedAdam does not load or step", module="deepspeed"),
    Probe(
        name="bitsandbytes",
        code="CU279",
        fails="bitsandbytes does not quantize to 4 bits and back",
        module="bitsandbytes",
    ),
    Probe(name="flash_attn", code="CU280", fails="flash-attn's forward pass fails", module="flash_attn"),
    Probe(name="compile", code="CU281", fails="torch.compile fails"),
)
"""The probes in the order in which they run; without torch the others are skipped."""

_NO_DEVICE = ("", "-1")  # values of CUDA_VISIBLE_DEVICES that hide all GPUs

_MOST = 8


def probe_check(probe: Probe, outcome: ProbeOutcome, context: ProbeContext) -> Check:
    """The check of one probe by the outcome of its process."""
    name, answer = f"run:{probe.name}", outcome.answer
    if answer is None:
        return judged(name, _exit_text(outcome), [_no_answer(probe, outcome, context)])
    findings = [_failure_finding(probe, failure, context) for failure in answer.failed]
    if probe.name == "torch":
        findings += _foreign_torch(probe, str(answer.facts.get("path") or ""), context)
    elif probe.name == "cuda":
        findings += _undetected_gpus(probe, answer, context)
    if outcome.reason:
        text = f"{name} returned a result, but then: {_exit_text(outcome)}"
        findings.append(
            _finding(
                "CU283",
                text,
                of=probe,
                evidence=_evidence(outcome, context),
                fix=_import_command(probe, context),
                severity="warning",
            )
        )
    says = "; ".join((*_summary(probe, answer), *answer.skipped))
    if not answer.done and not findings:
        return skipped(name, says)
    return judged(name, f"{says} ({outcome.seconds:.1f} s)" if answer.done else says, findings)


def _summary(probe: Probe, answer: ProbeAnswer) -> Iterable[str]:
    """What works, as parts of a sentence."""
    facts = answer.facts
    if probe.name == "torch" and answer.done:
        cuda = f"CUDA {facts['cuda']}" if facts.get("cuda") else "without CUDA"
        return (f"torch {facts.get('version')} {cuda}, Python {facts.get('python')}",)
    if probe.name == "cuda" and facts.get("why"):
        return (f"no GPU: {str(facts['why']).splitlines()[0]}",)
    failed = tuple(f"{item.what or probe.name}: failed" for item in answer.failed[:_MOST])
    return (*answer.done[:_MOST], *failed)


def _exit_text(outcome: ProbeOutcome) -> str:
    if outcome.signal:
        return f"killed by {outcome.signal}"
    return outcome.reason or "it exited without a readable result"


def _no_answer(probe: Probe, outcome: ProbeOutcome, context: ProbeContext) -> Finding:
    evidence = _evidence(outcome, context)
    where = f"run:{probe.name}"
    if outcome.signal:
        text = f"{where} crashed: {_exit_text(outcome)}"
        return _finding("CU271", text, of=probe, evidence=evidence, fix=_import_command(probe, context))
    if outcome.late:
        text = f"{where} hung and was stopped: {_exit_text(outcome)}"
        fix = f"cuenv check --run --timeout {round(outcome.seconds) * 4 or 4} --prefix {quote(context.prefix)}"
        return _finding("CU272", text, of=probe, evidence=evidence, fix=fix)
    text = f"{where} ended without a result: {_exit_text(outcome)}"
    return _finding("CU273", text, of=probe, evidence=evidence, fix=_import_command(probe, context))


def _failure_finding(probe: Probe, failure: ProbeFailure, context: ProbeContext) -> Finding:
    part = f" ({failure.what})" if failure.what else ""
    lines = tuple(line for line in failure.why.splitlines() if line.strip())
    told = () if len(lines) == 1 else lines[-_MOST:]
    evidence = (*told, *failure.where, *_variables_line(context))
    text = f"{probe.fails}{part}: {_main_line(lines)}"
    return _finding(probe.code, text, of=probe, evidence=evidence, fix=_import_command(probe, context))


def _main_line(lines: tuple[str, ...]) -> str:
    """The line that names the error: that of a compiler, otherwise the first."""
    return next((line.strip() for line in lines if "error: " in line), lines[0].strip() if lines else "no reason given")


def _foreign_torch(probe: Probe, path: str, context: ProbeContext) -> list[Finding]:
    if not path or path.startswith(f"{context.prefix}/"):
        return []
    text = f"torch comes from {path}, not from the environment"
    fix = None
    if any(
        entry and path.startswith(f"{entry.rstrip('/')}/") for entry in context.environ.get("PYTHONPATH", "").split(":")
    ):
        fix = "unset PYTHONPATH"
    elif "/.local/lib/python" in path:
        fix = "export PYTHONNOUSERSITE=1"
    return [_finding("CU282", text, of=probe, evidence=_variables_line(context), fix=fix, severity="warning")]


def _undetected_gpus(probe: Probe, answer: ProbeAnswer, context: ProbeContext) -> list[Finding]:
    count, visible = answer.facts.get("count"), context.environ.get("CUDA_VISIBLE_DEVICES")
    if not isinstance(count, int) or count >= context.gpus or (count and visible is not None):
        return []
    many = counted(context.gpus, "GPU")
    if count:
        text = f"torch detects {count} of the {many} of this host"
        return [
            _finding(
                "CU274", text, of=probe, evidence=_variables_line(context), fix="cuenv inspect", severity="warning"
            )
        ]
    why = str(answer.facts.get("why") or "no reason given").splitlines()[0]
    chosen = visible is not None and answer.facts.get("build") is not None
    hidden = chosen and (visible or "").strip() in _NO_DEVICE
    return [
        _finding(
            "CU274",
            f"torch detects no GPU of the {many} of this host: {f'CUDA_VISIBLE_DEVICES={visible}' if hidden else why}",
            of=probe,
            evidence=_variables_line(context),
            fix="unset CUDA_VISIBLE_DEVICES" if chosen else f"cuenv check --prefix {quote(context.prefix)}",
            severity="warning" if hidden else "error",
        )
    ]


def _import_command(probe: Probe, context: ProbeContext) -> str:
    """The command that imports the module with a traceback for crashes."""
    return f"{quote(context.python)} -X faulthandler -c 'import {probe.module}'"


def _evidence(outcome: ProbeOutcome, context: ProbeContext) -> tuple[str, ...]:
    return (*outcome.last, *_variables_line(context))


def _variables_line(context: ProbeContext) -> tuple[str, ...]:
    """The user's variables that were passed to the probe, as one line; empty without any."""
    given = ", ".join(f"{name}={value[:200]}" for name, value in sorted(context.environ.items()))
    return (f"with {given}",) if given else ()


def _finding(
    code: str, message: str, *, of: Probe, evidence: tuple[str, ...], fix: str | None, severity: Severity = "error"
) -> Finding:
    return Finding(code=code, severity=severity, subject=f"run:{of.name}", message=message, evidence=evidence, fix=fix)


MARK = "cuenv-probe:"  # the beginning of an answer, as ``data/probes/_told.py`` writes it

_FACTS = ("version", "cuda", "path", "python", "build", "count", "why", "nccl")


def read_answer(out: str) -> ProbeAnswer | None:
    """The last answer in the output of a probe; ``None`` if there is none or it is not valid."""
    line = next((line for line in reversed(out.splitlines()) if line.startswith(MARK)), None)
    if line is None:
        return None
    faults = Faults("the probe's answer")
    try:
        reader = Reader(json.loads(line.removeprefix(MARK), object_pairs_hook=unique_keys), faults)
        answer = reader.read(_answer)
        faults.check()
    except (ValueError, RecursionError, InputError):
        return None
    return answer


def _answer(reader: Reader) -> ProbeAnswer:
    return ProbeAnswer(
        done=_printable(reader.texts("done", required=True)),
        failed=reader.each("failed", _failure, required=True),
        skipped=_printable(reader.texts("skipped", required=True)),
        facts=MappingProxyType(reader.one("facts", _facts) or {}),
    )


def _failure(reader: Reader) -> ProbeFailure:
    return ProbeFailure(
        what=printable(reader.text("what")),
        why=printable(reader.text("why")),
        where=_printable(reader.texts("where", required=True)),
    )


def _facts(reader: Reader) -> dict[str, str | int | None]:
    found: dict[str, str | int | None] = {}
    for name in _FACTS:
        value = reader.raw(name)
        if isinstance(value, str):
            found[name] = printable(value)
        elif value is None or type(value) is int:
            found[name] = value
        else:
            reader.faults.add(reader.at(name), "expected a string or a whole number")
    return found


def _printable(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(printable(text) for text in texts)
