"""Questions in plain words: which page they find, and what the tables and the host add to the answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.cli.main import load
from cuenv.diagnosis.explain.answers import ANSWER_LINES, table_lines
from cuenv.diagnosis.explain.question import AskedQuestion, parse_question
from cuenv.diagnosis.explain.yes_or_no import JUDGES, yes_or_no
from cuenv.host.io.record import read_host
from cuenv.knowledge.search import WordPage, rank_pages, significant_words
from failure_logs import tables
from thorough import examples


def asked(question: str) -> AskedQuestion:
    knowledge, guidance = tables()
    return parse_question(question, guidance, knowledge)


def told(question: str, host: str = "rtx4090-535") -> str:
    found = asked(question)
    return " | ".join(table_lines(found.answers[0], found, tables()[0], read_host(host, str, tables()[0])))


def test_a_second_question_does_not_read_the_pages_again() -> None:
    asked("what is glibc")
    before = significant_words.cache_info().misses
    asked("do I need a lockfile")
    assert significant_words.cache_info().misses - before < 50


@collect(
    ("question", "topic"),
    [
        ("must I install cuda before pytorch?", "toolkit"),
        ("How to check if PyTorch is using the GPU?", "gpu-not-used"),
        ("How do I install PyTorch with GPU support?", "install-pytorch"),
        ("how to free gpu memory", "gpu-memory"),
        ("H100 which cuda version", "which-cuda"),
        ("pytorch mac m1 gpu", "without-nvidia"),
        ("what is the difference between cuda and cudnn", "what-is-cudnn"),
        ("Is CUDA backward compatible?", "minor-version-compatibility"),
        ("what is the cuda runtime and the cuda driver api", "nvidia-smi"),
        ("why does pip install torch download so many nvidia packages", "toolkit"),
        ("which CUDA version do I need", "which-cuda"),
        ("can I install two versions of pytorch", "several-cuda-versions"),
        ("is the cuda toolkit necessary if I only run torch", "toolkit"),
        ("Why does nvcc --version print another version than nvidia-smi", "nvidia-smi"),
        ("what is the oldest driver for CUDA 12.6", "driver"),
        ("minimum nvidia driver version cuda 13.0", "driver"),
        ("conda vs pip for torch", "pip-or-conda"),
        ("what does __cuda mean in conda", "virtual-packages"),
        ("PTX", "ptx"),
        ("how is ptx different from sass", "ptx"),
        ("compute capability of a T4", "compute-capability"),
        ("newest pytorch version that supports a Tesla P100", "torch-for-gpu"),
        ("will pytorch run on my GTX 980?", "torch-for-gpu"),
        ("pytorch for blackwell cards", "torch-for-gpu"),
        ("training only runs on the cpu, gpu idle", "gpu-not-used"),
        ("my home folder is full, how do I clean the pip cache", "disk-space"),
        ("how many GB does an environment with torch take", "disk-space"),
        ("jupyter lab finds no gpu, the shell does", "jupyter"),
        ("the first training step takes two minutes", "slow-first-call"),
        ("why is the first call on the gpu slow", "slow-first-call"),
        ("will vLLM work on my graphics card", "library-on-gpu"),
        ("is a T4 good enough for vllm", "library-on-gpu"),
        ("install the newest nvidia driver on debian", "install-driver"),
        ("remove all of cuda from my machine", "uninstall-cuda"),
        ("gpu utilization is only 20 percent", "slow-training"),
        ("do I need a lockfile", "lock-file"),
        ("conda solving environment hangs", "slow-solve"),
        ("vram for a 13b model", "model-memory"),
        ("which GPU do I need for llama 70B", "model-memory"),
        ("install the cuda toolkit without root", "toolkit"),
        ("torch does not find my graphics card", "gpu-not-used"),
        ("meaning of: no kernel image is available for execution", "no-kernel-image"),
        ("minor version compatibility limits", "minor-version-compatibility"),
        ("which value for TORCH_CUDA_ARCH_LIST on an L4", "arch-list"),
        ("does my docker image need the nvidia driver", "container"),
        ("can my GPU be used in WSL 2", "wsl"),
        ("training hangs in nccl", "nccl"),
        ("which cuda does pytorch 2.5 support", "torch-release"),
        ("python versions of torch 2.6", "torch-release"),
        ("which g++ does nvcc 12.4 take", "gcc"),
        ("cuda-toolkit or cudatoolkit, what is the difference", "package-names"),
        ("how do I use two gpus", "several-gpus"),
        ("is driver 550 new enough for cuda 13", "driver"),
        ("is my driver too old", "driver"),
        ("can i run pytorch without gpu", "without-nvidia"),
        ("do i need a gpu to install pytorch", "without-nvidia"),
        ("what is the difference between cuda toolkit and driver", "toolkit"),
        ("does torch use the gpu", "gpu-not-used"),
        ("how do i know if my gpu is supported", "cuda-and-gpu"),
        ("does pytorch work on an rtx 5090", "torch-for-gpu"),
        ("what gpu do i have", "compute-capability"),
        ("what is conda-forge", "conda"),
        ("what is an environment", "conda"),
        ("how do i use a cluster with slurm", "slurm"),
        ("what is glibc", "glibc"),
        ("how do I lock my environment", "lock-file"),
        ("gpu out of memory, how can I fix this", "gpu-memory"),
    ],
    one_in=3,
)
def test_a_question_in_other_words_finds_its_page(question: str, topic: str) -> None:
    assert [row.topic for row in asked(question).answers] == [topic]


@collect("question", ["where can I buy bread", "who are you", "", "?", "the of and"])
def test_a_question_about_something_else_finds_nothing(question: str) -> None:
    assert not asked(question).found


def test_an_error_that_is_pasted_finds_its_symptom() -> None:
    assert [row.id for row in asked("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB").symptoms] == [
        "cuda-out-of-memory"
    ]
    for question in (
        "libcudart.so.11.0",
        "libcudart.so.11.0 not found",
        "why can libcudart.so.11.0 not be found by torch",
    ):
        assert [row.id for row in asked(question).symptoms] == ["libcudart-missing"], question
    assert {row.layer for row in asked("nccl").symptoms} <= {"multi-gpu", "loader"}


def test_the_tables_answer_for_what_the_question_names() -> None:
    pascal = told("which torch still serves my GTX 1080 Ti")
    assert "compute capability 6.1 (GeForce GTX 1080 Ti): wheels of torch " in pascal
    assert "the newest release is " in pascal
    driver = told("which driver for CUDA 12.8")
    assert "CUDA 12.8 runs from driver 525.60.13 on; driver 570.26 came with it" in driver
    assert "driver 535.129.03" in driver
    assert "CUDA 13.0 needs" in told("which driver for CUDA 13.0") or "CU401" in told("which driver for CUDA 13.0")


@collect(
    ("gpu", "first", "last"),
    [
        ("RTX 5090", r"2\.7\.0 \(cu128\)", r"[\d.]+ \(cu\d+[^)]*\)"),
        ("H100", r"2\.0\.0 \(cu118\)", r"[\d.]+ \(cu\d+[^)]*\)"),
        ("RTX 4090", r"1\.7\.0 \(cu110\)", r"[\d.]+ \(cu\d+[^)]*\)"),
        (
            "V100",
            r"1\.2\.0 \(cu100\), the oldest release that cuenv lists,",
            r"[\d.]+ \(cu126\); the newest release is",
        ),
    ],
)
def test_wheels_for_a_gpu_start_at_the_first_with_machine_code_for_it(gpu: str, first: str, last: str) -> None:
    """PTX of 2019 is no support of a GPU of 2025: the rule on GPU code decides."""
    assert re.search(rf"wheels of torch {first} to {last}", told(f"which pytorch for {gpu}"))


def test_the_tables_answer_for_a_release_of_torch_and_for_a_compiler() -> None:
    assert "torch 2.5.1: wheels for CUDA 11.8, 12.1, 12.4 and for Python 3.9, " in told(
        "which cuda does pytorch 2.5 support"
    )
    assert "no wheel of it" in told("which python does torch 2.99 support")
    assert "nvcc 12.4 takes GCC 6 to 13" in told("which gcc works with cuda 12.4")


def test_a_library_is_judged_for_the_gpu_by_the_torch_that_it_belongs_to() -> None:
    assert "vllm 0.33 to before 0.34" in told("does vllm run on an RTX 4090")
    assert "no wheel of vllm that runs on it" in told("does vllm run on a GTX 1080 Ti")
    assert "its own kernels are not listed" in told("does xformers run on a V100")
    assert "compute capability 8.9" in told("does vllm run on my card")


def test_a_library_by_its_file_name_is_one_that_was_not_found() -> None:
    assert [row.id for row in asked("libcudart.so.11.0").symptoms] == ["libcudart-missing"]


def test_the_host_answers_where_the_question_names_nothing() -> None:
    assert "GeForce RTX 4090" in told("which pytorch runs on my gpu") or "8.9" in told("which pytorch runs on my gpu")
    assert "__cuda is 12.2" in told("what is __cuda")
    assert "no NVIDIA driver" in told("why is my gpu not used", "no-gpu")


def test_a_driver_in_the_question_is_its_host(tmp_path: Path) -> None:
    said = run("explain", "can I run CUDA 13.0 with driver 535.54.03", folder=tmp_path).stdout
    assert "the host of the question has driver 535.54.03, which supports CUDA 12.2" in said
    assert "CU401" in said


def test_every_fill_is_named_by_a_row_and_every_name_is_one() -> None:
    assert {row.join for row in tables()[1].answers if row.join} == set(ANSWER_LINES)


def test_the_command_answers_in_text_and_json(tmp_path: Path) -> None:
    text = run("explain", "do I need the cuda toolkit?", folder=tmp_path).stdout
    assert text.startswith("Do I need to install the CUDA toolkit?\n")
    assert "recipes say:" in text
    found = json.loads(run("explain", "which driver for CUDA 12.8", "--gpu", "A100", "--json", folder=tmp_path).stdout)
    assert found["question"] == "which driver for CUDA 12.8"
    assert found["answers"][0]["id"] == "Q03"
    assert all(item["title"] for item in found["answers"][0]["sources"])
    assert "cuenv explain gpu" not in text
    assert "24 GB" in run("explain", "RTX 4090", folder=tmp_path).stdout


def test_words_are_one_in_all_their_forms() -> None:
    assert significant_words("Which GPUs are supported?") == significant_words("which cards support")
    assert significant_words("") == ()


@given(st.text(max_size=300))
@examples(60)
def test_any_text_may_be_asked(text: str) -> None:
    assert asked(text).question == text


def test_words_in_the_same_order_count_more_than_the_same_words_elsewhere() -> None:
    ordered = WordPage("answer", "a", ("title", "is the driver too old for this"))
    loose = WordPage("answer", "b", ("title", "old programs on a driver"))
    assert [hit.page.key for hit in rank_pages("is my driver too old", [loose, ordered])] == ["a", "b"]


def test_without_pages_there_is_no_answer() -> None:
    assert rank_pages("driver", ()) == ()
    page = WordPage("answer", "x", ("the driver",))
    assert rank_pages("driver", [page])[0].share == 1


def test_every_code_says_why_it_hurts_what_cures_it_and_gives_an_example(tmp_path: Path) -> None:
    for row in tables()[1].codes:
        assert row.why.endswith("."), row.code
    said = run("why", "cu401", folder=tmp_path).stdout
    assert "why       CUDA fails with" in said
    assert "cure      " in said
    assert "example   a build for CUDA 12.1 needs driver 525.60.13" in said
    assert json.loads(run("why", "CU253", "--json", folder=tmp_path).stdout)["example"].startswith("cusparse.h")


def test_the_commands_in_cures_are_commands_with_these_options() -> None:
    for row in tables()[1].codes:
        for words in re.findall(r"`cuenv ([^`]+)`", row.cure):
            name, *rest = words.split()
            found = load(name)
            assert found is not None, row.code
            found = getattr(found, "subcommands", {}).get(rest[0] if rest else "", found)
            known = {text for param in found.params for text in (*param.opts, *param.secondary_opts)}
            assert {word for word in rest if word.startswith("-")} <= known, row.code


@collect(
    "question",
    [
        "how to export a conda environment elsewhere",
    ],
)
def test_a_question_without_a_page_finds_no_error_that_shares_a_word(question: str) -> None:
    assert not asked(question).found


@pytest.mark.slow
@collect(
    ("question", "topic", "says"),
    [
        (
            "can I mix a V100 and an RTX 5090 in one environment",
            "mixed-gpus",
            r"7\.0 \(V100\) and 12\.0 .*torch 2\.8\.0",
        ),
        ("can one conda environment run on A100 and H100", "mixed-gpus", r"8\.0 \(A100\) and 9\.0 \(H100\): wheels"),
        ("which CUDA for RTX 5090", "which-cuda", r"from CUDA 12\.8 on.*CUDA 12\.8 needs driver 570"),
        ("which cuda version do I need for an RTX 4090", "which-cuda", r"from CUDA 11\.8 on"),
        ("does cuda 11.8 support RTX 4090", "cuda-and-gpu", r"CUDA 11\.8 supports it"),
        ("does cuda 12.1 support RTX 5090", "cuda-and-gpu", r"CUDA 12\.1 does not support it"),
        ("does CUDA 12 work with a RTX 5090", "cuda-and-gpu", r"CUDA 12\.8 supports it"),
        ("does cuda 11.1 support RTX 4090", "cuda-and-gpu", r"CUDA 11\.1 supports it only with code for .* 8\.6"),
        (
            "is a K80 compatible with CUDA 12",
            "cuda-and-gpu",
            r"to CUDA 11\.8, the last .*CUDA 12\.0 does not support it",
        ),
        ("can a V100 use CUDA 13", "cuda-13-gpus", r"to CUDA 12\.9, the last .*CUDA 13\.0 does not support it"),
        ("is RTX 3090 supported by CUDA 13", "cuda-13-gpus", r"CUDA 13\.0 supports it .*CUDA 13\.0 needs driver 580"),
        ("is hopper supported by cuda 11.7", "cuda-and-gpu", r"9\.0: CUDA 11\.7 "),
        ("does RTX 4090 work with driver 535 and CUDA 12.4", "cuda-and-gpu", r"CUDA 12\.4 runs on driver 535"),
        ("which driver does an RTX 5090 need", "driver", r"CUDA 12\.8 needs driver 570"),
    ],
    one_in=2,
)
def test_gpus_with_cuda_and_with_each_other_have_pages(question: str, topic: str, says: str) -> None:
    assert [row.topic for row in asked(question).answers] == [topic]
    assert re.search(says, told(question))


def test_gpus_without_a_common_build_are_reported() -> None:
    said = told("one environment for K80 and RTX 5090")
    assert said.endswith(
        "3.7 (K80) and 12.0 (GeForce RTX 5090): no wheel that the cuenv tables list has code for all of them"
    )


def test_builds_of_conda_forge_may_support_gpus_that_no_wheel_supports_together() -> None:
    said = told("can I mix a GTX 1080 and an RTX 5090 in one environment")
    assert "no wheel that the cuenv tables list has code for all of them | " in said
    assert re.search(r"builds of conda-forge up to torch [\d.]+, for CUDA 12\.9$", said)


def test_a_command_names_the_gpus_of_the_question() -> None:
    page = asked("how do I share one lock between different GPUs").answers[0]
    assert page.do == "cuenv lock --resolve --gpu V100 --gpu 'RTX 4090' --driver 580.65.06"
    named = asked("one lock for an A100 and an RTX 5090").answers[0]
    assert named.do == "cuenv lock --resolve --gpu A100 --gpu 'GeForce RTX 5090'"
    assert "--cuda 13" not in asked("can a V100 use CUDA 13").answers[0].do


def test_the_command_of_a_page_chooses_for_the_host_of_the_question(tmp_path: Path) -> None:
    for words, host in (
        (("which torch for a K80",), "--gpu 3.7"),
        (("torch-for-gpu", "--gpu", "A100", "--driver", "535.129.03"), "--gpu 8.0 --driver 535.129.03"),
        (("torch-for-gpu", "--host", "a800-470"), "--host a800-470"),
    ):
        (line,) = [item for item in run("explain", *words, folder=tmp_path).stdout.splitlines() if "  do: " in item]
        assert f"cuenv resolve -o environment.yml {host}" in line


def test_a_page_that_covers_little_of_a_question_is_reported_as_the_nearest(tmp_path: Path) -> None:
    weak = run("explain", "pip wheels or snake oil for pytorch conda", folder=tmp_path).stdout
    assert weak.startswith("nearest topic: pip-or-conda\nShould I install PyTorch")
    assert "nearest topic" not in run("explain", "pip or conda", folder=tmp_path).stdout


@pytest.mark.slow
@collect(
    ("question", "host", "answer"),
    [
        ("does vllm run on a GTX 1080 Ti", "no-gpu", "No: vllm needs compute capability 7.0 or later"),
        ("does vllm run on my card", "rtx4090-535", "Yes: vllm needs compute capability 7.0 or later"),
        ("Is my driver new enough for CUDA 12?", "a800-470", "No: CUDA 12.x needs driver 525.60.13 or later"),
        ("Is my driver too old for CUDA 12?", "a800-470", "Yes: CUDA 12.x needs driver 525.60.13 or later"),
        ("Is my driver new enough for CUDA 12?", "rtx4090-535", "Yes: rtx4090-535 has driver 535"),
        ("Will PyTorch 2.6 run on my card?", "rtx5090-560", "No: no wheel of torch 2.6"),
        ("Is my GPU too old?", "gtx1080ti-580", "No: torch "),
        ("Does CUDA 13 support my GTX 1080?", "no-gpu", "No: CUDA 13.0 does not support compute capability 6.1"),
        ("Can flash attention be used on my GPU?", "gtx1080ti-580", "No: flash-attn needs compute capability 8.0"),
        ("Is bfloat16 supported on my GPU?", "a800-470", "Yes: "),
        ("Is bfloat16 supported on my GPU?", "pool-v100", "No: "),
        ("Does torch.compile work on my GPU?", "gtx1080ti-580", "No: triton needs compute capability 7.0"),
        ("Does NCCL work with my GTX 970?", "rtx4090-535", "Yes: NCCL before 2.28"),
        ("Do I have to install CUDA before pip install torch?", "no-gpu", "No: to run PyTorch"),
        ("Is cudnn included in the torch wheel?", "no-gpu", "Yes: cuDNN is included"),
        ("Does upgrading the driver break my old environments?", "no-gpu", "No: a newer driver"),
        ("Is it safe to update the driver?", "no-gpu", "Yes: it is safe"),
        ("Can I use conda and pip in the same environment?", "no-gpu", "Yes: one environment can use"),
        ("Do I have to reboot after installing the driver?", "no-gpu", "Yes: reboot"),
        ("Is CUDA 12.8 compatible with PyTorch 2.4?", "no-gpu", "No: torch 2.4.1 has wheels for CUDA 11.8, 12.1, 12.4"),
        ("Does PyTorch 2.5 support Python 3.8?", "no-gpu", "No: torch 2.5.1 has wheels for Python 3.9"),
        ("Has my card tensor cores?", "gtx1080ti-580", "No: "),
        ("Has my card fp8 tensor cores?", "rtx4090-535", "Yes: "),
        ("Must the CUDA of nvcc be the same as that of torch?", "no-gpu", "Yes, in the major version"),
    ],
)
def test_a_question_of_yes_or_no_is_answered_so_first(question: str, host: str, answer: str) -> None:
    found, knowledge = asked(question), tables()[0]
    told = yes_or_no(found.answers[0], found, knowledge, read_host(host, str, knowledge))
    assert told[0].startswith(answer), (found.answers[0].topic, told)


def test_what_is_not_a_question_of_yes_or_no_and_what_nobody_knows_gets_neither() -> None:
    knowledge = tables()[0]
    either = "Should I use cu118 or cu121 for my GPU?"
    for question in ("Which driver does CUDA 12 need?", "Is my driver new enough for CUDA 12?", either):
        found = asked(question)
        assert not yes_or_no(found.answers[0], found, knowledge, None), question
    assert {row.topic for row in tables()[1].answers} >= set(JUDGES)
    assert all(text.startswith(("Yes", "No")) for row in tables()[1].answers for text in row.short)


def test_a_log_is_not_a_question(tmp_path: Path) -> None:
    (tmp_path / "my train.log").write_text("CUDA out of memory\n")
    done = run("explain", "my train.log", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("hint: cuenv diagnose 'my train.log'\n")


def test_every_page_without_a_placeholder_gives_a_command_that_can_be_typed(tmp_path: Path) -> None:
    for command in sorted({row.do for row in tables()[1].answers if row.do.startswith("cuenv kb")}):
        done = run(*command.split()[1:], folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), command
