"""Which host a question is about: options, recorded hosts, profiles, variables, and what none of them says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from cuenv.config.io.profiles import read_profile
from cuenv.core.errors import ExitCode, InputError, UsageError
from cuenv.core.versions import Capability, version
from cuenv.host.facts import Driver, Gpu, HostFacts, glibc, virtual_packages
from cuenv.host.host_json import dump
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from given import base, candidate, decided, machine, shipped, verdict

LAB = Request(name="lab", gpus=("RTX 3090", "A800"), lowest_driver="535.129.03")


def of(
    *, profile: Request | None = None, stdin: str = "", environ: Mapping[str, str] | None = None, **given: Any
) -> HostFacts:
    options = HostOptions(environ=environ or {}, stdin=lambda: stdin, **given)
    return host_facts(options, base(), profile)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> HostFacts:
    """This machine, as a probe would find it: an RTX 3090 with driver 550."""
    found = replace(machine("8.6", driver="550.144.03", libc="2.31", label="this machine"), kernel="5.15.0-91-generic")
    bare = replace(found, driver=None, gpus=(), evidence=())
    monkeypatch.setattr("cuenv.host.io.probe.probe", lambda *_, **__: found)
    monkeypatch.setattr("cuenv.host.io.surroundings.surroundings", lambda: bare)
    return found


# this machine


def test_without_options_it_is_this_machine(here: HostFacts) -> None:
    assert of() == here
    assert not HostOptions(environ={}).given


def test_the_variables_of_conda_bend_this_machine(here: HostFacts) -> None:
    facts = of(environ={"CONDA_OVERRIDE_CUDA": "12.9", "CONDA_OVERRIDE_CUDA_ARCH": "9.0"})
    assert facts.driver == Driver(cuda=version("12.9"))
    assert facts.capabilities == (Capability(9, 0),)
    hidden = of(environ={"CONDA_OVERRIDE_CUDA": ""})
    assert (hidden.driver, hidden.gpus) == (None, ())
    assert of(environ={"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "none"}) == here


def test_a_driver_option_is_the_driver_of_this_machine(here: HostFacts) -> None:
    facts = of(driver="535.129.03")
    assert facts.driver == Driver(version="535.129.03", cuda=version("12.2"))
    assert facts.gpus == here.gpus
    evidence = facts.evidence_for("driver.version")
    assert evidence
    assert evidence.source == "override:--driver"


def test_a_driver_without_any_gpu_is_a_usage_error(here: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuenv.host.io.probe.probe", lambda *_, **__: replace(here, gpus=(), driver=None))
    for libc in (None, "2.35"):
        with pytest.raises(UsageError) as caught:
            of(driver="535.129.03", glibc=libc)
        assert caught.value.exit == ExitCode.USAGE
        assert "535.129.03" in caught.value.message
        assert caught.value.hint
        assert "--gpu" in caught.value.hint
    with pytest.raises(UsageError):
        of(hosts=("no-gpu",), driver="535.129.03")


def test_the_driver_of_a_profile_or_a_recorded_host_has_gpus(here: HostFacts) -> None:
    assert of(profile=LAB, driver="550.144.03").driver == Driver(version="550.144.03", cuda=version("12.4"))
    assert of(hosts=("rtx4090-535",), driver="550.144.03").capabilities == (Capability(8, 9),)


# GPUs by option


def test_gpus_by_option_never_take_this_machines_driver(here: HostFacts) -> None:
    facts = of(gpus=("RTX 4090",))
    assert facts.driver is None
    assert facts.capabilities == (Capability(8, 9),)
    assert not facts.detected
    assert facts.label != here.label
    assert "__cuda" not in {package.name for package in virtual_packages(facts)}
    decision = decided(facts)
    assert decision.chosen
    assert decision.chosen.verdict("driver-floor").outcome == "unknown"
    assert decision.minimum_driver == "525.60.13"


def test_gpus_and_a_driver_by_option(here: HostFacts) -> None:
    facts = of(gpus=("V100", "RTX 5090"), driver="575.57.08", glibc="2.28", platform="linux-64")
    assert [gpu.name for gpu in facts.gpus] == ["V100", "GeForce RTX 5090"]
    assert [gpu.index for gpu in facts.gpus] == [0, 1]
    assert facts.driver == Driver(version="575.57.08", cuda=version("12.9"))
    assert facts.libc == glibc("2.28")
    for fact in ("gpus", "driver.version", "libc", "platform"):
        evidence = facts.evidence_for(fact)
        assert evidence
        assert evidence.source.startswith("override:--")


def test_a_capability_is_a_gpu(here: HostFacts) -> None:
    facts = of(gpus=(" 8.9 ", "12.0", "99.9"))
    assert facts.capabilities == (Capability(8, 9), Capability(12, 0), Capability(99, 9))
    assert decided(facts).context.facts is facts


def test_what_options_leave_open_is_of_this_machine_but_its_kernel(here: HostFacts) -> None:
    facts = of(gpus=("8.9",))
    assert facts.libc == here.libc
    assert facts.platform == here.platform
    assert facts.kernel is None


def test_a_cuda_level_of_the_variables_counts_where_no_option_says_more(here: HostFacts) -> None:
    environ = {"CONDA_OVERRIDE_CUDA": "12.2", "CONDA_OVERRIDE_CUDA_ARCH": "5.0"}
    facts = of(gpus=("8.9",), environ=environ)
    assert facts.driver == Driver(cuda=version("12.2"))
    assert facts.capabilities == (Capability(8, 9),)
    assert of(gpus=("8.9",), driver="575.57.08", environ=environ).driver == Driver(
        version="575.57.08", cuda=version("12.9")
    )
    assert of(gpus=("8.9",), environ={"CONDA_OVERRIDE_CUDA": ""}).capabilities == (Capability(8, 9),)
    assert of(gpus=("8.9",), driver="575.57.08", environ={"CONDA_OVERRIDE_CUDA": "nonsense"}).driver
    assert of(gpus=("8.9",), environ={"CONDA_OVERRIDE_GLIBC": "2.17"}).libc == glibc("2.17")


@pytest.mark.parametrize(
    ("text", "near"), [("RTX 4095", "RTX 4090 (8.9)"), ("A8000", "A800 (8.0)"), ("H900", "H800 (9.0)"), ("8,9", None)]
)
def test_a_gpu_that_nobody_knows_names_the_nearest(here: HostFacts, text: str, near: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        of(gpus=(text,))
    assert repr(text) in caught.value.message
    assert near is None or near in caught.value.message
    assert caught.value.hint
    assert ("8.9" if text == "8,9" else "--query-gpu=compute_cap") in caught.value.hint


@pytest.mark.parametrize("text", ["", " ", "\x1b[31m", "x" * 500])
def test_no_gpu_at_all_is_a_plain_error(here: HostFacts, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        of(gpus=(text,))
    assert caught.value.message.isprintable()


# the other options


@pytest.mark.parametrize("text", ["5350", "1000.1", "999.99.99"])
def test_a_driver_that_never_was_is_refused(here: HostFacts, text: str) -> None:
    with pytest.raises(UsageError, match="this driver does not exist; the newest known branch is 6"):
        host_facts(HostOptions(gpus=("8.9",), driver=text, environ={}), base())


def test_a_driver_of_a_branch_to_come_is_said_to_be_unknown(here: HostFacts) -> None:
    facts = host_facts(HostOptions(gpus=("8.9",), driver="640.10", environ={}), base())
    found = verdict("driver-gpu", candidate("2.13.0", "cuda130*"), facts)
    assert found.outcome == "unknown"
    assert "640.10" in found.because
    assert verdict("driver-gpu", candidate("2.13.0", "cuda130*"), machine("8.9", driver="615.31")).outcome == "pass"


@pytest.mark.parametrize("text", ["2.999", "2.61", "3.0", "1.9"])
def test_a_glibc_that_never_was_is_refused(here: HostFacts, text: str) -> None:
    with pytest.raises(UsageError, match="this glibc version does not exist"):
        host_facts(HostOptions(gpus=("8.9",), glibc=text, environ={}), base())


@pytest.mark.parametrize("text", ["new", "535.x", "12", "", "535.129.03-1"])
def test_a_driver_string_that_is_none(here: HostFacts, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        of(gpus=("8.9",), driver=text)
    assert "--driver" in caught.value.message


@pytest.mark.parametrize("text", ["musl", "two", "", "3.1", "1.2", "2.x"])
def test_a_glibc_that_is_none(here: HostFacts, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        of(gpus=("8.9",), glibc=text)
    assert "--glibc" in caught.value.message


@pytest.mark.parametrize("text", ["win-64", "osx-arm64", "linux-32", "linux", ""])
def test_a_platform_that_is_not_served(here: HostFacts, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        of(gpus=("8.9",), platform=text)
    assert "linux-64" in caught.value.message
    assert "linux-aarch64" in caught.value.message


def test_blanks_around_a_value_do_not_matter(here: HostFacts) -> None:
    facts = of(gpus=("RTX 4090 ",), driver=" 535.129.03 ", glibc=" 2.31 ")
    assert facts.driver
    assert facts.driver.version == "535.129.03"
    assert facts.libc == glibc("2.31")


# recorded hosts


def test_a_recorded_host_with_options_over_it(here: HostFacts) -> None:
    facts = of(hosts=("a800-470",), driver="535.129.03", glibc="2.17")
    assert len(facts.gpus) == 8
    assert facts.driver == Driver(version="535.129.03", cuda=version("12.2"))
    assert facts.libc == glibc("2.17")
    other = of(hosts=("a800-470",), gpus=("H800",))
    assert other.capabilities == (Capability(9, 0),)
    assert other.driver == shipped("a800-470").driver
    assert not other.detected


def test_this_machine_plays_no_part_in_a_recorded_host(here: HostFacts) -> None:
    environ = {"CONDA_OVERRIDE_CUDA": "9.9", "CONDA_OVERRIDE_GLIBC": "2.99"}
    assert of(hosts=("a800-470",), environ=environ) == shipped("a800-470")


def test_several_hosts_are_a_pool_and_options_bend_each(here: HostFacts) -> None:
    names = ("pool-v100", "pool-rtx5090")
    facts = of(hosts=names)
    assert {member.label for member in facts.members} == set(names)
    bent = of(hosts=names, driver="580.65.06", glibc="2.28")
    assert {member.driver.version for member in bent.members if member.driver} == {"580.65.06"}
    assert {str(member.libc.version) for member in bent.members if member.libc} == {"2.28"}
    assert bent.driver
    assert bent.driver.version == "580.65.06"
    assert of(hosts=(*names, *names)) == facts


def test_gpus_by_option_make_one_host_of_a_pool(here: HostFacts) -> None:
    facts = of(hosts=("pool-v100", "pool-rtx5090"), gpus=("8.9",))
    assert (facts.members, facts.capabilities) == ((), (Capability(8, 9),))
    assert facts.driver
    assert facts.driver.version == of(hosts=("pool-rtx5090",)).driver.version  # type: ignore[union-attr] # it has one


def test_hosts_of_two_platforms_are_no_pool(here: HostFacts) -> None:
    with pytest.raises(UsageError) as caught:
        of(hosts=("rtx4090-535", "gh200-570"))
    assert "gh200-570 is linux-aarch64" in caught.value.message


def test_a_host_by_folder_file_and_stdin(here: HostFacts, tmp_path: Path) -> None:
    text = dump(shipped("a800-470"))
    folder = tmp_path / "rack"
    folder.mkdir()
    (folder / "host.json").write_text(text)
    (tmp_path / "plain.json").write_text(text)
    for given, stdin in ((str(folder), ""), (str(tmp_path / "plain.json"), ""), ("-", text)):
        facts = of(hosts=(given,), stdin=stdin)
        assert (facts.gpus, facts.driver) == (shipped("a800-470").gpus, shipped("a800-470").driver)


def test_what_a_record_leaves_out_comes_from_the_tables(here: HostFacts, tmp_path: Path) -> None:
    data = json.loads(dump(shipped("a800-470")))
    data["driver"]["cuda"] = None
    for gpu in data["gpus"]:
        gpu["capability"] = None
    (tmp_path / "host.json").write_text(json.dumps(data))
    facts = of(hosts=(str(tmp_path / "host.json"),))
    assert facts.capabilities == (Capability(8, 0),)
    assert facts.driver
    assert facts.driver.cuda == version("11.4")


def test_a_host_that_is_not_there(here: HostFacts, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a800-470"):
        of(hosts=("a800",))
    with pytest.raises(InputError):
        of(hosts=(str(tmp_path / "nowhere.json"),))
    with pytest.raises(InputError):
        of(hosts=("-",), stdin="no json")
    with pytest.raises(UsageError, match="once"):
        of(hosts=("-", "-"), stdin="{}")


# profiles


def test_the_gpus_of_a_profile_and_its_lowest_driver(here: HostFacts) -> None:
    facts = of(profile=LAB)
    assert facts.capabilities == (Capability(8, 0), Capability(8, 6))
    assert facts.driver == Driver(version="535.129.03", cuda=version("12.2"))
    assert not facts.detected
    assert "lab" in facts.label
    evidence = facts.evidence_for("driver.version")
    assert evidence
    assert "lab" in evidence.source


def test_a_profile_without_driver_takes_none_of_this_machine(here: HostFacts) -> None:
    assert of(profile=replace(LAB, lowest_driver=None)).driver is None


def test_a_profile_without_gpus_is_about_this_machine(here: HostFacts) -> None:
    assert of(profile=Request(name="jit")) == here


def test_options_go_before_the_profile(here: HostFacts) -> None:
    assert of(profile=LAB, gpus=("H800",)).capabilities == (Capability(9, 0),)
    assert of(profile=LAB, gpus=("H800",)).driver is None
    assert of(profile=LAB, hosts=("rtx4090-535",)) == shipped("rtx4090-535")
    bent = of(profile=LAB, glibc="2.17")
    assert bent.libc == glibc("2.17")
    assert bent.driver == Driver(version="535.129.03", cuda=version("12.2"))


def test_a_profile_with_a_gpu_that_nobody_knows(here: HostFacts) -> None:
    with pytest.raises(UsageError, match=r"^profile lab: gpus: 'RTX 9999': unknown GPU name") as told:
        of(profile=replace(LAB, gpus=("RTX 9999",)))
    assert "--gpu" not in (told.value.hint or "")


def test_the_shipped_profiles_name_known_gpus(here: HostFacts) -> None:
    facts = of(profile=read_profile("universal-dev"))
    assert facts.capabilities == tuple(map(Capability.parse, ("8.0", "8.6", "8.9", "9.0")))
    assert [gpu.index for gpu in facts.gpus] == list(range(len(facts.gpus)))
    assert of(profile=read_profile("inference")).capabilities == tuple(map(Capability.parse, ("7.5", "8.6", "8.9")))


# what names a host


@collect(
    "given",
    [{"hosts": ("x",)}, {"gpus": ("8.9",)}, {"driver": "535.129.03"}, {"glibc": "2.35"}, {"platform": "linux-64"}],
)
def test_any_option_names_a_host(given: dict[str, Any]) -> None:
    assert HostOptions(environ={}, **given).given


def test_the_unnamed_gpu_of_a_record_stays_unknown(here: HostFacts, tmp_path: Path) -> None:
    facts = replace(shipped("rtx4090-535"), gpus=(Gpu(index=0, name="Mystery 1", capability=None),))
    (tmp_path / "host.json").write_text(dump(facts))
    found = of(hosts=(str(tmp_path / "host.json"),))
    assert found.capabilities == ()
    decision = decided(found)
    assert decision.chosen is None or decision.chosen.verdict("gpu").outcome == "unknown"
