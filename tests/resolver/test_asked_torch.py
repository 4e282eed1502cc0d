"""What a pip part asks of torch, and whether the indexes that it names have it."""

from __future__ import annotations

from cases import collect
from cuenv.core.versions import parse_version_spec
from cuenv.resolver.asked_torch import torch_asked, wheels_asked
from cuenv.resolver.torch_findings import index_findings, pair_findings
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.match_spec import parse_spec
from given import base

INDEX = "--index-url https://download.pytorch.org/whl/"
EXTRA = "--extra-index-url https://download.pytorch.org/whl/"


def told(*lines: str, python: str = "") -> list[tuple[str, str, str | None]]:
    request = parse_version_spec(python, what="python") if python else None
    return [(item.severity, item.message, item.fix) for item in index_findings(lines, request, base())]


@collect(
    "lines",
    [
        ("torch==2.4.1",),
        ("torch",),
        (f"{EXTRA}cu118", "torch==2.4.1+cu118"),
        (f"{EXTRA}cu118", "torch==2.4.1"),  # its local version is the higher one to pip
        (f"{INDEX}cu126", "torch"),
        (f"{EXTRA}cu130", "torch"),  # has the newest release as well
        ("-f https://download.pytorch.org/whl/torch_stable.html", "torch==1.12.1+cu113"),
        (f"{EXTRA}cpu", "torch==2.4.1+cpu"),
        (f"{EXTRA}cu118", "torch==2.8.0 ; sys_platform == 'win32'"),
        ("torch @ https://example.org/torch-2.4.1+cu118-cp311-cp311-linux_x86_64.whl",),
        ("numpy", "--index-url https://pip.example/simple"),
        (f"{INDEX}cu117", "torch==2.0.1+cu117.with.pypi.cudnn"),
        (f"{INDEX}rocm6.2", "torch==2.5.1+rocm6.2"),
        ("--extra-index-url https://mirror.example/pytorch-wheels/cu118", "torch==2.4.1+cu118"),
    ],
)
def test_an_index_that_has_what_is_asked_for_is_no_finding(lines: tuple[str, ...]) -> None:
    assert told(*lines) == []


def test_a_local_version_is_never_on_pypi_and_the_fix_is_its_index() -> None:
    ((severity, message, fix),) = told("torch==2.4.1+cu118")
    assert severity == "error"
    assert message == "torch 2.4.1+cu118 is not on PyPI, whose torch 2.4.1 is built with CUDA 12.1"
    assert fix == f"add to the pip part: {EXTRA}cu118"


def test_the_index_of_another_tag_does_not_have_a_local_version() -> None:
    ((severity, message, fix),) = told(f"{EXTRA}cu121", "torch==2.4.1+cu118")
    assert (severity, message) == ("error", "the index cu121 does not have torch 2.4.1+cu118")
    assert fix == f"add to the pip part: {EXTRA}cu118"


def test_a_wheel_that_was_never_made_is_told_with_those_that_were() -> None:
    ((severity, message, fix),) = told(f"{EXTRA}cu118", "torch==2.8.0+cu118")
    assert severity == "error"
    assert "2.8.0+cu126, 2.8.0+cu128, 2.8.0+cu129" in message
    assert fix == f"write torch==2.7.1+cu118 in the pip part, and add to the pip part: {EXTRA}cu118"


def test_of_a_tag_that_the_tables_do_not_have_no_wheel_is_said_not_to_exist() -> None:
    ((_, message, fix),) = told("torch==1.4.0+cu92")
    assert message == "torch 1.4.0+cu92 is not on PyPI, whose torch 1.4.0 is built with CUDA 10.1"
    assert fix == f"add to the pip part: {EXTRA}cu92"


def test_an_index_that_begins_later_is_told_its_first_release() -> None:
    ((severity, message, fix),) = told(f"{EXTRA}cu128", "torch== 2.6.0")
    assert message.startswith("the index cu128 has torch 2.7.0 to ")
    assert "pip installs torch 2.6.0 from PyPI, which is built with CUDA 12.4" in message
    assert (severity, fix) == ("warning", "write torch==2.7.0+cu128 in the pip part")


def test_the_only_index_must_have_the_release() -> None:
    ((severity, message, fix),) = told(f"{INDEX}cu118", "torch==2.8.0")
    assert (severity, fix) == ("error", "write torch==2.7.1+cu118 in the pip part")
    assert message == "the index cu118 has torch 2.0.0 to 2.7.1, but torch==2.8.0 is requested"


def test_pip_prefers_a_newer_torch_of_pypi_to_that_of_a_further_index() -> None:
    ((severity, message, fix),) = told(f"{EXTRA}cu118", "torch")
    assert (severity, fix) == ("warning", "write torch==2.7.1+cu118 in the pip part")
    assert "pip installs torch 2.15.0 from PyPI, which is built with CUDA 13.2" in message
    assert "torch 2.8.0 from PyPI, which is built with CUDA 12.8" in told(f"{EXTRA}cu118", "torch", python="3.9")[0][1]
    assert told(f"{EXTRA}cu118", "torch", python="3.8") == []  # both end with 2.4.1


def test_the_wheels_that_are_asked_for_are_those_of_the_indexes_and_of_the_python() -> None:
    def names(*lines: str, python: str = "") -> set[str]:
        asked = torch_asked(lines)
        assert asked is not None
        request = parse_version_spec(python, what="python") if python else None
        found = wheels_asked(asked, "linux-64", request, base())
        return {f"{item.build.version} {item.build.build}" for item in found}

    assert names("torch==2.4.1") == {"2.4.1 cu121"}
    assert names(f"{EXTRA}cu118", "torch==2.4.1") == {"2.4.1 cu121", "2.4.1 cu118"}
    assert names(f"{INDEX}cu118", "torch==2.4.1") == {"2.4.1 cu118"}
    assert names("torch==2.4.1+cu124") == {"2.4.1 cu124"}
    assert names("torch>=2.3,<2.5", python="3.12") == {"2.3.0 cu121", "2.3.1 cu121", "2.4.0 cu121", "2.4.1 cu121"}
    assert names("torch==2.4.1", python="3.13") == set()
    assert torch_asked(["numpy"]) is None


def paired(*pins: str, pip: tuple[str, ...] = ()) -> list[tuple[str, str, str | None]]:
    asked = EnvironmentSpec(name="", channels=("pytorch",), pins=tuple(map(parse_spec, pins)), pip=pip)
    return [(item.severity, item.message, item.fix) for item in pair_findings(asked, base())]


def test_a_library_that_is_made_for_another_torch_by_pip_is_an_error() -> None:
    assert paired(pip=("torch==2.5.1", "xformers==0.0.28.post1", "torchvision==0.20.1+cu121")) == [
        (
            "error",
            "xformers==0.0.28.post1 requires torch 2.4.1, but torch==2.5.1 is requested",
            "use xformers==0.0.29.post1, which is built for this torch",
        )
    ]
    assert paired(pip=("torch==2.4.1", "vllm==0.6.6")) == [
        ("error", "vllm==0.6.6 requires torch 2.5.1, but torch==2.4.1 is requested", None)
    ]


def test_torchvision_by_conda_for_another_torch_is_an_error() -> None:
    assert paired("pytorch=2.3", "torchvision=0.17.2") == [
        (
            "error",
            "torchvision=0.17.2 requires torch 2.2.2, but pytorch=2.3 is requested",
            "use torchvision=0.18.1, which is built for this torch",
        )
    ]


@collect(
    ("pins", "pip"),
    [
        (("pytorch=2.0", "torchvision", "torchaudio=2.0.2"), ()),
        (("pytorch>=2.4", "torchvision=0.19"), ()),
        (("pytorch=2.7", "xformers=0.0.28"), ()),  # conda-forge builds a release for several torches
        ((), ("torch==2.4.1", "xformers", "torchvision>=0.15")),
        ((), ("torch>=2.4", "torchvision==0.20.1")),
        ((), ("torch==2.4.1", "torchvision==0.5.0; sys_platform == 'win32'")),
        ((), ("torchvision==0.20.1",)),
    ],
)
def test_a_library_beside_a_torch_that_may_be_its_own_is_not_told(pins: tuple[str, ...], pip: tuple[str, ...]) -> None:
    assert not paired(*pins, pip=pip)


def test_of_several_main_indexes_the_last_counts() -> None:
    of_cpu, pypi = "--index-url https://download.pytorch.org/whl/cpu", "--index-url https://pypi.org/simple"
    first, last = torch_asked([of_cpu, "torch==2.4.1", pypi]), torch_asked([pypi, "torch==2.4.1", of_cpu])
    assert first is not None
    assert last is not None
    assert (first.of_cpu, last.of_cpu) == (False, True)


@collect(
    ("line", "asked"),
    [
        (
            "torch @ https://x.example/cu117/torch-2.0.1%2Bcu117-cp38-cp38-linux_x86_64.whl#sha256=00",
            "torch==2.0.1+cu117",
        ),
        (
            "https://x.example/cpu/torch-1.5.0%2Bcpu-cp37-cp37m-linux_x86_64.whl ; sys_platform != 'x'",
            "torch==1.5.0+cpu",
        ),
        ("torch @ https://x.example/torch-2.4.1-cp311-cp311-manylinux1_x86_64.whl", "torch==2.4.1"),
        ("torch @ https://x.example/torch-2.4.1-cp311-cp311-win_amd64.whl", ""),
        ("https://x.example/torchvision-0.19.1-cp311-cp311-linux_x86_64.whl", ""),
        ("torch @ git+https://github.com/pytorch/pytorch@v2.4.1", ""),
    ],
)
def test_a_wheel_that_is_named_by_its_file_is_the_torch_that_is_asked_for(line: str, asked: str) -> None:
    found = torch_asked(["numpy", line])
    assert (found.text if found else "") == asked
    assert told(line) == []


def test_a_library_that_somebody_built_himself_is_made_for_the_torch_that_was_there() -> None:
    assert paired(pip=("torch==2.4.1", "vllm==0.6.6+torch241.cu118", "torchvision==0.20.1+d801a34")) == []
    assert len(paired(pip=("torch==2.4.1", "torchvision==0.20.1+cu121"))) == 1


def test_a_wheel_of_nvidia_that_is_not_the_one_that_torch_requires_is_an_error() -> None:
    ((severity, message, fix),) = paired(
        pip=("torch==2.4.1", "nvidia-cudnn-cu12==9.5.0.50", "nvidia_nccl_cu12>=2.21", "nvidia-cublas-cu12==12.1.3.1")
    )
    assert severity == "error"
    needs = "nvidia-cudnn-cu12==9.1.0.70, nvidia-nccl-cu12==2.20.5"
    assert message.startswith("nvidia-cudnn-cu12==9.5.0.50, nvidia_nccl_cu12>=2.21: torch==2.4.1 requires " + needs)
    assert fix == f"take {needs}, or leave them out: torch installs what it needs"


@collect(
    "lines",
    [
        ("torch==2.4.1", "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu11==8.5.0.96", "nvidia-npp-cu12==1.0"),
        ("torch==2.4.1", "nvidia-cudnn-cu12==9.5.0.50; sys_platform == 'win32'"),
        ("torch>=2.4", "nvidia-cudnn-cu12==9.1.0.70"),
        ("torch==2.4.1+cu118", "nvidia-cudnn-cu12==9.5.0.50"),  # what that wheel requires is not in the tables
        ("torch==2.4.1+cpu", "nvidia-cudnn-cu12==9.5.0.50"),
    ],
)
def test_a_wheel_of_nvidia_that_torch_may_have_beside_it_is_not_told(lines: tuple[str, ...]) -> None:
    assert not paired(pip=lines)


@collect(
    ("marker", "asked"),
    [
        ("sys_platform != 'darwin'", True),
        ("platform_system != 'Windows' and python_version < '3.9'", True),
        ("platform_machine == 'aarch64'", True),
        ("python_version < '3'", False),
        ("sys_platform == 'darwin'", False),
        ("platform_system == 'Darwin' and platform_machine == 'arm64'", False),
        ("os_name == 'nt' or sys_platform == 'win32'", False),
        ("sys_platform = 'darwin'", True),
    ],
)
def test_a_marker_that_holds_on_linux_leaves_the_torch_asked_for(marker: str, asked: bool) -> None:
    assert (torch_asked([f"torch==2.4.1 ; {marker}"]) is not None) == asked or "= " in marker


def test_an_open_bound_admits_the_releases_that_pin_no_torch() -> None:
    assert paired(pip=("torch==2.11.0", "xformers>=0.0.33.post2")) == []
    assert len(paired(pip=("torch==2.11.0", "xformers>=0.0.33.post2,<0.0.35"))) == 1


def test_an_option_behind_torch_is_passed_over_by_pip() -> None:
    behind = "torch==2.4.1 --index-url https://download.pytorch.org/whl/"
    asked = torch_asked([behind + "cu118"])
    assert asked is not None
    assert (asked.text, asked.tags) == ("torch==2.4.1", ())
    ((severity, message, fix),) = told(behind + "cu118")
    assert (severity, fix) == ("warning", f"write {EXTRA}cu118 on its own line")
    assert message == ("pip ignores --index-url after torch==2.4.1: torch 2.4.1 on PyPI is built with CUDA 12.1")
    assert told(behind + "cu121") == []  # PyPI's is the same wheel
    ((severity, message, _),) = told("torch==2.4.1+cu118 -f https://download.pytorch.org/whl/cu118")
    assert (severity, message) == ("error", "pip ignores -f after torch==2.4.1+cu118: PyPI has no wheel +cu118")
    assert told(f"{EXTRA}cu118", "torch==2.4.1+cu118 -f https://download.pytorch.org/whl/cu118") == []


def test_libraries_for_another_python_than_that_of_torch_are_not_compared() -> None:
    lines = ("torch==2.4.1; python_version >= '3.11'", "torchvision==0.20.1; python_version == '3.10'")
    assert paired(pip=lines) == []
    assert len(paired(pip=(lines[0], "torchvision==0.20.1; python_version > '3.8'"))) == 1


@collect(
    ("line", "wheels"),
    [
        (f"{INDEX}cu$CU", True),
        (INDEX.rstrip("/"), True),
        (f"{INDEX}nightly/cu128", False),
        (f"{INDEX}cu118", True),
    ],
)
def test_the_page_of_all_tags_may_have_every_wheel(line: str, wheels: bool) -> None:
    asked = torch_asked([line, "torch==2.4.1"])
    assert asked is not None
    assert bool(wheels_asked(asked, "linux-64", None, base())) == wheels
    assert told(line, "torch==2.4.1") == []
