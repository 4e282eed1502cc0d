"""A lock by itself and against a host, a machine, a prefix against its lock: each finding and its opposite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import ExitCode
from cuenv.core.findings import Finding, report
from cuenv.core.versions import Capability, driver_key, version
from cuenv.host.facts import Driver, FoundToolkit, HostFacts
from cuenv.host.request import pool
from cuenv.knowledge.rows import WHEELS
from cuenv.lockfile.host_check import candidate_of, drift_findings, host_findings
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.lock_comparison import conda_findings
from cuenv.resolver.health import machine_findings
from cuenv.resolver.solution_policy import lock_findings, missing_hash_findings
from cuenv.solve.model import LockedPackage, PipLocked, build_cuda
from given import (
    DRIVERS,
    base,
    candidate,
    capabilities,
    decided,
    drivers,
    machine,
    options,
    package,
    shipped,
    shipped_base,
    solution,
    spec,
)
from thorough import examples

LABEL = "nvidia/label/cuda-11.8.0"
FORGE = (
    package("python", "3.12.13", "h2b335a9_0_cpython"),
    package("pytorch", "2.10.0", "cuda129_mkl_py312_h66e1b8a_302"),
    package("libtorch", "2.10.0", "cuda129_mkl_h1a2b3c4_302"),
    package("cuda-version", "12.9", "h4f385c5_3", subdir="noarch"),
    package("cuda-nvcc", "12.9.86", "hcdd1206_6"),
    package("cuda-cudart", "12.9.79", "h5888daf_0"),
    package("libcublas", "12.9.1.4", "h9ab20c4_0"),
    package("libcudnn", "9.10.2.21", "hf7e9902_0"),
    package("nccl", "2.28.9.1", "h92c7b0a_0"),
    package("numpy", "2.3.1", "py312_0"),
)
PYTORCH = (
    package("python", "3.10.20", "0_cpython"),
    package("pytorch", "2.3.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"),
    package("pytorch-cuda", "11.8", "h7e8668a_6", "pytorch"),
    package("cuda-toolkit", "11.8.0", "0", LABEL, sha256=None),
    package("cuda-nvcc", "11.8.89", "0", LABEL, sha256=None),
    package("cuda-cudart", "11.8.89", "0", LABEL, sha256=None),
    package("libcublas", "11.11.3.6", "0", LABEL, sha256=None),
)
CPU = (package("python", "3.12.13"), package("pytorch", "2.10.0", "cpu_mkl_py312_h1_102"))


def swapped(packages: tuple[LockedPackage, ...], *others: LockedPackage) -> tuple[LockedPackage, ...]:
    """The packages with others in place of those of the same name."""
    by_name = {item.name: item for item in others}
    kept = tuple(by_name.pop(item.name, item) for item in packages)
    return (*kept, *by_name.values())


def without(packages: tuple[LockedPackage, ...], *names: str) -> tuple[LockedPackage, ...]:
    return tuple(item for item in packages if item.name not in names)


def law(*packages: LockedPackage, platform: str = "linux-64") -> list[Finding]:
    """What is found in a lock that was made from a file of cuenv's."""
    return list(lock_findings(packages, platform, base(), ours=True))


def codes(findings: list[Finding], severity: str = "error") -> list[str]:
    return sorted({finding.code for finding in findings if finding.severity == severity})


def on(facts: HostFacts, *packages: LockedPackage, platform: str = "linux-64") -> list[Finding]:
    return list(host_findings(solution(*packages, platform=platform), facts, base()))


def only(findings: Iterable[Finding], code: str) -> Finding:
    (finding,) = [item for item in findings if item.code == code]
    return finding


# a lock by itself


@collect("packages", [FORGE, PYTORCH, CPU, (package("numpy"),), ()])
def test_a_right_lock_has_no_finding(packages: tuple[LockedPackage, ...]) -> None:
    assert law(*packages) == []


@collect(
    "odd",
    [
        package("libcublas", "12.9.1.4", "0", "nvidia"),
        package("cuda-cudart", "12.9.79", "0", "nvidia/label/cuda-12.9.0"),
        package("nccl", "2.28.9.1", "0", "https://conda.corp.example/forge"),
    ],
)
def test_cuda_components_of_two_channels(odd: LockedPackage) -> None:
    findings = law(*swapped(FORGE, odd))
    assert codes(findings) == ["CU101"]
    message = only(findings, "CU101").message
    assert odd.name in message
    assert odd.channel_name in message
    assert "conda-forge" in message


def test_cuda_components_of_the_plain_channel_nvidia() -> None:
    moved = [replace(item, channel="https://conda.anaconda.org/nvidia") for item in PYTORCH if "label" in item.channel]
    assert codes(law(*swapped(PYTORCH, *moved))) == ["CU101"]


def test_a_mirror_of_one_channel_is_one_channel() -> None:
    moved = [replace(item, channel="https://mirror.example/conda-forge") for item in FORGE]
    assert law(*moved) == []


def test_torch_and_the_toolkit_may_come_from_two_channels() -> None:
    assert {item.channel_name for item in PYTORCH} == {"conda-forge", "pytorch", LABEL}
    assert law(*PYTORCH) == []


@collect(
    ("odd", "release"),
    [
        (package("cuda-cudart", "12.8.90"), "12.8"),
        (package("cuda-nvcc", "13.0.88"), "13.0"),
        (package("cuda-nvrtc", "12.6.85"), "12.6"),
    ],
)
def test_components_of_another_release(odd: LockedPackage, release: str) -> None:
    finding = only(law(*swapped(FORGE, odd)), "CU102")
    assert finding.severity == "error"
    assert odd.name in finding.subject
    assert release in finding.message
    assert "12.9" in finding.message


def test_headers_of_a_later_minor_are_an_error_where_a_compiler_is() -> None:
    """Exports of PyTorch's own recipe have such headers, and nothing that compiles with them."""
    packages = swapped(PYTORCH, package("cuda-driver-dev", "11.9.79", "0", LABEL))
    assert only(law(*packages), "CU102").severity == "error"
    assert only(law(*without(packages, "cuda-nvcc", "cuda-toolkit")), "CU102").severity == "warning"


def test_components_of_another_release_without_cuda_version() -> None:
    finding = only(law(*swapped(PYTORCH, package("cuda-nvcc", "12.1.105", "0", LABEL))), "CU102")
    assert "12.1" in finding.message
    assert "11.8" in finding.message


def test_many_components_of_another_release_are_mended_by_one_channel() -> None:
    names = ("cuda-nvcc", "cuda-cccl", "cuda-cuobjdump", "cuda-nvprune")
    finding = only(law(*swapped(PYTORCH, *(package(name, "12.1.105", "0", LABEL) for name in names))), "CU102")
    assert finding.fix == "use the channel nvidia/label/cuda-11.8.0, which has CUDA 11.8 alone, instead of nvidia"
    assert len(finding.edits[0].entries) == len(names)


def test_a_major_that_nobody_has_seen_yet_is_a_release() -> None:
    newer = swapped(FORGE, package("cuda-version", "14.0"), package("cuda-nvcc", "14.1.20"))
    newer = without(newer, "cuda-cudart", "pytorch")
    assert "is from CUDA 14.1, but the rest is from CUDA 14.0" in only(law(*newer), "CU102").message
    most = [package("cuda-nvcc", "14.1.20"), package("cuda-cudart", "14.1.3"), package("cuda-nvrtc", "14.0.1")]
    assert "is from CUDA 14.0, but the rest is from CUDA 14.1" in only(law(*most), "CU102").message


def test_numbers_of_their_own_are_no_release() -> None:
    assert (
        law(*FORGE, package("cuda-pathfinder", "1.3.2"), package("cuda-python", "13.0.1"), package("nccl", "2.1")) == []
    )


@collect(
    "twin",
    [
        package("pytorch", "2.10.0", "cpu_mkl_py312_h66e1b8a_102"),
        package("libtorch", "2.10.0", "cpu_mkl_h1a2b3c4_102"),
        package("deepspeed", "0.18.2", "cpu_py312h0_0"),
        package("torchvision", "0.25.0", "cpu_py312_h0_0"),
        package("torchvision", "0.18.1", "py310_cpu", "pytorch"),
    ],
)
def test_a_cpu_twin_in_a_cuda_lock(twin: LockedPackage) -> None:
    finding = only(law(*swapped(FORGE, twin)), "CU103")
    assert finding.severity == "error"
    assert finding.subject == twin.name
    assert twin.build in finding.message
    assert finding.fix
    assert "cu" in finding.fix


def test_cpu_builds_of_torch_and_of_what_comes_with_it_are_one_finding() -> None:
    of_cpu = (package("libtorch", "2.10.0", "cpu_mkl_h1"), package("pytorch", "2.10.0", "cpu_mkl_py312_h2"))
    finding = only(law(*swapped(FORGE, *of_cpu)), "CU103")
    assert finding.subject == "pytorch"
    assert finding.message.startswith("pytorch 2.10.0 cpu_mkl_py312_h2 and libtorch 2.10.0 cpu_mkl_h1 are CPU builds, ")
    assert finding.fix == "write conda-forge::pytorch=2.10.0=cuda*, conda-forge::libtorch=2.10.0=cuda*"


def test_a_torch_that_is_asked_for_as_a_cpu_build_is_none_that_was_not_requested() -> None:
    of_cpu = (package("libtorch", "2.10.0", "cpu_mkl_h1"), package("pytorch", "2.10.0", "cpu_mkl_py312_h2"))
    for asked, found in (("other", ["pytorch"]), ("pytorch", [])):
        told = lock_findings(swapped(FORGE, *of_cpu), "linux-64", base(), of_cpu=[asked])
        assert [item.subject for item in told if item.code == "CU103"] == found


@collect(
    "fine",
    [
        package("deepspeed", "0.18.2", "cuda129_py312h0_0"),
        package("torchvision", "0.18.1", "py310_cu118", "pytorch"),
        package("libarrow", "21.0.0", "h0_cpu"),
        package("libarrow", "21.0.0", "h0_cuda"),
        package("newlib", "1.0", "cuda_129py312_0"),
        package("newlib", "1.0", "gpuh0_0"),
        package("newlib", "1.0", "nocuda_h0_0"),
    ],
)
def test_a_cuda_build_and_a_twin_that_does_not_matter(fine: LockedPackage) -> None:
    assert law(*swapped(FORGE, fine)) == []


@collect("build", ["cpu_py312h0_0", "py312h0_0_cpu", "cpuh0_0", "py312_cpu"])
def test_a_cpu_build_that_no_row_knows_is_found_by_its_build_string(build: str) -> None:
    finding = only(law(*FORGE, package("newlib", "1.0", build)), "CU103")
    assert (finding.severity, finding.subject) == ("warning", "newlib")
    assert f"newlib 1.0 {build} is a CPU build" in finding.message
    search = "conda search --override-channels -c conda-forge 'newlib="
    assert (finding.fix or "").startswith(f"list its CUDA builds: {search}")


def test_cpu_builds_of_one_channel_are_one_finding() -> None:
    cpu = [package(f"lib{name}", "23.0", "h0_8_cpu") for name in ("acero", "compute", "dataset", "flight")]
    finding, second = law(*FORGE, *cpu, package("other", "1.0", "h0_cpu", "bioconda"))
    assert (second.code, second.subject) == ("CU103", "other")
    assert "4 packages are CPU builds by their build strings (libacero 23.0 h0_8_cpu, " in finding.message
    assert ", ...)" in finding.message


def test_the_main_package_leads_a_finding_on_several_cpu_builds() -> None:
    cpu = [package(name, "2.18.0", "cpu_h0_2") for name in ("libtensorflow_cc", "tensorflow-base", "tensorflow")]
    finding = only(law(*FORGE, *cpu), "CU103")
    assert (finding.severity, finding.subject) == ("error", "tensorflow")
    assert finding.message.startswith("tensorflow 2.18.0 cpu_h0_2, tensorflow-base 2.18.0")


def test_a_package_for_the_cpu_by_its_name_is_found_where_another_has_cuda_builds() -> None:
    finding = only(law(*FORGE, package("faiss-cpu", "1.9", "h0_0"), package("pocl-cpu", "7.0", "h0_0")), "CU103")
    assert (finding.severity, finding.subject, finding.fix) == (
        "warning",
        "faiss-cpu",
        "use faiss instead of faiss-cpu",
    )


@pytest.mark.parametrize(("asked", "severity"), [({"newlib"}, "error"), ((), "warning")])
def test_a_build_without_cuda_beside_a_cuda_build_is_found_by_what_the_channel_offers(
    asked: tuple[str, ...], severity: str
) -> None:
    packages = (*FORGE, package("newlib", "1.0", "h0_0"), package("another", "1.0", "h0_0"))
    found = lock_findings(packages, "linux-64", base(), {"newlib": "cuda129_h0_0"}, asked)
    finding = only(list(found), "CU103")
    assert (finding.severity, finding.subject) == (severity, "newlib")
    assert finding.fix == "write conda-forge::newlib=1.0=cuda*"


def test_a_cpu_lock_has_no_twins() -> None:
    assert law(*CPU, package("torchvision", "0.25.0", "cpu_py312_0")) == []


def test_a_file_without_any_hash_is_one_finding() -> None:
    """As ``conda list --explicit`` writes it."""
    bare = [package(name, md5=None, sha256=None) for name in ("a", "b", "c", "d")]
    (finding,) = missing_hash_findings(bare, explicit=True)
    assert finding.message.startswith("4 of 4 packages have no hash (a ")
    assert "conda list --explicit --sha256" in (finding.fix or "")


def test_a_package_without_hash() -> None:
    bare = package("numpy", "2.3.1", md5=None, sha256=None)
    finding = only(law(*swapped(FORGE, bare)), "CU105")
    assert (finding.severity, finding.subject) == ("error", "numpy")
    assert "cuenv lock --mirror" in (finding.fix or "")
    assert law(*swapped(FORGE, package("numpy", sha256=None))) == []
    assert law(*swapped(FORGE, package("numpy", md5=None))) == []


def test_a_package_for_another_platform() -> None:
    findings = law(*swapped(FORGE, package("numpy", "2.3.1", subdir="linux-aarch64")))
    finding = only(findings, "CU106")
    assert "linux-aarch64" in finding.message
    assert "linux-64" in finding.message
    assert codes(findings) == ["CU106"]
    assert codes(law(package("numpy", subdir="linux-64"), platform="linux-aarch64")) == ["CU106"]


# a lock against a host


def test_what_a_lock_holds_is_what_is_judged() -> None:
    item = candidate_of(solution(*FORGE), base())
    assert item
    assert item.build is candidate("2.10.0", "cuda129*").build
    assert (str(item.cuda), item.python, str(item.cudnn), str(item.nccl)) == ("12.9", "3.12", "9.10.2.21", "2.28.9.1")
    theirs = candidate_of(solution(*PYTORCH), base())
    assert theirs
    assert theirs.build is candidate("2.3.1", "*cuda11.8*").build
    assert (str(theirs.cuda), theirs.python, theirs.cudnn) == ("11.8", "3.10", None)
    cpu = candidate_of(solution(*CPU), base())
    assert cpu
    assert cpu.cuda is None
    assert candidate_of(solution(package("numpy")), base()) is None


@collect(
    ("build", "expected"),
    [
        ("cuda129_mkl_py312_h66e1b8a_302", "12.9"),
        ("cuda118_py310_h1", "11.8"),
        ("cuda130_generic_py314_h1", "13.0"),
        ("py3.10_cuda11.8_cudnn8.7.0_0", "11.8"),
        ("py3.12_cuda12.4_cudnn9.1.0_0", "12.4"),
        ("cuda_129_0", "12.9"),
        ("gpu_cuda118py311h1", "11.8"),
        ("cuda112py39", "11.2"),
        ("cuda129*", "12.9"),
        ("*cuda11.8*", "11.8"),
        ("cuda*", None),
        ("cpu_mkl_py312_0", None),
        ("py310_cu118", None),
        ("", None),
        ("cuda1299", None),
    ],
)
def test_the_cuda_of_a_build_string(build: str, expected: str | None) -> None:
    assert build_cuda(build) == (version(expected) if expected else None)


def test_a_host_that_it_was_made_for_has_no_errors() -> None:
    findings = on(machine("8.9", driver="535.129.03"), *FORGE)
    assert codes(findings) == codes(findings, "warning") == []
    assert codes(findings, "info") == ["CU408"]
    assert on(machine("8.0", driver="520.61.05"), *PYTORCH) == []


@collect(
    ("facts", "code", "numbers"),
    [
        (machine("8.9", driver="520.61.05"), "CU401", ("520.61.05", "525.60.13", "12")),
        (machine("12.0", driver="560.35.03"), "CU402", ("560.35.03", "570", "12.0")),
        (machine("6.1", driver="590.48.01"), "CU402", ("590.48.01", "580", "6.1")),
        (machine("3.7", driver="535.129.03"), "CU403", ("3.7",)),
        (machine("3.7", driver="535.129.03"), "CU404", ("3.7", "12.9")),
        (machine("8.9", driver="535.129.03", libc="2.17"), "CU407", ("2.17", "2.28")),
        (machine(driver="535.129.03"), "CU409", ()),
    ],
)
def test_a_host_that_it_does_not_serve(facts: HostFacts, code: str, numbers: tuple[str, ...]) -> None:
    finding = next(item for item in on(facts, *FORGE) if item.code == code)
    assert finding.severity == "error"
    assert all(number in finding.message for number in numbers)


OLD_FORGE = (
    package("python", "3.12.1", depends=("__glibc >=2.17,<3.0.a0",)),
    package("pytorch", "2.5.1", "cuda126_py312_h1_300", depends=("__glibc >=2.17,<3.0.a0",)),
    package("cuda-version", "12.6", subdir="noarch"),
    package("nccl", "2.23.4.1", depends=("__glibc >=2.17,<3.0.a0",)),
)
CUDNN = package("libcudnn", "9.10.2.21", depends=("__glibc >=2.28,<3.0.a0",))
TRITON = PipLocked(
    name="triton", version="1", url="https://h/triton-1-cp312-cp312-manylinux_2_28_x86_64.whl", sha256="0"
)


def test_what_is_locked_may_need_a_later_c_library_than_the_tables_say() -> None:
    """The torch build admits cuDNN 9.3, which runs on glibc 2.17; what is locked is 9.10."""
    old, new = machine("8.0", driver="560.35.03", libc="2.17"), machine("8.0", driver="560.35.03", libc="2.28")
    assert "CU407" not in codes(on(old, *OLD_FORGE))
    found = only(on(old, *OLD_FORGE, CUDNN), "CU407")
    assert found.severity == "error"
    assert found.message == "libcudnn needs glibc 2.28 or later, but box has glibc 2.17"
    assert "CU407" not in codes(on(new, *OLD_FORGE, CUDNN))
    by_pip = replace(solution(*OLD_FORGE), pip=(TRITON,))
    assert "triton" in only(list(host_findings(by_pip, old, base())), "CU407").message
    too_old = machine("8.0", driver="450.80.02", libc="2.17")  # another error does not hide it
    assert {"CU401", "CU407"} <= set(codes(on(too_old, *OLD_FORGE, CUDNN)))
    both = pool([replace(old, label="a"), replace(new, label="b")])
    assert "but a has glibc 2.17" in only(on(both, *OLD_FORGE, CUDNN), "CU407").message


def test_the_c_library_is_asked_for_once_with_what_all_packages_need() -> None:
    sysroot = package("sysroot_linux-64", "2.34", depends=("__glibc >=2.34,<3.0.a0",))
    facts = machine("8.9", driver="535.129.03", libc="2.17")
    assert "needs glibc 2.28 or later" in only(on(facts, *FORGE), "CU407").message
    found = only(on(facts, *FORGE, sysroot), "CU407")
    assert found.message == "sysroot_linux-64 needs glibc 2.34 or later, but box has glibc 2.17"
    assert found.fix == only(on(facts, *FORGE), "CU407").fix


def test_a_cpu_environment_needs_its_c_library_as_well() -> None:
    numpy = package("numpy", depends=("__glibc >=2.28",))
    assert codes(on(machine(libc="2.17"), *CPU, numpy)) == ["CU407"]
    assert on(machine(libc=None), *CPU, numpy) == on(machine(libc="2.28"), *CPU, numpy) == []


@pytest.mark.parametrize(("capability", "code", "driver"), [("8.9", "CU401", "525.60.13"), ("12.0", "CU402", "570.26")])
def test_a_driver_that_is_too_old_twice_has_one_cure(capability: str, code: str, driver: str) -> None:
    found = on(machine(capability, driver="470.129.06"), *FORGE)
    fixes = {name: only(found, name).fix for name in ("CU401", "CU402")}
    assert fixes.pop(code) == f"install driver {driver} or later"
    assert set(fixes.values()) == {None}


def test_a_locked_cudnn_that_has_dropped_a_gpu() -> None:
    newer = swapped(FORGE, package("libcudnn", "9.13.1.26"))
    finding = only(on(machine("7.0", "9.0", driver="575.57.08"), *newer), "CU405")
    assert finding.severity == "error"
    assert "9.13.1.26" in finding.message
    assert "7.0" in finding.message
    assert finding.fix
    assert "<9.11" in finding.fix
    assert finding.evidence
    kept = on(machine("7.0", "9.0", driver="575.57.08"), *FORGE)
    assert "CU405" not in {item.code for item in kept}


def test_a_bound_on_cudnn_is_proposed_only_where_the_torch_build_admits_it() -> None:
    """pytorch 2.12.1 for CUDA 13.0 asks for cuDNN from 9.23.1.3 on: no bound below 9.11 can be met."""
    newer = swapped(FORGE, package("libcudnn", "9.23.1.3"), package("cuda-version", "13.0", "hd8ed1ab_3"))
    newer = swapped(newer, package("pytorch", "2.12.1", "cuda130_mkl_py312_h1_300"))
    finding = only(on(machine("7.0", driver="580.65.06"), *newer), "CU405")
    assert "9.23.1.3" in finding.message
    assert finding.fix == "cuenv resolve --gpu 7.0 --driver 580.65.06 --glibc 2.35 --prove -o environment.new.yml"
    assert decided(options("7.0", driver="580.65.06")).chosen, "what the fix asks for can be had"


def test_of_several_fixes_the_one_is_told_that_is_enough_alone() -> None:
    newer = swapped(FORGE, package("libcudnn", "9.13.1.26"))
    found = on(machine("6.1", driver="470.129.06"), *newer)
    anew = "cuenv resolve --gpu 6.1 --driver 470.129.06 --glibc 2.35 --prove -o environment.new.yml"
    assert only(found, "CU401").fix == "install driver 525.60.13 or later"
    assert str(only(found, "CU405").fix).endswith(f"<9.11; or, instead of both fixes: {anew}")
    alone = on(machine("6.1", driver="525.60.13"), *newer)  # an information beside one error is no second fix
    assert (only(alone, "CU408").severity, only(alone, "CU408").fix) == ("info", None)
    assert str(only(alone, "CU405").fix).endswith("<9.11")
    by_pip = on(machine("6.1", driver="470.129.06"), package("pytorch", "2.9.1", "cuda129", channel=WHEELS))
    other = "with pip: torch==2.7.1+cu118 from --extra-index-url https://download.pytorch.org/whl/cu118"
    assert {item.fix for item in by_pip if item.severity == "error"} == {other}, "a driver gives torch no code"


def test_a_torch_without_code_for_the_gpu_is_the_one_cause_of_what_comes_with_it() -> None:
    pip = tuple(
        PipLocked(name=name, version=number, url=f"https://h/{name}-{number}-py3-none-any.whl", sha256="0")
        for name, number in (("torch", "2.6.0"), ("triton", "3.2.0"), ("nvidia-cudnn-cu12", "9.1.0.70"))
    )
    solved = replace(solution(package("python", "3.12.1")), pip=pip)
    found = host_findings(solved, machine("12.0", driver="575.57.08"), shipped_base())
    (told,) = [item for item in found if item.severity != "info"]
    assert told.code == "CU403"
    assert any("ptxas" in text for text in told.evidence)
    assert any("cuDNN 9.1.0.70" in text for text in told.evidence)
    pool = host_findings(solved, machine("12.0", "8.9", driver="575.57.08"), shipped_base())
    assert {"CU405", "CU505"} <= {item.code for item in pool}, "of several kinds of GPUs each keeps its own"


@collect("first", [(), (("deepspeed-kernels", "0.0.1.dev1698255861"),), (("torchvision", "0.18.0"),)])
def test_a_gpu_that_flash_attention_does_not_support_has_another_attention(first: tuple[tuple[str, str], ...]) -> None:
    """Whichever library the sentence of the rule begins with."""
    pip = tuple(
        PipLocked(name=name, version=number, url=f"https://h/{name}-{number}-cp312-cp312-linux_x86_64.whl", sha256="0")
        for name, number in (("torch", "2.5.1"), *first, ("flash-attn", "2.7.4.post1"))
    )
    solved = replace(solution(package("python", "3.12.1")), pip=pip)
    told = only(list(host_findings(solved, machine("7.0", driver="535.129.03"), shipped_base())), "CU505")
    assert told.severity == "error"
    assert 'attn_implementation="sdpa"' in (told.fix or "")


def test_of_two_torches_the_one_that_pip_installs_last_is_judged() -> None:
    pip = tuple(
        PipLocked(name=name, version="2.3.1", url=f"https://h/{name}-2.3.1-py3-none-any.whl", sha256="0")
        for name in ("torch", "torchaudio")
    )
    solved = replace(
        solution(package("pytorch", "1.13.1", "cuda112py39hb0b7ed5_200"), package("python", "3.9.1")), pip=pip
    )
    found = host_findings(solved, machine("8.9", driver="535.129.03"), shipped_base())
    assert "CU505" not in {item.code for item in found}, "torchaudio 2.3.1 is made for the torch of pip"


def test_a_lock_of_tensorflow_is_not_told_to_take_a_torch() -> None:
    tensorflow = package("tensorflow-base", "2.11.0", "cuda112py310", depends=("cudatoolkit >=11.2,<12",))
    toolkit, cudnn = package("cudatoolkit", "11.8.0"), package("cudnn", "8.9.7.29")
    solved = solution(tensorflow, toolkit, cudnn, package("tensorflow", "2.11.0"))
    found = host_findings(solved, machine("12.0", driver="570.86.10"), shipped_base())
    assert only(found, "CU405").fix == "use CUDA 12.8 or later, and the release of tensorflow that is made for it"


def test_no_bound_on_cudnn_is_proposed_for_a_torch_from_pip() -> None:
    """Its wheel asks for one cuDNN exactly, and no dependency of conda changes that."""
    torch = package("pytorch", "2.9.1", "cuda128", channel=WHEELS)
    found = on(machine("7.0", driver="575.57.08"), torch, package("libcudnn", "9.13.1.26", channel=WHEELS))
    index = "https://download.pytorch.org/whl/cu129"
    assert only(found, "CU405").fix == f"with pip: torch==2.9.1+cu129 from --extra-index-url {index}"


def test_the_cudnn_of_either_name_is_judged() -> None:
    older = swapped(without(FORGE, "libcudnn"), package("cudnn", "9.12.0.46"))
    assert only(on(machine("7.0", driver="575.57.08"), *older), "CU405").severity == "error"


def test_nccl_that_has_dropped_a_gpu_is_an_error_only_beside_another_gpu() -> None:
    finding = only(on(machine("5.2", driver="575.57.08"), *FORGE), "CU406")
    assert (finding.severity, finding.fix) == ("warning", None)
    several = only(on(machine("5.2", "5.2", driver="575.57.08"), *FORGE), "CU406")
    assert (several.severity, (several.fix or "")[:27]) == ("error", "cuenv resolve --gpu 5.2 --d")


def test_jit_with_the_consent_of_the_driver_is_a_warning_and_without_it_an_error() -> None:
    jit = (
        package("python", "3.12.1"),
        package("pytorch", "2.7.1", "cuda126_mkl_py312_h0_300"),
        package("cuda-version", "12.6", subdir="noarch"),
        package("libcudnn", "9.10.2.21"),
    )
    warned = only(on(machine("10.0", driver="575.57.08"), *jit), "CU403")
    assert warned.severity == "warning"
    refused = only(on(machine("10.0", level="12.4"), *jit), "CU403")
    assert refused.severity == "error"
    assert "12.6" in refused.message
    assert refused.fix
    assert "560.28.03" in refused.fix


def test_nvcc_is_judged_only_where_it_is_locked() -> None:
    card = machine("3.7", driver="535.129.03")
    assert "CU404" in {item.code for item in on(card, *FORGE)}
    assert "CU404" not in {item.code for item in on(card, *without(FORGE, "cuda-nvcc"))}


def test_a_pool_is_judged_machine_by_machine() -> None:
    old = machine("7.0", driver="535.183.01", label="volta")
    new = machine("12.0", driver="575.57.08", label="blackwell")
    assert codes(on(pool([old, new]), *FORGE)) == []
    crossed = pool([replace(old, driver=new.driver), replace(new, driver=old.driver)])
    finding = only(on(crossed, *FORGE), "CU402")
    assert "blackwell" in finding.message
    assert "volta" not in finding.message


@collect("packages", [FORGE, PYTORCH, CPU, (package("numpy"),)])
def test_another_platform_is_an_error_whatever_is_locked(packages: tuple[LockedPackage, ...]) -> None:
    finding = only(on(machine("9.0", driver="575.57.08", platform="linux-aarch64"), *packages), "CU106")
    assert finding.severity == "error"
    assert "linux-64" in finding.message
    assert "linux-aarch64" in finding.message


def test_a_cpu_lock_asks_nothing_of_a_host() -> None:
    assert on(machine(), *CPU) == []
    assert on(machine("3.7", driver="450.80.02"), *CPU) == []


def test_cuda_without_torch_is_judged_by_its_driver() -> None:
    bare = without(FORGE, "pytorch", "libtorch", "libcudnn", "nccl")
    assert codes(on(machine("8.9", driver="520.61.05"), *bare)) == ["CU401"]
    fine = on(machine("7.0", driver="575.57.08"), *bare)
    assert codes(fine) == codes(fine, "info") == []
    newer = swapped(bare, package("libcudnn", "9.13.1.26"))
    assert codes(on(machine("7.0", driver="575.57.08"), *newer)) == ["CU405"]


def test_a_build_for_cuda_without_any_part_of_cuda_is_judged_by_its_build_string() -> None:
    tensorflow = package("tensorflow", "2.17.0", "cuda120py312hc39edbb_201")
    assert "CU401" in codes(on(machine("8.9", driver="470.82.01"), tensorflow))
    unknown = only(on(machine("8.9", driver="535.129.03"), tensorflow), "CU403")
    assert unknown.unknown


def test_a_torch_that_the_tables_do_not_know_is_said_and_not_judged() -> None:
    newer = swapped(FORGE, package("pytorch", "2.99.0", "cuda129_py312_0"))
    findings = on(machine("7.0", driver="575.57.08"), *newer)
    assert only(findings, "CU111").severity == "warning"
    assert "2.99.0" in only(findings, "CU111").message
    assert only(findings, "CU111").unknown
    assert "CU403" not in {item.code for item in findings}, "one cause is told once"
    assert codes(findings) == []
    company = swapped(FORGE, package("pytorch", "2.10.0", "cuda129_py312_0", "https://corp.example/ml"))
    assert "CU111" in {item.code for item in on(machine("8.9", driver="575.57.08"), *company)}


@collect("number", ["2.10.0.post1", "2.10.0_1", "2.10.0a0+git", "1e3", "nightly", "9" * 5000])
def test_a_version_that_is_none_to_python_is_no_accident(number: str) -> None:
    for name in ("pytorch", "cuda-version", "libcudnn", "nccl", "python"):
        odd = swapped(FORGE, package(name, number, next(item.build for item in FORGE if item.name == name)))
        findings = [*on(machine("8.9", driver="535.129.03"), *odd), *law(*odd)]
        assert all(finding.message for finding in findings)


def test_an_unknown_driver_or_gpu_is_no_error() -> None:
    findings = on(machine("8.9"), *FORGE)
    assert codes(findings) == []
    assert {"CU401", "CU402"} <= set(codes(findings, "info"))


@examples(40)
@given(st.lists(capabilities, min_size=1, max_size=3), drivers)
def test_a_lock_is_judged_as_the_candidate_it_is(gpus: list[Capability], driver: str) -> None:
    """What decides also checks: no error where the decision would take the very same packages."""
    facts = machine(*map(str, gpus), driver=driver)
    item = candidate("2.10.0", "cuda129*")
    fits = any(fit.candidate.build is item.build and fit.candidate.cuda == item.cuda for fit in decided(facts).fitting)
    errors = codes(on(facts, *FORGE))
    if fits:
        assert set(errors) <= {"CU405"}
    else:
        assert errors


@examples(40)
@given(st.lists(capabilities, min_size=1, max_size=2), drivers, drivers)
def test_a_newer_driver_adds_no_error_but_by_the_last_branch(gpus: list[Capability], one: str, other: str) -> None:
    older, newer = sorted((one, other), key=driver_key)
    before, after = (codes(on(machine(*map(str, gpus), driver=driver), *FORGE)) for driver in (older, newer))
    assert set(after) - set(before) <= {"CU402"}


@examples(40)
@given(st.lists(capabilities, min_size=1, max_size=2), capabilities, st.sampled_from(DRIVERS))
def test_another_gpu_takes_no_error_away(gpus: list[Capability], more: Capability, driver: str) -> None:
    texts = [str(gpu) for gpu in gpus]
    before, after = (codes(on(machine(*found, driver=driver), *FORGE)) for found in (texts, [*texts, str(more)]))
    assert set(before) <= set(after)


# a machine by itself


def odd(facts: HostFacts) -> list[Finding]:
    return list(machine_findings(facts, candidate("2.10.0", "cuda129*"), base()))


def test_cards_that_exclude_each_other_in_one_box() -> None:
    (finding,) = odd(shipped("v100-rtx5090-575"))
    assert (finding.code, finding.severity) == ("CU410", "warning")
    assert "7.0" in finding.message
    assert "12.0" in finding.message
    assert odd(machine("8.6", "12.0", driver="575.57.08")) == []
    assert odd(pool([machine("7.0", label="a"), machine("12.0", label="b")])) == []


def test_they_exclude_each_other_only_in_a_real_box() -> None:
    assert odd(replace(machine("7.0", "12.0"), detected=False)) == []


def test_a_library_and_a_module_that_differ() -> None:
    driver = Driver(version="575.57.08", cuda=version("12.9"), kernel_module="570.124.06")
    (finding,) = odd(replace(machine("8.9"), driver=driver))
    assert (finding.code, finding.severity) == ("CU411", "warning")
    assert "575.57.08" in finding.message
    assert "570.124.06" in finding.message
    assert odd(replace(machine("8.9"), driver=replace(driver, kernel_module="575.57.08"))) == []
    assert odd(replace(machine("8.9"), driver=replace(driver, kernel_module=None))) == []


def toolkit(release: str | None, *, on_path: bool = True) -> HostFacts:
    found = FoundToolkit(path="/usr/local/cuda", release=release, on_path=on_path, via="PATH")
    return replace(machine("8.9", driver="535.129.03"), toolkits=(found,))


@collect("release", ["10.1", "11.8.0", "13.0"])
def test_an_nvcc_of_another_major_on_path(release: str) -> None:
    (finding,) = odd(toolkit(release))
    assert (finding.code, finding.severity) == ("CU412", "warning")
    assert release in finding.message
    assert "12.9" in finding.message


@collect("facts", [toolkit("12.1"), toolkit("12"), toolkit("10.1", on_path=False), toolkit(None)])
def test_an_nvcc_that_does_no_harm(facts: HostFacts) -> None:
    assert odd(facts) == []


@collect("release", ["unknown", "12.x", "", "V10.1.243", "\x1b[31m"])
def test_a_release_that_is_none_is_no_accident(release: str) -> None:
    assert len(odd(toolkit(release))) <= 1


def test_without_a_choice_or_for_cpu_nvcc_does_not_matter() -> None:
    assert machine_findings(toolkit("10.1"), None, base()) == ()
    assert machine_findings(toolkit("10.1"), candidate("2.10.0", "cpu*"), base()) == ()


# drift


def test_what_the_tables_say_is_no_drift() -> None:
    assert drift_findings(spec("pytorch=2.10.0=cuda129*", "python=3.12"), solution(*FORGE), base()) == ()


def test_a_channel_that_has_what_the_tables_do_not_is_drift() -> None:
    wanted = spec("pytorch", "python")
    python = swapped(FORGE, package("python", "3.9.1"))
    (finding,) = drift_findings(wanted, solution(*python), base())
    assert (finding.code, finding.severity) == ("CU109", "warning")
    assert "3.9" in finding.message
    newer = swapped(FORGE, package("pytorch", "2.99.0", "cuda129_py312_0"))
    (finding,) = drift_findings(wanted, solution(*newer), base())
    assert (finding.code, finding.severity) == ("CU111", "warning")


# a prefix against its lock


def holding(*conda: LockedPackage) -> Prefix:
    return Prefix(path="/env", kind="conda", python=None, site_packages=(), conda=conda)


def test_what_conda_adds_to_a_python_by_itself_is_told_and_no_error() -> None:
    """conda's solvers add pip to a Python, and with it what it builds with."""
    locked = solution(package("python", "3.12.1"))
    added = [package(name, "1.0") for name in ("pip", "packaging", "setuptools", "wheel")]
    found = conda_findings(holding(package("python", "3.12.1"), *added, package("scipy", "1.0")), locked)
    assert {item.subject: item.severity for item in found} == {
        **dict.fromkeys(("pip", "packaging", "setuptools", "wheel"), "info"),
        "scipy": "error",
    }
    without_pip = conda_findings(holding(package("python", "3.12.1"), added[-1]), locked)
    assert [item.severity for item in without_pip] == ["error"]  # nobody adds wheel alone


def test_a_prefix_as_it_was_locked() -> None:
    locked = solution(*FORGE)
    assert conda_findings(holding(*FORGE), locked) == ()
    assert conda_findings(holding(*reversed(FORGE)), locked) == ()


@collect(
    ("installed", "code", "subject"),
    [
        (without(FORGE, "numpy"), "CU201", "numpy"),
        (swapped(FORGE, package("numpy", "2.3.2", "py312_0")), "CU202", "numpy"),
        (swapped(FORGE, package("numpy", "2.3.1", "py312_1")), "CU202", "numpy"),
        ((*FORGE, package("scipy")), "CU203", "scipy"),
    ],
)
def test_a_prefix_that_differs(installed: tuple[LockedPackage, ...], code: str, subject: str) -> None:
    (finding,) = conda_findings(holding(*installed), solution(*FORGE))
    assert (finding.code, finding.severity, finding.subject) == (code, "error", subject)


# reports


def test_a_report_puts_the_gravest_first_and_equal_ones_once() -> None:
    findings = [*on(machine("12.0", driver="520.61.05"), *FORGE), *law(*swapped(FORGE, package("cuda-nvcc", "12.8.1")))]
    made = report("lock", [*findings, *findings], ["10 packages"])
    ranks = [("error", "warning", "info").index(finding.severity) for finding in made.findings]
    assert ranks == sorted(ranks)
    assert len(made.findings) == len(set(made.findings))
    assert made.exit == ExitCode.NEGATIVE
    assert report("lock", []).exit == ExitCode.OK
    assert report("lock", on(machine("8.9", driver="535.129.03"), *FORGE)).exit == ExitCode.OK
    assert report("x", reversed(findings)) == report("x", findings)
