"""``cuenv check``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cuenv.cli.completions import completes
from cuenv.cli.options import host_from, host_options, knowledge_from, talk_options
from cuenv.cli.output import emit, emit_json, layer_plain, report_json, report_lines
from cuenv.profile import Profile


@click.command("check")
@click.argument("path", type=click.Path(path_type=Path), default="conda-lock.yml", metavar="[LOCK]")
@host_options
@click.option("--profile", metavar="NAME|FILE", shell_complete=completes("profile"), help="Wishes from a profile.")
@click.option("--knowledge", "tables", type=click.Path(path_type=Path), metavar="DIR", help="Further tables.")
@talk_options
def command(path: Path, **values: Any) -> int:
    """Check a lock against a host, against its environment file, and against the laws.

    The host is this machine, or --host, or --gpu with --driver; a machine without GPU judges for the host that the
    lock was made for. Findings have stable codes, evidence (-v) and one fix. Exit code 1 on errors. -v also says how
    each layer (torch, cuDNN, NCCL, nvcc) serves each GPU; 'cuenv lock --repair' finds the smallest pins for a cut.
    Of a --profile the memory and the disk count, which the machine should have.

    \b
    Examples:
      cuenv check
      cuenv check --host h800-525
      cuenv check locks/universal-dev/conda-lock.yml --gpu A100 --driver 525.60.13 --json
    """
    from cuenv.flows.checking import check  # noqa: PLC0415 - as above
    from cuenv.host_text import host_line  # noqa: PLC0415 - not needed for --help

    checked = check(path, host_from(values), knowledge_from(values), _profile(values["profile"]))
    if values["as_json"]:
        layers = [layer_plain(layer) for layer in checked.layers]
        emit_json(report_json(checked.report, host=host_line(checked.facts), layers=layers))
    elif not values["quiet"] or checked.report.errors:
        layer_lines = [f"layer {layer}" for layer in checked.layers] if values["verbose"] else []
        emit("\n".join([*report_lines(checked.report, verbose=values["verbose"]), *layer_lines]))
    return checked.report.exit


def _profile(name: str | None) -> Profile | None:
    if not name:
        return None
    from cuenv.cli.configured import configuration  # noqa: PLC0415 - only with a profile
    from cuenv.world.profiles import read_profile  # noqa: PLC0415 - YAML is read only then

    return read_profile(name, configuration())
