"""``cuenv lock --repair``: what became of each entry of a file that cannot work, and the file in its place."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuenv.cli.options import channel_sources, host_from, several_platforms
from cuenv.cli.output import emit, emit_json, layer_plain, progress, progress_done, report_json, report_lines, say
from cuenv.environment import ADVICE, WRITTEN_BY
from cuenv.errors import ExitCode, UsageError
from cuenv.facts import PLATFORMS
from cuenv.knowledge import Knowledge
from cuenv.report import PIP

if TYPE_CHECKING:
    from cuenv.flows.repairing import Repaired

_SKIPPED = 6
"""Nearer environments that are named without -v."""


def repair_file(path: Path, values: dict[str, Any], knowledge: Knowledge) -> int:
    """Repair an environment file, and write the new one to ``-o`` or stdout; the old one stays as it is.

    Raises:
        UsageError: the output is the input, ``-o`` stands without ``--repair``, or several platforms are named.
    """
    from cuenv.flows.locking import LockRequest  # noqa: PLC0415 - not needed for --help
    from cuenv.flows.repairing import repair  # noqa: PLC0415 - as above

    output: Path | None = values["output"]
    if not values["repair"]:
        raise UsageError(
            "-o names the file that --repair writes; locks stand beside their environment file",
            hint="cuenv lock --repair -o mended.yml",
        )
    if output and output.exists() and path.exists() and output.samefile(path):
        raise UsageError(
            f"--repair never replaces the file that it repairs: {path}",
            hint=shlex.join(["cuenv", "lock", str(path), "--repair", "-o", str(path.with_suffix(".new.yml"))]),
        )
    if several_platforms(values):
        raise UsageError("--repair is for one platform", hint=f"cuenv lock --repair --platform {PLATFORMS[0]}")
    show = progress(quiet=values["quiet"])
    request = LockRequest(path=path, host=host_from(values), sources=channel_sources(values))
    answer = repair(request, knowledge, name=str(output or "environment.yml"), progress=show)
    progress_done(show)
    quiet = values["quiet"] or values["as_json"]
    say(_lines(answer, verbose=values["verbose"]), quiet=quiet and (values["as_json"] or answer.spec is not None))
    if answer.spec is not None and answer.needed:
        _deliver(answer, path, values)
    if values["as_json"]:
        emit_json(_plain(answer, output))
    return ExitCode.OK if answer.spec is not None else ExitCode.NEGATIVE


def _lines(answer: Repaired, *, verbose: bool) -> list[str]:
    lines = report_lines(answer.report, verbose=verbose)[1:-1]
    if answer.open:
        lines.append(f"error   the channels cannot close it: {answer.open}")
    if not answer.needed:
        return [*lines, "ok      nothing to repair"]
    lines += [f"layer   {layer}" for layer in answer.layers]
    shown = answer.skipped if verbose else answer.skipped[:_SKIPPED]
    lines += [f"skipped {what}: {why}" for what, why in shown]
    if len(shown) < len(answer.skipped):
        lines.append(f"skipped {len(answer.skipped) - len(shown)} more; -v names them")
    if answer.spec is None and all(item.code.startswith(PIP) for item in answer.report.errors):
        return [*lines, "error   what is asked of pip stays as it is: mend it in the file"]
    if answer.spec is None:
        return [*lines, "error   nothing near to it fits the host and closes on the channels: cuenv resolve --prove"]
    lines += [str(change) for change in answer.changes]
    if answer.pins:
        pins = ", ".join(f"{pin.name}{pin.version or f'=*={pin.build}'}" for pin in answer.pins)
        lines.append(f"repair  {pins}: the smallest that mends it, {answer.tried} other sets of pins do not")
    return lines


def _deliver(answer: Repaired, path: Path, values: dict[str, Any]) -> None:
    from cuenv.formats.environment_yml import render  # noqa: PLC0415 - not needed for --help
    from cuenv.host_text import host_options  # noqa: PLC0415 - as above
    from cuenv.world.products import write_product  # noqa: PLC0415 - as above

    output: Path | None = values["output"]
    if answer.spec is None:
        return
    if output is None:
        if not values["as_json"]:
            emit(render(answer.spec))
        return
    quiet = values["quiet"] or values["as_json"]
    aside = write_product(output, render(answer.spec), WRITTEN_BY, ADVICE)
    if aside:
        say([f"kept    what was in {output} as {aside}"], quiet=quiet)
    lock = shlex.join(["cuenv", "lock", str(output), *host_options(answer.facts)])
    say([f"wrote   {output}, and left {path} as it is; next: {lock}"], quiet=quiet)


def _plain(answer: Repaired, output: Path | None) -> dict[str, Any]:
    written = answer.spec is not None and answer.needed and output is not None
    return report_json(
        answer.report,
        repaired=answer.spec is not None,
        written=[str(output)] if written else [],
        changes=[
            {"entry": item.entry, "fate": item.fate, "became": item.became or None, "why": item.why or None}
            for item in answer.changes
        ],
        pins=[pin.yaml_text() for pin in answer.pins],
        layers=[layer_plain(layer) for layer in answer.layers],
        skipped=[{"candidate": what, "why": why} for what, why in answer.skipped],
    )
