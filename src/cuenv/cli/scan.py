"""``cuenv scan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, completes, no_progress_option, output_options
from cuenv.cli.options import host_from, host_options, knowledge_from, knowledge_option
from cuenv.cli.output import emit_json, emit_lines, progress

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import ScanValues


@click.command("scan", cls=CuenvCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=completes("file"))
@click.option("--deep", is_flag=True, help="Also look for GPU code outside its usual sections.")
@host_options
@knowledge_option
@no_progress_option
@output_options
def command(paths: tuple[str, ...], *, deep: bool, **values: Unpack[ScanValues]) -> int:
    """List the GPU code in compiled files, and which GPUs of the host can run it.

    PATH is an ELF file (a library, an extension, an executable) or a folder, such as an environment, with
    everything below it. A library holds several objects that the CUDA runtime loads one by one, so objects are
    counted: code for a GPU in one of thirty objects does not help the others. The command needs no GPU and runs
    nothing. The exit code is 1 when a file has no code that a GPU of the host can run.

    \b
    Examples:
      cuenv scan .venv/lib/python3.12/site-packages/torch/lib
      cuenv scan $CONDA_PREFIX --gpu V100 --gpu 'RTX 5090' --driver 575.57.08
      cuenv scan libcudnn_engines_precompiled.so.9 --deep --json
    """
    from cuenv.binary.gpu_code import scan_lines, scan_paths, scan_plain  # noqa: PLC0415 - not needed for --help

    with progress(quiet=values["quiet"] or values["as_json"]) as show:
        scanned = scan_paths(paths, host_from(values), knowledge_from(values), deep=deep, say=show)
    if values["as_json"]:
        emit_json(scan_plain(scanned))
    elif not values["quiet"] or scanned.exit:
        emit_lines(scan_lines(scanned, verbose=values["verbose"]))
    return scanned.exit
