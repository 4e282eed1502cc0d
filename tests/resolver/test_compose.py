"""From a decision to the environment: the one-channel law, guards, caps, roles, and a file that reads back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from channel_builder import pkg, write
from channel_builder import request as asked
from cuenv.core import __version__
from cuenv.core.versions import Capability, Target, version
from cuenv.host.request import pool
from cuenv.knowledge.rows import STACKS
from cuenv.resolver.asked_cuda import wants_cuda
from cuenv.resolver.compose import compose, cuda_channel
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.policy import spec_findings
from cuenv.solve import environment_yml
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.io.solver import solve
from cuenv.solve.model import Unsatisfiable
from given import HOSTS, WITH_GPU, base, candidate, capabilities, case, choice, decided, machine, settled, shipped
from thorough import examples

COMBINATIONS = [*product(WITH_GPU, STACKS, (True, False))]
NOTHING_FITS = {
    *(("rtx5090-560", stack, dev) for stack, dev in product(STACKS, (True, False))),
    *(("gh200-570", "pytorch", dev) for dev in (True, False)),
    ("a800-470", "conda-forge", True),
    ("pool-rtx5090", "pytorch", True),
    ("v100-rtx5090-575", "pytorch", True),
}
POSSIBLE = [each for each in COMBINATIONS if each not in NOTHING_FITS]


def composed(decision: Decision) -> EnvironmentSpec:
    return compose(decision, "team")


def environment(name: str, packages: tuple[str, ...] = (), **wishes: Any) -> EnvironmentSpec:
    """Packages are composed beside what is chosen without them: one candidate is judged, and not each again."""
    chosen = settled(name, **wishes)
    if not packages:
        return composed(chosen)
    return composed(decide(case(shipped(name), packages=packages, **wishes), [choice(chosen)]))


def spelled(each: tuple[str, str, bool]) -> str:
    name, stack, dev = each
    return f"{name}-{stack}-{'dev' if dev else 'no-dev'}"


def every(test: Callable[[Decision], None]) -> Callable[..., None]:
    """Every shipped host with both stacks, with and without compiler, where something fits."""

    @collect("each", POSSIBLE, ids=spelled, one_in=3)
    def tried(each: tuple[str, str, bool]) -> None:
        name, stack, dev = each
        test(settled(name, stack=stack, dev=dev))

    return tried


@pytest.mark.slow
def test_something_fits_everywhere_but_where_nothing_does() -> None:
    found = {each: settled(each[0], stack=each[1], dev=each[2]) for each in COMBINATIONS}
    assert {each for each, decision in found.items() if not decision.chosen} == NOTHING_FITS
    assert all(choice(found[each]).build.stack == each[1] for each in POSSIBLE)
    assert {stack for _, stack, _ in POSSIBLE} == set(STACKS)
    assert len(POSSIBLE) >= 25


# the one-channel law


@every
def test_the_laws_find_nothing(decision: Decision) -> None:
    spec = composed(decision)
    assert wants_cuda(spec, base())
    assert [finding for finding in spec_findings(spec, base()) if finding.severity != "info"] == []


@every
def test_every_cuda_component_names_the_one_channel(decision: Decision) -> None:
    spec, item = composed(decision), choice(decision)
    channel = cuda_channel(item)
    components = [pin for pin in spec.pins if base().is_component(pin.name)]
    assert {pin.channel for pin in components} <= {channel}
    assert channel != "nvidia"
    if channel:
        assert channel in spec.channels
    torch = spec.pin("pytorch")
    assert torch
    assert torch.channel == item.build.stack == spec.channels[0]
    assert "nvidia" not in spec.channels
    assert "nodefaults" not in spec.channels
    assert "defaults" not in spec.channels
    assert len(set(spec.channels)) == len(spec.channels)


@every
def test_every_named_channel_is_listed(decision: Decision) -> None:
    spec = composed(decision)
    assert {pin.channel for pin in spec.pins if pin.channel} <= set(spec.channels)


# roles


@every
def test_every_asked_role_is_filled_or_lies_inside_the_build(decision: Decision) -> None:
    spec, item = composed(decision), choice(decision)
    filled = {pin.role for pin in spec.pins if pin.role}
    asked = {"pytorch-cuda", "cudnn", "nccl"} | ({"cudatoolkit-dev"} if decision.context.request.dev else set())
    if item.build.stack == "pytorch":
        asked -= {"cudnn", "nccl"}
        assert not spec.pin("cudnn")
        assert not spec.pin("nccl")
        assert "contains cuDNN and NCCL" in " ".join(why for pin in spec.pins for why in pin.why)
        if item.label is None:
            asked -= {"cudatoolkit-dev"}
    assert filled == asked


@every
def test_with_a_compiler_come_headers_ninja_and_a_host_compiler_that_nvcc_accepts(decision: Decision) -> None:
    spec, item = composed(decision), choice(decision)
    gxx = spec.pin(f"gxx_{item.build.platform}")
    if not decision.context.request.dev:
        names = {pin.name for pin in spec.pins}
        assert not names & {"cuda-nvcc", "cuda-toolkit", "ninja", f"gxx_{item.build.platform}", "libcublas-dev"}
        return
    assert gxx
    assert spec.pin("ninja")
    assert item.cuda
    row = base().cuda(item.cuda)
    assert row
    limit = int(gxx.version.removesuffix(".*"))
    assert row.gcc_max
    assert (row.gcc_min or 0) <= limit <= row.gcc_max
    if item.build.stack == "conda-forge":
        assert row.conda_gcc_max
        assert limit <= row.conda_gcc_max
        rows = [base().component(pin.name) for pin in spec.pins]
        brought = {header for row in rows if row for header in row.headers}
        assert brought >= {"cuda_runtime.h", "cusparse.h", "cublas_v2.h", "cusolverDn.h", "curand.h"}


def test_the_host_compiler_keeps_to_the_stricter_bound_of_conda_forge() -> None:
    row = base().cuda(version("12.4"))
    assert row
    assert (row.gcc_max, row.conda_gcc_max) == (13, 12)
    spec = composed(decide(case(machine("8.0")), [candidate("2.5.1", "cuda120*", "12.4")]))
    theirs = composed(decide(case(machine("8.0")), [candidate("2.5.1", "*cuda12.4*")]))
    assert [each.pin("gxx_linux-64").version for each in (spec, theirs)] == ["12.*", "13.*"]  # type: ignore[union-attr] # it is there


# guards


@every
def test_the_torch_pin_keeps_the_cpu_build_out(decision: Decision) -> None:
    spec, item = composed(decision), choice(decision)
    torch = spec.pin("pytorch")
    assert torch
    assert (torch.version, torch.build) == (str(item.build.version), item.build.build)
    assert "cuda" in torch.build


TWINS = ("torchvision", "deepspeed", "xformers", "torchcodec", "tensorflow-base", "jaxlib", "faiss", "onnxruntime")


@collect("package", TWINS)
@collect("name", ["rtx4090-535", "v100-rtx5090-575", "gh200-570"], one_in=3)
def test_a_wished_package_with_a_cpu_twin_is_guarded(name: str, package: str) -> None:
    decision = settled(name, packages=(package, f"{package}-x"))
    spec = composed(decision)
    pin, other = spec.pin(package), spec.pin(f"{package}-x")
    variant = base().cuda_variant(package, "conda-forge")
    own = choice(decision).build.cuda
    assert pin
    assert other
    assert variant
    assert own
    digits = f"{own.major}{own.minor}"
    assert pin.channel == "conda-forge"
    assert pin.build == variant.guard.format(cuda=digits, dotted=str(own))
    assert "cuda" in pin.build
    assert other.build == ""


def test_a_guard_does_not_make_a_wished_release_exact() -> None:
    """``torchvision=0.18`` means 0.18.*, as conda reads it; beside a build string it would mean 0.18 alone."""
    asked = ("torchvision=0.18", "torchaudio==2.3.1", "deepspeed>=0.14,<0.15")
    spec = environment("rtx4090-535", packages=asked)
    versions = {name: pin.version for name in ("torchvision", "torchaudio", "deepspeed") if (pin := spec.pin(name))}
    assert versions == {"torchvision": "0.18.*", "torchaudio": "==2.3.1", "deepspeed": ">=0.14,<0.15"}
    assert "torchvision=0.18.*=cuda" in str([pin.yaml_text() for pin in spec.pins])


def test_on_the_stack_pytorch_the_guard_is_that_of_the_channel() -> None:
    spec = environment("a800-470", packages=("torchvision", "torchaudio", "deepspeed"))
    made = {pin.name: (pin.channel, pin.build) for pin in spec.pins}
    assert made["torchvision"] == ("pytorch", "*_cu118")
    assert made["torchaudio"] == ("pytorch", "*_cu118")
    assert made["deepspeed"] == ("conda-forge", "cuda118*")


def test_a_guard_of_the_user_stays_and_is_judged() -> None:
    spec = environment("rtx4090-535", packages=("deepspeed=*=cpu*",))
    assert {finding.code for finding in spec_findings(spec, base())} == {"CU103"}
    fine = environment("rtx4090-535", packages=("deepspeed=*=cuda*",))
    assert spec_findings(fine, base()) == ()


def test_a_wished_component_comes_from_the_one_channel() -> None:
    for name, channel in (("rtx4090-535", "conda-forge"), ("a800-470", "nvidia/label/cuda-11.8.0")):
        pin = environment(name, packages=("cuda-cupti",)).pin("cuda-cupti")
        assert pin
        assert pin.channel == channel


def test_a_wished_component_from_another_channel_is_two_channels() -> None:
    for wanted in ("nvidia::cuda-cupti", "nvidia/label/cuda-12.9.0::libcublas-dev"):
        spec = environment("rtx4090-535", packages=(wanted,))
        errors = [finding.code for finding in spec_findings(spec, base()) if finding.severity == "error"]
        assert errors == ["CU101"], wanted


def test_in_a_cpu_environment_nothing_is_guarded() -> None:
    spec = environment("no-gpu", cpu=True, dev=False, packages=("torchvision",))
    pin = spec.pin("torchvision")
    assert pin
    assert pin.build == ""
    torch = spec.pin("pytorch")
    assert torch
    assert torch.build == "cpu*"
    assert not wants_cuda(spec, base())
    assert spec_findings(spec, base()) == ()
    assert spec.variables == {}


# wishes on what is pinned anyway


def test_a_wish_and_a_cap_both_hold() -> None:
    spec = environment("v100-rtx5090-575", packages=("libcudnn>=9.8", "gxx_linux-64=13", "ninja>=1.11"))
    made = {pin.name: pin.condition() for pin in spec.pins}
    assert made["libcudnn"].split(",") == ["<9.11", ">=9.8"]
    assert made["gxx_linux-64"].split(",") == ["<15", "13.*"]
    assert made["ninja"] == ">=1.11"
    other = environment("v100-rtx5090-575", packages=("gxx_linux-64=11|>=13",)).pin("gxx_linux-64")
    assert other
    assert other.condition() == "<15,11.*|<15,>=13"  # the cap holds in each of the alternatives
    assert len({pin.name for pin in spec.pins}) == len(spec.pins)


@collect(
    ("wishes", "name", "means"),
    [
        (("libcudnn>=9.8", "libcudnn<9.10"), "libcudnn", ("<9.11,>=9.8,<9.10", "")),
        (("numpy>=1.26", "numpy<2"), "numpy", (">=1.26,<2", "")),
        (("numpy=1.26", "numpy"), "numpy", ("1.26.*", "")),
        (("numpy=1.26", "numpy=*=py312*"), "numpy", ("1.26.*", "py312*")),
        (("numpy=1.26.4=py312*", "numpy<2"), "numpy", ("==1.26.4,<2", "py312*")),
        (("torchvision>=0.20", "torchvision<0.30"), "torchvision", (">=0.20,<0.30", "cuda*")),
        (("gxx_linux-64>=12.2", "gxx_linux-64=13.*"), "gxx_linux-64", ("<15,>=12.2,13.*", "")),
    ],
)
def test_two_wishes_on_one_package_both_hold(wishes: tuple[str, ...], name: str, means: tuple[str, str]) -> None:
    for order in (wishes, wishes[::-1]):
        found = [pin for pin in environment("v100-rtx5090-575", packages=order).pins if pin.name == name]
        (pin,) = found
        assert (sorted(pin.condition().split(",")), pin.build) == (sorted(means[0].split(",")), means[1])


@collect("other", ["numpy=*=py311*", "conda-forge::numpy", "defaults::numpy=*=py312*"])
def test_two_wishes_that_contradict_each_other_are_refused(other: str) -> None:
    first = "defaults::numpy" if other.startswith("conda-forge") else "conda-forge::numpy=*=py312*"
    with pytest.raises(ValueError, match=r"require different (builds|channels)"):
        environment("v100-rtx5090-575", packages=(first, other))


@collect(
    ("wanted", "option"),
    [
        ("pytorch=2.0", "--pytorch"),
        ("conda-forge::pytorch=*=cpu*", "--pytorch"),
        ("python=3.9", "--python"),
        ("cuda-version=11.8", "--cuda"),
    ],
)
def test_what_the_decision_chooses_is_asked_for_by_its_own_option(wanted: str, option: str) -> None:
    with pytest.raises(ValueError, match=option):
        environment("rtx4090-535", packages=(wanted,))


def test_to_name_it_without_a_version_changes_nothing() -> None:
    def texts(spec: EnvironmentSpec) -> list[str]:
        return [pin.yaml_text() for pin in spec.pins]

    plain = texts(environment("rtx4090-535"))
    assert texts(environment("rtx4090-535", packages=("pytorch", "python", "cuda-version", "nccl"))) == plain


def test_what_is_not_a_package_is_refused() -> None:
    with pytest.raises(ValueError, match="name"):
        environment("rtx4090-535", packages=("==1.0",))


@collect(
    ("wanted", "condition"),
    [
        ("3.12", "3.12.*"),
        (">=3.10", "3.12.*"),
        ("3.12.4", "3.12.4.*"),
        ("==3.12.4", "==3.12.4"),
        (">=3.12.4,<3.13", "3.12.*,>=3.12.4,<3.13"),
        ("> 3.12.2, != 3.12.5", "3.12.*,>3.12.2,!=3.12.5"),
    ],
)
def test_a_wish_for_certain_releases_of_python_is_kept(wanted: str, condition: str) -> None:
    pin = environment("rtx4090-535", python=wanted).pin("python")
    assert pin
    assert pin.condition() == condition


# the layers and the GPUs


@every
def test_cudnn_is_capped_exactly_where_a_gpu_is_older_than_it_serves(decision: Decision) -> None:
    spec = composed(decision)
    pin = next((pin for pin in spec.pins if pin.role == "cudnn"), None)
    if pin is None:
        return
    oldest = decision.context.facts.capabilities[0]
    asked = choice(decision).build.cudnn
    assert asked
    cut = oldest < Capability(7, 5) and asked.overlaps(version("9.11"), None)
    assert pin.version == ("<9.11" if cut else "")
    assert pin.name == asked.package


@every
def test_the_arch_list_is_exactly_the_gpus(decision: Decision) -> None:
    listed = composed(decision).variables["TORCH_CUDA_ARCH_LIST"].split(";")
    assert listed == [str(gpu) for gpu in decision.context.facts.capabilities]


@examples(25)
@given(st.lists(capabilities, min_size=1, max_size=3))
def test_what_is_compiled_runs_on_every_gpu_and_needs_nothing_more(gpus: list[Capability]) -> None:
    facts = machine(*map(str, gpus))
    decision = decided(facts)
    if decision.chosen is None:
        return
    listed = composed(decision).variables["TORCH_CUDA_ARCH_LIST"].split(";")
    assert len(listed) == len(set(listed)) <= len(set(gpus))
    targets = [Target.parse(text) for text in listed]
    for gpu in gpus:
        assert any(target.sass_runs_on(gpu) for target in targets)
    for target in targets:
        assert any(target.sass_runs_on(gpu) for gpu in gpus)


def test_a_gpu_that_nvcc_does_not_name_is_served_by_the_nearest_that_runs_there() -> None:
    decision = decide(case(machine("8.9")), [candidate("2.0.1", "*cuda11.7*")])
    assert composed(decision).variables["TORCH_CUDA_ARCH_LIST"] == "8.6"


def test_nccl_is_pinned_from_the_one_channel() -> None:
    pin = environment("rtx4090-535").pin("nccl")
    assert pin
    assert (pin.channel, pin.role, pin.version) == ("conda-forge", "nccl", "")


# the file


@every
def test_the_file_reads_back(decision: Decision) -> None:
    spec = composed(decision)
    text = environment_yml.render(spec)
    again, warnings = environment_yml.parse(text, "environment.yml")
    assert warnings == ()
    bare = [(pin.channel, pin.name, pin.condition(), pin.build) for pin in spec.pins]
    assert [(pin.channel, pin.name, pin.condition(), pin.build) for pin in again.pins] == bare
    assert (again.name, again.channels, again.platforms) == (spec.name, spec.channels, spec.platforms)
    assert dict(again.variables) == dict(spec.variables)
    assert spec_findings(again, base()) == spec_findings(spec, base())


@every
def test_comments_stand_on_lines_of_their_own(decision: Decision) -> None:
    text = environment_yml.render(composed(decision))
    assert text.isascii()
    for line in text.splitlines():
        assert line.lstrip().startswith("#") or "#" not in line
        assert len(line) <= 120
    assert "nodefaults" not in text
    assert "\t" not in text


@every
def test_every_pin_says_why_and_every_role_is_named(decision: Decision) -> None:
    spec = composed(decision)
    text = environment_yml.render(spec)
    assert all(pin.why for pin in spec.pins)
    for pin in spec.pins:
        if pin.role:
            assert f"# role: {pin.role}" in text
    assert __version__ in text
    assert base().edition in text
    assert str(decision.minimum_driver) in text


@collect("wanted", ["3.12.4", "==3.12.4", ">=3.12.4,<3.13"])
def test_a_file_with_wishes_reads_back(wanted: str) -> None:
    spec = environment(
        "v100-rtx5090-575",
        python=wanted,
        packages=("libcudnn>=9.8", "torchvision", "transformers>=4.36", "gxx_linux-64=13"),
        pip=("deepspeed>=0.14.3",),
    )
    again, warnings = environment_yml.parse(environment_yml.render(spec), "environment.yml")
    assert warnings == ()
    assert {pin.name: (pin.condition(), pin.build) for pin in again.pins} == {
        pin.name: (pin.condition(), pin.build) for pin in spec.pins
    }
    assert again.pip == ("deepspeed>=0.14.3",)
    assert again.pin("pip")


def test_the_header_says_for_whom_and_how_to_lock() -> None:
    head = "\n".join(environment("a800-470").header)
    assert "470.129.06" in head
    assert "450.80.02" in head
    assert "cuenv lock environment.yml --gpu 8.0 --driver 470.129.06 --glibc 2.31" in head


@collect("name", HOSTS)
def test_composing_twice_gives_the_same_text(name: str) -> None:
    if settled(name).chosen:
        one, other = (environment_yml.render(environment(name)) for _ in range(2))
        assert one == other


def test_nothing_chosen_is_nothing_composed() -> None:
    with pytest.raises(ValueError, match="no candidate fits"):
        environment("no-gpu")


def test_a_pool_is_composed_for_all_of_its_gpus() -> None:
    spec = composed(decided(pool([shipped("pool-v100"), shipped("pool-rtx5090")])))
    assert spec.variables == {"TORCH_CUDA_ARCH_LIST": "7.0;12.0"}


# what the solver makes of it


def test_wishes_and_pins_mean_to_the_solver_what_they_say(tmp_path: Path) -> None:
    packages = [
        *(pkg("python", text) for text in ("3.12.3", "3.12.4", "3.12.9", "3.13.1")),
        *(pkg("libcudnn", text) for text in ("9.7.0", "9.10.2.21", "9.13.1")),
        *(pkg("gxx_linux-64", text) for text in ("12.4.0", "13.4.0", "14.3.0", "15.2.0")),
    ]
    sources = write(tmp_path, {"conda-forge": packages})
    spec = environment("v100-rtx5090-575", python=">=3.12.4,<3.12.9", packages=("libcudnn>=9.8", "gxx_linux-64=13"))
    pins = [pin for pin in spec.pins if pin.name in ("python", "libcudnn", "gxx_linux-64")]
    answer = solve(asked(*pins), sources)
    assert not isinstance(answer, Unsatisfiable)
    assert [f"{package.name}={package.version}" for package in answer.packages] == [
        "gxx_linux-64=13.4.0",
        "libcudnn=9.10.2.21",
        "python=3.12.4",
    ]
