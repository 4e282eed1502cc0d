"""Plain sentences: every number in them comes from the facts, the tables or the wishes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from cuenv.cli.values import RequestValues
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.cli.options import request_from
from cuenv.cli.resolve import command
from cuenv.core.versions import Capability, Jit, Native, version
from cuenv.host.describe import gpu_text, host_line, host_options
from cuenv.host.facts import Gpu, HostFacts, Libc
from cuenv.host.request import Request, pool
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.tables import TABLES, rows_of
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.explain import (
    chosen_line,
    gpu_support,
    hints,
    reason_text,
    request_options,
    skipped_lines,
    source_lines,
    summary,
    support_lines,
    verdict_lines,
)
from cuenv.resolver.rules import rule_named
from given import (
    HOSTS,
    WITH_GPU,
    base,
    candidate,
    capabilities,
    case,
    choice,
    decided,
    drivers,
    machine,
    settled,
    shipped,
    version_spec,
)
from thorough import examples

NUMBER = re.compile(r"\d+(?:\.\d+)+")


def numbers_of(*things: object) -> set[str]:
    return {found for thing in things for found in NUMBER.findall(str(thing))}


@lru_cache(maxsize=1)
def known() -> set[str]:
    """Every dotted number that stands in the tables."""
    rows = (row for name in TABLES for row in rows_of(base(), name))
    return {found for row in rows for found in NUMBER.findall(_texts(row))}


def _texts(row: object) -> str:
    flat: list[object] = []
    for value in (getattr(row, name, "") for name in dir(row) if not name.startswith("_")):
        flat += [*value] if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return " ".join(_plain(value) for value in flat)


def _plain(value: object) -> str:
    code = getattr(value, "sass", None)
    return " ".join(map(str, code)) if code else str(value)


everyone = collect("name", HOSTS)


def facts_of(host: HostFacts) -> set[str]:
    machines = (host, *host.machines)
    return numbers_of(*machines, *(item.driver for item in machines), *(str(gpu) for gpu in host.capabilities)) | {
        str(libc.version) for item in machines if (libc := item.libc)
    }


# one host in words


@everyone
def test_a_host_in_one_line_has_its_numbers_and_no_others(name: str) -> None:
    facts = shipped(name)
    line = host_line(facts)
    assert line.startswith(name)
    assert facts.platform in line
    if facts.driver and facts.driver.version:
        assert facts.driver.version in line
        assert str(facts.driver.cuda) in line
    for gpu in facts.capabilities:
        assert str(gpu) in line
    assert numbers_of(line.removeprefix(name)) <= facts_of(facts)


def test_equal_gpus_are_counted() -> None:
    assert gpu_text(shipped("a800-470")) == "8 x A800-SXM4-80GB (8.0)"
    assert gpu_text(shipped("v100-rtx5090-575")) == "Tesla V100-PCIE-32GB (7.0) + RTX 5090 (12.0)"
    assert gpu_text(machine("8.9")) == "GPU 8.9"
    assert gpu_text(machine("8.9", "8.9")) == "2 x GPU 8.9"
    assert gpu_text(machine()) == "no NVIDIA GPU"


def test_what_is_not_known_is_said() -> None:
    assert "unknown driver" in host_line(machine("8.9"))
    assert "supports CUDA 12.4" in host_line(machine("8.9", level="12.4"))
    blind = replace(machine(), gpus=(Gpu(index=0, name="X", capability=None),))
    assert "compute capability unknown" in gpu_text(blind)


@collect("name", WITH_GPU, one_in=3)
def test_the_options_of_a_host_make_a_host_that_decides_alike(name: str) -> None:
    facts = shipped(name)
    words = list(host_options(facts))
    given: dict[str, list[str]] = {}
    while words:
        given.setdefault(words.pop(0), []).append(words.pop(0))
    assert set(given) <= {"--gpu", "--driver", "--glibc", "--platform"}
    again = host_facts(
        HostOptions(
            gpus=tuple(given["--gpu"]),
            driver=given["--driver"][0],
            glibc=given["--glibc"][0],
            platform=given.get("--platform", ["linux-64"])[0],
            environ={},
        ),
        base(),
    )
    assert again.capabilities == facts.capabilities
    one, other = settled(name), decided(again)
    assert [str(item.candidate) for item in one.fitting] == [str(item.candidate) for item in other.fitting]


def test_a_pool_that_holds_more_than_recorded_machines_is_not_named_by_them() -> None:
    there, added = shipped("a800-470"), replace(machine("9.0", driver="535.129.03", label="added"), detected=False)
    assert "--host" in host_options(pool([there, shipped("h800-525")]))
    words = list(host_options(pool([there, added])))
    assert "--host" not in words
    assert {"8.0", "9.0", "470.129.06"} <= set(words)


def test_a_c_library_that_is_no_glibc_is_no_option() -> None:
    musl = replace(machine("8.9"), libc=Libc(family="musl", version=version("1.2.4")))
    assert "--glibc" not in host_options(musl)
    assert host_options(machine(libc=None)) == ()


# the choice in words


@everyone
def test_the_choice_in_one_line(name: str) -> None:
    decision = settled(name)
    line = chosen_line(decision)
    if decision.chosen is None:
        assert line == "no candidate fits"
        return
    item = choice(decision)
    for word in (item.build.version, item.build.build, item.cuda, item.python, item.build.stack):
        assert str(word) in line


@collect("name", WITH_GPU)
def test_how_each_gpu_is_served(name: str) -> None:
    decision = settled(name)
    found = gpu_support(decision)
    if decision.chosen is None:
        assert found == []
        assert support_lines(decision) == []
        return
    assert [text for text, _ in found] == [str(gpu) for gpu in decision.context.facts.capabilities]
    for line, (text, how) in zip(support_lines(decision), found, strict=True):
        assert line.startswith(f"compute capability {text}")
        assert isinstance(how, (Native, Jit))
        assert str(how.target) in line
        assert ("JIT" in line) == isinstance(how, Jit)


def test_jit_is_said_to_be_jit() -> None:
    decision = decide(case(machine("10.0", driver="575.57.08"), dev=False), [candidate("2.7.1", "cuda126*")])
    (line,) = support_lines(decision)
    assert "JIT" in line
    assert "9.0" in line


@collect("name", WITH_GPU)
def test_every_number_of_a_summary_is_known(name: str) -> None:
    decision = settled(name)
    allowed = facts_of(shipped(name)) | known()
    for line in summary(decision):
        assert line.isprintable()
        assert "None" not in line
        unknown = numbers_of(line) - allowed
        assert not unknown, (line, unknown)


@collect("name", WITH_GPU)
def test_a_summary_says_host_choice_and_lowest_driver(name: str) -> None:
    decision = settled(name)
    text = "\n".join(summary(decision))
    assert host_line(shipped(name)) in text
    assert chosen_line(decision) in text
    if decision.minimum_driver:
        assert decision.minimum_driver in text
    for hint in hints(decision):
        assert hint.command in text


def test_without_a_driver_the_lowest_one_is_said_first() -> None:
    decision = decided(machine("8.9"))
    assert decision.minimum_driver == "525.60.13"
    assert "525.60.13" in summary(decision)[0]


def test_a_pool_names_who_cuts() -> None:
    together = pool([shipped("pool-v100"), shipped("pool-rtx5090")])
    text = "\n".join(summary(decided(together)))
    assert "pool-v100" in text
    assert "pool-rtx5090" in text


def test_what_the_channels_lack_is_said_once_for_all_pythons() -> None:
    item = candidate("2.13.0", "cuda129*")
    others = [replace(item, python=text) for text in ("3.12", "3.13")]
    decision = replace(decided(machine("8.9", driver="535.129.03")), skipped=tuple((each, "gone") for each in others))
    (line,) = skipped_lines(decision)
    for word in ("2.13.0", "3.12", "3.13", "gone"):
        assert word in line


def test_a_few_of_many_that_were_skipped_are_named_without_v() -> None:
    item = candidate("2.13.0", "cuda129*")
    skipped = tuple((item, f"lacks {number}") for number in range(9))
    decision = replace(decided(machine("8.9", driver="535.129.03")), skipped=skipped)
    brief, whole = ([line for line in summary(decision, verbose=each) if "skipped " in line] for each in (False, True))
    assert whole == skipped_lines(decision)
    assert brief == [*whole[:6], "skipped 3 more; -v lists them"]


# verdicts and reasons


@everyone
def test_every_ground_of_the_tables_is_cited_in_full(name: str) -> None:
    decision = settled(name)
    for item in [*decision.fitting[:1], *decision.assessments[::40]]:
        for verdict in item.verdicts:
            cited: dict[str, int] = {}
            lines = verdict_lines(verdict, base(), cited)
            sources = source_lines(cited, base())
            assert lines[0].split()[0] == verdict.outcome
            assert lines[0].partition(" ")[2].strip() == f"{rule_named(verdict.rule).title}: {verdict.because}"
            for reason in verdict.reasons:
                text = reason_text(reason, base(), cited)
                assert text in "\n".join(lines)
                if reason.kind == "row":
                    for source in reason.sources:
                        mark = f"[{cited[source]}]"
                        (line,) = [line for line in sources if line.split()[1] == mark]
                        assert base().sources[source].title in line
                        assert base().sources[source].read_on in line
                        assert str(cited[source]) in text.rpartition("[")[2]
                    assert ("low confidence" in text) == reason.low
            assert len(sources) == len(cited)


@examples(20)
@given(st.lists(capabilities, min_size=1, max_size=3), st.none() | drivers)
def test_objections_are_grouped_without_loss(gpus: list[Capability], driver: str | None) -> None:
    decision = decided(machine(*map(str, gpus), driver=driver))
    counts = [group.count for group in decision.rejections]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == len(decision.assessments) - len(decision.fitting)
    assert len({(group.rule, group.because) for group in decision.rejections}) == len(counts)
    for group in decision.rejections:
        example = next(item for item in decision.assessments if item.candidate is group.example)
        assert example.objections[0] is group.lead


# hints


def all_hints(decision: Decision) -> Iterable[tuple[str, list[str]]]:
    for hint in hints(decision):
        yield hint.text, shlex.split(hint.command)


@everyone
def test_every_hint_is_one_command_that_can_be_typed(name: str) -> None:
    for text, words in all_hints(settled(name)):
        assert text
        assert words[:2] == ["cuenv", "resolve"]
        assert "" not in words


def test_a_wish_becomes_the_option_that_asks_for_it() -> None:
    wanted = Request(
        stack="pytorch",
        pytorch=version_spec(">=2.3,<2.5"),
        cuda=version_spec("11.8"),
        python=version_spec("==3.10.4"),
        dev=False,
        packages=("transformers>=4.36",),
        pip=("deepspeed",),
        prefer="native",
    )
    assert list(request_options(wanted)) == [
        *("--stack", "pytorch", "--pytorch", ">=2.3,<2.5", "--cuda", "11.8", "--python", "==3.10.4"),
        *("--prefer", "native", "--with", "transformers>=4.36", "--with", "pip:deepspeed", "--no-dev"),
    ]
    assert request_options(Request()) == ()
    assert request_options(Request(cpu=True, dev=False)) == ("--cpu",)


@pytest.mark.parametrize(
    ("driver", "dev", "wanted", "option"),
    [("550.54.14", False, {"pip": ("deepspeed==0.18.2",)}, "--dev"), ("470.129.06", True, {}, "--no-dev")],
)
def test_a_hint_with_an_option_does_not_name_its_opposite(
    driver: str, dev: bool, wanted: dict[str, tuple[str, ...]], option: str
) -> None:
    decision = decided(machine("8.6", driver=driver), dev=dev, **wanted)
    (words,) = [words for _, words in all_hints(decision) if {"--dev", "--no-dev"} & set(words)]
    assert [word for word in words if word in ("--dev", "--no-dev")] == [option]


def test_foreign_text_in_a_hint_is_quoted() -> None:
    decision = decided(machine("8.9", driver="535.129.03"), packages=("x; rm -rf /",), pytorch="99")
    commands = [hint.command for hint in hints(decision)]
    assert commands
    assert all(shlex.split(command)[0] == "cuenv" for command in commands)
    assert all("'x; rm -rf /'" in command for command in commands)


def _stderr(folder: Path, *words: str) -> list[str]:
    return run("resolve", *words, folder=folder).stderr.splitlines()


def test_the_c_library_of_this_machine_is_said_where_another_machine_is_meant(tmp_path: Path) -> None:
    host = ("--gpu", "8.0", "--driver", "535.54.03")
    assert any("was read from this machine; name" in line for line in _stderr(tmp_path, *host))
    for words in ((*host, "--glibc", "2.31"), ("--host", "rtx4090-535"), ("--host", "rtx4090-535", "--gpu", "L4")):
        assert not any("from this machine" in line for line in _stderr(tmp_path, *words))


TEAM = """\
name: team
story: ours.
pytorch: "2.5"
cuda: "11.8"
dev: false
with: ["transformers>=4.36", accelerate]
pip: [einops]
"""


@collect(
    ("typed", "said"),
    [
        ((), "--profile ./team.yml"),
        (("--with", "numpy", "--with", "pip:rich"), "--profile ./team.yml --with numpy --with pip:rich"),
        (("--dev",), "--profile ./team.yml --dev"),
        (("--pytorch", "2.4", "--stack", "pytorch"), "--profile ./team.yml --stack pytorch --pytorch 2.4"),
        (("--prefer", "native"), "--profile ./team.yml --prefer native"),
    ],
)
def test_a_profile_is_spelled_by_its_name(tmp_path: Path, typed: tuple[str, ...], said: str) -> None:
    (tmp_path / "team.yml").write_text(TEAM)
    wanted = request_in(tmp_path, "--profile", "./team.yml", *typed)
    options = request_options(wanted)
    assert shlex.join(options) == said
    assert replace(request_in(tmp_path, *options), origin=None) == replace(wanted, origin=None)


def test_what_no_option_takes_from_a_profile_is_spelled_out(tmp_path: Path) -> None:
    (tmp_path / "team.yml").write_text(TEAM)
    wanted = replace(request_in(tmp_path, "--profile", "./team.yml"), pytorch=None, cuda=None)
    said = shlex.join(request_options(wanted))
    assert said == "--with 'transformers>=4.36' --with accelerate --with pip:einops --no-dev"


def request_in(folder: Path, *words: str) -> Request:
    """What the options of `cuenv resolve` ask for."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        with command.make_context("resolve", list(words)) as context:
            return request_from(cast("RequestValues", context.params))
    finally:
        os.chdir(here)


def test_a_package_says_who_asked_for_it(tmp_path: Path) -> None:
    (tmp_path / "team.yml").write_text(TEAM)
    words = ("--profile", "./team.yml", "--host", "rtx4090-535", "--with", "numpy")
    lines = run("resolve", *words, folder=tmp_path).stdout.splitlines()
    who = {line.split("- ")[1]: before.strip() for before, line in pairwise(lines) if "# requested" in before}
    assert who == {
        "transformers>=4.36": "# requested in the profile team",
        "accelerate": "# requested in the profile team",
        "numpy": "# requested with --with",
    }


def test_hints_keep_the_wishes_and_what_was_laid_over_recorded_hosts() -> None:
    bare = decided(machine(), dev=False, packages=("deepspeed",), pip=("peft>=0.2",))
    commands = [hint.command for hint in hints(bare)]
    assert len(commands) == 2
    for text, end in zip(commands, ("--no-dev", "--cpu"), strict=True):
        assert f"--with deepspeed --with 'pip:peft>=0.2' {end}" in text
    names = ("a800-470", "rtx4090-535")
    facts = host_facts(HostOptions(hosts=names, glibc="2.31", environ={}), base())
    assert host_options(facts) == ("--host", "a800-470", "--host", "rtx4090-535", "--glibc", "2.31")
    driven = host_facts(HostOptions(hosts=names, driver="535.54.03", environ={}), base())
    assert host_options(driven)[-2:] == ("--driver", "535.54.03")
    assert "--driver" not in host_options(host_facts(HostOptions(hosts=names, environ={}), base()))


def test_hints_of_a_run_keep_its_further_options(tmp_path: Path) -> None:
    mirror = f"conda-forge={tmp_path}/a channel"
    (tmp_path / "a channel").mkdir()
    words = ("--gpu", "8.9", "--driver", "535.129.03", "--mirror", mirror, "--name", "train", "-o", "new.yml")
    done = run("resolve", *words, folder=tmp_path)
    found = [line for line in done.stderr.splitlines() if line.startswith("hint")]
    assert found
    for hint in found:
        assert shlex.split(hint.partition(": ")[2])[-6:] == list(words[-6:])
    (wrote,) = [line for line in done.stderr.splitlines() if line.startswith("wrote")]
    assert shlex.split(wrote)[-2:] == ["--mirror", mirror]
