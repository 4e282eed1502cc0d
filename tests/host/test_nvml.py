"""NVML through the real nvidia-ml-py, over a library that is compiled here; py-rattler reads the same one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuenv.host import host_json
from cuenv.host.describe import host_lines
from cuenv.host.facts import HostFacts, Mig, MigInstance, Switch, virtual_packages
from trees import PROPRIETARY, plant

SOURCE = Path(__file__).parents[1] / "nvml" / "fake_nvml.c"
SERVER = """
import json, os, sys
from pathlib import Path
from cuenv.host.host_json import to_plain
from cuenv.core.versions import Capability, version
from cuenv.host.io.probe import probe
from rattler.virtual_package import VirtualPackage
names = {"Tesla V100-SXM2-32GB": Capability(7, 0)}
names["GeForce RTX 4090"] = Capability(8, 9)
devices = {"0x268410de": "GeForce RTX 4090"}
for line in sys.stdin:
    process = os.fork()
    if process:
        if os.waitpid(process, 0)[1]:
            print(json.dumps("failed"), flush=True)
        continue
    os.environ["FAKE_NVML"], root = json.loads(line)
    facts = probe(
        os.environ,
        Path(root),
        level_of=lambda text: version("12.2"),
        name_to_capability=names.get,
        device_to_name=devices.get,
    )
    log = Path(os.environ["FAKE_NVML"] + ".shutdown")
    shutdowns = len(log.read_text()) if log.exists() else 0  # before py-rattler, which has its own
    found = [package.into_generic() for package in VirtualPackage.detect()]
    told = {package.name.normalized: str(package.version) for package in found}
    print(json.dumps({"facts": to_plain(facts), "rattler": told, "shutdowns": shutdowns}), flush=True)
    os._exit(0)
os._exit(0)
"""
"""Started once for each place of the library, which the loader reads at the start; it forks for each question."""
A100 = "8.0|81920|NVIDIA A100-SXM4-80GB"
RTX4090 = "8.9|24564|NVIDIA GeForce RTX 4090"
V100 = "7.0|32768|Tesla V100-SXM2-32GB"
HEALTHY = f"driver 535.129.03\ncuda 12020\ncount 1\ngpu 0 {RTX4090}\n"


@dataclass(frozen=True)
class Answer:
    facts: HostFacts
    rattler: dict[str, str]
    shutdowns: int

    def gap(self, fact: str) -> str:
        reasons = [gap.reason for gap in self.facts.gaps if gap.fact == fact and gap.source.startswith("nvml:")]
        assert len(reasons) == 1, self.facts.gaps
        return reasons[0]

    def agrees(self) -> bool:
        ours = {package.name: package.version for package in virtual_packages(self.facts)}
        return all(ours.get(name) == self.rattler.get(name) for name in ("__cuda", "__cuda_arch"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here to build the stand-in for libnvidia-ml.so.1")
    built = {}
    for name, flags in (("whole", []), ("old", ["-DWITHOUT_CUDA_LEVEL", "-DWITHOUT_MODES"])):
        folder = tmp_path_factory.mktemp(name)
        real = folder / "libnvidia-ml.so.535.129.03"
        command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1", *flags]
        subprocess.run([*command, "-o", str(real), str(SOURCE)], check=True)
        (folder / "libnvidia-ml.so.1").symlink_to(real.name)
        built[name] = folder
    broken = tmp_path_factory.mktemp("broken")
    (broken / "libnvidia-ml.so.1").write_text("this is no library, but the loader looks here first")
    return built | {"broken": broken}


@pytest.fixture(scope="module")
def servers(libraries: dict[str, Path]) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: dict[str, subprocess.Popen[str]] = {}

    def server(library: str) -> subprocess.Popen[str]:
        if library not in started:
            path = {"LD_LIBRARY_PATH": str(libraries[library])} if library in libraries else {}
            started[library] = subprocess.Popen(
                [sys.executable, "-c", SERVER],
                env={"PATH": "/nowhere", **path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return started[library]

    yield server
    for process in started.values():
        process.communicate(timeout=10)


@pytest.fixture
def ask(libraries: dict[str, Path], servers: Callable[[str], subprocess.Popen[str]], tmp_path: Path) -> Any:
    def asked(config: str, library: str = "whole", tree: dict[str, str] | None = None) -> Answer:
        root = plant(tmp_path / "root", tree or {})
        root.mkdir(exist_ok=True)
        steer = tmp_path / "steer"
        steer.write_bytes(config.encode("latin-1"))
        if library == "hidden":
            (root / "run/opengl-driver").mkdir(parents=True)
            (root / "run/opengl-driver/lib").symlink_to(libraries["whole"])
        process = servers(library)
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{json.dumps([str(steer), str(root)])}\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
        assert told != "failed"
        return Answer(
            facts=host_json.parse(json.dumps(told["facts"]), "child", "this machine"),
            rattler=told["rattler"],
            shutdowns=told["shutdowns"],
        )

    return asked


def test_one_healthy_gpu(ask: Any) -> None:
    answer = ask(HEALTHY)
    facts = answer.facts
    assert facts.driver.version == "535.129.03"
    assert str(facts.driver.cuda) == "12.2"
    (gpu,) = facts.gpus
    assert (gpu.index, gpu.name, str(gpu.capability), gpu.memory_mib) == (0, "NVIDIA GeForce RTX 4090", "8.9", 24564)
    said = {item.fact: (item.source, item.text) for item in facts.evidence}
    assert said["driver.version"] == ("nvml:nvmlSystemGetDriverVersion", "535.129.03")
    assert said["driver.cuda"] == ("nvml:nvmlSystemGetCudaDriverVersion", "12020")
    assert said["gpus"] == ("nvml:nvmlDeviceGetCount", "1")
    assert said["gpus[0].capability"] == ("nvml:nvmlDeviceGetCudaComputeCapability", "8.9")
    assert not [gap for gap in facts.gaps if gap.source.startswith(("nvml", "nvidia-smi"))]
    assert answer.agrees()
    assert answer.shutdowns == 1


def test_eight_equal_gpus(ask: Any) -> None:
    answer = ask("driver 470.129.06\ncuda 11040\ncount 8\n" + "".join(f"gpu {i} 8.0|81251|A800\n" for i in range(8)))
    assert [gpu.index for gpu in answer.facts.gpus] == list(range(8))
    assert [str(value) for value in answer.facts.capabilities] == ["8.0"]
    assert answer.agrees()


def test_a_mixed_box_keeps_the_set_and_tells_the_solver_the_lowest(ask: Any) -> None:
    answer = ask(f"driver 575.57.08\ncuda 12090\ncount 2\ngpu 0 12.0|32607|NVIDIA GeForce RTX 5090\ngpu 1 {V100}\n")
    assert [str(value) for value in answer.facts.capabilities] == ["7.0", "12.0"]
    assert answer.rattler["__cuda_arch"] == "7.0"
    assert answer.agrees()


def test_zero_devices_are_a_fact_and_no_gap(ask: Any) -> None:
    answer = ask("driver 535.129.03\ncuda 12020\ncount 0\n")
    assert answer.facts.gpus == ()
    assert answer.facts.evidence_for("gpus").text == "0"
    assert not [gap for gap in answer.facts.gaps if gap.fact.startswith("gpus") and gap.source.startswith("nvml")]
    assert answer.agrees()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (4, "Insufficient Permissions (NVML error 4): device permissions or a cgroup forbid"),
        (9, "Driver Not Loaded (NVML error 9): the kernel module is not loaded"),
        (15, "GPU is lost (NVML error 15)"),
        (18, "RM has detected an NVML/RM version mismatch (NVML error 18): the library and the loaded kernel module"),
        (999, "Unknown Error (NVML error 999)"),
        (4711, "(NVML error 4711)"),
    ],
)
def test_an_nvml_that_does_not_start_is_a_gap_with_its_reason(ask: Any, code: int, words: str) -> None:
    answer = ask(HEALTHY + f"init {code}\n")
    assert words in answer.gap("driver")
    assert answer.facts.driver is None
    assert answer.facts.gpus == ()
    # By design: py-rattler still asks a library that would not start for its CUDA level, and believes it.
    assert answer.rattler["__cuda"] == "12.2"
    assert not answer.agrees()
    assert answer.shutdowns == 0


def test_a_mismatch_tells_library_and_module_apart(ask: Any) -> None:
    older = PROPRIETARY.replace("535.129.03", "525.85.12")
    answer = ask(HEALTHY + "init 18\n", tree={"proc/driver/nvidia/version": older})
    driver = answer.facts.driver
    assert (driver.version, driver.kernel_module, driver.module_kind) == ("535.129.03", "525.85.12", "proprietary")
    assert "libnvidia-ml.so.535.129.03" in answer.facts.evidence_for("driver.version").text
    assert str(driver.cuda) == "12.2"
    assert answer.facts.evidence_for("driver.cuda").source == "knowledge base"
    assert "reboot" in answer.gap("driver")


def test_a_library_that_cannot_be_loaded_is_error_12(ask: Any) -> None:
    answer = ask(HEALTHY, library="broken", tree={"proc/driver/nvidia/version": PROPRIETARY})
    assert "(NVML error 12): the driver's library cannot be loaded" in answer.gap("driver")
    assert answer.facts.driver.version == "535.129.03"
    assert "kernel module" in answer.facts.evidence_for("driver.version").text


@pytest.mark.parametrize(("code", "word"), [(3, "Not Supported"), (15, "GPU is lost"), (999, "Unknown Error")])
def test_a_capability_call_that_fails_falls_back_to_the_name(ask: Any, code: int, word: str) -> None:
    answer = ask(f"driver 575.57.08\ncuda 12090\ncount 2\ngpu 0 {RTX4090}\ngpu 1 {V100}\ncapability_error 1 {code}\n")
    assert word in answer.gap("gpus[1].capability")
    assert [str(gpu.capability) for gpu in answer.facts.gpus] == ["8.9", "7.0"]
    assert answer.facts.evidence_for("gpus[1].capability").source == "table of GPU names"
    # By design: py-rattler skips a GPU that does not answer, so its lowest capability is too high here.
    assert answer.rattler["__cuda_arch"] == "8.9"
    assert not answer.agrees()


def test_a_gpu_of_unknown_name_stays_in_the_set_without_a_capability(ask: Any) -> None:
    answer = ask("driver 535.129.03\ncuda 12020\ncount 1\ngpu 0 8.9|24564|Graphics Device\ncapability_error 0 3\n")
    assert [(gpu.name, gpu.capability) for gpu in answer.facts.gpus] == [("Graphics Device", None)]


@pytest.mark.parametrize("trouble", ["", "capability_error 0 3\n", "name_error 0 15\n"])
def test_a_name_that_says_nothing_gives_way_to_that_of_the_pci_id(ask: Any, trouble: str) -> None:
    told = "driver 535.129.03\ncuda 12020\ncount 1\ngpu 0 8.9|24564|NVIDIA Graphics Device\npci 0 2684\n"
    facts = ask(told + trouble).facts
    assert [(gpu.name, str(gpu.capability)) for gpu in facts.gpus] == [("GeForce RTX 4090", "8.9")]
    (said,) = [item for item in facts.evidence if item.fact == "gpus[0].name"]
    assert said.source == "table of PCI ids"
    assert said.text.startswith("device 0x268410de is GeForce RTX 4090")
    assert ("'NVIDIA Graphics Device'" in said.text) == ("name_error" not in trouble)


@pytest.mark.parametrize(("name", "pci"), [("12.0|24564|Graphics Device", "2684"), ("8.9|24564|Graphics Device", "1")])
def test_a_pci_id_of_another_capability_or_of_no_product_names_nothing(ask: Any, name: str, pci: str) -> None:
    facts = ask(f"driver 575.57.08\ncuda 12090\ncount 1\ngpu 0 {name}\npci 0 {pci}\n").facts
    assert [gpu.name for gpu in facts.gpus] == ["Graphics Device"]


def test_name_and_memory_may_fail_alone(ask: Any) -> None:
    answer = ask(HEALTHY + "name_error 0 15\nmemory_error 0 3\n")
    assert [(gpu.name, str(gpu.capability), gpu.memory_mib) for gpu in answer.facts.gpus] == [("", "8.9", None)]
    assert "GPU is lost" in answer.gap("gpus[0].name")
    assert "does not support this query" in answer.gap("gpus[0].memory_mib")
    assert answer.agrees()


def test_a_forbidden_device_is_not_ours_and_a_lost_one_is(ask: Any) -> None:
    gpus = "".join(f"gpu {index} {RTX4090}\n" for index in range(3))
    answer = ask(f"driver 535.129.03\ncuda 12020\ncount 3\n{gpus}handle_error 0 4\nhandle_error 2 15\n")
    assert [(gpu.index, gpu.capability is None) for gpu in answer.facts.gpus] == [(1, False), (2, True)]
    assert "cgroup" in answer.gap("gpus[0]")
    assert "fell off the bus" in answer.gap("gpus[2]")


def test_an_old_library_without_the_question_for_the_cuda_level(ask: Any) -> None:
    answer = ask(HEALTHY, library="old")
    assert "Function Not Found (NVML error 13)" in answer.gap("driver.cuda")
    assert str(answer.facts.driver.cuda) == "12.2"
    assert answer.facts.evidence_for("driver.cuda").source == "knowledge base"
    assert answer.shutdowns == 1


def test_a_library_where_the_loader_does_not_look(ask: Any) -> None:
    answer = ask(HEALTHY, library="hidden")
    assert [gpu.name for gpu in answer.facts.gpus] == ["NVIDIA GeForce RTX 4090"]


def test_a_name_that_is_no_text_is_a_gap(ask: Any) -> None:
    answer = ask("driver 535.129.03\ncuda 12020\ncount 1\ngpu 0 8.9|24564|caf\xe9\n")
    assert "unusable answer" in answer.gap("gpus[0].name")
    assert [str(gpu.capability) for gpu in answer.facts.gpus] == ["8.9"]


def test_a_count_that_fails_leaves_the_driver_known(ask: Any) -> None:
    answer = ask("driver 535.129.03\ncuda 12020\ncount_error 999\n")
    assert answer.facts.driver.version == "535.129.03"
    assert "Unknown Error" in answer.gap("gpus")
    assert answer.facts.evidence_for("gpus") is None


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        ("driver not-a-version\ncuda 12020\ncount 0\n", "driver.version"),
        ("driver 535.129.03\ncuda 7\ncount 0\n", "driver.cuda"),
        ("driver 535.129.03\ncuda 12020\ncount 1\ngpu 0 0.0|1|x\n", "gpus[0].capability"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_gap(ask: Any, config: str, fact: str) -> None:
    assert "unusable answer" in ask(config).gap(fact)


def test_a_gpu_without_modes_has_none_and_no_gap(ask: Any) -> None:
    answer = ask(HEALTHY)
    assert [(gpu.mig, gpu.ecc) for gpu in answer.facts.gpus] == [(None, None)]
    said = {item.fact: item.text for item in answer.facts.evidence}
    assert said["gpus[0].mig"] == "it has no MIG mode"
    assert said["gpus[0].ecc"] == "it has no ECC mode"
    assert not [gap for gap in answer.facts.gaps if gap.source.startswith("nvml")]


def test_ecc_and_mig_modes_now_and_after_a_reset(ask: Any) -> None:
    gpus = f"gpu 0 {A100}\ngpu 1 {A100}\necc 0 1 1\necc 1 0 1\nmig 0 0 0\nmig 1 0 1\n"
    first, second = ask(f"driver 535.129.03\ncuda 12020\ncount 2\n{gpus}").facts.gpus
    assert (first.ecc, second.ecc) == (Switch(on=True, pending=True), Switch(on=False, pending=True))
    assert (first.mig, second.mig) == (
        Mig(mode=Switch(on=False, pending=False)),
        Mig(mode=Switch(on=False, pending=True)),
    )


def test_mig_instances_by_profile_and_memory(ask: Any) -> None:
    instances = (
        "mig_instance 0 9728|NVIDIA A100-SXM4-80GB MIG 1g.10gb\nmig_instance 3 40192|NVIDIA A100 MIG 1c.3g.40gb\n"
    )
    answer = ask(f"driver 535.129.03\ncuda 12020\ncount 1\ngpu 0 {A100}\nmig 0 1 1\nmig_places 0 7\n{instances}")
    (gpu,) = answer.facts.gpus
    assert gpu.mig == Mig(
        mode=Switch(on=True, pending=True),
        instances=(
            MigInstance(profile="1g.10gb", memory_mib=9728),
            MigInstance(profile="1c.3g.40gb", memory_mib=40192),
        ),
    )
    assert not [gap for gap in answer.facts.gaps if ".mig" in gap.fact]
    assert "MIG on (1g.10gb, 1c.3g.40gb)" in "\n".join(host_lines(answer.facts))


def test_modes_that_cannot_be_asked_are_gaps(ask: Any) -> None:
    gpus = f"gpu 0 {A100}\ngpu 1 {A100}\ngpu 2 {A100}\n"
    wrong = "ecc_error 0 15\nmig_error 0 4\necc 1 7 0\nmig 1 1 1\nmig_places 1 9999\nmig 2 1 1\nmig_places 2 2\n"
    answer = ask(f"driver 535.129.03\ncuda 12020\ncount 3\n{gpus}{wrong}mig_instance_error 20 4\n")
    assert [gpu.ecc for gpu in answer.facts.gpus] == [None, None, None]
    assert [gpu.mig and gpu.mig.instances for gpu in answer.facts.gpus] == [None, (), ()]
    assert "GPU is lost" in answer.gap("gpus[0].ecc")
    assert "NVML error 4" in answer.gap("gpus[0].mig")
    assert "unusable answer: invalid modes 7, 0" in answer.gap("gpus[1].ecc")
    assert "invalid number of instances 9999" in answer.gap("gpus[1].mig.most")
    assert "NVML error 4" in answer.gap("gpus[2].mig.instances[0]")


def test_a_library_without_the_questions_for_modes(ask: Any) -> None:
    answer = ask(HEALTHY, library="old")
    assert "NVML error 13" in answer.gap("gpus[0].ecc")
    assert "NVML error 13" in answer.gap("gpus[0].mig")
