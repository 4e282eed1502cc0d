"""The pictures of a fleet: which nodes use which environment, and what another number of environments would cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cuenv.report.picture import Picture, box, said, shortened, width_of

if TYPE_CHECKING:  # types alone
    from cuenv.core.documents import FleetKindFields, FleetPlanDocument, FleetPriceFields

_WIDTH = 920
_BAR = 250
"""The length of the longest bar, in pixels."""


def hosts(count: int) -> str:
    """A count of hosts in words."""
    return f"{count} host" if count == 1 else f"{count} hosts"


def _gpus(kind: FleetKindFields) -> str:
    """The GPUs of a kind of hosts, equal ones counted."""
    counts: dict[str, int] = {}
    for gpu in kind["gpus"]:
        name = (gpu["name"] or "").removeprefix("NVIDIA ").removeprefix("GeForce ") or "GPU"
        text = f"{name} ({gpu['capability']})"
        counts[text] = counts.get(text, 0) + 1
    return " + ".join(f"{count} x {text}" if count > 1 else text for text, count in counts.items()) or "no GPU"


def _libc(kind: FleetKindFields) -> str:
    libc = kind["libc"]
    return f"{libc['family']} {libc['version']}" if libc else ""


def kind_text(kind: FleetKindFields) -> str:
    """The GPUs, the driver and the C library of a kind of hosts in a few words."""
    driver = f"driver {kind['driver']}" if kind["driver"] else ""
    return ", ".join(filter(None, (_gpus(kind), driver, _libc(kind), kind["platform"])))


def _libcs(kinds: Sequence[FleetKindFields]) -> str:
    families: dict[str, list[str]] = {}
    for libc in (kind["libc"] for kind in kinds):
        if libc:
            families.setdefault(libc["family"], []).append(libc["version"])
    return ", ".join(_span(family, some) for family, some in families.items())


def _span(what: str, versions: Sequence[str]) -> str:
    """The lowest and the highest of some versions."""
    found = sorted(set(versions), key=lambda text: [int(part) for part in re.findall(r"[0-9]{1,9}", text)])
    if not found:
        return ""
    return f"{what} {found[0]}" if len(found) == 1 else f"{what} {found[0]} to {found[-1]}"


def _by_gpus(kinds: Sequence[FleetKindFields]) -> Iterator[tuple[str, int, str]]:
    """Kinds of hosts with the same GPUs together: their nodes, how many they are, and what they are."""
    groups: dict[tuple[str, str], list[FleetKindFields]] = {}
    for kind in kinds:
        groups.setdefault((_gpus(kind), kind["platform"]), []).append(kind)
    for (gpus, platform), some in groups.items():
        drivers = [kind["driver"] for kind in some if kind["driver"]]
        parts = (gpus, _span("driver", drivers), _libcs(some), platform if platform != "linux-64" else "")
        names = ", ".join(kind["nodes"] for kind in some)
        yield names, sum(kind["hosts"] for kind in some), ", ".join(filter(None, parts))


def nodes(plan: FleetPlanDocument) -> Picture | None:
    """The nodes by environment, those with the same GPUs together, with a bar for how many they are."""
    groups: list[tuple[str, str, str, list[tuple[str, int, str]]]] = []
    rows: list[tuple[str, ...]] = []
    for item in plan["environments"]:
        cuda = f"CUDA {item['cuda']}" if item["cuda"] else "CPU"
        what = f"PyTorch {item['pytorch']}, {cuda}, Python {item['python']}, {item['stack']}"
        mine = [kind for kind in plan["kinds"] if kind["environment"] == item["name"]]
        groups.append((item["name"], f"{what}: {hosts(item['hosts'])}", "bar", list(_by_gpus(mine))))
        rows += [(item["name"], kind["nodes"], str(kind["hosts"]), kind_text(kind)) for kind in mine]
    left = [(one["nodes"], one["hosts"], one["says"]) for one in plan["hopeless"]]
    if left:
        groups.append(("✕ no environment", "no build serves these hosts", "b-no", left))
    odd = [(one["nodes"], one["hosts"], f"not known: {', '.join(one['lacks'])}") for one in plan["unknown"]]
    if odd:
        groups.append(("? not judged", "a fact of these hosts is not known", "b-unknown", odd))
    if not groups:
        return None
    rows += [
        (name, names, str(count), says)
        for name, _, _, some in groups[len(plan["environments"]) :]
        for names, count, says in some
    ]
    most = max((count for group in groups for _, count, _ in group[3]), default=1)
    body, y = [], 4.0
    for name, what, kind, some in groups:
        body.append(box(0, y, _WIDTH, 30 + 46 * len(some) + 6, "band", round_by=6))
        body.append(said(12, y + 21, shortened(name, 300), "h"))
        body.append(said(min(24 + width_of(name) * 1.08, 324), y + 21, shortened(what, _WIDTH - 340, 12), "s"))
        for at, (names, count, says) in enumerate(some):
            top = y + 32 + at * 46
            long = max(_BAR * count / most, 6)
            body.append(box(12, top, long, 22, kind, f"{names}: {hosts(count)}"))
            body.append(said(20 + long, top + 16, hosts(count), "h"))
            body.append(said(_BAR + 100, top + 12, shortened(says, _WIDTH - _BAR - 110), ""))
            body.append(said(_BAR + 100, top + 28, shortened(names, _WIDTH - _BAR - 110, 12), "s"))
        y += 30 + 46 * len(some) + 16
    placed = sum(item["hosts"] for item in plan["environments"])
    count = len(plan["environments"])
    return Picture(
        name="fleet",
        title="The fleet: hosts by environment",
        desc=f"{count} environment{'' if count == 1 else 's'} for {placed} of {hosts(plan['hosts'])}. "
        + " ".join(f"{name}: {what}." for name, what, _, _ in groups),
        width=_WIDTH,
        height=int(y),
        body="".join(body),
        columns=("environment", "nodes", "hosts", "what they are"),
        rows=tuple(rows),
        legend="A bar is as long as the number of hosts of one kind; names are folded as Slurm writes them.",
    )


def prices(plan: FleetPlanDocument) -> Picture | None:
    """For each number of environments how many hosts get their best, and how many get less."""
    told = plan["prices"]
    if not told:
        return None
    total = max((kind["hosts"] for kind in plan["kinds"]), default=0)
    total = sum(kind["hosts"] for kind in plan["kinds"]) - sum(one["hosts"] for one in plan["hopeless"]) or total or 1
    chosen = len(plan["environments"])
    body, rows = [], []
    for at, item in enumerate(told):
        y = 8 + at * 44
        number = item["environments"]
        body.append(said(150, y + 19, f"{number} environment{'' if number == 1 else 's'}", "h", "end"))
        body += _price_bar(item, total, y)
        if number == chosen:
            body.append(box(2, y - 5, _WIDTH - 4, 38, "pick", round_by=6))
        rows.append(_price_row(item, total, chosen))
    least = next((item for item in told if item["possible"]), None)
    best = next((item for item in told if item["possible"] and not item["hosts_with_less"]), None)
    desc = (
        [f"At least {least['environments']} are needed."] if least else ["No number of environments serves all hosts."]
    )
    desc += [f"With {best['environments']} every host gets its best."] if best else []
    return Picture(
        name="price",
        title="What fewer environments cost",
        desc=" ".join(desc),
        width=_WIDTH,
        height=8 + 44 * len(told) + 4,
        body="".join(body),
        columns=("environments", "possible", "hosts with their best", "hosts with less", "who gets what instead"),
        rows=tuple(rows),
        legend="Solid: hosts that get their best. Dashed: hosts that get less than their best. ✕: so few cannot serve "
        "all hosts. The frame marks the plan.",
    )


def _price_bar(item: FleetPriceFields, total: int, y: float) -> list[str]:
    left, room = 162, 380
    if not item["possible"]:
        return [
            box(left, y, room, 26, "b-no", "impossible"),
            said(left + 10, y + 18, "✕ impossible: so few cannot serve all hosts", "c"),
        ]
    less = min(item["hosts_with_less"], total)
    best = total - less
    split = room * best / total
    body = []
    if best:
        body.append(box(left, y, max(split - 2, 4), 26, "b-ok", f"{hosts(best)} with their best"))
    if less:
        body.append(box(left + split + 2, y, max(room - split - 2, 4), 26, "b-jit", f"{hosts(less)} with less"))
    says = f"every host gets its best ({best})" if not less else f"{best} get their best, {less} get less"
    exact = "" if item["exact"] else "; a better choice may exist"
    body.append(said(left + room + 16, y + 18, shortened(f"{says}{exact}", _WIDTH - left - room - 26), ""))
    return body


def _price_row(item: FleetPriceFields, total: int, chosen: int) -> tuple[str, ...]:
    number = f"{item['environments']}{' (this plan)' if item['environments'] == chosen else ''}"
    if not item["possible"]:
        return number, "no", "", "", "so few cannot serve all hosts"
    less = "; ".join(f"{one['nodes']}: {one['gets']} in place of {one['best']}" for one in item["less"])
    return number, "yes", str(total - item["hosts_with_less"]), str(item["hosts_with_less"]), less or "nobody"
