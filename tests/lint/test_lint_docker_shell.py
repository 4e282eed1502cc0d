"""Lint of Dockerfiles and shell scripts."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.core.errors import InputError
from cuenv.core.versions import Capability
from cuenv.knowledge.io.load import load
from cuenv.lint import Machine, line_and_column
from cuenv.lint.commands import command_lints
from cuenv.lint.dockerfile import parse
from cuenv.lint.files import Linted, lint
from thorough import examples

DEVEL = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n"


OF_TORCH = "https://download.pytorch.org/whl"
SLIM = "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\n"
NGC = "FROM nvcr.io/nvidia/pytorch:22.12-py3\n"


def linted(tmp_path: Path, text: str, *gpus: str, name: str = "Dockerfile") -> Linted:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return lint(path, None, Machine(gpus=tuple(map(Capability.parse, gpus))), load(None))


def test_a_later_release_of_what_torch_brings_takes_its_place(tmp_path: Path) -> None:
    text = DEVEL + "RUN pip install torch==2.6.0\nRUN pip install nvidia-cudnn-cu12==9.8.0.87\n"
    (found,) = (item.finding for item in linted(tmp_path, text).lints)
    assert (found.code, found.severity) == ("CU505", "info")
    assert found.message.endswith("; pip puts the other release in its place, and reports a conflict")


def codes(tmp_path: Path, text: str, *gpus: str, name: str = "Dockerfile") -> list[str]:
    return sorted({item.finding.code for item in linted(tmp_path, text, *gpus, name=name).lints})


@collect(
    ("text", "expected"),
    [
        (DEVEL, []),
        ("FROM scratch\n", []),
        ("ARG BASE=x\nFROM $BASE\n", []),
        (DEVEL.replace("22.04\n", "22.04 AS amd64cuda\n") + 'FROM "${TARGETARCH}cuda"\nRUN nvcc -V\n', []),
        (SLIM + "RUN git clone https://x.example/ml-io.git && cd ml-io && python3 setup.py bdist_wheel\n", []),
        (SLIM + "RUN git clone https://x.example/apex.git && cd apex && python3 setup.py bdist_wheel\n", ["CU322"]),
        (DEVEL + "RUN pip install ${PACKAGES} --index-url https://download.pytorch.org/whl/cu128\n", ["CU327"]),
        ("FROM ubuntu@sha256:" + "0" * 64 + "\n", []),
        ("FROM ubuntu:latest@sha256:" + "0" * 64 + "\n", []),
        (DEVEL + "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS Build\nFROM build\n", []),
        ("FROM ubuntu\n", ["CU320"]),
        ("FROM ubuntu:latest\n", ["CU320"]),
        ("FROM ubuntu:latest-slim\n", ["CU320"]),
        ("FROM localhost:5000/team/image\n", ["CU320"]),
        ("FROM localhost:5000/team/image:1\n", []),
        ("FROM --platform=linux/amd64 ubuntu\n", ["CU320"]),
        ("FROM nvidia/cuda:11.8-devel-ubuntu20.04\n", ["CU321"]),
        ("FROM nvidia/cuda:12.7.0-devel-ubuntu20.04\n", ["CU321"]),
        ("FROM nvidia/cuda:12.4.9-devel-ubuntu20.04\n", ["CU321"]),
        ("FROM nvidia/cuda:99.1.0-devel-ubuntu30.04\n", []),
        ("FROM nvcr.io/nvidia/cuda:11.8-base-ubi8\n", ["CU321"]),
        ("FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN DS_BUILD_OPS=1 pip install deepspeed\n", ["CU322"]),
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime\nRUN pip install x --no-build-isolation\n", ["CU322"]),
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel\nRUN pip install flash-attn --no-build-isolation\n", []),
        ("FROM nvidia/cuda:12.4.1-base-ubi8 AS slim\nFROM slim\nRUN nvcc --version\n", ["CU322"]),
        (DEVEL + "RUN nvcc --version\n", []),
        (DEVEL + "RUN conda install -y -c nvidia cuda=${CUDA_VERSION}\n", ["CU101"]),
        (DEVEL + "RUN pip install torch==1.13.0\nRUN git clone https://x.example/DeepSpeed.git && sh x\n", ["CU326"]),
        (SLIM + "RUN test -x /usr/local/cuda/bin/nvcc\n", []),
        (SLIM + "RUN apt-get update && /usr/local/cuda/bin/nvcc -o a a.cu\n", ["CU322"]),
        (DEVEL.replace("22.04", "22.04 AS b") + SLIM + "COPY --from=b /usr/local/cuda /opt/cuda\nRUN nvcc -V\n", []),
        (SLIM + "RUN apt-get install -y cuda-nvcc-12-4\nRUN pip install --no-build-isolation x\n", []),
        ("FROM nvidia/cuda:10.2-cudnn7-runtime-ubuntu18.04\n", ["CU321"]),
        (DEVEL + "RUN pip install torch==2.4.0 xformers==0.0.28.post1\n", ["CU505"]),
        (DEVEL + "RUN pip install torch==2.4.0\nRUN pip3.10 --no-cache-dir install xformers==0.0.28\n", ["CU505"]),
        (DEVEL + "RUN pip install torch==2.4.0\nRUN pip install --no-deps xformers==0.0.28\n", []),
        (DEVEL + "RUN pip install torch==2.4.0\nRUN pip install xformers==0.0.28 --no-dependencies\n", []),
        (DEVEL + "RUN uv pip install --override /tmp/over.txt torch==2.4.0\n", []),
        (DEVEL + "RUN pip install torch==2.4.0 xformers==0.0.27.post2\n", []),
        ("FROM pytorch/pytorch:2.4.0-cuda12.4-cudnn9-devel\nRUN pip install xformers==0.0.28\n", ["CU505"]),
        (NGC + "RUN pip install torch==2.8.0 torchvision\n", ["CU111", "CU325"]),
        (NGC + "RUN pip install torch\n", ["CU111"]),
        (NGC + "RUN pip install -U torch\n", ["CU111", "CU325"]),
        (NGC + "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH\n", ["CU111"]),
        (DEVEL + "ENV LD_LIBRARY_PATH=/usr/local/cuda/extras/CUPTI/lib64:$LD_LIBRARY_PATH\n", []),
        (DEVEL + "RUN conda install -y pytorch=2.3 -c pytorch || \\\n  pip install torch==2.3.0\n", ["CU104", "CU116"]),
        (DEVEL + "RUN conda install pytorch\n", ["CU323"]),
        (DEVEL + "RUN conda install -c conda-forge \\\n  pytorch --yes\n", ["CU104"]),
        (DEVEL + "RUN mamba create -n x && echo -y\n", ["CU323"]),
        (DEVEL + "RUN conda env create -f environment.yml\n", ["CU327"]),
        (DEVEL + "RUN apt-get install -y \\\n  # why\n\n  nvidia-driver-535\n", ["CU324"]),
        (DEVEL + "RUN apt-get install -y cuda-toolkit-12-4\n", []),
        (DEVEL + "RUN apt-get install -y cuda-toolkit-11-8\n", ["CU313"]),
        (DEVEL + "RUN apt-get install -y git nvidia-cuda-toolkit\n", ["CU313"]),
        (DEVEL + "RUN apt-get install -y nvidia-cuda-toolkit-gcc libcudart12\n", []),
        ("FROM ubuntu:22.04\nRUN apt-get install -y nvidia-cuda-toolkit\n", []),
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel\nRUN pip install 'torch==2.6' numpy\n", ["CU325"]),
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel\nRUN pip install torchmetrics\n", []),
        (NGC + "RUN pip install torchaudio\n", ["CU111", "CU325"]),
        (NGC + "RUN pip uninstall -y apex \\\n  torch\nRUN pip install torch==2.8.0\n", ["CU111"]),
        (NGC + "RUN pip uninstall -y torch && pip install torch==2.8.0\n", ["CU111"]),
        (NGC + "RUN pip uninstall -y torchvision && pip install torch==2.8.0\n", ["CU111", "CU325"]),
        (NGC + "RUN pip install --no-deps torchaudio\n", ["CU111"]),
        (NGC + "RUN pip install numpy\n", ["CU111"]),
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel\nRUN pip install torch==2.5.1 torchaudio\n", []),
        ("ARG V=99.1.0\nFROM nvidia/cuda:${V}-devel-ubuntu30.04\n", []),
        ("ARG V=11.8\nFROM nvidia/cuda:$V-devel-ubuntu20.04\n", ["CU321"]),
        (DEVEL + "ENV V=11.2\nRUN conda install -y cudatoolkit-dev=${V}\n", ["CU307"]),
        (DEVEL + "ENV V=12.1\nRUN conda install -y -c conda-forge cudatoolkit-dev=$V\n", ["CU110"]),
        (DEVEL + "ARG V\nRUN conda install -y -c conda-forge cudatoolkit-dev=$V\n", []),
        ("ARG V=12.1\n" + DEVEL + "ARG V\nRUN conda install -y -c conda-forge cudatoolkit-dev=${V}\n", ["CU110"]),
        ("ARG V=12.1\n" + DEVEL + "RUN conda install -y -c conda-forge cudatoolkit-dev=${V}\n", []),
        (DEVEL + "RUN conda install -y -c conda-forge cudatoolkit-dev=${V:-12.1}\n", ["CU110"]),
        (DEVEL + "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LD_LIBRARY_PATH\n", ["CU312"]),
        (DEVEL + "RUN pip install torch\n", []),
        (DEVEL + "RUN pip install torch==99.1\n", ["CU111"]),
        (DEVEL + "RUN pip install --pre torch --index-url https://download.pytorch.org/whl/nightly/cu128\n", ["CU111"]),
        ("FROM pytorch/pytorch:99.1.0-cuda12.4-cudnn9-devel\n", ["CU111"]),
        (DEVEL + "RUN pip install torch\nRUN pip install triton==2.0.0\n", ["CU505"]),
        (DEVEL + "RUN pip install torch triton==2.0.0\n", []),
        (DEVEL + "RUN pip install -r a.txt\nRUN pip install torch\nRUN pip install triton==2.0.0\n", ["CU327"]),
        ("FROM example/b:1\nRUN pip install torch\nRUN pip install triton==2.0.0\n", []),
        (DEVEL + "RUN pip install torch --extra-index-url https://download.pytorch.org/whl/cu118\n", ["CU520"]),
        (DEVEL + "RUN pip install torch --index-url=https://download.pytorch.org/whl/cu118\n", []),
        (DEVEL + "RUN uv pip install torch --torch-backend=auto\n", []),
        (DEVEL + "RUN pip3 install torch==2.4.1+cu118\n", ["CU520"]),
        (DEVEL + "RUN pip3 install torch==2.4.1+cu118 -f https://download.pytorch.org/whl/torch_stable.html\n", []),
        (DEVEL + "ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu118\nRUN pip install torch\n", ["CU520"]),
        (DEVEL + "ENV T=1.13.0\nRUN pip install torch==$T\nRUN pip install --no-build-isolation x\n", ["CU326"]),
        (DEVEL + "ENV T=1.13.0\nRUN pip install torch==$T numpy\n", []),
        (DEVEL + f"RUN conda install -y x\nRUN pip install torch==2.0.0+cu118 --index-url {OF_TORCH}/cu118\n", []),
        (DEVEL + f"RUN pip install torch==2.7.0 --index-url {OF_TORCH}/cpu\nRUN pip install triton==3.2.0\n", []),
        (DEVEL + "RUN pip install torch==2.4.1\nRUN pip install --no-build-isolation x\n", []),
        (DEVEL + "ENV TORCH_CUDA_ARCH_LIST='3.5;8.0'\n", ["CU310"]),
        (DEVEL + "ENV TORCH_CUDA_ARCH_LIST 8.0;9.0\n", []),
        (DEVEL + "ENV A=1 \\\n    LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH\n", ["CU312"]),
        (DEVEL + "RUN DS_BUILD_SPARSE_ATTN=1 pip install deepspeed\n", ["CU311"]),
        (DEVEL + "RUN <<EOF\npip install 'deepspeed>=0.14,<0.14.3'\nEOF\nCMD train\n", ["CU503"]),
        (DEVEL + "ONBUILD RUN conda install x\n", ["CU323"]),
        (DEVEL + "ENV CONDA_ALWAYS_YES=true\nRUN conda install x\n", []),
        (DEVEL + "RUN conda config --set always_yes yes && \\\n  conda install x\n", []),
        (DEVEL + "RUN conda config --set always_yes no && conda install x\n", ["CU323"]),
        (DEVEL + "RUN yes | conda install x\n", []),
        (DEVEL + "RUN true \\\n  # conda install x\n  # apt-get install nvidia-driver-535\n  && true\n", []),
        (DEVEL + "ENV A=1 \\\n  # LD_LIBRARY_PATH=/usr/local/cuda/lib64\n  B=2\n", []),
    ],
)  # fmt: skip
def test_a_dockerfile_is_judged_stage_by_stage(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert codes(tmp_path, text) == expected


def test_no_edit_replaces_a_variable(tmp_path: Path) -> None:
    text = "ARG V=11.8\nFROM nvidia/cuda:$V-devel-ubuntu20.04\nENV T=2.3\nRUN conda install -y -c pytorch pytorch=$T\n"
    result = linted(tmp_path, text)
    assert {item.finding.code for item in result.lints} >= {"CU321", "CU104"}
    assert result.fixed_text == text


def test_a_stub_of_the_driver_is_not_reported_as_a_toolkit_that_shadows(tmp_path: Path) -> None:
    (stub,) = linted(tmp_path, DEVEL + "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs\n").lints
    assert "finds no GPU" in stub.finding.message
    assert "cuBLAS" not in stub.finding.message


def test_gpus_and_the_toolkit_of_the_image_judge_the_targets(tmp_path: Path) -> None:
    text = "FROM pytorch/pytorch:2.3.1-cuda11.8-cudnn8-devel\nENV TORCH_CUDA_ARCH_LIST=8.0\n"
    assert codes(tmp_path, text, "8.6") == []
    assert codes(tmp_path, text, "9.0") == ["CU310"]
    assert codes(tmp_path, text.replace("=8.0", "=12.0"), "12.0") == ["CU310"]


SEEDS = """\
FROM pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime
# cudatoolkit-dev=11.7
RUN conda install -y pytorch torchvision pytorch-cuda=12.1 -c pytorch -c nvidia && \\
    conda install -y -c conda-forge cudatoolkit-dev=11.8 "numpy<2"
RUN pip install deepspeed transformers
"""


def test_what_was_not_read_is_reported_once_however_often_it_is_named(tmp_path: Path) -> None:
    text = DEVEL + "RUN pip install torch==2.4.0\nRUN pip install /made/*.whl\n" + "RUN pip install /made/*.whl\n" * 3
    (told,) = [item for item in linted(tmp_path, text).lints if item.finding.code == "CU327"]
    assert line_and_column(text, told.at)[0] == 3


def test_what_may_compile_is_a_warning_and_what_does_is_an_error(tmp_path: Path) -> None:
    for package, severity in (("x", "warning"), ("flash-attn", "error")):
        text = SLIM + f"RUN pip install {package} --no-build-isolation\n"
        found = linted(tmp_path, text).lints
        assert [item.finding.severity for item in found if item.finding.code == "CU322"] == [severity]


def test_what_commands_install_is_judged_as_an_environment_file(tmp_path: Path) -> None:
    found = linted(tmp_path, SEEDS)
    told = {(item.finding.code, item.finding.subject): line_and_column(SEEDS, item.at) for item in found.lints}
    assert told[("CU110", "cudatoolkit-dev")] == (4, 37)
    assert told[("CU104", "pytorch")] == (3, 22)
    assert told[("CU322", "image")] == (5, 17)
    assert {code for code, _ in told} == {"CU101", "CU102", "CU104", "CU110", "CU306", "CU322"}
    assert '"pytorch=*=*_cuda*"' in found.fixed_text
    assert linted(tmp_path, found.fixed_text).fixed_text == found.fixed_text
    assert "CU104" not in {item.finding.code for item in found.remaining}


SLIM = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\n"


@collect(
    ("text", "expected"),
    [
        (DEVEL + "RUN conda install -y -c conda-forge cudatoolkit-dev=11.7\n", ["CU307"]),
        (DEVEL + "RUN mamba create -y -n x -c conda-forge cudatoolkit-dev=12.1\n", ["CU110"]),
        (DEVEL + "RUN conda config --add channels conda-forge && conda install -y cudatoolkit-dev=12.1\n", ["CU110"]),
        (DEVEL + "RUN conda install -y cudatoolkit-dev=12.1\n", ["CU307"]),  # nobody says from where
        (DEVEL + "RUN conda install -y -c conda-forge $PKG ./x.conda -f env.yml pytorch>log\n", ["CU327"]),
        (DEVEL + "RUN conda remove -y cudatoolkit-dev=12.1 && conda env create -f e.yml\n", ["CU327"]),
        (DEVEL + "RUN conda install -y -c conda-forge 'pytorch=2.7.1=cuda*' && pip install torch\n", ["CU502"]),
        (DEVEL + "RUN micromamba install -y --channel=conda-forge cudatoolkit-dev=12.1\n", ["CU110"]),
        (SLIM + "RUN pip install 'deepspeed==0.15.0'\n", ["CU322"]),
        (SLIM + "RUN pip install -r deepspeed\n", ["CU327"]),
        (SLIM + "RUN conda install -y -c conda-forge cuda-nvcc=12.4 && pip install deepspeed==0.15.0\n", []),
        (DEVEL + "RUN pip install deepspeed==0.15.0\n", []),
        (DEVEL + "RUN true\n" + SLIM + "RUN pip install transformers\n", []),
        (SLIM + "RUN pip install deepspeed==0.15.0\n" + DEVEL + "RUN true\n", ["CU322"]),
    ],
)
def test_the_specs_of_commands_by_the_laws(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert codes(tmp_path, text) == expected


def test_the_specs_of_a_script_are_judged_as_well(tmp_path: Path) -> None:
    text = "# conda install cudatoolkit-dev=12.1 -c conda-forge\nconda install -c conda-forge 'cudatoolkit-dev=12.1'\n"
    assert codes(tmp_path, text, name="i.sh") == ["CU110"]


def test_edits_of_a_dockerfile_leave_its_layout(tmp_path: Path) -> None:
    text = (
        "# ours\nFROM nvidia/cuda:11.8-devel-ubuntu20.04 AS build\nRUN apt-get update && \\\n    # conda\n"
        "    conda install   pytorch \\\n      && pip install 'deepspeed<0.14.3' ninja\n"
    )
    result = linted(tmp_path, text)
    assert result.fixed_text == (
        text.replace(":11.8-", ":11.8.0-")
        .replace("install   pytorch", "install -y   pytorch")
        .replace("'deepspeed<0.14.3'", '"deepspeed<0.14.3,!=0.14.1,!=0.14.2"')
    )
    assert not result.remaining
    (tag,) = (item for item in result.lints if item.finding.code == "CU321")
    assert line_and_column(text, tag.at) == (2, 6)


def test_another_escape_character_is_understood() -> None:
    text = "# escape=`\nFROM x:1\nRUN a `\n  b\nCOPY c:\\ d\n"
    assert [item.name for item in parse(text, "x")] == ["FROM", "RUN", "COPY"]


@collect(
    "run",
    [
        "RUN echo a\\\\\n",  # an escaped back slash continues nothing
        "RUN echo a \\ \t\n  b\n",
        "RUN echo a \\\n# why \\\n\n  b\n",
        "RUN cat <<<word\n",
        "RUN echo $((1<<word))\n",
        "RUN echo a\x0cb\u2028c\n",  # lines end with \n alone
        "RUN <<word\n  word\nRUN a\nword\n",
        "RUN <<-word\n\t\tword\n",
        "RUN 3<<'word' cat \\\n  <&3\nRUN a\nword\n",
        "COPY <<a.txt <<b.txt /there/\nCOPY x\na.txt\nb.txt\n",
    ],
)
def test_an_instruction_ends_where_it_does_for_buildkit(run: str) -> None:
    """The rules of moby/buildkit, frontend/dockerfile/parser/parser.go."""
    found = parse(f"FROM x:1\n{run}USER word\n", "x")
    assert [item.name for item in found] == ["FROM", run.partition(" ")[0], "USER"]
    assert found[2].text == "word\n"


@collect("text", ["", "# nothing\n", "FROM x:1\nhello world\n", "RUNX y\n", "FROM x:1\n\x01\n"])
def test_what_is_not_a_dockerfile_is_one_finding(tmp_path: Path, text: str) -> None:
    assert codes(tmp_path, text) == ["CU300"]


@given(st.text(alphabet="FROMRUN x:1\\\n#<EOF'\"`=&;", max_size=120))
@examples(60)
def test_instructions_cover_a_file_in_order(text: str) -> None:
    with contextlib.suppress(InputError):
        found = parse(text, "x")
        assert all(item.text == text[item.at : item.at + len(item.text)] for item in found)
        assert [item.start for item in found] == sorted({item.start for item in found})


@collect(
    ("text", "expected"),
    [
        ("export PATH=$HOME/bin:$PATH\n", []),
        ("export LD_LIBRARY_PATH=/usr/local/cuda-11.8/lib64:$LD_LIBRARY_PATH\n", ["CU312"]),
        ('export LD_LIBRARY_PATH="/usr/local/cuda/lib64"\n', ["CU312"]),
        ("export LD_LIBRARY_PATH=/opt/mpi/lib\n", []),
        ("export CUDA_HOME=/usr/local/cuda-12.1\nexport PATH=/usr/local/cuda-12.1/bin:$PATH\n", []),
        ("export CUDA_HOME=/usr/local/cuda-12.1\nexport PATH=/usr/local/cuda-11.8/bin:$PATH\n", ["CU313"]),
        ("nvidia-smi\nnvidia-smi --query-gpu=name --format=csv\n", []),
        ("sudo nvidia-smi -e 1\n", ["CU314"]),
        ("nvidia-smi -i 0 -r\n", ["CU314"]),
        ("DS_BUILD_SPARSE_ATTN=1 pip install deepspeed\n", ["CU311"]),
        ("export TORCH_CUDA_ARCH_LIST='8.0;Ampere'\n", []),
        ("export TORCH_CUDA_ARCH_LIST='8.0;8'\n", ["CU310"]),
        ("pip install deepspeed==0.14.1\n", ["CU503"]),
        ("python3 -m pip install -U 'deepspeed<0.14.3'\n", ["CU503"]),
        ("pip install deepspeed -r requirements.txt git+https://x/y\n", ["CU327"]),
        ("# export LD_LIBRARY_PATH=/usr/local/cuda-11.8/lib64\nexport CUDA_HOME=/usr/local/cuda-12.1\n", []),
        ("true  # nvidia-smi -pm 1; pip install deepspeed==0.14.1\n", []),
        ("echo 'a # b'; pip install deepspeed==0.14.1\n", ["CU503"]),
        ("echo ${#x} $#; pip install deepspeed==0.14.1  # ours\n", ["CU503"]),
    ],
)  # fmt: skip
def test_a_script_is_judged_by_what_it_sets_and_runs(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert codes(tmp_path, text, name="train.sh") == expected


def test_a_script_is_known_by_its_first_line_and_profiles_by_their_name(tmp_path: Path) -> None:
    text = "#!/usr/bin/env bash\nexport LD_LIBRARY_PATH=/usr/local/cuda/lib64\n"
    for name in ("launch", ".bashrc", "setup.zsh"):
        assert codes(tmp_path, text, name=name) == ["CU312"]
    result = run("lint", ".bashrc", folder=tmp_path)
    assert result.returncode == 0
    assert ".bashrc:2:8: warning CU312" in result.stdout
    assert "cuenv explain ld-library-path" in result.stdout


MISTAKES = (
    "export TORCH_CUDA_ARCH_LIST='8.0;8'\n",
    "python3 -m pip install -U 'deepspeed<0.14.3'\n",
    "export LD_LIBRARY_PATH=/usr/local/cuda/lib64\n",
)


@given(st.lists(st.sampled_from(MISTAKES) | st.text(max_size=30), max_size=10).map("".join))
@examples(60)
@example("é\U0001f40d\r\n".join(MISTAKES))
def test_any_script_is_linted(text: str) -> None:
    found = list(command_lints(text, 0, Machine(), None, load(None)))
    assert found or not text.startswith(MISTAKES)
    for item in found:
        assert 0 <= item.at <= len(text)


def test_what_pip_does_in_a_later_command_is_reported(tmp_path: Path) -> None:
    text = DEVEL + "RUN pip install torch==2.4.0\nRUN pip install xformers==0.0.28\n"
    (lint,) = linted(tmp_path, text).lints
    assert lint.finding.severity == "warning"
    assert lint.finding.message == (
        "xformers==0.0.28 requires torch 2.4.1, but torch==2.4.0 is installed before; pip replaces it"
    )
    assert line_and_column(text, lint.at) == (3, 17)


def test_a_repair_of_a_command_names_no_pip_part(tmp_path: Path) -> None:
    text = DEVEL + "RUN pip install torch --extra-index-url https://download.pytorch.org/whl/cu118\n"
    (lint,) = linted(tmp_path, text).lints
    assert lint.finding.fix == "write torch==2.7.1+cu118"


def test_what_the_tables_do_not_list_is_unknown_and_never_fine(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(NGC)
    done = run("lint", "Dockerfile", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.endswith("1 file: unknown: the lines above say what was not checked\n")
    (tmp_path / "Dockerfile").write_text("FROM ubuntu\nRUN pip install torch==2.5.1 git+https://a.example/b.git\n")
    done = run("lint", "Dockerfile", folder=tmp_path)
    assert done.stdout.endswith("1 file: 0 errors, 1 warning; unknown: the lines above say what was not checked\n")


PYTORCH = "FROM pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime\n"


@collect(
    ("text", "told"),
    [
        ("FROM tensorflow/tensorflow:2.11.0-gpu\n", ["CU111"]),
        ("FROM tensorflow/tensorflow:2.11.0\n", ["CU111"]),  # named, and nobody knows what is in it
        ("FROM team/image:1\nRUN nvidia-smi\n", ["CU111"]),
        ("FROM team/image:1\nRUN pip install torch==2.5.1\n", []),  # that one is judged
        ("FROM team/image:1\nRUN make\n", []),
        ("FROM python:3.12\nRUN pip install .\n", []),  # nothing names CUDA
        (DEVEL + "RUN pip install -e .\n", ["CU327"]),
        (DEVEL + "RUN pip install --no-deps -e .\n", []),
        (DEVEL + "RUN pip install -e src[gpu] --index-url https://a.example/simple\n", ["CU327"]),
        (DEVEL + "RUN pip install 'a @ git+https://b.example/a.git'\n", ["CU327"]),
        (DEVEL + "RUN pip install ./dist/a.whl\n", ["CU327"]),
        (DEVEL + "RUN pip install numpy --find-links /wheels\n", []),
        (DEVEL + "RUN pip install poetry && poetry --no-ansi install\n", ["CU327"]),
        (DEVEL + "RUN cd /a && python3 setup.py install\n", ["CU327"]),
        (DEVEL + "RUN uv run --frozen train.py\n", ["CU327"]),
        (DEVEL + "RUN uv pip sync /tmp/a.txt --extra-index-url https://b.example\n", ["CU327"]),
        ("ARG BASE\nFROM ${BASE}\nRUN nvidia-smi\n", ["CU111"]),
        ("ARG BASE\nFROM ${BASE} AS a\nRUN pip install torch==2.5.1\nFROM a\n", []),
        (DEVEL + "RUN pip install torchvision\n", ["CU327"]),  # which brings the newest torch
        (DEVEL + "RUN pip install torch==2.5.1 torchvision\n", []),
        (PYTORCH + "RUN pip install torchvision\n", []),
    ],
)
def test_what_nobody_judged_is_unknown_where_cuda_is_involved(tmp_path: Path, text: str, told: list[str]) -> None:
    found = linted(tmp_path, text).lints
    assert [item.finding.code for item in found] == told
    assert all(item.finding.unknown for item in found)


def test_conda_without_yes_is_never_an_error_because_a_build_goes_on(tmp_path: Path) -> None:
    found = linted(tmp_path, DEVEL + "RUN conda install pytorch\nRUN conda create -n x\n").lints
    assert {(item.finding.code, item.finding.severity) for item in found} == {("CU323", "info")}


def test_the_list_that_uv_pip_sync_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("torch==2.8.0\n")
    for command in ("uv pip sync", "pip-sync", "pip install -r"):
        text = (
            DEVEL + f"COPY a.txt .\nRUN {command} a.txt --index-url https://download.pytorch.org/whl/cu118 > log.txt\n"
        )
        (found,) = (item.finding for item in linted(tmp_path, text).lints)
        assert found.message.startswith("a.txt: the index cu118 has torch")


def test_a_project_without_its_login_is_named_and_a_lock_with_the_command_that_checks_it(tmp_path: Path) -> None:
    text = DEVEL + "RUN uv sync && pip install git+https://me:secret@b.example/a.git\n"
    first, second = (item.finding for item in linted(tmp_path, text).lints)
    assert first.fix == "cuenv check uv.lock"
    assert "secret" not in second.message


@collect(
    ("text", "gpu", "driver", "told"),
    [
        (PYTORCH, "RTX 5090", "570.86.10", [("CU403", "error")]),
        (PYTORCH, "RTX 3090", "535.129.03", []),
        (PYTORCH + "RUN pip install torch==2.7.1+cu128\n", "RTX 5090", "570.86.10", []),
        (PYTORCH.replace("\n", " AS b\nRUN pip install torch==2.7.1+cu128\nFROM b\n"), "RTX 5090", "570.86.10", []),
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime\n", "A100", "450.80.02", [("CU401", "error")]),
        ("FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel\n", "A100", "450.80.02", [("CU401", "info")]),
        (DEVEL, "GTX 1080", "470.129.06", [("CU401", "error")]),
        (DEVEL, "A100", "450.80.02", [("CU401", "info")]),  # NVIDIA's libraries may serve it
        ("FROM python:3.12\nRUN pip install torch==2.5.1\n", "A100", "450.80.02", [("CU401", "error")]),
        ("FROM nvidia/cuda:11.3.1-devel-ubuntu20.04\n", "RTX 5090", "570.86.10", [("CU404", "warning")]),
        ("FROM nvidia/cuda:11.3.1-runtime-ubuntu20.04\n", "RTX 5090", "570.86.10", []),
        (
            "FROM a/b:py310-ubuntu20.04\nRUN pip install torch==2.6.0\n",  # the Python of the tag, not of Ubuntu
            "RTX 5090",
            "570.86.10",
            [("CU403", "error")],
        ),
        ("FROM python:3.8\nRUN pip install torch==2.6.0\n", "RTX 4090", "570.86.10", [("CU110", "error")]),
    ],
)
def test_what_an_image_brings_itself_is_judged_on_the_host(
    tmp_path: Path, text: str, gpu: str, driver: str, told: list[tuple[str, str]]
) -> None:
    (tmp_path / "Dockerfile").write_text(text)
    done = run("lint", "--json", "--gpu", gpu, "--driver", driver, folder=tmp_path)
    found = [item for file in json.loads(done.stdout)["files"] for item in file["findings"]]
    assert [(item["code"], item["severity"]) for item in found if item["code"] not in ("CU325", "CU520")] == told


def test_a_list_that_is_copied_is_read_and_another_one_is_reported_as_not_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "docker"
    folder.mkdir()
    text = DEVEL + "COPY reqs.txt /tmp/\nRUN pip install -r /tmp/reqs.txt\nRUN pip install --requirement=/opt/x.txt\n"

    def told() -> list[tuple[str, str, bool]]:
        found = [item.finding for item in linted(folder, text).lints]
        return [(item.code, item.message.split(" ")[0], item.unknown) for item in found]

    (tmp_path / "reqs.txt").write_text("numpy\n-e git+https://a.example/b.git\n")
    assert [message for _, message, _ in told()] == ["git+https://a.example/b.git", "/opt/x.txt"]
    (tmp_path / "reqs.txt").unlink()
    unread = ("CU327", "/opt/x.txt", True)
    assert told() == [("CU327", "/tmp/reqs.txt", True), unread]
    (tmp_path / "reqs.txt").write_text("numpy\ntorch==2.1.0+cu118\n")
    assert told() == [("CU520", "/tmp/reqs.txt:", False), unread]
    (folder / "reqs.txt").write_text("torch==2.1.0\n")  # two of that name: nobody knows which is copied
    assert [code for code, _, _ in told()] == ["CU327", "CU327"]
    text += "RUN cuenv check --prefix /opt/env\n"  # the build itself fails where the environment does not fit
    assert told() == []


def test_a_lock_that_a_build_installs_from_is_for_check_and_no_file_of_this_machine_is_read(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("torch==2.1.0+cu118\n")
    text = DEVEL + f"RUN pip install -r {tmp_path}/list.txt\nRUN micromamba create -y -f /opt/conda-lock.yml\n"
    found = [item.finding for item in linted(tmp_path, text).lints]
    assert [(item.code, item.fix) for item in found] == [("CU327", None), ("CU327", "cuenv check conda-lock.yml")]


def test_pip_takes_what_the_python_of_the_image_has(tmp_path: Path) -> None:
    old = (
        f"FROM nvidia/cuda:11.6.2-cudnn8-devel-ubuntu20.04\nRUN pip3 install torch --extra-index-url {OF_TORCH}/cu116\n"
    )
    (told,) = linted(tmp_path, old).lints
    assert "pip installs torch 2.4.1 from PyPI" in told.finding.message
    named = old.replace("RUN pip3", "RUN apt-get install -y python3.9 python3.9-venv\nRUN pip3")
    (told,) = linted(tmp_path, named).lints
    assert "pip installs torch 2.8.0 from PyPI" in told.finding.message
    newer = old.replace("RUN pip3", "RUN add-apt-repository ppa:deadsnakes/ppa\nRUN pip3")
    (told,) = linted(tmp_path, newer).lints
    assert "pip installs torch 2.4.1 from PyPI" not in told.finding.message


def test_nvcc_of_another_major_is_reported_with_a_torch_for_it(tmp_path: Path) -> None:
    text = "FROM pytorch/pytorch:2.2.2-cuda12.1-cudnn8-devel\nRUN micromamba run pip install torch\nRUN nvcc x.cu\n"
    (told,) = linted(tmp_path, text).lints
    assert told.finding.message.startswith("pip takes torch ")
    assert " for torch today, which is made with CUDA 13." in told.finding.message
    assert re.match(
        r"write torch==2\.\d+\.\d\+cu12\d with --extra-index-url \S+/cu12\d, or begin", told.finding.fix or ""
    )


def test_torch_is_judged_for_a_gpu_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DEVEL + "RUN pip install torch==2.0.1\n")
    host = ("--gpu", "RTX 5090", "--driver", "575.57.08")
    assert run("lint", "Dockerfile", folder=tmp_path).returncode == 0
    told = run("lint", "Dockerfile", *host, folder=tmp_path)
    assert told.returncode == 1
    assert told.stdout.count("error CU403 torch 2.0.1+cu117 has code for") == 1
    (tmp_path / "Dockerfile").write_text(DEVEL + "RUN pip install torch==2.8.0\n")
    assert run("lint", "Dockerfile", *host, folder=tmp_path).returncode == 0


def test_a_triton_for_another_torch_is_named_with_what_requires_what(tmp_path: Path) -> None:
    text = "RUN pip install torch --index-url https://download.pytorch.org/whl/cu121\nRUN pip install triton==2.0.0\n"
    (tmp_path / "Dockerfile").write_text(DEVEL + text)
    assert (
        "warning CU505 triton==2.0.0 is what torch >=2.0,<2.1 requires, but torch (2.5.1 today) is installed before; "
        "pip replaces its triton"
    ) in run("lint", "Dockerfile", folder=tmp_path).stdout


@collect("program", ["conda", "/opt/conda/bin/conda", "mamba"])
def test_a_torch_of_conda_in_a_dockerfile_is_judged_for_the_gpus_that_are_named(program: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        f"FROM debian:12\nRUN {program} install -y -c pytorch -c nvidia pytorch=2.3.1 pytorch-cuda=12.1\n"
    )
    told = run("lint", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path)
    assert told.returncode == 1
    assert "error CU403 pytorch 2.3.1 for CUDA 12.1 has code for" in told.stdout
    fine = run("lint", "--gpu", "RTX 4090", "--driver", "535.129.03", folder=tmp_path)
    assert fine.returncode == 0


@collect("command", ["pip install torch==2.5.1", "conda install -c pytorch pytorch=2.3.1 pytorch-cuda=12.1"])
@collect(("gpu", "told"), [("GTX 1080", 1), ("V100", 0), ("6.1", 0)])
def test_no_image_brings_forward_compatibility_to_a_geforce(command: str, gpu: str, told: int, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nRUN {command}\n")
    said = run("lint", "--gpu", gpu, "--driver", "470.129.06", folder=tmp_path).stdout
    assert len(re.findall(r"error CU401 .*CUDA 12.x needs driver 525.60.13 or later", said)) == told


def test_a_gpu_that_an_arch_list_leaves_out_is_named(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:12\nENV TORCH_CUDA_ARCH_LIST='8.0;9.0'\n")
    said = run("lint", "--gpu", "GTX 1080", "--driver", "470.129.06", folder=tmp_path).stdout
    assert "TORCH_CUDA_ARCH_LIST 8.0;9.0 leaves out compute capability 6.1 (GeForce GTX 1080)" in said


def test_what_a_build_compiles_is_not_called_fine_on_a_named_host(tmp_path: Path) -> None:
    text = "FROM nvidia/cuda:12.1.0-devel-ubuntu22.04\nRUN apt-get install -y cmake && \\\n    cmake -S /src -B /b\n"
    (tmp_path / "Dockerfile").write_text(text)
    done = run("lint", "--gpu", "RTX 4090", "--driver", "535.129.03", folder=tmp_path)
    assert "Dockerfile:3:5: info CU403 the code that this command compiles was not checked" in done.stdout
    assert done.stdout.endswith("unknown: the lines above say what was not checked\n")
    assert run("lint", folder=tmp_path).stdout == "1 file: fine\n"


@collect(
    ("image", "commands", "judged"),
    [
        ("nvcr.io/nvidia/pytorch:24.05-py3", "pip install torch torchvision", False),
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel", "pip install torch", False),
        ("debian:12", "pip install torch==2.6.0 && pip install torch accelerate", False),
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel", "pip install -U torch", True),
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel", "pip uninstall -y torch && pip install torch", True),
        ("debian:12", "pip install torch", True),
    ],
)
def test_a_torch_that_is_there_already_is_left_by_pip(tmp_path: Path, image: str, commands: str, judged: bool) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\nRUN {commands}\n")
    said = run("lint", "--gpu", "RTX 4090", "--driver", "535.129.03", folder=tmp_path).stdout
    assert ("pip takes torch" in said) == judged


def test_a_python_that_a_variable_names_is_not_that_of_the_tools_of_the_system(tmp_path: Path) -> None:
    text = (
        "FROM nvidia/cuda:12.9.1-devel-amzn2023\nARG V=3.12\nRUN dnf install -y python${V} python${V}-pip"
        " && sed -i '1s|python3|python3.9|' /usr/bin/dnf\nRUN python3 -m pip install torch==2.11.0\n"
    )
    assert not [item for item in linted(tmp_path, text).lints if item.finding.code == "CU110"]
    fixed = text.replace("python${V}", "python3.9")
    assert [item for item in linted(tmp_path, fixed).lints if item.finding.code == "CU110"]


def test_an_index_that_a_variable_of_the_shell_names_hides_no_torch(tmp_path: Path) -> None:
    index = "https://download.pytorch.org/whl/cu$CU"
    text = f'FROM nvidia/cuda:12.1.0-devel-ubuntu22.04\nRUN CU=121; pip3 install torch==2.3.0 --index-url "{index}"\n'
    (tmp_path / "Dockerfile").write_text(text)
    done = run("lint", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path)
    assert "Dockerfile:2:26: error CU403 torch 2.3.0+cu121 has code for" in done.stdout
