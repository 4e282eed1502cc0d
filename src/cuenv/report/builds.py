"""All builds of PyTorch against the GPUs and the driver of a host, each with the first rule that rejects it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from packaging.version import Version

from cuenv.knowledge.rows import TorchBuild
from cuenv.report.picture import Drawn, GridCell, GridRow, Picture, box, grid, said
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.decision import Decision
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.rules import rule_named

_WORDS: Mapping[str, str] = {
    "platform": "platform",
    "gpu": "no GPU",
    "wish": "not asked",
    "driver-gpu": "driver",
    "driver-floor": "driver",
    "device-code": "no code",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "roles": "packages",
    "extensions": "libraries",
}


def _status_cell(item: Assessment) -> GridCell:
    """The status of a candidate, as a word and a sentence."""
    if item.objections:
        lead = item.objections[0]
        return GridCell("no", _WORDS.get(lead.rule, lead.rule), lead.because)
    if item.open_layers:
        return GridCell("unknown", "unknown", item.open_layers[0].because)
    warned = next((verdict for verdict in item.verdicts if verdict.outcome == "warn"), None)
    if warned:
        return GridCell("part", "warning", warned.because)
    return GridCell("ok", "fits", "no rule rejects it")


def _best_attempt(items: Sequence[Assessment]) -> Assessment:
    """The candidate of a build that fits, or is rejected by the least basic rule."""
    return max(items, key=lambda item: 1000 if item.fits else rule_named(item.objections[0].rule).order)


def _best_attempts(decision: Decision) -> dict[TorchBuild, Assessment]:
    ranks = {id(item): at for at, item in enumerate(decision.fitting)}
    found: dict[int, list[Assessment]] = {}
    for item in decision.assessments:
        if item.candidate.build.cuda:
            found.setdefault(id(item.candidate.build), []).append(item)
    best = {}
    for some in found.values():
        fitting = [item for item in some if id(item) in ranks]
        best[some[0].candidate.build] = (
            min(fitting, key=lambda item: ranks[id(item)]) if fitting else _best_attempt(some)
        )
    return best


def builds(decision: Decision, taken: Candidate | None) -> Picture | None:
    """The picture of all builds by PyTorch release and CUDA release.

    Args:
        decision: with every candidate of a host judged.
        taken: the one that was chosen, or that is locked.
    """
    best = {(build.stack, build.version, build.cuda): (build, item) for build, item in _best_attempts(decision).items()}
    if not best:
        return None
    parts, rows = [], []
    top = width = 0
    mine = (taken.build.stack, taken.build.version, taken.build.cuda) if taken else None
    for stack in sorted({key[0] for key in best}):
        cudas = sorted({key[2] for key in best if key[0] == stack and key[2]}, reverse=True)
        releases = sorted({key[1] for key in best if key[0] == stack}, reverse=True)
        lines = {
            release: tuple(_cell(best.get((stack, release, cuda)), stack, release, cuda) for cuda in cudas)
            for release in releases
        }
        shown = list(_folded_rows(releases, lines, mine[1] if mine and mine[0] == stack else None))
        drawn = grid(
            [(str(cuda), "") for cuda in cudas],
            [GridRow(label, "", cells) for label, cells in shown],
            least=62,
            tight=True,
        )
        parts.append(said(0, top + 16, f"{stack}: PyTorch by the CUDA release of the build", "h"))
        parts.append(
            f'<g transform="translate(0 {top + 20})">{drawn.body}{_chosen_frame(drawn, shown, cudas, mine, stack)}</g>'
        )
        top += drawn.height + 34
        width = max(width, drawn.width)
        for release in releases:
            for cuda in cudas:
                one = best.get((stack, release, cuda))
                if one:
                    cell = _status_cell(one[1])
                    star = " (this one)" if (stack, release, cuda) == mine else ""
                    rows.append((f"PyTorch {release}{star}", stack, str(cuda), cell.word, cell.tip))
    fits = sum(item.fits for _, item in best.values())
    return Picture(
        name="builds",
        title="All builds of PyTorch, and the first rule that rejects each",
        desc=f"{fits} of {len(best)} builds fit the GPUs, the driver and the request. "
        "Rows are PyTorch releases, columns are the CUDA releases that the builds were made with.",
        width=width,
        height=top,
        body="".join(parts),
        columns=("build", "stack", "CUDA", "result", "first rule that rejects, or what is unknown"),
        rows=tuple(rows),
        legend="✕ with the part that rejects the build first; ● fits; ▲ fits with a warning; ? fits as far as is "
        "known; - no such build. A frame marks the build of this report. Neighbours with equal answers share a row.",
    )


def _cell(found: tuple[TorchBuild, Assessment] | None, stack: str, release: Version, cuda: Version) -> GridCell:
    if found is None:
        return GridCell("none", "", f"{stack} has no build of PyTorch {release} for CUDA {cuda}")
    told = _status_cell(found[1])
    return told._replace(tip=f"PyTorch {release}, CUDA {cuda} ({stack}): {told.word}: {told.tip}")


def _folded_rows(
    releases: Sequence[Version], lines: Mapping[Version, tuple[GridCell, ...]], own: Version | None
) -> Iterator[tuple[str, tuple[GridCell, ...]]]:
    """The rows, with equal neighbours combined; the row of the chosen build stays alone."""

    def same(release: Version) -> tuple[object, ...]:
        return (release == own, *((cell.mark, cell.word) for cell in lines[release]))

    for _, group in groupby(releases, same):
        some = list(group)
        label = str(some[0]) if len(some) == 1 else f"{some[-1]} - {some[0]}"
        yield label, lines[some[0]]


def _chosen_frame(
    drawn: Drawn,
    shown: Sequence[tuple[str, tuple[GridCell, ...]]],
    cudas: Sequence[Version],
    mine: tuple[str, Version, Version | None] | None,
    stack: str,
) -> str:
    """A frame around the chosen build."""
    row = next((at for at, (label, _) in enumerate(shown) if mine and label == str(mine[1])), None)
    if mine is None or row is None or mine[0] != stack or mine[2] not in cudas:
        return ""
    x, y = drawn.left + cudas.index(mine[2]) * drawn.across, drawn.top + row * drawn.down
    return box(x, y, drawn.across, drawn.down, "pick", round_by=6)
