"""CONDA_OVERRIDE_*: facts with another source, as conda itself reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.versions import Capability, version
from cuenv.host.facts import Driver, Evidence, Gap, Gpu, HostFacts, glibc, virtual_packages
from cuenv.host.select import ARCH, CUDA, GLIBC, LINUX, apply_overrides

HERE = HostFacts(
    label="this machine",
    platform="linux-64",
    detected=True,
    driver=Driver(version="535.129.03", cuda=version("12.2"), kernel_module="535.129.03", module_kind="open"),
    gpus=(Gpu(index=0, name="NVIDIA A800", capability=Capability(8, 0)), Gpu(index=1, name="x", capability=None)),
    libc=glibc("2.35"),
    kernel="5.15.0-91-generic",
    evidence=(
        Evidence("driver.version", "nvml:nvmlSystemGetDriverVersion", "535.129.03"),
        Evidence("gpus[0].name", "nvml:nvmlDeviceGetName", "NVIDIA A800"),
        Evidence("libc", "confstr", "glibc 2.35"),
    ),
    gaps=(Gap("gpus[1].capability", "nvml", "Not Supported"), Gap("driver.kernel_module", "/sys", "no such file")),
)
BARE = HostFacts(label="this machine", platform="linux-64", gaps=(Gap("driver", "nvml", "not there"),))


def told(facts: HostFacts) -> dict[str, str]:
    return {package.name: package.version for package in virtual_packages(facts)}


def test_nothing_set_changes_nothing() -> None:
    assert apply_overrides(HERE, {"CUDA_VISIBLE_DEVICES": "0", "PATH": "/bin"}) is HERE


def test_cuda_pretends_a_driver_and_forgets_the_real_one() -> None:
    facts = apply_overrides(HERE, {CUDA: "12.8"})
    assert facts.driver == Driver(cuda=version("12.8"))
    assert facts.gpus == HERE.gpus
    assert not facts.detected
    said = facts.evidence_for("driver.cuda")
    assert said == Evidence(
        "driver.cuda", "override:CONDA_OVERRIDE_CUDA", "a driver that supports CUDA 12.8, in place of driver 535.129.03"
    )
    assert facts.evidence_for("driver.version") is None
    assert [gap.fact for gap in facts.gaps] == ["gpus[1].capability"]
    assert told(facts)["__cuda"] == "12.8"
    assert told(facts)["__cuda_arch"] == "8.0"


def test_cuda_and_arch_stand_for_a_whole_machine() -> None:
    facts = apply_overrides(BARE, {CUDA: "12.8", ARCH: "8.9"})
    assert facts.gpus == (Gpu(index=0, name="", capability=Capability(8, 9)),)
    assert facts.gaps == ()
    said = facts.evidence_for("gpus[0].capability")
    assert said == Evidence("gpus[0].capability", "override:CONDA_OVERRIDE_CUDA_ARCH", "8.9")
    assert (told(facts)["__cuda"], told(facts)["__cuda_arch"]) == ("12.8", "8.9")


def test_arch_replaces_the_set_of_gpus() -> None:
    facts = apply_overrides(HERE, {ARCH: "12.0"})
    assert [str(gpu.capability) for gpu in facts.gpus] == ["12.0"]
    assert facts.driver == HERE.driver
    assert "in place of 2 detected" in facts.evidence[-1].text


@pytest.mark.parametrize("empty", ["", "  "])
def test_empty_means_absent(empty: str) -> None:
    facts = apply_overrides(HERE, {CUDA: empty, ARCH: "8.9", GLIBC: empty, LINUX: empty})
    assert (facts.driver, facts.gpus, facts.libc, facts.kernel) == (None, (), None, None)
    assert not {"__cuda", "__cuda_arch", "__glibc"} & set(told(facts))
    assert apply_overrides(HERE, {ARCH: empty}).gpus == ()
    assert apply_overrides(HERE, {ARCH: empty}).driver == HERE.driver


def test_arch_never_stands_without_cuda() -> None:
    facts = apply_overrides(BARE, {ARCH: "8.9"})
    assert "__cuda_arch" not in told(facts)


def test_glibc_and_linux_can_be_overridden() -> None:
    facts = apply_overrides(HERE, {GLIBC: "2.17", LINUX: "4.18"})
    assert facts.libc == glibc("2.17")
    assert facts.evidence_for("libc") == Evidence("libc", "override:CONDA_OVERRIDE_GLIBC", "2.17")
    assert (told(facts)["__glibc"], told(facts)["__linux"]) == ("2.17", "4.18")
    assert facts.detected


@collect(
    ("name", "text"),
    [
        (CUDA, "cuda12"),
        (CUDA, "12.x"),
        (CUDA, "١٢.٢"),
        (ARCH, "89"),
        (ARCH, "8.9a"),
        (GLIBC, "two"),
        (LINUX, "new\x1b"),
    ],
)
def test_an_invalid_value_is_a_usage_error_that_names_the_variable(name: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        apply_overrides(HERE, {name: text})
    assert name in caught.value.message
    assert caught.value.hint == f"unset {name}"
    assert caught.value.exit == ExitCode.USAGE
    assert caught.value.message.isprintable()


@given(st.sampled_from([CUDA, ARCH, GLIBC, LINUX]), st.text(max_size=8))
def test_any_value_is_understood_or_refused(name: str, text: str) -> None:
    try:
        facts = apply_overrides(HERE, {name: text})
    except UsageError as error:
        facts, said = HERE, error.message
    else:
        said = name
    assert name in said
    assert "__cuda" in told(facts) or "__cuda_arch" not in told(facts)


def test_an_archspec_is_told_to_the_solver_and_an_empty_one_is_the_base() -> None:
    facts = HostFacts(label="x", platform="linux-64")
    bent = apply_overrides(facts, {"CONDA_OVERRIDE_ARCHSPEC": "x86_64_v3"})
    assert "__archspec=1=x86_64_v3" in [str(item) for item in virtual_packages(bent)]
    assert bent.evidence_for("archspec")
    assert apply_overrides(bent, {"CONDA_OVERRIDE_ARCHSPEC": ""}).archspec is None
    with pytest.raises(UsageError, match="CONDA_OVERRIDE_ARCHSPEC"):
        apply_overrides(facts, {"CONDA_OVERRIDE_ARCHSPEC": "x86 64\x1b"})
