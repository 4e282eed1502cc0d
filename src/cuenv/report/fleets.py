"""The pictures of a fleet: which nodes use which environment, and what another number of environments would cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cuenv.core.findings import counted
from cuenv.report.picture import Picture, box, said, shortened, width_of

if TYPE_CHECKING:  # types alone
    from cuenv.fleet.documents import FleetKindFields, FleetPlanDocument, FleetPriceFields

_WIDTH = 720
_BAR = 200  # the length of the longest bar, in pixels
_DOWN = 44
_PRICE = 420  # the length of the bar of a price, in pixels: a phone shows it


def _gpus(kind: FleetKindFields) -> str:
    """The GPUs of a kind of hosts with counts."""
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
    """The GPUs, the driver and the C library of a kind of hosts."""
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
    """Kinds of hosts grouped by their GPUs."""
    groups: dict[tuple[str, str], list[FleetKindFields]] = {}
    for kind in kinds:
        groups.setdefault((_gpus(kind), kind["platform"]), []).append(kind)
    for (gpus, platform), some in groups.items():
        drivers = [kind["driver"] for kind in some if kind["driver"]]
        parts = (gpus, _span("driver", drivers), _libcs(some), platform if platform != "linux-64" else "")
        names = ", ".join(kind["nodes"] for kind in some)
        yield names, sum(kind["hosts"] for kind in some), ", ".join(filter(None, parts))


def nodes(plan: FleetPlanDocument) -> Picture | None:
    """The picture of nodes by environment, grouped by GPUs, with bars for their number."""
    groups: list[tuple[str, str, str, list[tuple[str, int, str]]]] = []
    rows: list[tuple[str, ...]] = []
    for item in plan["environments"]:
        cuda = f"CUDA {item['cuda']}" if item["cuda"] else "CPU"
        what = f"PyTorch {item['pytorch']}, {cuda}, Python {item['python']}, {item['stack']}"
        mine = [kind for kind in plan["kinds"] if kind["environment"] == item["name"]]
        groups.append((item["name"], f"{what}: {counted(item['hosts'], 'host')}", "bar", list(_by_gpus(mine))))
        rows += [(item["name"], kind["nodes"], str(kind["hosts"]), kind_text(kind)) for kind in mine]
    left = [(one["nodes"], one["hosts"], one["says"]) for one in plan["hopeless"]]
    if left:
        groups.append(("✕ no environment", "no build supports these hosts", "b-no", left))
    odd = [(one["nodes"], one["hosts"], f"not known: {', '.join(one['lacks'])}") for one in plan["unknown"]]
    if odd:
        groups.append(("? not judged", "a fact about these hosts is unknown", "b-unknown", odd))
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
        body.append(box(0, y, _WIDTH, 46 + _DOWN * len(some), "band", round_by=6))
        body.append(said(12, y + 20, shortened(name, _WIDTH - 24, 14), "h"))
        body.append(said(12, y + 36, shortened(what, _WIDTH - 24, 12), "s"))
        for at, (names, count, says) in enumerate(some):
            top = y + 46 + at * _DOWN
            long = max(_BAR * count / most, 6)
            amount = counted(count, "host")
            beside = 30 + long + 1.12 * width_of(amount)
            body.append(said(12, top + 13, shortened(says, _WIDTH - 24)))
            body.append(box(12, top + 19, long, 14, kind, f"{names}: {amount}"))
            body.append(said(20 + long, top + 31, amount, "h"))
            body.append(said(beside, top + 31, shortened(names, _WIDTH - beside - 8, 12), "s"))
        y += 46 + _DOWN * len(some) + 10
    placed = sum(item["hosts"] for item in plan["environments"])
    count = len(plan["environments"])
    return Picture(
        name="fleet",
        title="The fleet: hosts by environment",
        desc=f"{counted(count, 'environment')} for {placed} of {counted(plan['hosts'], 'host')}. "
        + " ".join(f"{name}: {what}." for name, what, _, _ in groups),
        width=_WIDTH,
        height=int(y),
        body="".join(body),
        columns=("environment", "nodes", "hosts", "what they are"),
        rows=tuple(rows),
        legend="The length of a bar is the number of hosts of one kind; names are folded as in Slurm.",
    )


def prices(plan: FleetPlanDocument) -> Picture | None:
    """The picture of how many hosts get their best, and how many get less, for each number of environments."""
    told = plan["prices"]
    if not told:
        return None
    able = sum(kind["hosts"] for kind in plan["kinds"]) - sum(one["hosts"] for one in plan["hopeless"])
    total = max(able, 1)
    chosen = len(plan["environments"])
    body, rows = [], []
    for at, item in enumerate(told):
        y = 8 + at * _DOWN
        body += _price_bar(item, total, y)
        if item["environments"] == chosen:
            body.append(box(2, y - 5, _PRICE + 16, _DOWN - 1, "pick", round_by=6))
        rows.append(_price_row(item, total, chosen))
    least = next((item for item in told if item["possible"]), None)
    best = next((item for item in told if item["possible"] and not item["hosts_with_less"]), None)
    desc = (
        [f"At least {least['environments']} are needed."]
        if least
        else ["No number of environments can support all hosts."]
    )
    desc += [f"With {best['environments']} every host gets its best."] if best else []
    return Picture(
        name="price",
        title="What fewer environments cost",
        desc=" ".join(desc),
        width=_PRICE + 20,
        height=8 + _DOWN * len(told) + 4,
        body="".join(body),
        columns=("environments", "possible", "hosts with their best", "hosts with less", "who gets what instead"),
        rows=tuple(rows),
        legend=(
            "Solid: hosts that get their best. Dashed: hosts that get less than their best. ✕: so few cannot support "
            "all hosts. The frame marks the plan."
        ),
    )


def _price_bar(item: FleetPriceFields, total: int, y: float) -> list[str]:
    """The cost of a number of environments, in words and as a bar."""
    name = counted(item["environments"], "environment")
    beside = 20 + 1.12 * width_of(name)
    if not item["possible"]:
        says, less, best = "✕ cannot support all hosts", 0, 0
    else:
        less = min(item["hosts_with_less"], total)
        best = total - less
        says = f"{best} get their best, {less} less" if less else "every host gets its best"
        says += "" if item["exact"] else "; better may exist"
    body = [said(10, y + 12, name, "h"), said(beside, y + 12, shortened(says, _PRICE + 8 - beside))]
    split, well, worse = _PRICE * best / total, counted(best, "host"), counted(less, "host")
    if not item["possible"]:
        body.append(box(10, y + 18, _PRICE, 13, "b-no", f"{name} cannot support all hosts", round_by=3))
    if best:
        body.append(box(10, y + 18, max(split - 2, 4), 13, "b-ok", f"{well} with their best", round_by=3))
    if less:
        long = max(_PRICE - split - 2, 4)
        body.append(box(10 + _PRICE - long, y + 18, long, 13, "b-jit", f"{worse} with less", round_by=3))
    return body


def _price_row(item: FleetPriceFields, total: int, chosen: int) -> tuple[str, ...]:
    number = f"{item['environments']}{' (this plan)' if item['environments'] == chosen else ''}"
    if not item["possible"]:
        return number, "no", "", "", "so few cannot support all hosts"
    less = "; ".join(f"{one['nodes']}: {one['gets']} instead of {one['best']}" for one in item["less"])
    return number, "yes", str(total - item["hosts_with_less"]), str(item["hosts_with_less"]), less or "nobody"
