"""Matrix products on every device, against the CPU's in double precision."""

from __future__ import annotations

from typing import Any

from _told import Observed, answer, gpus, load, reason

SIZE = 256
NEEDED = 512 * 1024 * 1024
BOUND = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}
"""Relative errors (Frobenius) that rounding explains; TF32 in place of float32 makes some 3e-4."""

LOWEST = {"float32": (0, 0), "bfloat16": (8, 0), "float16": (5, 3)}
"""Capability from which a GPU has the type."""


def look(told: Observed) -> None:
    torch = load("torch")
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    left = torch.randn(SIZE, SIZE, dtype=torch.float64)
    right = torch.randn(SIZE, SIZE, dtype=torch.float64)
    compare(told, left, right, "cpu", {"float32": torch.float32})
    for device in gpus(torch):
        if torch.cuda.mem_get_info(device)[0] < NEEDED:
            told.skipped.append(device + " has less than 512 MiB free")
            continue
        capability = torch.cuda.get_device_capability(device)
        types = {name: getattr(torch, name) for name in BOUND if capability >= LOWEST[name]}
        compare(told, left, right, device, types)


def compare(told: Observed, left: Any, right: Any, device: str, types: dict[str, Any]) -> None:
    good = []
    for name, kind in types.items():
        what = "%s on %s" % (name, device)
        try:
            error = relative_error(left, right, device, kind)
        except Exception as failure:  # noqa: BLE001 - told, and the next type is tried
            told.fail(what, reason(failure))
            continue
        if error <= BOUND[name]:  # a NaN is not
            good.append(name)
        else:
            told.fail(what, "the product differs from the CPU's by %.2g, more than %.0g" % (error, BOUND[name]))
    if good:
        told.done.append("%s (%s)" % (device, ", ".join(good)))


def relative_error(left: Any, right: Any, device: str, kind: Any) -> float:
    a, b = left.to(kind), right.to(kind)
    expected = a.double() @ b.double()
    got = (a.to(device) @ b.to(device)).cpu().double()
    return float((got - expected).norm() / expected.norm())


if __name__ == "__main__":
    answer(look)
