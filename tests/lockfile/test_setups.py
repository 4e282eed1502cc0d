"""What the build of a package against torch needs: the compiler, and the code that it is to compile."""

from __future__ import annotations

import pytest

from cuenv.core.record import replace
from cuenv.lockfile.setups import build_findings
from cuenv.solve.model import PipLocked, SetAside, Solution
from given import machine, package, shipped_base, solution


def built(cuda: str, *conda: str) -> Solution:
    name = f"torch-1.11.0+cu{cuda.replace('.', '')}"
    torch = PipLocked(
        name="torch", version=name.removeprefix("torch-"), url=f"https://x.example/{name}-cp39.whl", sha256="ab" * 32
    )
    made = solution(*(package(item, "3.9") for item in conda))
    return replace(made, pip=(torch,), aside=(SetAside(text="torch-scatter", why="it imports torch", build=True),))


@pytest.mark.parametrize(
    ("gpus", "archs", "more"),
    [
        (("8.6",), "8.6", ""),
        (("8.9",), "8.6", "; code for 8.6 runs on compute capability 8.9"),
        (("7.0", "8.9"), "7.0;8.6", "; code for 8.6 runs on compute capability 8.9"),
        (("12.0",), "", "; nvcc 11.5 cannot compile for compute capability 12.0"),
    ],
)
def test_a_build_is_for_the_nearest_code_that_its_nvcc_can_compile(
    gpus: tuple[str, ...], archs: str, more: str
) -> None:
    """PyTorch stops with an error where the arch list names what nvcc does not know."""
    (found,) = build_findings(built("11.5", "python"), machine(*gpus, driver="570.124.06"), shipped_base())
    said = f"TORCH_CUDA_ARCH_LIST={archs}; " if archs else "GCC 6 to 11; "
    assert said in found.message
    assert found.message.endswith(f"the environment has no nvcc{more}")


def test_what_is_not_of_conda_is_told_of_no_conda_entries() -> None:
    facts = machine("8.6", driver="570.124.06")
    (found,) = build_findings(built("11.5", "python"), facts, shipped_base())
    assert "cuda-nvcc" in str(found.fix)
    for of_list, conda in ((True, ("python",)), (False, ())):
        (found,) = build_findings(built("11.5", *conda), facts, shipped_base(), of_list=of_list)
        assert (found.edits, found.fix) == ((), "have that nvcc and GCC on the machine on which pip installs it")
