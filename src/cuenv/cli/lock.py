"""``cuenv lock``."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cuenv.cli.command import INPUT, PATH, STDIN, CuenvCommand, output_options
from cuenv.cli.defaults import was_typed
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    channel_words,
    host_from,
    knowledge_from,
    request_options,
    several_host_options,
    several_platforms,
)
from cuenv.cli.output import emit, emit_findings, emit_json, package_count, progress, say
from cuenv.core.errors import CuenvError, ExitCode, UsageError
from cuenv.core.findings import FORMS, NEVER_ALLOWED, UNREADABLE, UNSATISFIABLE, CheckResult, Report, counted, report
from cuenv.core.io.process import machine
from cuenv.core.record import replace
from cuenv.core.render import component_json, report_json, report_lines
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.solve import ENGINES, PIXI, WHEEL_LOCKS
from cuenv.solve.environment_spec import ADVICE, LISTS, WRITTEN_BY, EnvironmentSpec

if TYPE_CHECKING:  # not needed for --help
    from typing_extensions import Unpack

    from cuenv.cli.values import LockValues
    from cuenv.core.documents import ReportDocument
    from cuenv.lockfile.engines import Engine
    from cuenv.lockfile.lock import Locked, LockRequest
    from cuenv.lockfile.repair.repair import Repaired
    from cuenv.solve.model import Lock, Solution

_F = TypeVar("_F", bound=Callable[..., Any])


def engine_options(function: _F) -> _F:
    """Add the options on the solver to a command."""
    conda = click.option("--conda", metavar="PATH", help="The conda, mamba or micromamba that conda-lock drives.")
    engine = click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], help="The solver.")
    return engine(conda(function))


def engine_from(values: LockValues) -> Engine:
    """The solver that the options select.

    Raises:
        UsageError: a conda client is named, but conda-lock is not selected.
    """
    from cuenv.lockfile.engines import Engine  # noqa: PLC0415 - not needed for --help

    engine = Engine(name=values["engine"], conda=values["conda"])
    if engine.conda and not engine.foreign and was_typed("conda"):
        message = "--conda names the client for conda-lock; add --engine conda-lock"
        raise UsageError(message, hint="cuenv lock --engine conda-lock --conda PATH")
    return engine


def repair_file(path: Path, values: LockValues, knowledge: Knowledge) -> int:
    """Repair an environment file, and write the new file to ``-o`` or stdout; the old file does not change.

    Raises:
        UsageError: the output is the input, ``-o`` stands without ``--repair``, or several platforms are named.
    """
    from cuenv.lockfile.lock import LockRequest  # noqa: PLC0415 - not needed for --help
    from cuenv.lockfile.repair.repair import repair  # noqa: PLC0415 - as above

    output: Path | None = values["output"]
    if not values["repair"]:
        message = "-o is the file that --repair writes; locks are written beside their environment file"
        raise UsageError(message, hint="cuenv lock --repair -o environment.new.yml")
    if output and output.exists() and path.exists() and output.samefile(path):
        message = f"--repair does not replace the file that it repairs: {path}"
        hint = shlex.join(["cuenv", "lock", str(path), "--repair", "-o", str(path.with_suffix(".new.yml"))])
        raise UsageError(message, hint=hint)
    if values["form"] not in ("text", "json"):
        message = f"--repair prints a file, so --format {values['form']} has no effect"
        raise UsageError(message, hint="cuenv lock --repair -o NEW.yml")
    if several_platforms(values):
        raise UsageError("--repair is for one platform", hint=f"cuenv lock --repair --platform {PLATFORMS[0]}")
    request = LockRequest(
        path=path,
        host=host_from(values),
        sources=channel_sources(values),
        allow=_checked_codes(values["allow"], knowledge),
        builds=values["allow_builds"],
    )
    name = str(output or "environment.yml")
    with progress(quiet=values["quiet"]) as show:
        answer = repair(request, knowledge, name=name, progress=show, clock=time.process_time)
    quiet = values["quiet"] or values["as_json"]
    say(_repair_lines(answer, values), quiet=quiet and (values["as_json"] or answer.spec is not None))
    if answer.spec is not None and answer.needed:
        _write_repaired(answer, path, values)
    if values["as_json"]:
        emit_json(_repair_json(answer, output))
    return ExitCode.OK if answer.spec is not None else ExitCode.NEGATIVE


def _repair_lines(answer: Repaired, values: LockValues) -> list[str]:
    from cuenv.host.describe import host_options  # noqa: PLC0415 - as above
    from cuenv.resolver.explain import SKIPPED  # noqa: PLC0415 - as above

    verbose = values["verbose"]
    lines = report_lines(answer.report, verbose=verbose)[1:-1]
    if not answer.needed:
        return [*lines, "ok      nothing to repair"]
    lines += [f"support {component}" for component in answer.components]
    shown = answer.skipped if verbose else answer.skipped[:SKIPPED]
    lines += [f"skipped {what}: {why}" for what, why in shown]
    if len(shown) < len(answer.skipped):
        lines.append(f"skipped {len(answer.skipped) - len(shown)} more; -v lists them")
    if answer.spec is None:
        lines += [f"in the way: {entry}: {why}" for entry, why in answer.obstacles]
        to = ["-o", str(values["output"])] if values["output"] else []
        other = shlex.join(["cuenv", "resolve", "--prove", *to, *host_options(answer.facts), *channel_words(values)])
        anew = f"no nearby candidate fits the host and is satisfiable on the channels: {other}"
        return [
            *lines,
            f"error: {anew if answer.has_torch else 'no change to these entries gives a file that can be locked'}",
        ]
    lines += [str(change) for change in answer.changes]
    if answer.pins:
        pins = ", ".join(f"{pin.name}{pin.version or f'=*={pin.build}'}" for pin in answer.pins)
        lines.append(f"repair  {pins}: the smallest set of pins that fits; {answer.tried} other sets do not")
    return [*lines, *filter(None, (answer.dropped,))]


def _write_repaired(answer: Repaired, path: Path, values: LockValues) -> None:
    from cuenv.core.io.products import write_product  # noqa: PLC0415 - as above
    from cuenv.host.describe import host_options  # noqa: PLC0415 - as above
    from cuenv.solve.environment_yml import render, render_list  # noqa: PLC0415 - not needed for --help

    output: Path | None = values["output"]
    if answer.spec is None:
        return
    of_list = (output or path).suffix in LISTS and answer.spec.for_pip_alone
    text = render_list(answer.spec) if of_list else render(answer.spec)
    if output is None:
        if not values["as_json"]:
            emit(text)
        return
    quiet = values["quiet"] or values["as_json"]
    aside = write_product(output, text, WRITTEN_BY, ADVICE)
    if aside:
        say([f"kept    the old {output} as {aside}"], quiet=quiet)
    lock = shlex.join(["cuenv", "lock", str(output), *host_options(answer.facts), *_solve_options(values)])
    say([f"wrote   {output}; {path} is unchanged; next: {lock}"], quiet=quiet)


def _repair_json(answer: Repaired, output: Path | None) -> ReportDocument:
    written = answer.spec is not None and answer.needed and output is not None
    return {
        **report_json(answer.report),
        "repaired": answer.spec is not None,
        "written": [str(output)] if written else [],
        "changes": [
            {"entry": item.entry, "fate": item.fate, "became": item.became or None, "why": item.why or None}
            for item in answer.changes
        ],
        "dropped": answer.dropped or None,
        "pins": [pin.yaml_text() for pin in answer.pins],
        "layers": [component_json(component) for component in answer.components],
        "skipped": [{"candidate": what, "why": why} for what, why in answer.skipped],
        "obstacles": [{"entry": entry, "why": why} for entry, why in answer.obstacles],
    }


_SOLVER_LINES = 20  # the number of the solver's lines that are shown without -v


class _LockCommand(CuenvCommand):
    """The command ``lock``, whose help lists the files that it writes."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The files of all lock formats, then the options."""
        from cuenv.lockfile.formats import formats  # noqa: PLC0415 - only for --help

        with formatter.section("Writes"):
            formatter.write_dl([(item.file, item.purpose) for item in formats()])
        super().format_options(ctx, formatter)


def _environment_file(path: Path | None, *, resolved: bool, quiet: bool) -> Path:
    """The environment file: the named one, otherwise the one from which the lock was made."""
    from cuenv.lockfile.files import ENVIRONMENT, LOCK_NAME, default_environment_file  # noqa: PLC0415 - not needed for --help

    if str(path) == STDIN:
        message = "cuenv lock writes its files beside the environment file, but standard input is not in a folder"
        raise UsageError(message, hint=f"cuenv lock {ENVIRONMENT}")
    if path is None:
        path = Path(ENVIRONMENT) if resolved else default_environment_file(Path())
        which = f"file    {path}, which {LOCK_NAME} was made from; for another: cuenv lock {ENVIRONMENT}"
        say([which] if path.name != ENVIRONMENT else [], quiet=quiet)
    return path


@click.command("lock", cls=_LockCommand)
@click.argument("path", type=INPUT, required=False, metavar="[environment.yml]")
@several_host_options
@click.option("--check", is_flag=True, help="Only check that the lock is up to date; needs no GPU and no network.")
@click.option(
    "--allow", multiple=True, metavar="CODE", help="Lock despite this finding, and record that in the lock; repeatable."
)
@click.option(
    "--allow-builds",
    is_flag=True,
    help="Download torch (gigabytes) if a pip source distribution needs it to state its requirements.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option(
    "--update", multiple=True, metavar="PACKAGE", help="Update this package of the existing lock; repeatable."
)
@click.option(
    "--resolve",
    "resolve_first",
    is_flag=True,
    is_eager=True,  # settings of the request count with it alone
    help="Choose the packages first, as 'cuenv resolve --prove' does, and write the file.",
)
@click.option("--name", metavar="NAME", help="With --resolve: the name of the environment.")
@click.option("--repair", is_flag=True, help="Write a corrected file to -o NEW without locking.")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    help="With --repair, or --format pylock or requirements: the file to write.",
)
@engine_options
@request_options
@channel_options
@click.option(
    "--format",
    "form",
    type=click.Choice((*FORMS, *WHEEL_LOCKS, PIXI)),
    default="text",
    help="The format of the report; pylock, requirements: lock the pip packages into such "
    "a file, without conda; pixi: write pixi.toml and pixi.lock.",
)
@output_options
def command(path: Path | None, **values: Unpack[LockValues]) -> int:
    """Solve environment.yml and write its lock files beside it.

    The file may come from any project, and may be a requirements.txt. The command checks it first, and refuses a file
    that cannot work; --repair -o NEW.yml then writes a corrected file that says what changed in each entry. --resolve
    chooses first, as `cuenv resolve --prove -o FILE` does, and then locks.

    The virtual packages (__cuda, __glibc) come from the host options, else from CONDA_OVERRIDE_* variables, else from
    the host in the first lines of a file that 'cuenv resolve' wrote, else from this machine. Without FILE the command
    takes the file that conda-lock.yml was made from, else environment.yml.

    An existing lock keeps its packages while they satisfy the file. --update updates the named packages and as little
    else as possible: the CUDA core (NVIDIA's packages, torch, Python) stays unless you name it. Repeat --platform to
    make one lock for several platforms. With --engine conda-lock, conda-lock solves with your own conda, mamba or
    micromamba.

    \b
    Examples:
      cuenv lock --resolve
      cuenv lock
      cuenv lock --gpu A100 --driver 525.60.13
      cuenv lock --update transformers
      cuenv lock --check
      cuenv lock --check --format pylock
      cuenv lock --repair -o environment.new.yml
      cuenv lock --resolve --format pylock --gpu 'GTX 1080' --driver 580.65.06
      cuenv lock --format pixi
    """
    from cuenv.cli.resolve import refuse_requests, resolve_first  # noqa: PLC0415 - as above
    from cuenv.lockfile.files import LOCK_NAME, existing_lock  # noqa: PLC0415 - as above
    from cuenv.lockfile.lock import LockRequest, lock  # noqa: PLC0415 - as above

    knowledge = knowledge_from(values)
    engine = engine_from(values)
    wheels = values["form"] if values["form"] in WHEEL_LOCKS else ""
    pixi = values["form"] if values["form"] == PIXI else ""
    values["form"] = "text" if wheels or pixi else values["form"]
    values["as_json"] = values["as_json"] or values["form"] == "json"
    quiet = values["quiet"] or values["as_json"]
    refuse_requests(values, wheels or pixi)
    path = _environment_file(path, resolved=values["resolve_first"], quiet=quiet)
    if values["check"]:
        others = (
            ("update", values["update"]),
            ("repair", values["repair"]),
            ("output", values["output"] and not wheels),
        )
        other = next((name for name, given in others if given), None)
        if other:
            raise UsageError(f"--check changes nothing, but --{other} does", hint="cuenv lock --check")
        return _check(path, values, knowledge, wheels)
    if values["repair"] or (values["output"] and not wheels):
        engine.refuse("--repair", "-o NEW.yml")
        return repair_file(path, values, knowledge)
    if wheels and engine.foreign:
        raise UsageError(f"--format {wheels} solves for pip alone, and --engine for conda", hint="leave out --engine")
    request = LockRequest(
        path=path,
        host=host_from(values),
        sources=channel_sources(values),
        platforms=several_platforms(values),
        allow=_checked_codes(values["allow"], knowledge),
        builds=values["allow_builds"],
        strict=values["strict"],
        update=values["update"],
        wheels=wheels,
        output=values["output"] if wheels else None,
        engine=engine,
    )
    if values["resolve_first"]:
        first = resolve_first(path, values, knowledge, request, wheels or pixi)
        if first is None:
            return ExitCode.NEGATIVE  # the reasons were said
        request = first
    before = existing_lock(path.parent / LOCK_NAME) if request.update and not wheels else None
    try:
        with progress(quiet=values["quiet"]) as show:
            answer = _pixi(request, knowledge, quiet=quiet) if pixi else lock(request, knowledge, progress=show)
    except CuenvError as error:
        if isinstance(error.report, Report) and not quiet:
            say(report_lines(error.report, verbose=values["verbose"])[1:-1])
        raise
    _report(answer, path, before, values, knowledge)
    return ExitCode.OK if answer.lock else ExitCode.NEGATIVE


def _pixi(request: LockRequest, knowledge: Knowledge, *, quiet: bool) -> Locked:
    """Make the pixi workspace beside the environment file."""
    from cuenv.export.pixi import PixiRequest, export_pixi, write_pixi  # noqa: PLC0415 - only with this format

    with progress(quiet=quiet) as show:
        answer = export_pixi(PixiRequest(lock=request), knowledge, show)
    if answer.locked.lock:
        answer = write_pixi(answer, request.path.parent)
        say(answer.made.talk, quiet=quiet)
    return answer.locked


def _report(answer: Locked, path: Path, before: Lock | None, values: LockValues, knowledge: Knowledge) -> None:
    """Print what was locked, or why nothing was."""
    quiet = values["quiet"] or values["as_json"]
    say([f"warning {path}: {text}" for text in answer.warnings], quiet=quiet)
    say([f"host    {path} names it: {answer.host_named}"] if answer.host_named else [], quiet=quiet)
    if values["as_json"] or values["form"] != "text":
        told, command = answer.whole_report, ""
        if answer.unsatisfiable:
            _, command = _alternative(answer, path, values, knowledge)
            mended = [replace(item, fix=command) if item.code == UNSATISFIABLE else item for item in told.findings]
            told = report(told.title, mended)
        found = CheckResult(report=told, file=str(path))
        emit_findings([found], values, lambda: _lock_json(answer, told, command), list)
    elif answer.lock is None:
        say(_refusal_lines(answer, path, _solve_options(values), verbose=values["verbose"]))
        if answer.unsatisfiable:
            say(["hint: " + ": ".join(_alternative(answer, path, values, knowledge))])
    else:
        say(_locked_lines(answer, answer.lock, before, knowledge, verbose=values["verbose"]), quiet=quiet)


def _locked_lines(answer: Locked, made: Lock, before: Lock | None, knowledge: Knowledge, *, verbose: bool) -> list[str]:
    """The lines on what was locked, and the commands that make the environment."""
    from cuenv.lockfile.companions import hook_command  # noqa: PLC0415 - not needed for --help
    from cuenv.solve.model import AS_OF  # noqa: PLC0415 - as above

    lines = report_lines(answer.report, verbose=verbose)[1:-1]
    if before:
        lines += _update_lines(before, made, knowledge)
    counts = ", ".join(map(_count, made.solutions))
    undated = any(item.undated for item in made.solutions)
    lines.append(f"locked  {counts}: {', '.join(str(file) for file in answer.written)}")
    as_of = made.metadata.get(AS_OF)
    lines += [f"as of   {as_of}: every package existed on that day"] if as_of and not undated else []
    lines += [f"kept    the old {path} as {aside}" for path, aside in answer.kept]
    if answer.report.verdict(strict=False) == "unknown":
        lines.append("unknown whether everything runs on the GPUs: the lines above say what the tables do not list")
    lines += _install_lines(answer)
    for platform, command in answer.unlocked_commands.items():
        where = f", on {platform}" if len(made.solutions) > 1 else ""
        lines.append(f"then install in the environment{where} what is not locked: {command}")
    hook = None if answer.wheels else hook_command(made, answer.spec, answer.written[0].parent)
    return [*lines, f"then, for extensions that compile on first use: {hook}"] if hook else lines


def _install_lines(answer: Locked) -> list[str]:
    """The commands that make the environment; the platform is named unless it is only that of this machine."""
    from cuenv.host.io.surroundings import platform_of  # noqa: PLC0415 - as above

    try:
        here = platform_of(*machine())
    except UsageError:  # a lock may be made where cuenv looks at no machine
        here = ""
    named = set(answer.commands_by_platform) != {here}
    lines = []
    for platform, commands in answer.commands_by_platform.items():
        lines.append(f"create the environment{f' on {platform}' if named else ''} with one of:")
        lines += [f"  {command}" for command in commands]
    return lines


def _update_lines(before: Lock, after: Lock, knowledge: Knowledge) -> list[str]:
    """The changes of an update, one line for each package."""
    from cuenv.lockfile.diff import change_line, diff, pip_lines  # noqa: PLC0415 - only an update shows it

    found = diff(before, after, (), knowledge)
    lines = [f"updated {change_line(change)}" for change in found.changes]
    lines += [f"updated {line}" for line in pip_lines(found)]
    return lines or ["updated nothing: the named packages are up to date"]


def _count(solution: Solution) -> str:
    if solution.python:
        return f"{counted(len(solution.pip), 'package')} for pip for {solution.platform}, Python {solution.python}"
    return f"{package_count(solution)} for {solution.platform}"


def _checked_codes(codes: tuple[str, ...], knowledge: Knowledge) -> tuple[str, ...]:
    if codes:
        from cuenv.knowledge.io.load import load_guidance  # noqa: PLC0415 - only when a code is typed

        known = {row.code for row in load_guidance(knowledge).codes}
        for code in codes:
            if code not in known:
                raise UsageError(f"--allow {code!r} is not a finding code", hint="cuenv lock --allow CU104")
    return codes


def _check(path: Path, values: LockValues, knowledge: Any, wheels: str) -> int:
    from cuenv.lockfile.fresh import out_of_date  # noqa: PLC0415 - not needed for --help

    platforms, output = several_platforms(values), values["output"] if wheels else None
    host, day = host_from(values), values["as_of"]
    found = out_of_date(path, host, knowledge, platforms, wheels=wheels, output=output, as_of=day)
    silent = values["quiet"] and not found.errors
    emit_findings(
        [CheckResult(report=found, file=str(path))],
        values,
        lambda: report_json(found),
        lambda: [] if silent else report_lines(found, verbose=values["verbose"]),
    )
    return found.exit


def _refusal_lines(answer: Locked, path: Path, channels: tuple[str, ...], *, verbose: bool) -> list[str]:
    from cuenv.host.describe import host_options as host_options_of  # noqa: PLC0415 - as above

    lines = report_lines(answer.whole_report, verbose=verbose)[1:-1]
    if answer.unsatisfiable is None:
        codes = sorted({NEVER_ALLOWED.get(item.code, item.code) for item in answer.report.errors} - {""})
        left = " without the pip part" if "CU501" in codes else ""
        anyway = f"; {' '.join(f'--allow {code}' for code in codes)} locks{left} anyway and records it" if codes else ""
        again = ["cuenv", "lock", str(path), "--repair", "-o", _new_name(path, answer.spec)]
        words = [*again, *host_options_of(answer.facts), *channels]
        if not answer.report.errors:
            return [*lines, "error: refused because of --strict; nothing was written"]
        mended = any(item.code != UNREADABLE for item in answer.report.errors)  # a typing error can mean anything
        hint = [f"hint: write a corrected file: {shlex.join(words)}"] if mended else []
        return [*lines, f"error: refused; nothing was written{anyway}", *hint]
    tree = answer.unsatisfiable.text.splitlines()
    shown = tree if verbose else tree[:_SOLVER_LINES]
    lines += [f"        {line}" for line in shown]
    if len(shown) < len(tree):
        lines.append(f"        ... {len(tree) - len(shown)} more lines with -v")
    return lines


def _new_name(path: Path, spec: EnvironmentSpec) -> str:
    """The name of the corrected file; a list of requirements becomes a list again."""
    return f"{path.stem}.new{path.suffix if path.suffix in LISTS and spec.for_pip_alone else '.yml'}"


def _solve_options(values: LockValues) -> tuple[str, ...]:
    """The options on the solve as they were typed, for the command in a hint."""
    allow = [word for code in values["allow"] for word in ("--allow", code)]
    allow += ["--allow-builds"] if values["allow_builds"] else []
    day = ("--as-of", values["as_of"]) if values["as_of"] else ()
    return (*allow, *channel_words(values), *day)


def _alternative(answer: Locked, path: Path, values: LockValues, knowledge: Knowledge) -> tuple[str, str]:
    """What to do with a file that the channels do not satisfy, in words and as a command."""
    from cuenv.host.describe import host_options as host_options_of  # noqa: PLC0415 - as above
    from cuenv.lockfile.nearby import find_alternative  # noqa: PLC0415 - as above
    from cuenv.resolver.explain import chosen_line  # noqa: PLC0415 - only where nothing solves on the channels

    platforms = several_platforms(values) or tuple(item for item in answer.spec.platforms if item in PLATFORMS)
    host, channels = host_options_of(answer.facts), _solve_options(values)
    new = _new_name(path, answer.spec)
    if len(platforms) > 1:
        several = [word for name in platforms for word in ("--platform", name)]
        words = ["cuenv", "resolve", "--prove", *host, *several, *channels, "-o", new]
        return "choose the best PyTorch that the channels can satisfy", shlex.join(words)
    torch, lacked = answer.spec.pin("pytorch"), answer.unsatisfiable.missing if answer.unsatisfiable else ()
    found = None
    if torch and torch.yaml_text() in lacked:  # a torch that is there is kept by a repair
        with progress(quiet=values["quiet"]) as show:
            found = find_alternative(answer.spec, answer.facts, knowledge, channel_sources(values), show)
    if found:
        words = ["cuenv", "lock", "--resolve", new, *host, *found.options, *channels]
        return f"the channels have {chosen_line(found.decision)}", shlex.join(words)
    words = ["cuenv", "lock", str(path), "--repair", "-o", new, *host, *channels]
    return "list the entries that can stay, and write a corrected file", shlex.join(words)


def _lock_json(answer: Locked, told: Report, command: str) -> ReportDocument:
    from cuenv.solve.model import AS_OF  # noqa: PLC0415 - not needed for --help

    unsatisfiable = answer.unsatisfiable
    plain: ReportDocument = {
        **report_json(told),
        "locked": answer.lock is not None,
        "written": [str(file) for file in answer.written],
        "packages": {item.platform: len(item.packages) for item in answer.lock.solutions} if answer.lock else {},
        "pip": {item.platform: len(item.pip) for item in answer.lock.solutions} if answer.lock else {},
        "afterwards": dict(answer.unlocked_commands),
        "host_of_file": answer.host_named or None,
        "unsatisfiable": None
        if unsatisfiable is None
        else {"missing": list(unsatisfiable.missing), "text": unsatisfiable.text, "command": command},
    }
    if answer.lock and AS_OF in answer.lock.metadata:
        plain["as_of"] = answer.lock.metadata[AS_OF]
    return plain
