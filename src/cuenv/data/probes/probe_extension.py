"""torch's cpp_extension builds a kernel for every visible GPU and runs it; without a GPU, C++ for the CPU."""

from __future__ import annotations

import os
import shutil
from typing import Any

from _told import Observed, Skip, answer, gpus, load

SOURCE = """
torch::Tensor twice(torch::Tensor x) { return x + x; }
"""

CUDA = """
__global__ void twice_kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + x[i];
}

torch::Tensor twice(torch::Tensor x) {
  auto y = torch::zeros_like(x);
  int n = static_cast<int>(x.numel());
  twice_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""


def look(told: Observed) -> None:
    torch = load("torch")
    compiler = os.environ.get("CXX", "c++").split()[0]
    if shutil.which(compiler) is None:
        raise Skip("there is no C++ compiler (%s)" % compiler)
    cpp_extension = load("torch.utils.cpp_extension")
    try:
        cpp_extension.verify_ninja_availability()
    except RuntimeError:
        raise Skip("ninja is not installed, and torch builds with it") from None
    devices, cuda = gpus(torch), None
    if devices:
        home = cpp_extension.CUDA_HOME
        if home is None or shutil.which(f"{home}/bin/nvcc") is None:
            told.skipped.append("CUDA: there is no nvcc")
        else:
            cuda = home
    else:
        told.skipped.append("CUDA: no GPU")
    module = build(cpp_extension, cuda=bool(cuda))
    for device in devices if cuda else ["cpu"]:
        numbers = torch.arange(1000, dtype=torch.float32, device=device)
        if device != "cpu":
            torch.cuda.set_device(device)
        got = module.twice(numbers)
        if bool((got.cpu() == 2 * numbers.cpu()).all()):
            told.done.append("%s built and run on %s" % ("CUDA" if cuda else "C++", device))
        else:
            told.fail(device, "what the extension computed is wrong: %s" % got[:4].tolist())


def build(cpp_extension: Any, *, cuda: bool) -> Any:
    if cuda:
        return cpp_extension.load_inline(
            "cuenv_probe", ["torch::Tensor twice(torch::Tensor x);"], cuda_sources=[CUDA], functions=["twice"]
        )
    return cpp_extension.load_inline("cuenv_probe", [SOURCE], functions=["twice"])


if __name__ == "__main__":
    answer(look)
