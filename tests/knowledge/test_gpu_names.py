"""Which GPU a text means: what people type, what NVML and nvidia-smi print, PCI ids, and names that mislead."""

from __future__ import annotations

import re
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.versions import Capability
from cuenv.knowledge import gpu_names
from cuenv.knowledge.gpu_names import find_gpu, gpu_by_pci, nearest_gpus, unknown_gpu
from cuenv.knowledge.rows import GpuModel
from given import shipped_base
from thorough import examples


@lru_cache(maxsize=1)
def gpus() -> tuple[GpuModel, ...]:
    return shipped_base().gpus


@collect(
    ("text", "name"),
    [
        # as the driver prints them
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100"),
        ("Tesla-T4-SHARED", "T4"),
        ("NVIDIA RTX A4500 Embedded GPU", "RTX A4500"),
        ("NVIDIA GeForce RTX 3050Ti Laptop GPU", "GeForce RTX 3050 Ti Laptop"),
        ("NVIDIA GeForce GTX 1650 Ti with Max-Q Design", "GeForce GTX 1650 Ti"),
        ("NVIDIA T1000 8GB", "T1000"),
        ("NVIDIA RTX PRO 1000 Blackwell Generation Laptop GPU", "RTX PRO 1000 Blackwell"),
        ("NVIDIA RTX PRO 4000 Blackwell SFF Edition", "RTX PRO 4000 Blackwell SFF"),
        ("NVIDIA GeForce RTX 5090 D v2", "GeForce RTX 5090 D v2"),
        ("NVIDIA TITAN X (Pascal)", "TITAN X (Pascal)"),
        ("GeForce GTX TITAN X", "GeForce GTX TITAN X"),
        ("NVIDIA Jetson Orin Nano Super Developer Kit", "Jetson Orin Nano"),
        ("NVIDIA A800-SXM4-80GB", "A800"),
        ("NVIDIA A800 40GB Active", "A800"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("Tesla V100S-PCIE-32GB", "V100"),
        ("Tesla V100-DGXS-32GB", "V100"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("Tesla K40m", "K40"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA H200 NVL", "H200"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H20-3e", "H20"),
        ("GH200 480GB", "GH200"),
        ("NVIDIA GH200 144G HBM3e", "GH200"),
        ("NVIDIA GB200 NVL72", "GB200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 4050 Laptop GPU", "GeForce RTX 4050 Laptop"),
        ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", "GeForce RTX 3050"),
        ("NVIDIA GeForce RTX 3050 A Laptop GPU", "GeForce RTX 3050 A Laptop"),
        ("GeForce RTX 2080 Super with Max-Q Design", "GeForce RTX 2080 SUPER"),
        ("NVIDIA GeForce GTX 1060 6GB", "GeForce GTX 1060"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", "RTX 5000 Ada"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server Edition"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        ),
        ("NVIDIA TITAN RTX", "TITAN RTX"),
        ("NVIDIA TITAN V", "TITAN V"),
        ("Orin (nvgpu)", "Jetson AGX Orin"),
        # as labels of Kubernetes have them
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100"),
        ("Tesla-T4-SHARED", "T4"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me-SHARED", "H100"),
        # notebooks of Maxwell, which are other chips than the cards of their numbers
        ("GeForce GTX 980M", "GeForce GTX 980M"),
        ("NVIDIA GeForce GTX 960M", "GeForce GTX 960M"),
        ("GeForce 940MX", "GeForce 940MX"),
        ("Quadro M2000M", "Quadro M2000M"),
        # vGPU profiles
        ("GRID V100D-8Q", "V100"),
        ("GRID T4-16Q", "T4"),
        ("NVIDIA A40-48Q", "A40"),
        ("NVIDIA L40S-12C", "L40S"),
        ("NVIDIA RTX6000-Ada-48Q", "RTX 6000 Ada"),
        # as people type them
        ("rtx4090", "GeForce RTX 4090"),
        ("4090", "GeForce RTX 4090"),
        ("RTX  4090\n", "GeForce RTX 4090"),
        ("rtx4070tisuper", "GeForce RTX 4070 Ti SUPER"),
        ("4070 Ti", "GeForce RTX 4070 Ti"),
        ("3090ti", "GeForce RTX 3090 Ti"),
        ("5090d", "GeForce RTX 5090 D"),
        ("GTX 1660", "GeForce GTX 1660"),
        ("gtx 1660 super", "GeForce GTX 1660"),
        ("GTX 1660 Ti", "GeForce GTX 1660"),
        ("mx570", "GeForce MX570"),
        ("a6000", "RTX A6000"),
        ("RTX 5880", "RTX 5880 Ada"),
        ("DGX Spark", "GB10"),
        ("Jetson Thor", "Jetson T5000"),
        ("Jetson T5000", "Jetson T5000"),
        ("t4", "T4"),
        ("h100", "H100"),
    ],
)
def test_a_name_is_found(text: str, name: str) -> None:
    found = find_gpu(text, gpus())
    assert found is not None
    assert found.name == name


@collect(
    ("name", "capability"),
    [
        ("Quadro RTX 4000", "7.5"),
        ("RTX A4000", "8.6"),
        ("RTX 4000 Ada", "8.9"),
        ("RTX PRO 4000 Blackwell", "12.0"),
        ("Quadro RTX 5000", "7.5"),
        ("RTX A5000", "8.6"),
        ("RTX 5000 Ada", "8.9"),
        ("RTX PRO 5000 Blackwell", "12.0"),
        ("Quadro RTX 6000", "7.5"),
        ("RTX A6000", "8.6"),
        ("RTX 6000 Ada", "8.9"),
        ("RTX PRO 6000 Blackwell", "12.0"),
        ("A100", "8.0"),
        ("A10", "8.6"),
        ("A10G", "8.6"),
        ("RTX A1000", "8.6"),
        ("A800", "8.0"),
        ("H800", "9.0"),
        ("H20", "9.0"),
        ("L20", "8.9"),
        ("GeForce RTX 2050", "8.6"),
        ("GeForce MX570", "8.6"),
        ("GeForce RTX 3050 A Laptop", "8.9"),
        ("B200", "10.0"),
        ("GeForce RTX 5090", "12.0"),
        ("GB10", "12.1"),
        ("GB200", "10.0"),
        ("GB300", "10.3"),
        ("B300", "10.3"),
    ],
)
def test_names_that_mislead_come_out_right(name: str, capability: str) -> None:
    found = find_gpu(name, gpus())
    assert found is not None
    assert found.capability == Capability.parse(capability)


@collect(
    "text",
    [
        *("RTX 4000", "4000", "RTX 5000", "RTX 6000", "6000", "RTX 2000", "Titan", "Quadro 6000", "GTX 4090", "A1"),
        *(
            "RTX 3070 Ti SUPER",
            "RTX 40",
            "10",
            "RTX",
            "nvidia",
            "gpu",
            "",
            "   ",
            "\x1b[31m",
            "A100 and more",
            "MI300X",
        ),
        *("A100Y", "TITAN X", "NVIDIA TITAN X"),
    ],
)
def test_a_text_that_may_be_several_or_none_finds_nothing(text: str) -> None:
    assert find_gpu(text, gpus()) is None


@collect(
    ("text", "names"),
    [
        ("RTX 4000", {"Quadro RTX 4000", "RTX 4000 Ada", "RTX PRO 4000 Blackwell"}),
        ("GTX 4090", {"GeForce RTX 4090", "GeForce RTX 4090 D"}),
        ("RTX 3070 Ti SUPER", {"GeForce RTX 3070 Ti"}),
        ("A100Y", {"A100"}),
        ("TITAN X", {"GeForce GTX TITAN X", "TITAN X (Pascal)"}),
        ("RTX 6000", {"Quadro RTX 6000", "RTX 6000 Ada"}),
    ],
)
def test_the_nearest_come_first(text: str, names: set[str]) -> None:
    near = nearest_gpus(text, gpus())
    assert len(near) == 5
    assert names <= {model.name for model in near}


def test_as_many_near_names_as_asked_for() -> None:
    assert len(nearest_gpus("rtx 40", gpus(), count=2)) == 2
    assert nearest_gpus("hopper please", gpus()) == ()
    assert nearest_gpus("x", ()) == ()


@collect("text", ["2684", "0x2684", "0x268410DE", " 268410de "])
def test_a_pci_id_finds_its_product(text: str) -> None:
    found = gpu_by_pci(text, gpus())
    assert found is not None
    assert found.name == "GeForce RTX 4090"


@collect("text", ["", "ffff", "0x26841002", "2684x"])
def test_an_unknown_pci_id_finds_nothing(text: str) -> None:
    assert gpu_by_pci(text, gpus()) is None


@collect("model", gpus(), ids=lambda model: model.name)
def test_every_product_is_found_by_each_of_its_names(model: GpuModel) -> None:
    for name in (model.name, *model.aka):
        for text in (name, f"NVIDIA {name}", name.upper(), name.lower()):
            assert find_gpu(text, gpus()) == model
        sized = find_gpu(f"NVIDIA {name} 80GB", gpus())
        assert sized is not None
        assert sized.capability == model.capability


@collect("model", [model for model in gpus() if model.pci], ids=lambda model: model.name)
def test_every_pci_id_leads_to_its_capability(model: GpuModel) -> None:
    for device in model.pci:
        found = gpu_by_pci(device, gpus())
        assert found is not None
        assert found.capability == model.capability


words = st.sampled_from(["RTX", "A100", "4090", "Ti", "-8Q", "MIG", "Ada", "PRO", "()", "80GB"])
odd = st.text(min_size=1, max_size=20) | st.sampled_from(["NVIDIA", "Quadro", "RTX", "Quadro RTX"])


@examples(60)
@given(text=st.text(max_size=40) | st.lists(words).map(" ".join))
def test_no_text_breaks_the_search(text: str) -> None:
    found = find_gpu(text, gpus())
    assert found is None or found in gpus()
    assert len(nearest_gpus(text, gpus())) <= 5


@examples(60)
@given(names=st.lists(odd, max_size=4))
def test_no_name_in_the_table_breaks_the_search(names: list[str]) -> None:
    models = tuple(
        GpuModel(
            sources=("x",),
            name=name,
            aka=(),
            capability=Capability(8, 0),
            architecture="x",
            chip="",
            kind="geforce",
            memory_gb=(),
            pci=(),
        )
        for name in names
    )
    find_gpu("RTX 4090", models)
    nearest_gpus("RTX 4090", models)


def test_a_word_more_is_another_product() -> None:
    for model in gpus():
        assert find_gpu(f"{model.name} Zeta", gpus()) is None


def test_a_product_with_another_number_is_never_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names that `find_gpu` leaves unread for the numbers of a text change no answer."""
    models = gpus()
    names = [name for model in models for name in (model.name, *model.aka)]
    texts = [form(name) for name in names for form in (str, _glued, "NVIDIA {} 80GB".format, "{}-8Q".format)]
    texts += [*(name.rpartition(" ")[2] for name in names), "40904090", "RTX 4090 with 8192MiB", "3060ti4090"]
    quick = [find_gpu(text, models) for text in texts]
    monkeypatch.setattr(gpu_names, "_numbers", lambda _: None)
    assert quick == [find_gpu(text, models) for text in texts]
    assert sum(found is not None for found in quick) > len(names)


def _glued(name: str) -> str:
    return name.replace(" ", "").lower()


@collect("text", ["AMD MI300", "mi250x", "Radeon RX 7900 XTX", "Intel Arc A770", "Apple M2", "gfx1100"])
def test_a_gpu_of_another_vendor_has_no_nearest_product(text: str) -> None:
    assert unknown_gpu(text, gpus())[0] == "; cuenv knows NVIDIA GPUs only"


@collect("text", ["RTX 9999", "M9999", "rtx 40"])
def test_an_unknown_gpu_is_reported_by_the_number_that_its_machine_prints(text: str) -> None:
    near, hint = unknown_gpu(text, gpus())
    assert "NVIDIA GPUs only" not in near
    assert "nvidia-smi --query-gpu=compute_cap --format=csv,noheader" in hint
    assert not re.search(r"\d\.\d", hint), "a number in the hint is copied"
