"""bitsandbytes quantizes to 4 bits and back."""

from __future__ import annotations

from _told import Observed, Skip, answer, gpus, load

BOUND = 0.15
"""Relative error that NF4 in blocks of 64 may make; some 0.1 for normal numbers."""


def look(told: Observed) -> None:
    torch = load("torch")
    bitsandbytes = load("bitsandbytes")
    version = str(bitsandbytes.__version__)
    told.facts["version"] = version
    devices = gpus(torch)
    if not devices:
        raise Skip("imported; the 4-bit round trip needs a GPU")
    functional = load("bitsandbytes.functional")
    torch.manual_seed(0)
    for device in devices:
        torch.cuda.set_device(device)
        numbers = torch.randn(256, 256, device=device, dtype=torch.float16)
        packed, state = functional.quantize_4bit(numbers, quant_type="nf4")
        back = functional.dequantize_4bit(packed, state)
        error = float((back.double() - numbers.double()).norm() / numbers.double().norm())
        if error <= BOUND:
            told.done.append("%s: NF4 and back on %s, error %.2g" % (version, device, error))
        else:
            told.fail(device, "4 bits and back differ by %.2g, more than %.2g" % (error, BOUND))


if __name__ == "__main__":
    answer(look)
