"""Choosing: the decisions that must come out right, the order of preference, and laws that hold of every decision."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.version import Version

from cases import collect
from cuenv.config.io.profiles import read_profile
from cuenv.config.io.profiles import shipped_names as profile_names
from cuenv.core.errors import ChannelError
from cuenv.core.versions import Capability, Native, driver_key, parse_arch_list, parse_version_spec, support_of, version
from cuenv.host.facts import Driver, HostFacts
from cuenv.host.request import Request, pool
from cuenv.host.select import HostOptions, host_facts
from cuenv.resolver import prove
from cuenv.resolver.candidates import Candidate, admits, admits_all, candidates, distance, pythons
from cuenv.resolver.compose import compose, cuda_channel
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.decision_json import decision_plain
from cuenv.resolver.explain import hints, minimum_text, summary
from cuenv.resolver.policy import spec_findings
from cuenv.resolver.ranking import PREFERENCE, Assessment, Criterion, Ranking, preference
from cuenv.resolver.requirements import headers_missing
from cuenv.resolver.resolve import resolve
from cuenv.resolver.rules import RULES, Context, minimum_driver, minimum_drivers
from cuenv.resolver.why import why_not
from cuenv.solve.io.sources import Sources
from given import (
    DRIVERS,
    HOSTS,
    WITH_GPU,
    base,
    candidate,
    capabilities,
    case,
    choice,
    decided,
    desktop,
    drivers,
    everything,
    fitting,
    machine,
    options,
    settled,
    shipped,
    shipped_base,
    version_spec,
)
from thorough import examples


def chosen(decision: Decision) -> tuple[str, str, str, str]:
    item = choice(decision)
    return str(item.build.version), item.build.build, str(item.cuda), item.build.stack


def test_a_build_that_nobody_saw_in_a_channel_loses_to_the_next_unless_the_channels_are_asked() -> None:
    host = options("8.9", driver="535.129.03")
    best = choice(decided(host))
    rows = tuple(row.replaced(seen=None) if row.version == best.build.version else row for row in base().torch)
    asked = replace(case(host), knowledge=replace(base(), torch=rows))
    then = choice(decide(asked))
    assert then.build.version < best.build.version
    assert then.build.seen
    answer = why_not(decide(asked), f"pytorch={best.build.version}")
    assert "build was seen in its channel" in answer.says
    assert "not seen in a channel yet" in answer.losses[0].other
    proving = decide(replace(asked, proving=True))
    assert choice(proving).build.version == best.build.version
    (note,) = [line for line in summary(decide(asked)) if "the cuenv tables know only its recipe" in line]
    assert f"pytorch {best.build.version} {best.build.build}" in note
    assert not [line for line in summary(proving) if "the cuenv tables know only its recipe" in line]


def native_everywhere(decision: Decision) -> bool:
    code = choice(decision).build.code
    assert code
    return all(isinstance(support_of(code, gpu), Native) for gpu in decision.context.facts.capabilities)


def pins(decision: Decision) -> dict[str, str]:
    made = compose(decision, "x")
    return {pin.name: pin.yaml_text() for pin in made.pins}


def rejected(decision: Decision, rule: str) -> list[str]:
    return [group.because for group in decision.rejections if group.rule == rule]


def either(*hosts: HostFacts) -> pytest.MarkDecorator:
    """The same host as a shipped one and as options."""
    return pytest.mark.parametrize("facts", hosts, ids=("shipped", "options")[: len(hosts)])


A800 = either(shipped("a800-470"), options("A800", driver="470.129.06", libc="2.31"))
RTX4090 = either(shipped("rtx4090-535"), options("RTX 4090", driver="535.129.03"))
RTX3090 = either(shipped("rtx3090-535"), options("GeForce RTX 3090", driver="535.129.03"))
H800 = either(shipped("h800-525"), options("H800", driver="525.85.12"))
MIXED = either(shipped("v100-rtx5090-575"), options("V100", "RTX 5090", driver="575.57.08"))
PASCAL = either(shipped("gtx1080ti-580"), options("GTX 1080 Ti", driver="580.65.06"))
BLACKWELL = either(shipped("rtx5090-560"), options("RTX 5090", driver="560.35.03"))


# the table of decisions that must come out right


@A800
def test_a800_with_470_and_a_compiler(facts: HostFacts) -> None:
    decision = decided(facts)
    item = choice(decision)
    assert (item.build.stack, str(item.cuda)) == ("pytorch", "11.8")
    assert cuda_channel(item) == "nvidia/label/cuda-11.8.0"
    made = pins(decision)
    assert made["cuda-toolkit"].startswith("nvidia/label/cuda-11.8.0::cuda-toolkit")
    assert made["gxx_linux-64"] == "conda-forge::gxx_linux-64=11.*"
    assert any("525.60.13" in text and "470.129.06" in text for text in rejected(decision, "driver-floor"))
    assert any("12.0" in text for text in rejected(decision, "roles"))
    assert all(item.candidate.cuda is None or item.candidate.cuda.major < 12 for item in decision.fitting)
    assert any("525.60.13" in hint.text and "CUDA 12" in hint.text for hint in hints(decision))
    assert decision.minimum_driver == "450.80.02"
    assert native_everywhere(decision)


@A800
def test_a800_with_470_without_compiler(facts: HostFacts) -> None:
    decision = decided(facts, dev=False)
    release, build, cuda, stack = chosen(decision)
    assert (build, cuda, stack) == ("cuda118*", "11.8", "conda-forge")
    assert version(release) >= version("2.4")
    assert "cuda-nvcc" not in pins(decision)
    assert any("525.60.13" in hint.text for hint in hints(decision))


@RTX4090
def test_rtx_4090_with_535(facts: HostFacts) -> None:
    for dev in (True, False):
        decision = decided(facts, dev=dev)
        item = choice(decision)
        assert native_everywhere(decision)
        assert item.cuda
        assert item.cuda.major == 12
        assert any("580.65.06" in text for text in rejected(decision, "driver-floor"))
        assert all(fit.candidate.cuda and fit.candidate.cuda.major < 13 for fit in decision.fitting)
        assert decision.minimum_driver == "525.60.13"
        native = choice(decided(facts, dev=dev, prefer="native"))
        assert native.cuda
        assert version("12.0") <= native.cuda <= version("12.2")


@RTX3090
def test_rtx_3090_with_535(facts: HostFacts) -> None:
    decision = decided(facts)
    assert native_everywhere(decision)
    item, native = choice(decision), choice(decided(facts, prefer="native"))
    assert item.cuda
    assert item.cuda.major == 12
    assert native.cuda
    assert native.cuda <= version("12.2")


@H800
def test_h800_is_hopper(facts: HostFacts) -> None:
    assert facts.capabilities == (Capability(9, 0),)
    for dev in (True, False):
        decision = decided(facts, dev=dev)
        code = choice(decision).build.code
        assert code
        assert "9.0" in {str(target) for target in code.sass}
        assert any("580.65.06" in text for text in rejected(decision, "driver-floor"))
    old = decided(options("H800", driver="470.129.06"))
    assert old.chosen is None
    assert rejected(old, "driver-gpu")


@MIXED
def test_v100_beside_rtx_5090(facts: HostFacts) -> None:
    for dev in (True, False):
        decision = decided(facts, dev=dev)
        _, build, cuda, stack = chosen(decision)
        assert (build, cuda, stack) == ("cuda129*", "12.9", "conda-forge")
        assert native_everywhere(decision)
        assert "<9.11" in pins(decision)["libcudnn"]
        assert decision.chosen
        layer = decision.chosen.verdict("cudnn")
        assert layer.outcome == "warn"
        assert "9.11" in layer.because
        assert "7.0" in layer.because


def test_v100_and_rtx_5090_in_two_machines() -> None:
    together = pool([shipped("pool-v100"), shipped("pool-rtx5090")])
    decision = decided(together)
    assert chosen(decision)[1:] == ("cuda129*", "12.9", "conda-forge")
    assert "<9.11" in pins(decision)["libcudnn"]


@PASCAL
def test_gtx_1080_ti_with_580(facts: HostFacts) -> None:
    for dev in (True, False):
        decision = decided(facts, dev=dev)
        item = choice(decision)
        assert item.cuda
        assert item.cuda.major == 12
        assert native_everywhere(decision)
        made = pins(decision)
        assert "<9.11" in made["libcudnn" if "libcudnn" in made else "cudnn"]
        assert all(fit.candidate.cuda and fit.candidate.cuda.major < 13 for fit in decision.fitting)


def test_gtx_1080_ti_with_590_is_refused() -> None:
    decision = decided(options("GTX 1080 Ti", driver="590.48.01"))
    assert decision.chosen is None
    assert any("580" in text and "590.48.01" in text for text in rejected(decision, "driver-gpu"))
    assert any("580" in hint.text for hint in hints(decision))


@BLACKWELL
def test_rtx_5090_with_560_is_refused(facts: HostFacts) -> None:
    decision = decided(facts)
    assert decision.chosen is None
    assert any("570" in text and "560.35.03" in text for text in rejected(decision, "driver-gpu"))
    (hint, *_) = hints(decision)
    assert "570.26" in hint.text
    assert "CUDA 12" in hint.text


def test_rtx_4090_with_560_torch_2_5_and_an_old_nvcc_on_path() -> None:
    facts = shipped("rtx4090-560-nvcc101")
    answer = resolve(facts, Request(pytorch=version_spec("2.5")), base())
    item = choice(answer.decision)
    assert str(item.build.version) == "2.5.1"
    assert item.cuda
    assert item.cuda <= version("12.6")
    (warning,) = [finding for finding in answer.findings if finding.code == "CU412"]
    assert "10.1" in warning.message
    assert warning.severity == "warning"
    assert answer.fits


def test_without_a_gpu_nothing_fits_and_it_says_what_to_do() -> None:
    decision = settled("no-gpu")
    assert decision.chosen is None
    commands = " ".join(hint.command for hint in hints(decision))
    assert all(option in commands for option in ("--gpu", "--cpu"))
    cpu = settled("no-gpu", cpu=True, dev=False)
    assert choice(cpu).cuda is None
    assert cpu.minimum_driver is None


def test_a_gpu_without_driver_gets_a_choice_and_its_minimum_driver() -> None:
    decision = decided(options("RTX 4090"))
    assert decision.chosen
    assert {decision.chosen.verdict(rule).outcome for rule in ("driver-gpu", "driver-floor")} == {"unknown"}
    assert decision.minimum_driver == "525.60.13"
    assert decided(options("RTX 5090")).minimum_driver == "570.26"


def test_a_cpu_build_is_never_chosen_unasked() -> None:
    for name in HOSTS:
        assert all(item.candidate.cuda for item in settled(name).fitting)


@pytest.mark.slow
@collect("platform", ["linux-64", "linux-aarch64"])
@collect("dev", [True, False])
@collect("gpu", ["8.9", "7.0", "9.0"], one_in=3)
def test_what_cuenv_alone_writes_for_conda_forge_is_by_its_policy(platform: str, gpu: str, *, dev: bool) -> None:
    """`resolve` rests on this, and does not judge it again: every candidate that fits, on the tables that ship."""
    driver = Driver(version="580.65.06", cuda=version("13.0"))
    facts = replace(machine(gpu, platform=platform), driver=driver)
    request = Request(dev=dev, stack="conda-forge")
    decision = decide(Context(facts=facts, request=request, knowledge=shipped_base()))
    assert decision.fitting
    for item in decision.fitting:
        found = compose(replace(decision, fitting=(item,)), "cuenv", header=False)
        assert found.channels == ("conda-forge",)
        assert spec_findings(found, shipped_base(), libraries=False) == (), found


def test_what_cuenv_writes_for_the_channel_pytorch_exists() -> None:
    """Builds before 1.13 take their runtime from cudatoolkit: there is no pytorch-cuda for CUDA before 11.6."""
    facts, request = options("7.0", driver="535.129.03"), Request(dev=False, stack="pytorch")
    decision = decide(Context(facts=facts, request=request, knowledge=shipped_base()))
    assert {item.candidate.build.of_cudatoolkit for item in decision.fitting} == {True, False}
    for item in decision.fitting:
        found = compose(replace(decision, fitting=(item,)), "cuenv", header=False)
        toolkit = "cudatoolkit" if item.candidate.build.version < version("1.13") else "pytorch-cuda"
        assert found.pin(toolkit)
        assert "error" not in {finding.severity for finding in spec_findings(found, shipped_base())}, found


def test_what_is_asked_for_is_judged_by_the_policy() -> None:
    asked = Request(packages=("nvidia::cudnn",), stack="conda-forge")
    assert "CU101" in {item.code for item in resolve(options("8.9", driver="535.129.03"), asked, base()).findings}


# every host with every profile


def decides_or_says_why_not(facts: HostFacts, wanted: Request) -> None:
    decision = decide(Context(facts=facts, request=wanted, knowledge=base()))
    if decision.chosen:
        found = compose(decision, wanted.name)
        assert found.pins
        assert headers_missing(found, base()) == ()  # all that its libraries compile with is there
        assert {item.code for item in spec_findings(found, base())} == set()
    else:
        assert decision.rejections
        assert hints(decision)
    assert sum(group.count for group in decision.rejections) + len(decision.fitting) == len(decision.assessments)


@collect(("name", "profile"), [(name, profile) for name in HOSTS for profile in profile_names()], one_in=23)
def test_every_host_and_profile_decide_or_say_why_not(name: str, profile: str) -> None:
    decides_or_says_why_not(shipped(name), read_profile(profile))


@collect("profile", profile_names(), one_in=3)
def test_every_profile_decides_for_its_own_gpus(profile: str) -> None:
    wanted = read_profile(profile)
    facts = host_facts(HostOptions(glibc="2.35", platform="linux-64", environ={}), base(), wanted)
    decides_or_says_why_not(facts, wanted)
    assert decided(facts, dev=wanted.dev).chosen


@collect("name", HOSTS, one_in=3)
def test_deciding_twice_gives_the_same(name: str) -> None:
    one, other = settled(name), decided(shipped(name))
    assert [str(item.candidate) for item in one.fitting] == [str(item.candidate) for item in other.fitting]
    assert one.minimum_driver == other.minimum_driver
    assert hints(one) == hints(other)
    assert [(group.rule, group.because, group.count) for group in one.rejections] == [
        (group.rule, group.because, group.count) for group in other.rejections
    ]


@collect("name", WITH_GPU, one_in=3)
def test_the_order_of_the_candidates_does_not_matter(name: str) -> None:
    facts = shipped(name)
    pool_of_them = candidates(base(), facts.platform)
    forward, backward = (decide(case(facts), order) for order in (pool_of_them, pool_of_them[::-1]))
    assert [item.candidate for item in forward.fitting][:20] == [item.candidate for item in backward.fitting][:20]


# hints lead where they say


def followed(command: str) -> tuple[HostFacts, Request]:
    """The host and the wishes of a ``cuenv resolve`` command."""
    words = shlex.split(command)
    assert words[:2] == ["cuenv", "resolve"]
    given: dict[str, list[str]] = {}
    flags = {"--no-dev", "--dev", "--cpu"}
    rest = words[2:]
    while rest:
        word = rest.pop(0)
        given.setdefault(word, []).append("" if word in flags else rest.pop(0))
    single = {key: values[-1] for key, values in given.items()}
    host = HostOptions(
        gpus=tuple(given.get("--gpu", ())),
        driver=single.get("--driver"),
        glibc=single.get("--glibc"),
        platform=single.get("--platform"),
        environ={},
    )
    asked = [
        parse_version_spec(single[key], what=key) if key in single else None
        for key in ("--pytorch", "--cuda", "--python")
    ]
    wanted = Request(
        stack=single.get("--stack"),
        pytorch=asked[0],
        cuda=asked[1],
        python=asked[2],
        prefer=single.get("--prefer", "newest"),
        dev="--no-dev" not in given,
        packages=tuple(text for text in given.get("--with", ()) if not text.startswith("pip:")),
        pip=tuple(text.removeprefix("pip:") for text in given.get("--with", ()) if text.startswith("pip:")),
    )
    return host_facts(host, base()), wanted


@collect(
    "wishes",
    [{}, {"dev": False}, {"pytorch": "2.5"}, {"stack": "pytorch"}, {"cuda": "13"}, {"prefer": "native"}],
    ids=lambda wishes: " ".join(f"{key}={value}" for key, value in wishes.items()) or "none",
)
@collect("name", ["a800-470", "gh200-570", "rtx5090-560", "rtx3090-535"], one_in=4)
def test_the_command_of_a_hint_chooses_what_the_hint_names(name: str, wishes: dict[str, Any]) -> None:
    decision = settled(name, **wishes)
    for miss, hint in zip(decision.near_misses, hints(decision), strict=False):
        facts, wanted = followed(hint.command)
        assert facts.platform == shipped(name).platform
        found = decide(Context(facts=facts, request=wanted, knowledge=base()))
        best, named = choice(found).build, miss.candidate.build
        assert (best.version, best.build, best.stack) == (named.version, named.build, named.stack), hint.command


OLD_DRIVERS = ("390.157", "418.39", "440.33.01", "455.32.00", "460.32.03", "495.29.05", "520.61.05", "580.65.06")


@pytest.mark.slow
@examples(24)
@given(
    st.lists(st.lists(desktop, min_size=1, max_size=3), min_size=1, max_size=2),
    st.one_of(drivers, st.sampled_from(OLD_DRIVERS)),
    st.sampled_from(
        [
            *({}, {"dev": False}, {"stack": "pytorch"}, {"pytorch": "2.5"}, {"pytorch": "2.5", "dev": False}),
            *({"cuda": "13"}, {"prefer": "native"}, {"python": "3.9"}, {"packages": ("bitsandbytes",)}),
            *({"packages": ("flash-attn", "vllm")}, {"pip": ("deepspeed==0.15.4",), "dev": False}),
        ]
    ),
    st.sampled_from(["linux-64", "linux-aarch64"]),
)
@example([[Capability.parse("12.0")]], "520.61.05", {}, "linux-64")  # two objections that one driver lifts
@example([[Capability.parse("9.0")]], "470.129.06", {}, "linux-64")
@example([[Capability.parse("10.3")]], "495.29.05", {"dev": False}, "linux-64")
@example([[Capability.parse("7.0")]], "440.33.01", {"stack": "pytorch"}, "linux-64")
@example([[Capability.parse("11.0")]], "570.86.10", {}, "linux-aarch64")
@example([[Capability.parse("3.5")]], "390.157", {}, "linux-64")  # a driver, and no compiler
@example([[Capability.parse("8.6")]], "535.129.03", {"pytorch": "99", "python": "3.11"}, "linux-64")
@example([[Capability.parse("5.0")]], "525.60.13", {"cuda": "13"}, "linux-64")  # one GPU that was looked at
def test_a_hint_is_what_its_command_then_gives(
    gpus: list[list[Capability]], driver: str, wishes: dict[str, Any], platform: str
) -> None:
    hosts = [
        machine(*map(str, some), driver=driver, label=f"box{number}", platform=platform)
        for number, some in enumerate(gpus)
    ]
    decision = decided(pool(hosts), **wishes)
    told = list(decision.near_misses)
    for hint in hints(decision):
        facts, wanted = followed(hint.command)
        facts = decision.context.facts if "--host" in hint.command else facts  # the recorded machines as they are
        best = choice(decide(Context(facts=facts, request=wanted, knowledge=base())))
        if not told:
            assert str(best) in hint.text
            continue
        miss = told.pop(0)
        named = miss.candidate
        assert (best.build, best.cuda, best.label) == (named.build, named.cuda, named.label), hint.command
        assert f"pytorch {best.build.version} {best.build.build} with CUDA {best.cuda}" in hint.text
    assert not told


@collect("name", WITH_GPU, one_in=4)
def test_hints_judge_only_what_may_rank_first_and_say_what_judging_all_would(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = (decided(settled(name).context.facts, **more) for more in ({}, {"dev": False}, {"prefer": "native"}))
    found = [(decision, decision.near_misses) for decision in every]
    monkeypatch.setattr(Ranking, "rivals", lambda _, items, __: list(items))
    assert [quick for _, quick in found] == [replace(decision).near_misses for decision, _ in found]


def test_a_label_that_cannot_be_read_is_asked_once_for_all_candidates_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try on a network that does not exist takes a second or two."""
    tried: list[tuple[str, ...]] = []

    def unread(_: object, channels: tuple[str, ...], *__: object) -> None:
        tried.append(channels)
        raise ChannelError(f"channel {channels[1]}: cannot be reached", channel=channels[1])

    monkeypatch.setattr(prove, "pins_without_record", unread)
    decision = decided(machine("8.0", driver="525.60.13"), stack="pytorch")
    proven, solution = prove.solving(decision, "x", Sources(offline=True), None)
    assert solution is None
    assert len(tried) == len(set(tried)) < len(proven.skipped)
    assert all(why.endswith("cannot be reached") for _, why in proven.skipped)


def test_one_driver_that_lifts_several_objections_is_hinted() -> None:
    said = [hint.text for hint in hints(decided(machine("12.0", driver="520.61.05")))]
    assert said[0] == "driver 570.26 or later would allow pytorch 2.13.0 cuda129* with CUDA 12.9"
    both = [hint for hint in hints(decided(machine("3.5", driver="390.157"))) if "CUDA 11.8" in hint.text]
    assert ["--no-dev" in hint.command and "--driver 450.80.02" in hint.command for hint in both] == [True]
    assert "up to branch 470" in both[0].text


def test_a_hint_is_decided_for_the_gpus_that_its_command_names_and_not_for_those_that_were_found() -> None:
    for host in (machine("7.0", driver="470.129.06"), machine("12.0", driver="520.61.05")):
        misses = decided(host).near_misses
        assert misses
        assert not any(miss.then.facts.detected for miss in misses)


def test_a_hint_for_the_last_branch_that_supports_a_gpu_is_decided_for_the_first_driver_of_that_branch() -> None:
    misses = decided(machine("7.0", driver="590.48.01")).near_misses
    assert misses
    for miss in misses:
        assert miss.remedy.driver == "580"
        assert miss.then.facts.driver == Driver(version="580.65.06", cuda=version("13.0"))


def test_a_hint_for_a_pool_is_for_one_driver_on_all_of_its_gpus() -> None:
    together = pool(
        [machine("8.0", driver="470.129.06", label="one"), machine("8.6", driver="470.129.06", label="two")]
    )
    decision = decided(together)
    drivers_hinted = 0
    for miss, hint in zip(decision.near_misses, hints(decision), strict=False):
        if miss.remedy.driver:
            drivers_hinted += 1
            facts, wanted = followed(hint.command)
            assert facts.capabilities == together.capabilities
            found = decide(Context(facts=facts, request=wanted, knowledge=base()))
            assert choice(found).build is miss.candidate.build
    assert drivers_hinted


@pytest.mark.parametrize(
    "facts",
    [
        pool([machine("3.7", driver="470.129.06", label="old"), machine("9.0", driver="470.129.06", label="new")]),
        machine("3.7", "9.0", driver="525.60.13"),
    ],
    ids=["pool", "box"],
)
def test_no_driver_is_hinted_that_drops_another_gpu(facts: HostFacts) -> None:
    """Branch 520 is the first that supports an H100, and 470 the last for a K80: either opens nothing for both."""
    decision = decided(facts, dev=False)
    assert decision.chosen is None
    assert [miss for miss in decision.near_misses if miss.remedy.driver] == []
    assert not any("driver" in hint.text for hint in hints(decision))


@collect("name", WITH_GPU, one_in=3)
def test_a_hint_is_better_than_the_choice(name: str) -> None:
    decision = settled(name)
    for miss in decision.near_misses:
        if miss.remedy.option:
            case = replace(decision.context, request=replace(decision.context.request, dev=False))
            assert choice(decide(case)).build is miss.candidate.build
            continue
        item = next(item for item in decision.assessments if item.candidate is miss.candidate)
        assert item.objections[0] == miss.objection
        needs = [lead.remedy.driver for lead in item.objections if lead.remedy and lead.remedy.driver]
        assert len(needs) == len(item.objections)
        assert max(needs, key=driver_key, default=miss.remedy.driver) == miss.remedy.driver
        assert choice(decide(miss.then)).build is miss.candidate.build


def test_a_wrong_gpu_has_no_remedy_and_so_no_hint() -> None:
    kepler = decided(machine("3.7", driver="470.129.06"))
    assert not any("3.7" in hint.text for hint in hints(kepler))
    assert "device-code" not in {miss.objection.rule for miss in kepler.near_misses}


def test_a_wish_that_nothing_meets_says_what_would_fit_without_it() -> None:
    decision = settled("rtx4090-535", pytorch="99")
    assert decision.chosen is None
    assert decision.without_request
    assert decision.without_request.candidate.build.version == choice(settled("rtx4090-535")).build.version
    assert any("99" in hint.text and "2.13.0" in hint.text for hint in hints(decision))


# the driver that a choice needs


@collect("name", WITH_GPU)
def test_the_minimum_driver_runs_the_choice_and_no_earlier_one_does(name: str) -> None:
    decision = settled(name)
    lowest = decision.minimum_driver
    if decision.chosen is None:
        assert lowest is None
        return
    assert lowest
    item = choice(decision)
    texts = [str(gpu) for gpu in decision.context.facts.capabilities]

    def runs(driver: str) -> bool:
        facts = machine(*texts, driver=driver, libc="2.39", platform=decision.context.facts.platform)
        return decide(case(facts), [item]).chosen is not None

    assert runs(lowest)
    earlier = [driver for driver in DRIVERS if driver_key(driver) < driver_key(lowest)]
    assert not any(map(runs, earlier))
    if lowest in {floor.driver for floor in base().floors}:
        head, _, last = lowest.rpartition(".")
        assert not runs(f"{head}.{int(last) - 1:02}")


@collect("gpu", ["3.7", "6.0", "7.0", "7.5"])
def test_a_driver_of_cuda_10_gets_the_last_build_for_it(gpu: str) -> None:
    found = decided(machine(gpu, driver="440.33.01"), dev=False)
    chosen = choice(found)
    assert (str(chosen.build.version), str(chosen.cuda)) == ("1.12.1", "10.2")
    assert found.minimum_driver == "440.33"
    assert decided(machine(gpu, driver="418.39"), dev=False).chosen is None
    pins = {pin.name: pin.condition() for pin in compose(found, "old").pins}
    assert pins["cuda-version"] == "10.2.*"
    assert "cudatoolkit" in pins


def test_a_choice_that_nobody_has_seen_is_not_newer_than_itself() -> None:
    found = decided(machine("7.0", driver="440.33.01"), dev=False)
    assert choice(found).build.seen is None
    assert found.unseen is None


@collect(
    ("driver", "cuda"), [("450.51.05", "10.2"), ("450.51.06", "11.0"), ("450.80.02", "11.8"), ("455.23.05", "11.8")]
)
def test_cuda_11_0_runs_on_its_own_driver(driver: str, cuda: str) -> None:
    assert str(choice(decided(machine("7.0", driver=driver), dev=False)).cuda) == cuda


def test_the_minimum_driver_covers_jit() -> None:
    """CUDA 12.6 PTX on a card of 10.0: the branch that drives it is higher than what the PTX needs, and both count."""
    facts = machine("10.0")
    found = decide(case(facts, dev=False), [candidate("2.7.1", "cuda126*")])
    assert found.minimum_driver == max("570.26", base().native_driver(version("12.6")) or "", key=driver_key)
    rubin = decide(case(machine("10.7"), dev=False), [candidate("2.13.0", "cuda130*")])
    assert rubin.minimum_driver == "580.65.06"


def test_minimum_drivers_are_compared_by_number_and_what_no_row_says_is_out() -> None:
    """A driver of four digits, as text, would come before one of three."""
    item = candidate("2.13.0", "cuda130*")
    floors = tuple(row.replaced(driver="1000.10") if row.major == 13 else row for row in base().floors)
    branches = tuple(
        row.replaced(first_branch=1001) if str(row.capability) == "9.0" else row for row in base().generations
    )
    together = pool([machine("7.5", label="one"), machine("9.0", label="two"), machine("12.0", label="three")])
    asked = Context(facts=together, request=Request(), knowledge=replace(base(), floors=floors, generations=branches))
    pairs = {host.label: lowest for host, lowest in minimum_drivers(item, asked)}
    assert pairs == {"one": "1000.10", "two": "1001", "three": "1000.10"}
    assert minimum_driver(item, asked) == "1001"
    of_nobody = replace(item, cuda=version("14.0"), build=item.build.replaced(code=None))
    assert minimum_driver(of_nobody, asked) == "1001"  # beside 570.26
    assert minimum_drivers(of_nobody, case(machine("12.0"))) == ((machine("12.0"), "570.26"),)
    assert minimum_drivers(of_nobody, case(machine("7.5"))) == ()
    assert minimum_driver(of_nobody, case(machine("7.5"))) is None


@collect(
    ("gpu", "cuda", "says"),
    [
        ("9.0", "11.8", "520.61.05 (inferred, of low confidence)"),
        ("9.0", "12.6", "525.60.13"),  # the inferred driver of the GPU is not the one that decides
        ("8.0", "11.8", "450.80.02"),
    ],
)
def test_a_minimum_driver_is_called_inferred_where_it_is_that_of_an_inferred_row(
    gpu: str, cuda: str, says: str
) -> None:
    found = decided(machine(gpu), dev=False, cuda=cuda)
    assert minimum_text(found) == says


def test_ptx_of_a_release_without_a_driver_asks_for_none() -> None:
    item = candidate("2.7.1", "cuda126*")
    ahead = replace(item, build=item.build.replaced(code=parse_arch_list("9.0+PTX", version("99.0"))))
    found = minimum_driver(ahead, case(machine("10.0"), dev=False))
    assert found == minimum_driver(replace(ahead, build=ahead.build.replaced(code=None)), case(machine("10.0")))


# the preference, by candidates made by hand

RTX = machine("8.6", driver="535.129.03")


def of_build(pytorch: str, build: str) -> list[Candidate]:
    """Every toolkit that a build may stand with."""
    return [item for item in everything() if (str(item.build.version), item.build.build) == (pytorch, build)]


def best_of(facts: HostFacts, *pool_of_them: Candidate, **wishes: Any) -> Candidate:
    forward, backward = (decide(case(facts, **wishes), order) for order in (pool_of_them, pool_of_them[::-1]))
    assert choice(forward) is choice(backward)
    return choice(forward)


def test_native_goes_before_the_newest_torch() -> None:
    jit, native = candidate("2.7.1", "cuda126*"), candidate("2.7.1", "cuda129*")
    newer = replace(jit, build=jit.build.replaced(version=version("9.9.9")))
    facts = machine("10.0", driver="575.57.08")
    assert best_of(facts, newer, native, dev=False) is native


def test_a_role_that_is_not_proven_goes_behind() -> None:
    unproven, proven = candidate("2.5.1", "*cuda12.1*"), candidate("2.5.0", "*cuda12.4*")
    assert best_of(RTX, unproven, proven) is proven


def test_the_newest_torch_goes_before_everything_about_the_toolkit() -> None:
    old, new = candidate("2.5.1", "cuda120*", "12.2"), candidate("2.13.0", "cuda129*")
    assert best_of(RTX, old, new) is new
    assert best_of(RTX, old, new, prefer="native") is old


def test_versions_and_not_texts_are_compared() -> None:
    assert best_of(RTX, candidate("2.9.1", "cuda129*"), candidate("2.10.0", "cuda129*")).build.version == version(
        "2.10"
    )


def test_of_one_torch_conda_forge_goes_first() -> None:
    theirs, ours = candidate("2.5.1", "*cuda12.4*"), candidate("2.5.1", "cuda120*")
    assert best_of(RTX, theirs, ours) is ours


def test_of_one_build_the_highest_toolkit_within_the_level_else_the_own() -> None:
    pool_of_them = of_build("2.5.1", "cuda120*")
    assert len(pool_of_them) > 5
    assert best_of(RTX, *pool_of_them).cuda == version("12.2")
    assert best_of(machine("8.6", driver="525.85.12"), *pool_of_them).cuda == version("12.0")
    assert best_of(machine("8.6", driver="580.65.06"), *pool_of_them).cuda == version("12.9")
    above = of_build("2.5.1", "cuda126*")
    assert best_of(RTX, *above).cuda == version("12.6")


def test_without_a_driver_the_toolkit_of_the_build_itself() -> None:
    pool_of_them = of_build("2.5.1", "cuda120*")
    assert best_of(machine("8.6"), *pool_of_them).cuda == version("12.0")


def test_without_a_driver_the_build_for_the_higher_cuda_of_two() -> None:
    lower, higher = candidate("2.7.1", "cuda126*"), candidate("2.7.1", "cuda129*")
    assert best_of(machine("8.6"), lower, higher) is higher


def test_a_cpu_build_beside_a_toolkit_has_its_place() -> None:
    """A lock may hold CUDA libraries beside a torch for the CPU."""
    item = replace(candidate("2.13.0", "cpu*"), cuda=version("12.9"))
    decision = decide(case(machine(), cpu=True, dev=False), [item, replace(item, cuda=None)])
    assert [found.candidate.cuda for found in decision.ranked(decision.assessments)] == [version("12.9"), None]


def test_the_newest_label_of_two_that_fit() -> None:
    labels = of_build("2.5.1", "*cuda12.4*")
    assert {item.label.label for item in labels if item.label} == {"12.4.0", "12.4.1"}
    label = best_of(RTX, *labels).label
    assert label
    assert label.label == "12.4.1"


@collect(
    ("wanted", "label"),
    [("12.4", "12.4.1"), ("12.4.0", "12.4.0"), ("==12.4.0", "12.4.0"), (">=12.1,<12.4.1", "12.4.0")],
)
def test_a_wish_for_one_release_of_cuda_chooses_its_label(wanted: str, label: str) -> None:
    found = choice(decided(machine("8.0", driver="550.144.03"), stack="pytorch", cuda=wanted)).label
    assert found
    assert found.label == label


def test_the_python_nearest_the_middle() -> None:
    item = candidate("2.10.0", "cuda129*")
    assert item.build.pythons == ("3.10", "3.11", "3.12", "3.13", "3.14")
    assert pythons(item.build) == ("3.12", "3.11", "3.13", "3.10", "3.14")
    assert pythons(item.build, version_spec(">=3.13")) == ("3.13", "3.14", "3.12", "3.11", "3.10")
    others = [replace(item, python=text) for text in item.build.pythons]
    assert best_of(RTX, *others).python == "3.12"
    assert best_of(RTX, *others, python=">=3.13").python == "3.13"


def test_distance_takes_the_older_of_two_as_far() -> None:
    assert sorted(["3.9", "3.15", "3.11", "3.13", "3.12"], key=distance) == ["3.12", "3.11", "3.13", "3.9", "3.15"]


def test_equal_questions_of_the_preference_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def by_python(python: str) -> str:
        asked.append(python)
        return python

    def by_build(built_cuda: Version) -> str:
        asked.append(f"build for {built_cuda}")
        return "build"

    criteria = (Criterion("one", by_python, lambda *_: ""), Criterion("two", by_build, lambda *_: ""))
    monkeypatch.setattr("cuenv.resolver.ranking.PREFERENCE", criteria)
    ranking = Ranking(case(RTX))
    item = candidate("2.13.0", "cuda129*")
    for text in ("3.11", "3.12", "3.11"):
        made = Assessment(candidate=replace(item, python=text), verdicts=(), objections=())
        assert ranking.key(made) == (text, "build")
    assert asked == ["3.11", "build for 12.9", "3.12"]


def test_native_moves_one_criterion_to_the_front() -> None:
    newest, native = preference("newest"), preference("native")
    assert newest == PREFERENCE
    assert sorted(map(id, newest)) == sorted(map(id, native))
    assert native[0].name == "CUDA toolkit not newer than the driver's CUDA version"
    assert list(native[1:]) == [item for item in newest if item is not native[0]]


@collect(
    ("wanted", "minor", "some", "whole"),
    [
        ("3.12", "3.12", True, True),
        ("3", "3.12", True, True),
        ("3.12.4", "3.12", True, False),
        ("==3.12.4", "3.12", True, False),
        (">=3.12.4,<3.13", "3.12", True, False),
        (">=3.12.4,<3.13", "3.13", False, False),
        (">=3.10", "3.12", True, True),
        (">3.12", "3.12", True, False),
        ("!=3.12.3", "3.12", True, False),
        ("<3.12", "3.12", False, False),
        ("3.1", "3.12", False, False),
        ("~=3.12.4", "3.12", True, False),
    ],
)
def test_a_wish_admits_some_or_all_releases_of_a_minor(wanted: str, minor: str, some: bool, whole: bool) -> None:
    assert admits(version_spec(wanted), minor) is some
    assert admits_all(version_spec(wanted), minor) is whole


# laws

many = st.lists(capabilities, min_size=1, max_size=3, unique=True)


@examples(15)
@given(many, capabilities, st.none() | drivers, st.booleans())
@example([Capability(3, 5)], Capability(10, 0), None, False)
def test_another_gpu_never_opens_a_candidate(
    have: list[Capability], more: Capability, driver: str | None, dev: bool
) -> None:
    texts = [str(gpu) for gpu in have]
    before = fitting(machine(*texts, driver=driver), dev=dev)
    after = fitting(machine(*texts, str(more), driver=driver), dev=dev)
    assert after.keys() <= before.keys()


@examples(15)
@given(many, drivers, drivers, st.booleans())
def test_a_newer_driver_loses_a_candidate_only_by_the_last_branch(
    gpus: list[Capability], one: str, other: str, dev: bool
) -> None:
    older, newer = sorted((one, other), key=driver_key)
    texts = [str(gpu) for gpu in gpus]
    before, after = (machine(*texts, driver=driver) for driver in (older, newer))
    decision = decide(case(after, dev=dev), everything())
    have = fitting(before, dev=dev)
    assert have.keys() <= {item.candidate for item in decision.assessments}
    for item in decision.assessments:
        if item.candidate in have and not item.fits:
            assert {lead.rule for lead in item.objections} == {"driver-gpu"}
            rows = [base().compute_capability(gpu) for gpu in gpus]
            assert any(row and row.last_branch and driver_key(newer)[0] > row.last_branch for row in rows)


@examples(15)
@given(many, st.none() | drivers)
def test_an_unknown_driver_fits_wherever_a_known_one_of_any_age_does(
    gpus: list[Capability], driver: str | None
) -> None:
    texts = [str(gpu) for gpu in gpus]
    assert fitting(machine(*texts, driver=driver)).keys() <= fitting(machine(*texts)).keys()


@examples(10)
@given(many, many, drivers, drivers)
def test_a_pool_fits_nothing_that_one_of_its_machines_refuses(
    one: list[Capability], other: list[Capability], first: str, second: str
) -> None:
    left = machine(*map(str, one), driver=first, label="left")
    right = machine(*map(str, other), driver=second, label="right")
    together = fitting(pool([left, right]))
    assert together.keys() <= fitting(left).keys()
    assert together.keys() <= fitting(right).keys()


@examples(15)
@given(many, st.none() | drivers, st.booleans())
def test_every_rejected_candidate_has_a_leading_objection(
    gpus: list[Capability], driver: str | None, dev: bool
) -> None:
    decision = decided(machine(*map(str, gpus), driver=driver), dev=dev)
    order = {rule.name: index for index, rule in enumerate(RULES)}
    for item in decision.assessments:
        assert item.fits == (item in decision.fitting)
        assert item.fits or item.objections[0].because
        positions = [order[lead.rule] for lead in item.objections]
        assert positions == sorted(positions)
    assert sum(group.count for group in decision.rejections) == len(decision.assessments) - len(decision.fitting)
    for group in decision.rejections:
        example = next(item for item in decision.assessments if item.candidate is group.example)
        assert (example.objections[0].rule, example.objections[0].because) == (group.rule, group.because)


@examples(15)
@given(many, st.none() | drivers, st.sampled_from(["newest", "native"]))
def test_every_loser_loses_on_a_criterion_where_the_choice_is_better(
    gpus: list[Capability], driver: str | None, prefer: str
) -> None:
    decision = decided(machine(*map(str, gpus), driver=driver), prefer=prefer)
    for item in decision.fitting[1:]:
        found = decision.lost_on(item)
        if found:
            criterion, ours, theirs = found
            assert decision.chosen
            ranking = Ranking(decision.context)
            at = ranking.criteria.index(criterion)
            assert ranking.key(decision.chosen)[at] < ranking.key(item)[at]
            assert ours
            assert theirs


QUESTIONS = (
    *("cuda=13.0", "cuda=12", "cuda=12.9", "cuda=11.8", "cuda=12.7", "cuda=12.9.1", "cuda=>=12.4,<12.9"),
    *("pytorch=2.5", "pytorch=2.13.0", "pytorch===2.5.1", "pytorch=99", "pytorch=2"),
    *("stack=pytorch", "stack=conda-forge", "stack=mamba", "python=3.12", "python=3.9", "python=3.12.4", "python=4"),
)


@examples(25)
@given(many, st.none() | drivers, st.sampled_from(QUESTIONS))
def test_why_not_agrees_with_the_decision(gpus: list[Capability], driver: str | None, question: str) -> None:
    decision = decided(machine(*map(str, gpus), driver=driver))
    answer = why_not(decision, question)
    key, _, value = question.partition("=")
    wishes: dict[str, Any] = {key: value} if key == "stack" else {key: value.removeprefix("==")}
    alone = decided(decision.context.facts, **wishes) if value != "mamba" else None
    if answer.says.startswith("it is the choice"):
        assert alone
        same = str(choice(alone)) == str(choice(decision))
        assert same or (key == "python" and choice(alone).build is choice(decision).build)
    elif answer.losses:
        assert alone
        assert choice(alone) is not choice(decision)
        assert {loss.criterion for loss in answer.losses} <= {criterion.name for criterion in PREFERENCE}
    elif answer.verdicts:
        assert alone
        assert alone.chosen is None
        assert all(verdict.outcome == "reject" for verdict, _ in answer.verdicts)
    elif alone and alone.chosen:
        assert "it fits" in answer.says
    else:
        assert "the cuenv tables list no" in answer.says


def test_each_machine_of_a_pool_needs_a_driver_of_its_own() -> None:
    """580 is the last branch that drives 7.0; that another machine needs a later one is no reason to ask it there."""
    old, new = machine("7.0", driver="580.65.06", label="old"), machine("12.0", driver="590.44.01", label="new")
    decision = decided(pool([old, new]), dev=False)
    pairs = {host.label: lowest for host, lowest in decision.minimum_drivers}
    assert set(pairs) == {"old", "new"}
    assert driver_key(pairs["old"]) < driver_key(pairs["new"])
    assert decision.minimum_driver == pairs["new"]
    item = choice(decision)
    for host in (old, new):
        alone = Driver(version=pairs[host.label], cuda=base().cuda_of(pairs[host.label]))
        assert decide(case(replace(host, driver=alone)), [item]).chosen is not None
        single = decide(case(host, dev=False), [item])
        assert [lowest for _, lowest in single.minimum_drivers] == [pairs[host.label]]
    assert minimum_text(decision) == f"{pairs['new']} on new, {pairs['old']} on old"
    twins = decide(case(pool([new, replace(new, label="other")]), dev=False), [item])
    assert minimum_text(twins) == pairs["new"]
    assert decision_plain(decision)["minimum_drivers"] == [
        {"host": "new", "driver": pairs["new"]},
        {"host": "old", "driver": pairs["old"]},
    ]
    assert "minimum_drivers" not in decision_plain(decided(new))
