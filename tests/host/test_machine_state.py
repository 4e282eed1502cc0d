"""The state of a machine: each finding, its opposite, its evidence with a source, and its fix."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.findings import Finding
from cuenv.core.versions import Capability, version
from cuenv.host.facts import (
    CudaLibrary,
    Driver,
    Evidence,
    Gap,
    Gpu,
    HostFacts,
    Mig,
    MigInstance,
    Resources,
    Surroundings,
    Switch,
)
from cuenv.host.request import Request, pool
from cuenv.knowledge.gpu_names import find_gpu
from cuenv.resolver.decision import decide
from cuenv.resolver.effective_driver import with_effective_driver, with_forward_compat
from cuenv.resolver.health import machine_findings
from cuenv.resolver.rules import Context
from given import base, candidate, machine

ON, OFF = Switch(on=True, pending=True), Switch(on=False, pending=False)
A100 = Gpu(index=0, name="NVIDIA A100-SXM4-80GB", capability=Capability(8, 0), memory_mib=81920)
RTX = Gpu(index=0, name="NVIDIA GeForce RTX 4090", capability=Capability(8, 9), memory_mib=24564)
A6000 = Gpu(index=0, name="NVIDIA RTX A6000", capability=Capability(8, 6))
COMPAT = "/usr/local/cuda-12.8/compat/libcuda.so.1"
NODES = ("nvidia-uvm", "nvidia0", "nvidiactl")


def host(*gpus: Gpu, around: Surroundings | None = None, driver: str | None = "535.129.03", **more: Any) -> HostFacts:
    known = Driver(version=driver, cuda=version("12.2"), kernel_module="535.129.03") if driver else None
    numbered = tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))
    facts = HostFacts(label="box", platform="linux-64", detected=True, driver=known, gpus=numbered)
    return replace(facts, environment=around or Surroundings(), **more)


def found(facts: HostFacts, request: Request | None = None) -> list[Finding]:
    return list(machine_findings(facts, candidate("2.10.0", "cuda129*"), base(), request))


def one(facts: HostFacts, request: Request | None = None) -> Finding:
    (finding,) = found(facts, request)
    assert finding.evidence
    assert finding.fix or finding.severity == "info"
    return finding


def sourced(finding: Finding, title: str) -> bool:
    return any(f"{title}" in item and item.endswith("]") for item in finding.evidence)


def forward(release: str | None, via: str = "LD_LIBRARY_PATH", path: str = COMPAT) -> Surroundings:
    library = CudaLibrary(path=path, version=release, via=via, forward=True)
    return Surroundings(libcuda=library, conda_prefix="/opt/env x" if via == "CONDA_PREFIX" else None)


def test_a_healthy_machine_has_no_finding() -> None:
    own = CudaLibrary(path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version="535.129.03", via="loader")
    gpu = replace(A100, ecc=ON, mig=Mig(mode=OFF))
    assert found(host(gpu, gpu, around=Surroundings(libcuda=own, device_nodes=NODES))) == []
    assert found(host(A100)) == []


def test_nothing_is_said_of_a_machine_that_is_no_real_one() -> None:
    facts = host(replace(A100, ecc=OFF), around=forward("470.57.02"))
    assert found(facts)
    assert found(replace(facts, detected=False)) == []


def test_each_machine_of_a_pool_is_looked_at() -> None:
    bad = replace(host(replace(A100, ecc=OFF)), label="b")
    assert [item.subject for item in found(pool([host(A100), bad]))] == ["b"]


# library, module, forward compatibility


def test_nvml_that_refuses_is_an_error_with_a_reboot() -> None:
    gap = Gap("driver", "nvml:nvmlInit", "RM has detected an NVML/RM version mismatch (NVML error 18): the library ...")
    facts = host(A100, gaps=(gap,), driver="550.54.14")
    finding = one(facts)
    assert (finding.code, finding.severity, finding.fix) == ("CU411", "error", "sudo reboot")
    assert "550.54.14" in finding.message
    assert "535.129.03" in finding.message
    assert sourced(finding, "error codes of NVML")
    inside = one(replace(facts, environment=Surroundings(container="docker")))
    assert "container" in (inside.fix or "")
    assert one(replace(facts, driver=None)).code == "CU411"


def test_a_libcuda_of_another_driver_in_an_image() -> None:
    library = CudaLibrary(path="/usr/lib/libcuda.so.1", version="525.105.17", via="loader")
    finding = one(host(A100, around=Surroundings(libcuda=library)))
    assert (finding.code, finding.severity) == ("CU411", "warning")
    assert "525.105.17 (/usr/lib/libcuda.so.1)" in finding.message
    assert found(host(A100, around=Surroundings(libcuda=replace(library, version=None)))) == []


def test_forward_compatibility_on_geforce_is_an_error() -> None:
    finding = one(host(A100, RTX, around=forward("570.26")))
    assert (finding.code, finding.severity) == ("CU414", "error")
    assert "does not support NVIDIA GeForce RTX 4090" in finding.message
    assert "570.26" in finding.message
    assert any("error 804" in item and "Forward Compatibility]" in item for item in finding.evidence)


def test_forward_compatibility_on_other_cards() -> None:
    works = one(host(A100, around=forward("570.26")))
    assert (works.code, works.severity, works.fix) == ("CU414", "info", None)
    assert one(host(A6000, around=forward("570.26"))).severity == "warning"
    assert one(host(replace(A100, name="a card of tomorrow"), around=forward("570.26"))).severity == "warning"


@pytest.mark.parametrize("release", ["535.129.03", "525.60.13"])
def test_a_forward_library_that_is_not_newer_is_an_error(release: str) -> None:
    finding = one(host(A100, around=forward(release)))
    assert (finding.code, finding.severity) == ("CU414", "error")
    assert "not newer than the driver 535.129.03" in finding.message
    assert any("error 803" in item for item in finding.evidence)


def test_the_command_takes_one_entry_out_of_the_path() -> None:
    fix = one(host(RTX, around=forward("570.26"))).fix or ""
    before = "/opt/lib:/usr/local/cuda-12.8/compat:/usr/local/cuda-12.8/compat/:/usr/local/cuda-12.8/compat2:/last"
    done = subprocess.run(
        ["/bin/sh", "-c", f'{fix}; printf %s "$LD_LIBRARY_PATH"'],
        env={"LD_LIBRARY_PATH": before, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "/opt/lib:/usr/local/cuda-12.8/compat2:/last"


@pytest.mark.parametrize(
    ("via", "words"),
    [("CONDA_PREFIX", ["conda", "remove", "-p", "/opt/env x", "cuda-compat"]), ("loader", ["ldconfig"])],
)
def test_the_command_fits_the_way_it_came(via: str, words: list[str]) -> None:
    split = shlex.split(one(host(RTX, around=forward("570.26", via))).fix or "")
    assert set(words) <= set(split)


def test_the_command_names_the_folder_that_the_loader_reads(tmp_path: Path) -> None:
    fix = one(host(RTX, around=forward("570.26", "loader"))).fix or ""
    (tmp_path / "cuda-compat.conf").write_text("/usr/local/cuda-12.8/compat\n")
    (tmp_path / "other.conf").write_text("/usr/lib/compat-glibc\n")
    command = fix.replace("/etc/ld.so.conf.d", str(tmp_path)).replace("sudo ldconfig", "true").replace("sudo ", "")
    for _ in range(2):  # it is no fault when nothing is left to remove
        subprocess.run(["/bin/sh", "-c", command], check=True)
    assert [item.name for item in tmp_path.iterdir()] == ["other.conf"]


def test_programs_get_the_newer_driver_where_it_works() -> None:
    facts = with_forward_compat(host(A100, around=forward("570.26")), base())
    assert facts.driver
    assert (facts.driver.version, str(facts.driver.cuda)) == ("570.26", "12.8")
    told = facts.evidence_for("driver.cuda")
    assert told
    assert COMPAT in told.text
    for other in (
        host(RTX, around=forward("570.26")),
        host(A100, around=forward("525.60.13")),
        host(A100, around=forward(None)),
        host(around=forward("570.26")),
        host(A100, around=Surroundings(libcuda=CudaLibrary(path="x", version="570.26", via="loader"))),
    ):
        assert with_forward_compat(other, base()) is other


@collect(
    ("name", "own", "compat", "severity", "says"),
    [
        ("NVIDIA A100-SXM4-80GB", "470.129.06", "580.65.06", "info", "works here"),
        ("Tesla V100-SXM2-16GB", "535.129.03", "590.44.01", "error", "590.44.01 does not support Tesla V100"),
        ("NVIDIA B200", "535.129.03", "580.65.06", "error", "the kernel driver 535.129.03 does not support"),
        ("NVIDIA A100-SXM4-80GB", "545.23.08", "580.65.06", "warning", "it is unknown whether"),
        ("NVIDIA A100-SXM4-80GB", "530.30.02", "580.65.06", "warning", "branch 530"),
    ],
)
def test_forward_compatibility_works_from_a_base_driver_that_drives_the_gpu(
    name: str, own: str, compat: str, severity: str, says: str
) -> None:
    model = find_gpu(name, base().gpus)
    assert model
    gpu = replace(A100, name=name, capability=model.capability)
    facts = host(gpu, around=forward(compat), driver=own)
    facts = replace(facts, driver=Driver(version=own, cuda=base().cuda_of(own)))
    finding = one(facts)
    assert (finding.code, finding.severity) == ("CU414", severity)
    assert says in finding.message
    got = with_effective_driver(facts, base()).driver
    assert got
    assert got.version == (compat if severity == "info" else own)
    # deciding and checking ask for the same driver
    decided_for = decide(Context(facts=facts, request=Request(dev=False), knowledge=base())).context.facts.driver
    assert decided_for == got


@collect(
    ("gpu", "driver", "level", "fits"),
    [
        ("6.1", "581.57", "13.0", True),
        ("7.0", "582.28", "13.0", True),
        ("8.9", "537.13", "12.2", True),
        ("6.1", "591.44", "13.1", False),
        ("12.0", "566.36", "12.7", False),
    ],
)
def test_under_wsl_the_cuda_level_tells_the_branch(gpu: str, driver: str, level: str, fits: bool) -> None:
    """There nvidia-smi and NVML print the number of the driver of Windows."""
    card = replace(RTX, name="", capability=Capability.parse(gpu))
    facts = host(card, around=Surroundings(wsl=True))
    facts = replace(facts, driver=Driver(version=driver, cuda=version(level)))
    decision = decide(Context(facts=facts, request=Request(), knowledge=base()))
    assert bool(decision.chosen) is fits
    judged = decision.context.facts
    assert judged.driver
    assert judged.driver.cuda == version(level)
    told = judged.evidence_for("driver.version")
    assert told
    assert f"Windows has {driver}" in told.text
    assert with_effective_driver(judged, base()) == judged
    both = with_effective_driver(pool([facts, replace(facts, label="two")]), base())
    assert [item.driver for item in both.members] == [judged.driver] * 2
    mixed = with_effective_driver(pool([facts, replace(facts, label="linux", environment=Surroundings())]), base())
    assert [item.driver for item in mixed.members] == [judged.driver, facts.driver]


def test_under_wsl_no_kernel_modules_exclude_each_other() -> None:
    old, new = (replace(RTX, name="", capability=Capability.parse(text)) for text in ("6.1", "12.0"))
    both = host(old, new)
    assert "CU410" in {item.code for item in found(both)}
    assert "CU410" not in {item.code for item in found(replace(both, environment=Surroundings(wsl=True)))}


# containers


@collect(
    ("kind", "word"), [("docker", "docker run --gpus all"), ("kubernetes", "nvidia.com/gpu"), ("singularity", "--nv")]
)
def test_a_container_without_a_gpu(kind: str, word: str) -> None:
    finding = one(host(around=Surroundings(container=kind, device_nodes=("nvidiactl",))))
    assert (finding.code, finding.severity) == ("CU417", "error")
    assert word in (finding.fix or "")
    assert sourced(finding, "Driver Capabilities")


def test_a_container_without_compute_and_without_utility() -> None:
    around = Surroundings(container="docker", device_nodes=NODES, driver_capabilities="graphics")
    gap = Gap("driver", "nvml:nvmlInit", "NVML Shared Library Not Found (NVML error 12): the driver's library ...")
    compute, utility = found(host(A100, around=around, gaps=(gap,)))
    assert (compute.code, compute.severity, utility.code, utility.severity) == ("CU417", "error", "CU417", "warning")
    assert "libcuda.so.1" in compute.message
    assert "libnvidia-ml.so.1" in utility.message
    assert any("NVIDIA_DRIVER_CAPABILITIES is 'graphics'" in item for item in compute.evidence)
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in (compute.fix or "")
    hidden = found(host(around=around, gaps=(gap,), driver=None))
    assert [item.severity for item in hidden] == ["error", "warning"]
    assert found(host(around=replace(around, device_nodes=("nvidia0",)), driver=None)) == []


def test_a_container_that_has_all_or_of_which_nothing_is_known() -> None:
    library = CudaLibrary(path="/usr/lib/libcuda.so.1", version="535.129.03", via="loader")
    around = Surroundings(container="docker", device_nodes=NODES, libcuda=library)
    assert found(host(A100, around=around)) == []
    assert found(host(A100, around=replace(around, libcuda=None, device_nodes=None))) == []
    assert found(host(A100, around=replace(around, libcuda=None, wsl=True))) == []
    assert found(host(A100, around=replace(around, container=None, libcuda=None))) == []
    reached = Evidence("gpus", "nvml:nvmlDeviceGetCount", "1")
    assert found(host(A100, around=replace(around, device_nodes=()), evidence=(reached,))) == []


# ECC and MIG


def test_ecc_off_on_data_center_cards() -> None:
    off = replace(A100, ecc=OFF)
    evidence = (Evidence("gpus[1].ecc", "nvml:nvmlDeviceGetEccMode", "off"),)
    finding = one(host(replace(A100, ecc=ON), off, off, evidence=evidence))
    assert (finding.code, finding.severity) == ("CU415", "warning")
    assert "GPU 1, 2" in finding.message
    assert (finding.fix or "").startswith("sudo nvidia-smi -i 1,2 -e 1 && sudo reboot")
    assert (finding.fix or "").endswith(" # by an administrator")
    assert "gpus[1].ecc: off (nvml:nvmlDeviceGetEccMode)" in finding.evidence
    assert sourced(finding, "nvmlDeviceSetEccMode")
    waits = one(host(replace(A100, ecc=Switch(on=False, pending=True))))
    assert (waits.fix or "").startswith("sudo reboot")
    assert found(host(replace(RTX, ecc=OFF), replace(A6000, ecc=OFF))) == []


def test_mig_without_an_instance() -> None:
    empty = replace(A100, mig=Mig(mode=ON))
    alone = one(host(empty))
    assert (alone.code, alone.severity) == ("CU416", "error")
    assert sourced(alone, "Creating GPU Instances")
    assert "-lgip" in (alone.fix or "")
    beside = one(host(empty, A100))
    assert beside.severity == "warning"
    assert "GPU 0 (NVIDIA A100-SXM4-80GB)" in beside.message


def test_mig_instances_hide_each_other_and_the_gpus_beside_them() -> None:
    small, large = MigInstance(profile="1g.10gb"), MigInstance(profile="3g.40gb")
    split = replace(A100, mig=Mig(mode=ON, instances=(small, large)))
    several = one(host(split))
    assert (several.code, several.severity) == ("CU416", "info")
    assert "one of 2 instances" in several.message
    hidden = one(host(split, A100))
    assert hidden.severity == "warning"
    assert "GPU 1 (NVIDIA A100-SXM4-80GB) is hidden" in hidden.message
    assert sourced(hidden, "Device Enumeration")
    assert found(host(replace(A100, mig=Mig(mode=ON, instances=(small,))))) == []


@pytest.mark.parametrize("mode", [Switch(on=False, pending=True), Switch(on=True, pending=False)])
def test_a_mig_mode_that_waits_for_a_reset(mode: Switch) -> None:
    instances = (MigInstance(profile="7g.80gb"),) if mode.on else ()
    finding = one(host(replace(A100, mig=Mig(mode=mode, instances=instances))))
    assert (finding.code, finding.severity) == ("CU416", "warning")
    assert "administrator" in (finding.fix or "")


# memory, disk, shared memory


def test_memory_and_disk_that_a_profile_asks_for() -> None:
    request = Request(name="big", host_memory_gb=512, disk_gb=200)
    source = Evidence("resources.memory_mib", "/proc/meminfo", "257653 MiB")
    facts = host(A100, resources=Resources(memory_mib=257653, disk_mib=100_000), evidence=(source,))
    disk, memory = sorted(found(facts, request), key=lambda item: item.subject)
    assert {disk.code, memory.code, disk.severity, memory.severity} == {"CU418", "warning"}
    assert "270 GB of memory" in memory.message
    assert "requires 512 GB" in memory.message
    assert memory.evidence == (
        "resources.memory_mib: 257653 MiB (/proc/meminfo)",
        "profile big: host_memory_gb: 512",
    )
    assert "104 GB of free disk" in disk.message
    assert found(facts) == []
    assert found(host(A100), request) == []


def test_a_machine_sold_with_512_gb_has_512_gb() -> None:
    request = Request(name="big", host_memory_gb=512)
    assert found(host(A100, resources=Resources(memory_mib=515_900)), request) == []


def test_the_bound_of_a_container_is_raised_there() -> None:
    evidence = (Evidence("resources.memory_mib", "/sys/fs/cgroup/memory.max", "8192 MiB"),)
    facts = host(A100, resources=Resources(memory_mib=8192), evidence=evidence)
    assert "--memory=64g" in (one(facts, Request(host_memory_gb=64)).fix or "")


def test_a_container_with_the_default_shared_memory() -> None:
    facts = host(resources=Resources(shm_mib=64), around=Surroundings(container="docker"), driver=None)
    finding = one(facts)
    assert (finding.code, finding.severity) == ("CU419", "warning")
    assert "--shm-size" in (finding.fix or "")
    assert sourced(finding, "PyTorch README")
    assert "emptyDir" in (one(replace(facts, environment=Surroundings(container="kubernetes"))).fix or "")
    assert machine_findings(facts, None, base()) == ()
    assert found(replace(facts, resources=Resources(shm_mib=65))) == []
    assert found(replace(facts, environment=Surroundings())) == []


# anything


SWITCH = st.builds(Switch, on=st.booleans(), pending=st.booleans())
MIG = st.builds(
    Mig,
    mode=SWITCH,
    instances=st.lists(st.builds(MigInstance, profile=st.text(max_size=5)), max_size=3).map(tuple),
)
GPU = st.builds(
    Gpu,
    index=st.just(0),
    name=st.sampled_from([A100.name, RTX.name, A6000.name, "", "x"]),
    capability=st.sampled_from([Capability(8, 0), None]),
    mig=MIG | st.none(),
    ecc=SWITCH | st.none(),
)
LIBRARY = st.builds(
    CudaLibrary,
    path=st.sampled_from([COMPAT, "/usr/lib/libcuda.so.1", "libcuda.so.1"]),
    version=st.sampled_from(["470.57.02", "535.129.03", "570.26", None]),
    via=st.sampled_from(["LD_LIBRARY_PATH", "CONDA_PREFIX", "loader", ""]),
    forward=st.booleans(),
)
AROUND = st.builds(
    Surroundings,
    container=st.sampled_from(["docker", "kubernetes", "something", None]),
    wsl=st.booleans(),
    driver_capabilities=st.sampled_from(["", "all", None]),
    device_nodes=st.sampled_from([(), NODES, ("dxg",), None]),
    libcuda=LIBRARY | st.none(),
)


@given(
    gpus=st.lists(GPU, max_size=3),
    around=AROUND,
    driver=st.sampled_from(["535.129.03", "550", None]),
    mib=st.integers(0, 10**6) | st.none(),
)
def test_whatever_the_state_every_finding_has_evidence_and_a_fix(
    gpus: list[Gpu], around: Surroundings, driver: str | None, mib: int | None
) -> None:
    resources = Resources(memory_mib=mib, shm_mib=mib, disk_mib=mib)
    facts = host(*gpus, around=around, driver=driver, resources=resources)
    for finding in found(facts, Request(name="p", host_memory_gb=64, disk_gb=64)):
        assert finding.evidence
        assert finding.fix or finding.severity == "info"
        assert finding.code in {"CU411", "CU414", "CU415", "CU416", "CU417", "CU418", "CU419"}


def test_every_state_that_a_finding_may_name_has_a_row() -> None:
    named = {"compat-eligible", "compat-newer", "container-capabilities", "ecc", "mismatch", "shm"}
    assert {row.about for row in base().states} == {*named, "mig-empty", "mig-one", "mig-pending"}
    assert machine("8.0").resources == Resources()
