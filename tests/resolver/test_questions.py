"""Why, and why not: the verdict chain down to sourced facts, and the criterion that separates."""

from __future__ import annotations

import pytest

from cases import collect
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.record import replace
from cuenv.resolver.ranking import PREFERENCE
from cuenv.resolver.rules import RULES
from cuenv.resolver.why import KEYS, SUBJECTS, Answer, why, why_not
from given import HOSTS, base, choice, decided, options, settled

NOTHING_FITS = {"no-gpu", "rtx5090-560"}


def verdicts(answer: Answer, outcome: str) -> list[str]:
    return [verdict.rule for verdict, _ in answer.verdicts if verdict.outcome == outcome]


# why


@collect("subject", SUBJECTS)
@collect("name", HOSTS, one_in=8)
def test_every_host_answers_every_why(name: str, subject: str) -> None:
    decision = settled(name)
    answer = why(decision, subject)
    assert answer.question == f"why {subject}"
    assert (decision.chosen is None) == (name in NOTHING_FITS)
    if decision.chosen is None:
        assert answer.verdicts
        assert all(verdict.outcome == "reject" for verdict, _ in answer.verdicts)
        assert sum(count for _, count in answer.verdicts) == len(decision.assessments)
        return
    item = choice(decision)
    assert str(item.build.version) in answer.says
    assert str(item.cuda) in answer.says
    assert answer.verdicts
    assert verdicts(answer, "reject") == []


@collect("name", [name for name in HOSTS if name not in NOTHING_FITS], one_in=3)
def test_why_pytorch_is_every_rule_in_order(name: str) -> None:
    answer = why(settled(name), "pytorch")
    assert [verdict.rule for verdict, _ in answer.verdicts] == [rule.name for rule in RULES]
    cited = {source for verdict, _ in answer.verdicts for reason in verdict.reasons for source in reason.sources}
    assert len(cited & set(base().sources)) >= 5
    names = [criterion.name for criterion in PREFERENCE]
    assert {loss.criterion for loss in answer.losses} <= set(names)
    assert len({loss.criterion for loss in answer.losses}) == len(answer.losses)


def test_the_subject_narrows_the_rules() -> None:
    assert [verdict.rule for verdict, _ in why(settled("a800-470"), "driver").verdicts] == [
        "driver-gpu",
        "driver-floor",
        "driver-level",
    ]
    assert [verdict.rule for verdict, _ in why(settled("v100-rtx5090-575"), "cudnn").verdicts] == ["cudnn"]


def test_an_unknown_subject_names_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        why(settled("a800-470"), "torch\x1b[31m")
    assert caught.value.exit == ExitCode.USAGE
    assert caught.value.message.isprintable()
    assert caught.value.hint == "cuenv why pytorch"
    assert all(subject in caught.value.message for subject in SUBJECTS)


# why not


def test_what_is_rejected_says_the_leading_objection_with_its_numbers() -> None:
    answer = why_not(settled("rtx4090-535"), "cuda=13.0")
    assert "535.129.03" in answer.says
    assert "580.65.06" in answer.says
    assert verdicts(answer, "reject") == ["driver-floor"]
    assert answer.losses == ()


def test_what_is_chosen_is_said_to_be() -> None:
    item = choice(settled("rtx4090-535"))
    for question in (
        f"cuda={item.cuda}",
        f"pytorch={item.build.version}",
        f"python={item.python}",
        "stack=conda-forge",
    ):
        answer = why_not(settled("rtx4090-535"), question)
        assert answer.says.startswith("it is the choice"), question
        assert str(item.build.version) in answer.says
        assert (answer.verdicts, answer.losses) == ((), ())


@collect(
    ("question", "criterion"),
    [
        ("pytorch=2.5", "newest PyTorch"),
        ("cuda=12.6", "newest PyTorch"),
        ("python=3.13", "Python nearest 3.12"),
        ("python=3.11.9", "Python nearest 3.12"),
    ],
)
def test_what_would_fit_names_the_criterion_on_which_it_loses(question: str, criterion: str) -> None:
    answer = why_not(settled("rtx4090-535"), question)
    (loss,) = answer.losses
    assert loss.criterion == criterion
    assert loss.chosen != loss.other
    assert answer.verdicts == ()
    value = question.partition("=")[2].removesuffix(".9")
    assert value in loss.example


def test_the_stack_that_was_not_taken() -> None:
    answer = why_not(settled("rtx4090-535"), "stack=pytorch")
    assert answer.losses
    rejected = why_not(settled("a800-470"), "stack=conda-forge")
    assert set(verdicts(rejected, "reject")) >= {"roles", "driver-floor"}
    assert "12.0" in " ".join(verdict.because for verdict, _ in rejected.verdicts)


@collect(
    ("question", "known"),
    [
        ("cuda=12.7", "12.9"),
        ("pytorch=99", "2.13.0"),
        ("python=2.7", "3.12"),
        ("stack=defaults", "conda-forge"),
        ("cuda=>=14", "13.2"),
    ],
)
def test_what_nobody_heard_of_says_what_is_known(question: str, known: str) -> None:
    answer = why_not(settled("rtx4090-535"), question)
    assert known in answer.says
    assert question.partition("=")[2] in answer.says
    assert (answer.verdicts, answer.losses) == ((), ())


def test_what_is_known_is_in_order() -> None:
    says = why_not(settled("rtx4090-535"), "pytorch=99").says
    assert says.index("2.9.1") < says.index("2.10.0") < says.index("2.13.0")
    assert "None" not in says


def test_a_range_is_asked_as_well() -> None:
    answer = why_not(settled("rtx4090-535"), "cuda=>=13,<14")
    assert set(verdicts(answer, "reject")) == {"driver-floor"}
    assert why_not(settled("rtx4090-535"), "cuda=12").says.startswith("it is the choice")


def test_a_python_without_another_to_choose_from_was_no_choice() -> None:
    host = options("RTX 4090", driver="535.129.03")
    assert why(decided(host, python="3.12"), "python").losses == ()
    assert [loss.criterion for loss in why(decided(host), "python").losses] == ["Python nearest 3.12"]


def test_a_python_that_the_wished_torch_does_not_have_is_rejected_by_the_wish() -> None:
    decision = decided(options("RTX 4090", driver="535.129.03"), pytorch="2.3")
    rejected = why_not(decision, "python=3.14")
    assert verdicts(rejected, "reject")[0] == "wish"
    assert "--pytorch 2.3" in rejected.says
    assert why_not(decision, "python=3.11").losses[0].criterion == "Python nearest 3.12"


def test_without_a_choice_there_is_still_a_reason() -> None:
    answer = why_not(settled("no-gpu"), "cuda=12.9")
    assert verdicts(answer, "reject") == ["gpu"]
    answer = why_not(settled("rtx5090-560"), "cuda=12.9")
    assert "driver-gpu" in verdicts(answer, "reject")
    assert "570" in answer.says


@collect("question", ["cuda", "cuda=", "=13", "gpu=8.9", "", "cuda:13", "\x1b[31m=1"])
def test_another_form_is_no_question(question: str) -> None:
    with pytest.raises(UsageError) as caught:
        why_not(settled("rtx4090-535"), question)
    assert caught.value.message.isprintable()
    assert all(key in caught.value.message for key in KEYS)
    assert caught.value.hint


@collect("question", ["cuda=thirteen", "pytorch=2.5 or so", "python=\x1b[31m"])
def test_a_value_that_is_no_version_is_no_question(question: str) -> None:
    with pytest.raises(UsageError) as caught:
        why_not(settled("rtx4090-535"), question)
    assert caught.value.message.isprintable()


def test_what_the_channels_lack_is_the_reason_and_no_preference() -> None:
    plain = decided(options("RTX 4090", driver="535.129.03"))
    best, second = list(plain.variants(plain.fitting[0]))[:2]
    lacking = "the channels have no such build for this Python"
    proven = replace(plain, fitting=(second, *plain.fitting[1:]), skipped=((best.candidate, lacking),), proven=True)
    no = why_not(proven, f"python={best.candidate.python}")
    assert no.says == f"it fits the host, but {lacking}"
    for answer in (why(proven, "python"), why(proven, "cuda"), no):
        assert answer.losses[0].criterion == "what the channels can satisfy"
        assert answer.losses[0].other == lacking
        assert answer.losses[0].example == str(best.candidate)


def test_a_release_that_only_wheels_have_is_told_with_the_command() -> None:
    answer = why_not(settled("rtx4090-535"), "pytorch=2.15.0")
    assert "wheels have it, for pip: cuenv resolve --gpu 8.9" in answer.says
    assert answer.says.endswith("--stack wheels --pytorch 2.15.0")
    assert "wheels" not in why_not(settled("rtx4090-535"), "pytorch=9.9").says
