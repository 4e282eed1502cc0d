"""flash-attn's forward pass, against attention written out."""

from __future__ import annotations

from typing import Any

from _told import Observed, Skip, answer, gpus, load

BOUND = 1e-2


def look(told: Observed) -> None:
    torch = load("torch")
    flash_attn = load("flash_attn", "flash-attn")
    version = str(flash_attn.__version__)
    told.facts["version"] = version
    devices = gpus(torch)
    if not devices:
        raise Skip("imported; attention needs a GPU")
    torch.manual_seed(0)
    for device in devices:
        if torch.cuda.get_device_capability(device) < (8, 0):
            told.skipped.append(device + " is below capability 8.0, which flash-attn 2 needs")
            continue
        torch.cuda.set_device(device)
        query, key, value = (torch.randn(2, 64, 4, 64, device=device, dtype=torch.float16) for _ in range(3))
        got = flash_attn.flash_attn_func(query, key, value, causal=True)
        error = float((got.double() - attention(torch, query, key, value)).abs().max())
        if error <= BOUND:
            told.done.append("%s: forward on %s" % (version, device))
        else:
            told.fail(device, "attention differs by %.2g, more than %.2g" % (error, BOUND))


def attention(torch: Any, query: Any, key: Any, value: Any) -> Any:
    query, key, value = (item.double().transpose(1, 2) for item in (query, key, value))
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return (scores.masked_fill(later, float("-inf")).softmax(-1) @ value).transpose(1, 2)


if __name__ == "__main__":
    answer(look)
