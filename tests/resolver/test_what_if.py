"""What if: the answer is the difference of two whole decisions, for any host and any change."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import inside as run
from cuenv.core.errors import UsageError
from cuenv.core.record import replace
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request, pool
from cuenv.host.select import HostOptions, host_facts
from cuenv.resolver.candidates import environment_key
from cuenv.resolver.resolve import Resolution, decide_with_wheels, resolve
from cuenv.resolver.what_if import ChangeOptions, DecisionChange, Group, WhatIf, changed, difference, what_if
from given import CAPABILITIES, DRIVERS, base, machine, options, shipped
from thorough import examples


def asked(*hosts: str, driver: str | None = None, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> WhatIf:
    change = ChangeOptions(driver=driver, add=add, remove=remove)
    return what_if(host_facts(HostOptions(hosts=hosts, environ={}), base()), change, Request(), base())


def fitting(facts: HostFacts) -> set[tuple[object, ...]]:
    return {environment_key(item.candidate) for item in resolve(facts, Request(), base()).decision.fitting}


def total(groups: tuple[Group, ...]) -> int:
    return sum(group.count for group in groups)


def test_the_example_of_the_docs() -> None:
    """Driver 580, an RTX 50 more, no V100: CUDA 13 opens."""
    found = asked("v100-rtx5090-575", driver="580", add=("12.0",), remove=("7.0",))
    before, after = found.before.decision.chosen, found.after.decision.chosen
    assert before
    assert after
    assert (str(before.candidate.cuda), str(after.candidate.cuda)) == ("12.9", "13.0")
    assert [str(item) for item in found.after.decision.context.facts.capabilities] == ["12.0"]
    assert found.appear[0].cuda == "13.0"


@pytest.mark.slow
@examples(10)
@given(
    now=st.sampled_from(DRIVERS),
    then=st.sampled_from((*DRIVERS, None)),
    there=st.lists(st.sampled_from(CAPABILITIES), min_size=1, max_size=3, unique=True),
    added=st.lists(st.sampled_from(CAPABILITIES), max_size=2),
)
def test_it_equals_the_difference_of_two_full_resolves(
    now: str, then: str | None, there: list[object], added: list[object]
) -> None:
    gpus, more = [str(item) for item in there], [str(item) for item in added]
    gone = gpus[:1] if more else []
    if not (then or more):
        then = now
    host = HostOptions(gpus=tuple(gpus), driver=now, glibc="2.35", platform="linux-64", environ={})
    change = ChangeOptions(driver=then, add=tuple(more), remove=tuple(gone))
    found = what_if(host_facts(host, base()), change, Request(), base())
    had = fitting(options(*gpus, driver=now))
    has = fitting(options(*[item for item in gpus if item not in gone], *more, driver=then or now))
    assert {environment_key(item.candidate) for item in found.before.decision.fitting} == had
    assert {environment_key(item.candidate) for item in found.after.decision.fitting} == has
    assert total(found.appear) == len(has - had)
    assert total(found.vanish) == len(had - has)


def test_nothing_lies_between_a_decision_and_itself() -> None:
    one = resolve(shipped("rtx4090-535"), Request(), base()).decision
    assert difference(one, one) == ((), ())


def test_a_choice_of_the_channels_and_one_of_the_tables_differ_by_the_host_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a channel is asked, it may choose another Python for a torch than the tables do."""

    def one_proven(facts: HostFacts, request: Request, *_: object, **__: object) -> Resolution:
        found = resolve(facts, request, base())
        if facts.driver and facts.driver.version == "545.23.06":
            return found
        decision = decide_with_wheels(replace(found.decision.context, proving=True))
        first, *rest = decision.fitting
        other = replace(first, candidate=replace(first.candidate, python="3.99"))
        return replace(found, decision=replace(decision, fitting=(other, *rest), proven=True))

    monkeypatch.setattr("cuenv.resolver.what_if.resolve", one_proven)
    found = asked("rtx4090-535", driver="545.23.06")
    assert found.before.decision.proven is not found.after.decision.proven
    assert (found.appear, found.vanish) == ((), ())


def test_a_bound_on_a_layer_comes_and_goes_with_the_gpu_that_needs_it(tmp_path: Path) -> None:
    """The torch build stays: only the file says that cuDNN may be newer."""
    found = asked("v100-rtx5090-575", remove=("7.0",))
    cap = ("libcudnn<9.11", None, ("release 9.11 dropped compute capability 7.0",))
    assert [(item.before, item.after, item.why) for item in found.bounds] == [cap]
    assert asked("rtx4090-535", add=("7.0",)).bounds[0].after == "libcudnn<9.11"
    gone = ("what-if", "--host", "v100-rtx5090-575", "--remove-gpu", "7.0")
    says = "\nbound   libcudnn<9.11 is removed: release 9.11 dropped compute capability 7.0\n"
    assert says in run(*gone, folder=tmp_path).stdout
    told = json.loads(run(*gone, "--json", folder=tmp_path).stdout)["bounds"]
    assert told == [{"before": cap[0], "after": None, "why": list(cap[2])}]


def test_what_the_choice_says_is_no_bound_and_a_compiler_that_moves_is_one() -> None:
    bounds = asked("v100-rtx5090-575", driver="580", remove=("7.0",)).bounds
    assert {(item.before, item.after) for item in bounds} == {
        ("libcudnn<9.11", None),
        ("gxx_linux-64=14.*", "gxx_linux-64=15.*"),
    }
    assert asked("rtx4090-535", driver="545.23.06").bounds == ()


def test_a_gpu_goes_by_its_name_or_its_capability() -> None:
    for text in ("RTX 5090", "12.0"):
        after = asked("v100-rtx5090-575", remove=(text,)).after.decision.context.facts
        assert [str(item) for item in after.capabilities] == ["7.0"]
    with pytest.raises(UsageError, match=r"the host has no 9\.0; it has 7\.0, 12\.0") as caught:
        asked("v100-rtx5090-575", remove=("9.0",))
    assert caught.value.hint == "name one that it has: --remove-gpu 7.0"
    with pytest.raises(UsageError, match="--add-gpu 'nope': unknown GPU name"):
        asked("v100-rtx5090-575", add=("nope",))
    with pytest.raises(UsageError, match="has no"):
        asked("v100-rtx5090-575", remove=("RTX 5080",))
    with pytest.raises(UsageError, match="needs a change"):
        asked("v100-rtx5090-575")


def test_in_a_pool_each_machine_changes() -> None:
    both = pool([machine("7.0", driver="535.129.03", label="a"), machine("8.0", driver="525.85.12", label="b")])
    gone = options("7.0").gpus
    then = changed(both, DecisionChange(driver=options("8.0", driver="580.65.06").driver, remove=gone), base())
    assert [str(item) for item in then.capabilities] == ["8.0"]
    assert then.driver
    assert then.driver.version == "580.65.06"
    more = changed(both, DecisionChange(add=options("9.0").gpus), base())
    assert [(item.label, [str(cap) for cap in item.capabilities]) for item in more.members] == [
        ("a", ["7.0"]),
        ("b", ["8.0"]),
        ("the added machine", ["9.0"]),
    ]
    assert more.members[2].driver == both.driver


def test_without_the_last_gpu_nothing_fits() -> None:
    found = asked("rtx4090-535", remove=("8.9",))
    assert not found.after.fits
    assert found.appear == ()
    assert total(found.vanish) == len(found.before.decision.fitting)


def test_the_command_says_both_choices_and_its_exit_code(tmp_path: Path) -> None:
    done = run("what-if", "--host", "a800-470", "--driver", "535.129.03", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("before  a800-470: driver 470.129.06")
    assert "\nafter   a800-470: driver 535.129.03" in done.stdout
    assert "\nnew " in done.stdout
    words = ("what-if", "--gpu", "V100", "--driver-now", "575.57.08", "--driver", "590", "--json")
    none = run(*words, folder=tmp_path)
    assert none.returncode == 1
    data = json.loads(none.stdout)
    assert data["schema"] == "cuenv/what-if/1"
    assert data["before"]["decision"]["chosen"]
    assert data["after"]["decision"]["chosen"] is None
    assert data["appear"] == []
    assert data["vanish"]
    assert run("what-if", "--host", "a800-470", folder=tmp_path).returncode == 2
    assert run("what-if", "--host", "a800-470", "--driver", "abc", folder=tmp_path).returncode == 2


def test_a_machine_without_a_gpu_is_told_how_to_name_one(tmp_path: Path) -> None:
    none = run("what-if", "--host", "no-gpu", "--driver", "580", folder=tmp_path)
    (hint,) = [line for line in none.stderr.splitlines() if line.startswith("hint: ")]
    again = run(*shlex.split(hint.partition("cuenv ")[2]), folder=tmp_path)
    assert (none.returncode, again.returncode) == (1, 0)


def test_a_driver_that_is_set_is_the_one_of_today(tmp_path: Path) -> None:
    typed = run("what-if", "--gpu", "A100", "--driver-now", "525.60.13", "--add-gpu", "H100", "--json", folder=tmp_path)
    environ = {"CUENV_GPU": "A100", "CUENV_DRIVER": "525.60.13"}
    by_settings = run("what-if", "--add-gpu", "H100", "--json", folder=tmp_path, **environ)
    assert by_settings.stdout == typed.stdout
    told = run("what-if", "--driver", "580", folder=tmp_path, **environ)
    assert told.stderr.splitlines() == [
        "set     --gpu A100 by CUENV_GPU",
        "set     --driver-now 525.60.13 by CUENV_DRIVER",
    ]
    assert told.stdout.startswith("before  the given host: driver 525.60.13")
    other = run("what-if", "--gpu", "V100", "--driver", "580", folder=tmp_path, **environ)
    assert other.stdout.startswith("before  the given host: unknown driver, V100")
    assert run("what-if", folder=tmp_path, **environ).returncode == 2  # nothing changes
