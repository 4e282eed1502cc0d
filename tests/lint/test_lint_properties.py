"""``cuenv lint --fix`` on generated files: twice is once, nothing new is wrong, nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from cuenv.core.errors import InputError
from cuenv.core.versions import Capability
from cuenv.lint import Lint, Machine, fix_text, sorted_lints
from cuenv.lint.dockerfile import parse as parse_dockerfile
from cuenv.lint.files import _rules_for
from cuenv.solve import environment_yml
from cuenv.solve.environment_spec import Pin
from given import base
from thorough import examples

MACHINES = (Machine(), Machine(gpus=(Capability(7, 0), Capability(8, 6)), memory_mib=16 * 1024))
machines = st.sampled_from(MACHINES)


def rules_of(kind: str, machine: Machine) -> Callable[[str], Iterable[Lint]]:
    return _rules_for(kind, "x", machine, base())


def fixed(kind: str, text: str, machine: Machine) -> str:
    """The mended text; mending it again changes nothing, and nothing in it could still be mended."""
    rules = rules_of(kind, machine)
    once = fix_text(text, rules)
    assert fix_text(once, rules) == once
    left = sorted_lints(once, rules(once))
    assert not [item for item in left if item.edits], left
    before = {item.finding.code for item in rules(text)}
    # A guard says that CUDA is meant: only then are the channels and what compiles for it judged.
    shown = {"CU101", "CU504"} if "CU104" in before else set()
    shown |= {"CU330"} if "CU337" in before else set()  # the newer name of a key that stands in the wrong section
    if not before & {"CU300", "CU303"}:
        assert {item.finding.code for item in left} <= before | shown, "a repair made a new fault"
    if not any(item.edits for item in rules(text)):
        assert once == text
    return once


# environment files

requirements = st.sampled_from(
    [
        *("python=3.10", "python: 3.10", "python 3.12.*", "pip", "numpy=1.26=py312*", "'numpy=1.26=py312*'", '"numpy"'),
        *(
            "pytorch=2.7.1",
            "pytorch",
            "pytorch=*=cuda*",
            "conda-forge::pytorch=2.3.1",
            "torchvision",
            "pytorch>=2.3,<3",
        ),
        *(
            "pytorch-cuda=12.1",
            "cuda-version=12.9",
            "cudatoolkit-dev=11.7.0",
            "cudatoolkit",
            "mkl=2023.1=h1  # [linux64]",
        ),
        *("deepspeed", "numpy  # keep [unix] only", "scipy[version='>=1,<2',build='py*']", "ninja   # ours", "cpuonly"),
    ]
)
wheels = st.sampled_from(
    [
        "deepspeed>=0.14.0",
        "deepspeed>=0.14.0   # good",
        "torch==2.3.1",
        "'torch>=2'",
        "transformers",
        "-e .",
        "a @ https://x.org/a.whl",
    ]
)
channels = st.sampled_from(["conda-forge", "pytorch", "nvidia", "nodefaults", "defaults", "nvidia/label/cuda-11.8.0"])
variables = st.sampled_from(
    [
        "A: 1.10",
        'B: "1.10"',
        "C: yes",
        "TORCH_CUDA_ARCH_LIST: '3.5;8.0'",
        "CUDA_HOME: $CONDA_PREFIX",
        'DS_BUILD_SPARSE_ATTN: "1"',
    ]
)
ends = st.sampled_from(["\n", "\r\n"])


@st.composite
def environments(draw: st.DrawFn) -> str:
    """A file as somebody writes it: blocks or flow, comments, a mapping that should be a string."""
    wanted = draw(st.lists(requirements, min_size=1, max_size=6, unique=True))
    pips = draw(st.lists(wheels, max_size=3, unique=True))
    named = draw(st.lists(channels, max_size=3, unique=True))
    settings_ = draw(st.lists(variables, max_size=3, unique=True))
    lines = draw(st.sampled_from([["name: x"], ["# ours", "name: x"], []]))
    flow = draw(st.booleans())
    if named and flow:
        lines = [*lines, f"channels: [{', '.join(named)}]"]
    elif named:
        lines = [*lines, "channels:", *(f"  - {item}" for item in named)]
    lines = [*lines, "dependencies:", *(f"  - {item}" for item in wanted)]
    if pips:
        lines += ["  - pip:", *(f"      - {item}" for item in pips)]
    if settings_:
        lines += ["variables:", *(f"  {item}" for item in settings_)]
    return draw(ends).join([*lines, ""])


def keeps(old: Pin, new: Pin) -> bool:
    """Whether a mended entry asks for no less than one of before."""
    return (
        new.name == old.name
        and (new.channel == old.channel or not old.channel)
        and bool(new.version) >= bool(old.version)
        and (new.build == old.build or not old.build)
    )


@examples(60)
@given(environments(), machines)
@example("name: x\nchannels:\n  - conda-forge\ndependencies:\n  - pytorch\n  - pytorch=*=cuda*\n", Machine())
@example(
    "channels:\n  - conda-forge\ndependencies:\n  - cudatoolkit-dev=11.7.0\n  - pip:\n      - torch==2.3.1\n", Machine()
)
def test_an_environment_file_is_fixed_once(text: str, machine: Machine) -> None:
    once = fixed("environment.yml", text, machine)
    had, has = yaml.safe_load(text), yaml.safe_load(once)
    assert list(had) == list(has)
    assert once.count("\r\n") == (0 if "\r\n" not in text else once.count("\n"))
    try:
        spec, _ = environment_yml.parse(text, "x")
    except InputError:
        return
    again, _ = environment_yml.parse(once, "x")
    assert len(has["dependencies"]) == len(had["dependencies"])
    # two entries on one package that a guard makes equal are one pin
    assert list(dict.fromkeys(pin.name for pin in again.pins)) == list(dict.fromkeys(pin.name for pin in spec.pins))
    assert len(again.pins) == len(spec.pins) or len({pin.name for pin in spec.pins}) < len(spec.pins)
    for old in spec.pins:
        assert any(keeps(old, new) for new in again.pins), old
    assert set(again.channels) <= set(spec.channels)
    assert again.variables.keys() == spec.variables.keys()


# Dockerfiles and scripts

images = st.sampled_from(
    [
        *(
            "nvidia/cuda:12.4.1-devel-ubuntu22.04",
            "nvidia/cuda:11.8-devel-ubuntu20.04",
            "nvidia/cuda:12.7.0-runtime-ubi8",
        ),
        *("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "ubuntu", "ubuntu:latest", "$BASE", "build", "scratch"),
    ]
)
commands = st.sampled_from(
    [
        *("conda install pytorch", "conda   install -c conda-forge   numpy", "mamba create -n x", "conda install -y x"),
        *("pip install 'deepspeed>=0.14.0' ninja", 'pip install "torch==2.6"', "apt-get install -y nvidia-driver-535"),
        *(
            "TORCH_CUDA_ARCH_LIST='3.5;8.0' pip install x",
            "nvcc --version",
            "DS_BUILD_SPARSE_ATTN=1 pip install deepspeed",
        ),
        *("echo 'conda install x'", "conda env create -f e.yml", "pip install deepspeed==0.14.1 --no-build-isolation"),
    ]
)
joins = st.sampled_from([" && ", " && \\\n    ", "; ", " || ", " && \\\n  # why\n  "])


@st.composite
def scripts(draw: st.DrawFn) -> str:
    parts = draw(st.lists(commands, min_size=1, max_size=3))
    return "".join(part + (draw(joins) if index + 1 < len(parts) else "") for index, part in enumerate(parts))


@st.composite
def dockerfiles(draw: st.DrawFn) -> str:
    lines = ["# syntax=docker/dockerfile:1"] if draw(st.booleans()) else []
    for stage in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(["", " AS build", " as Build"]))
        lines.append(f"FROM {draw(images)}{name if stage == 0 else ''}")
        for script in draw(st.lists(scripts(), max_size=3)):
            lines.append(draw(st.sampled_from(["RUN ", "run  ", "ONBUILD RUN "])) + script)
        lines += draw(
            st.lists(st.sampled_from(["ENV A=1 \\\n    TORCH_CUDA_ARCH_LIST=3.5;8.0", "WORKDIR /x", ""]), max_size=2)
        )
    return "\n".join([*lines, ""])


@examples(60)
@given(dockerfiles(), machines)
def test_a_dockerfile_is_fixed_once(text: str, machine: Machine) -> None:
    once = fixed("Dockerfile", text, machine)
    assert once.count("\n") == text.count("\n")
    had, has = parse_dockerfile(text, "x"), parse_dockerfile(once, "x")
    assert [item.name for item in had] == [item.name for item in has]


@examples(60)
@given(scripts(), machines)
def test_a_script_is_fixed_once(text: str, machine: Machine) -> None:
    once = fixed("shell", f"#!/bin/bash\n{text}\n", machine)
    assert once.count("\n") == text.count("\n") + 2


# DeepSpeed configurations

values = st.sampled_from(
    [True, False, "auto", 0, 3, 1e9, "cpu", "nvme", "/scratch", {}, {"enabled": True}, {"device": "cpu"}]
)
keys = st.sampled_from(
    [
        *(
            "stage",
            "stage3_gather_fp16_weights_on_model_save",
            "stage3_gather_16bit_weights_on_model_save",
            "offload_param",
        ),
        *(
            "offload_optimizer",
            "cpu_offload",
            "device",
            "nvme_path",
            "pin_memory",
            "enabled",
            "ratio",
            "stagee",
            "_comment",
        ),
    ]
)
sections = st.dictionaries(keys, values, max_size=4)
configurations = st.dictionaries(
    st.sampled_from(
        [
            *(
                "zero_optimization",
                "zero_optimisation",
                "bf16",
                "bfloat16",
                "fp16",
                "aio",
                "optimizer",
                "steps_per_print",
            ),
            *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "_comment"),
        ]
    ),
    values | sections,
    max_size=5,
)


def untidy(data: dict[str, Any], draw: st.DrawFn) -> str:
    """JSON with what people leave in it: comments, and commas before the end."""
    text = json.dumps(data, indent=draw(st.sampled_from([None, 2])))
    loose = draw(st.booleans())
    if data and loose:
        text = (
            text[:-1].rstrip()
            + ("," if draw(st.booleans()) else "")
            + draw(st.sampled_from(["}", "\n}", " // ours\n}"]))
        )
    return draw(st.sampled_from(["", "// ours\n", "# ours\n"])) + text + draw(st.sampled_from(["", "\n"]))


@st.composite
def configuration_texts(draw: st.DrawFn) -> str:
    return untidy(draw(configurations), draw)


@examples(60)
@given(configuration_texts(), machines)
def test_a_deepspeed_configuration_is_fixed_once_and_is_json_but_for_its_comments(text: str, machine: Machine) -> None:
    once = fixed("ds_config", text, machine)
    bare = "\n".join(line.partition("// ours")[0].partition("# ours")[0] for line in once.split("\n"))
    assert isinstance(json.loads(bare), dict)
    assert once.count("ours") == text.count("ours")


@pytest.mark.parametrize("kind", ["environment.yml", "Dockerfile", "ds_config", "shell"])
@examples(40)
@given(text=st.text(alphabet="abcFROMRUN :=-\"'{}[],#\\\n\t3.10", max_size=60), machine=machines)
def test_any_text_is_fixed_once(kind: str, text: str, machine: Machine) -> None:
    fixed(kind, text, machine)
