"""DeepSpeed loads or builds FusedAdam, and one step of it is AdamW's."""

from __future__ import annotations

from typing import Any

from _told import Observed, Skip, answer, gpus, load

BOUND = 1e-4


def look(told: Observed) -> None:
    torch = load("torch")
    deepspeed = load("deepspeed")
    told.facts["version"] = str(deepspeed.__version__)
    if not gpus(torch):
        raise Skip("imported; FusedAdam needs a GPU")
    load("deepspeed.ops.op_builder").FusedAdamBuilder().load()
    adam = load("deepspeed.ops.adam").FusedAdam
    torch.manual_seed(0)
    start, slope = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    ours = step(torch, adam, start, slope)
    theirs = step(torch, torch.optim.AdamW, start, slope)
    error = float((ours - theirs).abs().max())
    if error <= BOUND:
        told.done.append("DeepSpeed %s: FusedAdam built, one step on cuda:0" % deepspeed.__version__)
    else:
        told.fail("FusedAdam", "its step differs from AdamW's by %.2g" % error)


def step(torch: Any, optimizer: Any, start: Any, slope: Any) -> Any:
    weights = torch.nn.Parameter(start.clone())
    weights.grad = slope.clone()
    optimizer([weights], lr=1e-2, weight_decay=0.0).step()
    return weights.detach()


if __name__ == "__main__":
    answer(look)
