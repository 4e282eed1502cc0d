"""What /proc, /sys and small files say, and that no foreign text can break a reader of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.versions import Capability, version
from cuenv.host.facts import Driver, Evidence, Gap, Libc, glibc
from cuenv.host.io import nvml, system, toolkits
from cuenv.host.io import record as redact
from cuenv.host.io.observation import ProbeResult, cuda_of_level, merge, name_capabilities
from cuenv.host.io.surroundings import libc, parse_glibc, parse_kernel, read_small_file, surroundings
from thorough import examples
from trees import OPEN, PROPRIETARY, information, plant


@collect(
    ("text", "number", "kind"),
    [
        (PROPRIETARY, "535.129.03", "proprietary"),
        (OPEN, "560.35.03", "open"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.124.06  Release Build  (x)\n",
            "570.124.06",
            "open",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 2022\n", "390.157", "proprietary"),
    ],
)
def test_the_kernel_module_names_its_driver(text: str, number: str, kind: str) -> None:
    found = system.parse_module(text)
    assert found is not None
    assert (found.kernel_module, found.module_kind, found.version) == (number, kind, None)


def test_a_module_without_a_number_is_none() -> None:
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  TempVersion  Release Build  (x)\n"
    assert system.parse_module(text) is None
    assert system.parse_module("") is None


def test_the_information_of_a_gpu() -> None:
    assert system.parse_model(information("NVIDIA GeForce RTX 3090")) == "NVIDIA GeForce RTX 3090"
    assert system.parse_model(information("Unknown")) is None
    assert system.parse_excluded(information("x", "Yes"))
    assert not system.parse_excluded(information("x"))


@collect(
    ("text", "kind"),
    [
        ("12:pids:/docker/0123\n", "docker"),
        ("0::/kubepods.slice/docker-1.scope\n", "kubernetes"),
        ("0::/machine.slice/libpod-1.scope\n", "podman"),
        ("0::/lxc/web\n", "lxc"),
        ("0::/init.scope\n", None),
    ],
)
def test_a_cgroup_names_its_container(text: str, kind: str | None) -> None:
    assert system.parse_cgroup(text) == kind


def test_containers_and_wsl_are_recognised(tmp_path: Path) -> None:
    assert system.container(tmp_path, {}) is None
    assert system.wsl(tmp_path, "6.8.0-60-generic") is None
    plant(tmp_path, {"proc/1/cgroup": "0::/docker/1\n"})
    assert "docker" in str(system.container(tmp_path, {}))
    plant(tmp_path, {"run/.containerenv": ""})
    assert "podman" in str(system.container(tmp_path, {}))
    assert "kubernetes" in str(system.container(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}))
    (tmp_path / "usr/lib/wsl/lib").mkdir(parents=True)
    assert "/usr/lib/wsl/lib" in str(system.wsl(tmp_path, None))


def test_the_c_library_is_glibc_or_not_known() -> None:
    assert libc(lambda _: "glibc 2.35") == glibc("2.35")
    assert isinstance(libc(lambda _: "something"), Gap)
    assert isinstance(libc(lambda _: None), Gap)

    def unknown(_: str) -> str:
        raise ValueError("unrecognized configuration name")

    refused = libc(unknown)
    assert isinstance(refused, Gap)
    assert "glibc" in refused.reason


def test_this_very_machine_has_a_platform_and_a_kernel() -> None:
    facts = surroundings()
    assert facts.platform in ("linux-64", "linux-aarch64")
    assert facts.kernel
    assert facts.driver is None


def test_a_missing_file_and_a_folder_are_reasons(tmp_path: Path) -> None:
    assert read_small_file(tmp_path, "nothing").reason == "no such file"
    assert read_small_file(tmp_path, ".").reason


def test_the_loader_is_followed(tmp_path: Path) -> None:
    cache = b"junk\0libnvidia-ml.so.1\0/opt/driver/libnvidia-ml.so.1\0/opt/driver/libnvidia-ml.so.1\0libx\0"
    assert system.parse_cache(cache, system.NVML) == ("/opt/driver/libnvidia-ml.so.1",)
    assert system.find_library(system.NVML, {}, tmp_path) is None
    plant(tmp_path, {"usr/lib/wsl/lib/libnvidia-ml.so.1": ""})
    hidden = system.find_library(system.NVML, {}, tmp_path)
    assert hidden is not None
    assert hidden.hidden
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(cache)
    plant(
        tmp_path,
        {"opt/driver/libnvidia-ml.so.1": "-> libnvidia-ml.so.550.54.15", "opt/driver/libnvidia-ml.so.550.54.15": ""},
    )
    found = system.find_library(system.NVML, {}, tmp_path)
    assert found == system.Library(tmp_path / "opt/driver/libnvidia-ml.so.1")
    number, words = system.library_version({}, tmp_path) or ("", "")
    assert number == "550.54.15"
    assert words.endswith("is libnvidia-ml.so.550.54.15")


@collect(
    ("name", "number"),
    [("libcuda.so.535.129.03", "535.129.03"), ("libcuda.so.1", None), ("libcuda.so.1.1", None), ("x", None)],
)
def test_the_number_in_a_library_name(name: str, number: str | None) -> None:
    assert system.parse_number(name) == number


def test_levels_and_their_numbers() -> None:
    assert [str(cuda_of_level(number)) for number in (11040, 12020, 12090, 13000)] == ["11.4", "12.2", "12.9", "13.0"]
    for number in (0, -1, 999, 100_000):
        with pytest.raises(ValueError, match="invalid CUDA release"):
            cuda_of_level(number)


def test_the_first_source_that_knows_a_fact_gives_it() -> None:
    first = ProbeResult(
        driver=Driver(version="535.129.03"),
        evidence=(Evidence("driver.version", "first", "535.129.03"), Evidence("gpus", "first", "stray")),
        gaps=(Gap("gpus", "first", "no"),),
    )
    second = ProbeResult(
        driver=Driver(version="525.85.12", cuda=version("12.0")),
        gpus=(),
        evidence=tuple(Evidence(fact, "second", "x") for fact in ("driver.version", "driver.cuda", "gpus")),
    )
    found = merge((first, second))
    assert found.driver == Driver(version="535.129.03", cuda=version("12.0"))
    assert found.gpus == ()
    assert [(item.fact, item.source) for item in found.evidence] == [
        ("driver.version", "first"),
        ("driver.cuda", "second"),
        ("gpus", "second"),
    ]
    assert found.gaps == first.gaps
    assert found.complete
    assert not first.complete


def test_merging_nothing_knows_nothing() -> None:
    assert merge(()) == ProbeResult()
    assert not merge(()).complete
    assert name_capabilities(ProbeResult(), lambda _: Capability(8, 0)) == ProbeResult()


def test_versions_of_compilers_and_toolkits() -> None:
    assert toolkits.parse_compiler("11.4.0\n") == "11.4.0"
    assert toolkits.parse_compiler("14\n") == "14"
    assert toolkits.parse_compiler("Apple clang version 15") is None
    assert toolkits.parse_nvcc("Cuda compilation tools, release 13.0, V13.0.88\n") == "13.0"
    assert toolkits.parse_conda_names(["cuda-nvcc-11.8.89-0.json"]) == "11.8"
    assert toolkits.parse_conda_names(["cuda-nvcc_linux-64-12.6.85-he91c749_0.json", "python-3.12.1-x.json"]) == "12.6"
    assert toolkits.parse_conda_names(["cuda-nvcc-dev_linux-64.json"]) is None


def test_what_names_a_person_or_machine_is_taken_out() -> None:
    words = redact.private_words({"HOME": "/data/users/ann", "USER": "ann"}, "gpu7.example.org")
    text = (
        "/data/users/ann/miniconda3 /home/bob/cuda (ann@gpu7) on gpu7, GPU-8f6d2ba1-39ac-4d1f-b2de-0123456789ab "
        "/scratch/ann/x /opt/anna /mnt/c/Users/Bob"
    )
    assert words.scrub(text) == (
        "~/miniconda3 /home/USER/cuda (builder) on HOST, UUID /scratch/USER/x /opt/anna /mnt/c/Users/USER"
    )
    root = redact.private_words({"HOME": "/root", "USER": "root"}, "localhost")
    assert root.scrub("/root/x owned by root on localhost") == "~/x owned by root on localhost"
    assert redact.Private().scrub("/x") == "/x"


def test_of_the_long_log_only_known_lines_are_kept() -> None:
    log = """
==============NVSMI LOG==============
Timestamp                           : Mon Jan  1 00:00:00 2024
Driver Version                      : 535.129.03
CUDA Version                        : 12.2
GPU 00000000:01:00.0
    Product Name                    : NVIDIA GeForce RTX 4090
    Serial Number                   : 1234567890
    GPU UUID                        : GPU-8f6d2ba1-39ac-4d1f-b2de-0123456789ab
    FB Memory Usage
        Total                       : 24564 MiB
        Used                        : 300 MiB
    Processes
        Process ID                  : 4242
            Name                    : /home/ann/secret-project/train.py
"""
    kept = redact.parse_smi_log(log)
    assert [line.strip().split("  ")[0] for line in kept.splitlines()] == [
        "Driver Version",
        "CUDA Version",
        "GPU 00000000:01:00.0",
        "Product Name",
        "FB Memory Usage",
        "Total",
    ]
    assert redact.parse_smi_log("") == ""


FOREIGN = st.text(max_size=80) | st.binary(max_size=80).map(lambda data: data.decode("utf-8", "replace"))
PIECES = [
    *("NVRM version: NVIDIA ", "Kernel Module", "535.129.03", "Model:", "GPU Excluded:", "Yes", "\n", " ", ","),
    *("release ", "CUDA Version: ", "CUDA UMD Version", "12.2", "1" * 40, "#define CUDART_VERSION ", "12060"),
    *('{"cuda": {"version": ', '"12.6.3"}}', "__version__ = ", "'2.5.1'", "cuda: Optional[str] = ", "None", "#!"),
    *("/opt/bin/nvcc", "[N/A]", "8.9", "glibc 2.35", 'Field "compute_cap" is not a valid field to query'),
    *("No devices were found", "\x1b[31m", "\ud800"),
]
WORDS = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)
READERS: list[Callable[[str], object]] = [
    system.parse_module,
    system.parse_model,
    system.parse_excluded,
    parse_kernel,
    parse_glibc,
    system.parse_cgroup,
    nvml.parse_banner,
    nvml.parse_refusal,
    nvml.parse_none,
    lambda text: nvml.parse_query(text, nvml.FIELDS),
    lambda text: nvml.parse_query(text, ("name",)),
    toolkits.parse_version_json,
    toolkits.parse_version_txt,
    toolkits.parse_header,
    toolkits.parse_nvcc,
    toolkits.parse_compiler,
    toolkits.parse_wrapper,
    lambda text: toolkits.parse_conda_names(text.split()),
    toolkits.parse_version_py,
    toolkits.parse_installer,
    lambda text: toolkits.has_torch_record(text.split()),
    system.parse_number,
    lambda text: system.parse_names(text.split()),
    redact.parse_smi_log,
    redact.private_words({"HOME": "/home/ann", "USER": "ann"}, "box").scrub,
]


@given(FOREIGN | WORDS)
@examples(60)
def test_no_reader_of_foreign_text_breaks(text: str) -> None:
    for reader in READERS:
        reader(text)


@given(st.binary(max_size=200))
def test_no_cache_of_the_loader_breaks(data: bytes) -> None:
    system.parse_cache(data + b"/" * 50 + data, system.NVML)


@given(WORDS)
def test_what_is_read_is_clean(text: str) -> None:
    for found in (parse_kernel(text), toolkits.parse_nvcc(text), toolkits.parse_version_txt(text)):
        assert found is None or found.isprintable()
    torch = toolkits.parse_version_py(text)
    assert torch is None or torch[0].isprintable()
    libc = parse_glibc(text)
    assert libc is None or libc == Libc(family="glibc", version=version("2.35"))
