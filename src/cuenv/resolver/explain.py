"""Decisions in plain sentences: for stderr, for comments, for ``why`` and ``why-not``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from cuenv.core.findings import Finding, counted
from cuenv.core.record import NamedTuple, replace
from cuenv.core.versions import Jit, Native, Support, support_of
from cuenv.host.describe import host_line, host_options, short_name
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import TorchWheel
from cuenv.resolver.decision import Decision, NearMiss, decide
from cuenv.resolver.rules import Context, Reason, Verdict, inferred, rule_named

_SHOWN = 6


class Hint(NamedTuple):
    """What would help, and the command that tries it."""

    text: str
    command: str


def chosen_line(decision: Decision) -> str:
    """The choice in one line."""
    if decision.chosen is None:
        return "no candidate fits"
    item = decision.chosen.candidate
    cuda = f"CUDA {item.cuda}" if item.cuda else "CPU"
    day = f", as of {decision.context.request.as_of}" if decision.context.request.as_of else ""
    return (
        f"pytorch {item.build.version} ({item.build.build}), {cuda}, python {item.python}, "
        f"stack {item.build.stack}{day}"
    )


def support_lines(decision: Decision) -> list[str]:
    """How each capability is served by what was chosen, one line each."""
    if decision.chosen is None or decision.chosen.candidate.build.code is None:
        return []
    lines = []
    for capability, how in gpu_support(decision):
        gpus = f"compute capability {capability}{_named(decision, capability)}"
        if isinstance(how, Native):
            lines.append(f"{gpus} runs native code for {how.target}.")
        elif isinstance(how, Jit):
            lines.append(f"{gpus} runs PTX for {how.target}, which the driver compiles (JIT) at the first start.")
    return lines


def _named(decision: Decision, capability: str) -> str:
    """The GPUs of a capability by name, of many the first two."""
    gpus = (gpu for gpu in decision.context.facts.gpus if str(gpu.capability) == capability)
    names = [name for name in dict.fromkeys(map(short_name, gpus)) if name not in {"", capability}]
    more = [f"{len(names) - 2} more"] if len(names) > 3 else names[2:]
    return f" ({', '.join([*names[:2], *more])})" if names else ""


def minimum_text(decision: Decision) -> str:
    """The lowest driver that runs what was chosen; where machines of a pool need different ones, each machine's."""
    pairs = decision.minimum_drivers
    if len({lowest for _, lowest in pairs}) < 2:
        guess = decision.chosen and inferred(decision.chosen.candidate, decision.context)
        return (decision.minimum_driver or "") + (" (inferred, of low confidence)" if guess else "")
    return ", ".join(f"{lowest} on {machine.label}" for machine, lowest in pairs)


def gpu_support(decision: Decision) -> list[tuple[str, Support]]:
    """Each capability of the host with how the chosen build serves it."""
    code = decision.chosen.candidate.build.code if decision.chosen else None
    return [(str(item), support_of(code, item)) for item in decision.context.facts.capabilities] if code else []


SKIPPED = 6  # how many of the candidates that were skipped are named without ``-v``


def summary(decision: Decision, findings: Iterable[Finding] = (), *, verbose: bool = False) -> list[str]:
    """The reasoned summary of ``resolve``: what, for what, for which reasons, what else there would be."""
    lines = []
    chosen = decision.chosen
    unknown_driver = decision.context.facts.driver is None
    if chosen and decision.minimum_driver and unknown_driver:
        why = "no driver was found" if decision.context.facts.detected else "no --driver was given"
        build = chosen.candidate.build.version
        lines.append(
            f"driver  pytorch {build} needs driver {decision.minimum_driver} or later; {why}, so this was not checked"
        )
    lines.append(f"host    {host_line(decision.context.facts)}")
    lines += _borrowed(decision.context.facts)
    if decision.context.facts.members:
        lines += [f"limit   {item.text} ({item.source})" for item in decision.context.facts.evidence]
    lines.append(f"choice  {chosen_line(decision)}")
    if chosen:
        lines += [f"        {line}" for line in support_lines(decision)]
        if decision.minimum_driver and not unknown_driver:
            lines.append(f"        minimum driver: {minimum_text(decision)}")
        lines.append(f"why     {rank_text(decision)}")
        lines += [f"note    {verdict.because}" for verdict in chosen.verdicts if verdict.outcome in ("warn", "unknown")]
    lines += [f"why     {decision.clash}"] if decision.clash else []
    lines += _wheel_lines(decision)
    lines += unseen_lines(decision)
    skipped = skipped_lines(decision)
    shown = skipped if verbose else skipped[:SKIPPED]
    lines += shown
    if len(shown) < len(skipped):
        lines.append(f"skipped {len(skipped) - len(shown)} more; -v lists them")
    lines += rejected_lines(decision)
    lines += [
        f"{finding.severity:7} {finding.message}" + (f" -> {finding.fix}" if finding.fix else "")
        for finding in findings
    ]
    lines += [f"hint: {hint.text}: {hint.command}" for hint in hints(decision)]
    return lines


def rank_text(decision: Decision) -> str:
    """Why what was chosen ranks before the next candidate with another build."""
    chosen, fitting = decision.chosen, decision.fitting
    day = f" as of {decision.context.request.as_of}" if decision.context.request.as_of else ""
    others = [item for item in fitting if chosen and item.candidate.build is not chosen.candidate.build]
    lost = decision.lost_on(others[0]) if others else None
    if lost is None:
        return f"this is the only build that fits the host{day}"
    criterion, ours, theirs = lost
    first = f"this one ranks first by: {criterion.name} ({ours}; next: {theirs})"
    return f"{len(fitting)} candidates fit the host{day}; {first}"


def rejected_lines(decision: Decision) -> list[str]:
    """How many candidates were rejected for which reason, and the option that allows them."""
    groups = decision.rejections
    if decision.chosen:
        groups = tuple(group for group in groups if group.rule not in ("cpu", "wish"))[:3]
    lines = []
    for group in groups[:_SHOWN]:
        option = group.lead.remedy.option if group.lead.remedy else None
        allow = f" (use {option} to allow {'them' if group.count > 1 else 'it'})" if option else ""
        lines.append(f"out     {counted(group.count, 'candidate')} rejected: {group.because}{allow}")
    return lines


def _wheel_lines(decision: Decision) -> list[str]:
    """Why PyTorch comes as a wheel where nobody asked for one, and how long there will be wheels for the GPUs."""
    build, context = decision.chosen.candidate.build if decision.chosen else None, decision.context
    if not isinstance(build, TorchWheel):
        return []
    from cuenv.resolver.wheels import last_wheel_note  # noqa: PLC0415 - most choices are conda builds

    why = "the stack is wheels, because no conda build fits this host and this request"
    notes = (
        *([f"{why}: {decision.conda}"] if decision.conda else []),
        *last_wheel_note(build, context.facts, context.knowledge),
    )
    return [f"note    {note}" for note in notes]


def unseen_lines(decision: Decision) -> list[str]:
    """The better build, if there is one, that lost because nobody has seen it in a channel."""
    best = decision.unseen
    if best is None:
        return []
    build = best.candidate.build
    what = f"pytorch {build.version} {build.build} of {build.stack}"
    return [f"note    {what} is newer, but the cuenv tables know only its recipe; --prove asks the channels for it"]


def _borrowed(facts: HostFacts) -> list[str]:
    """What a host that only options name takes from this machine: the other one may have an older C library."""
    said = {item.source for item in facts.evidence if item.fact.startswith("libc")}
    own = facts.detected or facts.asked_as or facts.members
    if own or not facts.libc or not any(text.startswith("confstr:") for text in said):
        return []
    return [f"note    glibc {facts.libc.version} was read from this machine; name the host's version with --glibc"]


def skipped_lines(decision: Decision) -> list[str]:
    """The candidates that do not solve on the channels, those that lack the same thing in one line."""
    groups: dict[tuple[str, str], list[str]] = {}
    for candidate, missing in decision.skipped:
        build, cuda = candidate.build, f"CUDA {candidate.cuda}" if candidate.cuda else "CPU"
        what = f"pytorch {build.version} {build.build} of {build.stack} with {cuda}"
        groups.setdefault((what, missing), []).append(candidate.python)
    return [f"skipped {what}, python {', '.join(pythons)}: {missing}" for (what, missing), pythons in groups.items()]


def lock_command(decision: Decision, path: str) -> str:
    """The command that locks what was chosen for the same host, on any machine."""
    options = list(host_options(decision.context.facts))
    as_of = decision.context.request.as_of
    if decision.minimum_driver and not {"--driver", "--host"} & set(options):
        options += ["--driver", decision.minimum_driver]
    options += ["--as-of", as_of] if as_of else []
    return shlex.join(["cuenv", "lock", path, *options])


def hints(decision: Decision) -> tuple[Hint, ...]:
    """What would bring a better choice, or any: each with the command that shows it."""
    context, found = decision.context, []
    request = _spelled(context)
    prove = ("--prove",) if decision.proven else ()
    if decision.unsolved:  # another driver or release does not bring a package that the channels cannot add
        rest = replace(request, packages=tuple(item for item in request.packages if item not in decision.unsolved))
        without = " and ".join(f"--with {shlex.quote(item)}" for item in decision.unsolved)
        command = shlex.join(["cuenv", "resolve", *host_options(context.facts), *request_options(rest), *prove])
        return (Hint(f"the channels satisfy the request without {without}", command),)
    lacking = {id(candidate.build) for candidate, _ in decision.skipped}
    for miss in decision.near_misses:
        build = miss.candidate.build
        if id(build) in lacking:  # the channels have just been found not to hold it
            continue
        opens = f"pytorch {build.version} {build.build} with CUDA {miss.candidate.cuda}"
        if miss.remedy.driver and not miss.then.facts.gpus:  # a driver without GPUs says nothing to resolve
            continue
        host = miss.then.facts
        asked = (
            (*request_options(replace(request, dev=True)), miss.remedy.option)
            if miss.remedy.option
            else request_options(request)
        )
        command = shlex.join(["cuenv", "resolve", *host_options(host), *asked, *prove])
        by = " by the tables" if decision.proven else ""  # the channels were asked for another driver or option
        found.append(Hint(f"{_bounded(miss)} would allow {opens}{by}", command))
    if decision.without_request:
        rest = replace(request, stack=None, pytorch=None, cuda=None, python=None)
        named = host_options(
            context.facts
        )  # of a host that options describe less is known than of one that was looked at
        there = context.facts if "--host" in named else replace(context.facts, detected=False)
        free = decide(replace(context, facts=there, request=rest)).chosen
        command = shlex.join(["cuenv", "resolve", *named, *request_options(rest)])
        if free:
            found.append(Hint(f"{_request_text(decision)}; without these versions {free.candidate} fits", command))
    if not context.facts.gpus and not context.request.cpu:
        found += [
            Hint(
                "name the GPU of the host",
                _command("--gpu", "RTX 4090", "--driver", "535.129.03", *request_options(request)),
            ),
            Hint("or ask for a CPU build", _command(*request_options(replace(request, cpu=True, cuda=None)))),
        ]
    return tuple(found)


def _command(*words: str) -> str:
    return shlex.join(["cuenv", "resolve", *words])


def _bounded(miss: NearMiss) -> str:
    """The remedy in words, with the last driver branch of the oldest GPU: a later driver opens nothing."""
    rows = (miss.then.knowledge.compute_capability(item) for item in miss.then.facts.capabilities)
    last = min((row.last_branch for row in rows if row and row.last_branch), default=None)
    bound = last is not None and miss.remedy.driver and not miss.remedy.upto
    return f"{miss.remedy.text}, up to branch {last}," if bound else miss.remedy.text


def _spelled(context: Context) -> Request:
    """The request with what a profile excludes written out: no option says that training offloads."""
    if not context.request.pip or context.request.offload == "none" or context.request.origin:
        return context.request
    from cuenv.resolver.requirements import pip_part  # noqa: PLC0415 - most runs request no library

    return replace(context.request, pip=pip_part(context.request, context.knowledge)[0])


def request_options(request: Request) -> tuple[str, ...]:
    """The options of ``cuenv resolve`` that ask for the same: a profile by its name, and what differs from it."""
    name, base = request.origin or ("", Request())
    valued = [
        (f"--{each}", getattr(request, each), getattr(base, each)) for each in ("stack", "pytorch", "cuda", "python")
    ]
    kept = (request.packages[: len(base.packages)], request.pip[: len(base.pip)]) == (base.packages, base.pip)
    if name and (not kept or any(old is not None and new is None for _, new, old in valued) or base.cpu > request.cpu):
        return request_options(replace(request, origin=None))  # no option takes away what a profile asks for
    options = ["--profile", name] if name else []
    options += [part for option, new, old in valued if new is not None and new != old for part in (option, str(new))]
    options += ["--prefer", request.prefer] if request.prefer != base.prefer else []
    options += ["--as-of", request.as_of] if request.as_of != base.as_of else []
    added = (*request.packages[len(base.packages) :], *(f"pip:{text}" for text in request.pip[len(base.pip) :]))
    options += [part for text in added for part in ("--with", text)]
    if request.cpu:
        return (*options, "--cpu")
    return (*options, *([] if request.dev == base.dev else ["--dev" if request.dev else "--no-dev"]))


def _request_text(decision: Decision) -> str:
    """What the request asks for beside what there is."""
    request = decision.context.request
    newest = max(row.version for row in decision.context.knowledge.torch)
    if request.pytorch and not any(request.pytorch.admits(row.version) for row in decision.context.knowledge.torch):
        return f"PyTorch {request.pytorch} is unknown; the newest known release is {newest}"
    return "no candidate with the requested versions fits this host"


def verdict_lines(verdict: Verdict, knowledge: Knowledge, cited: dict[str, int] | None = None) -> list[str]:
    """One verdict with its reasons, each with the numbers of its sources.

    Args:
        cited: the number of each source that was cited so far, which grows; ``None`` leaves sources out.
    """
    lines = [f"{verdict.outcome:7} {rule_named(verdict.rule).title}: {verdict.because}"]
    lines += [f"        - {reason_text(reason, knowledge, cited)}" for reason in verdict.reasons]
    if verdict.remedy and verdict.outcome in ("reject", "unknown"):
        lines.append(f"        remedy: {verdict.remedy.text}")
    return lines


def source_lines(cited: dict[str, int], knowledge: Knowledge) -> list[str]:
    """The sources by their numbers, each once."""
    rows = sorted((number, knowledge.sources[name]) for name, number in cited.items())
    return [f"source  {f'[{number}]':5} {row.shown}, read {row.read_on}" for number, row in rows]


def reason_text(reason: Reason, knowledge: Knowledge, cited: dict[str, int] | None = None) -> str:
    """A reason in words, with the numbers of its sources and how sure it is; see `verdict_lines`."""
    low = "low confidence" if reason.low else ""
    if reason.kind == "wish":
        return f"{reason.says} (asked for)"
    if reason.kind == "host":
        return f"{reason.says} [{', '.join(reason.sources)}]"
    named = [item for item in reason.sources if item in knowledge.sources] if cited is not None else []
    numbers = [str(cited.setdefault(item, len(cited) + 1)) for item in named] if cited is not None else []
    marks = ", ".join([*numbers, *([low] if low else [])])
    return f"{reason.says} [{marks}]" if marks else reason.says
