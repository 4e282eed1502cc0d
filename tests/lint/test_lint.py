"""``cuenv lint``: findings at their place, edits that leave everything else as it was."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.core.errors import UsageError
from cuenv.core.findings import Finding
from cuenv.core.versions import Capability
from cuenv.knowledge.io.load import load
from cuenv.lint import Edit, Lint, Machine, apply_edits, line_and_column
from cuenv.lint.files import Linted, files_in_folder, lint
from given import shipped_base
from thorough import examples

RECIPE = """\
# our recipe
name: train
channels: [pytorch, nvidia, conda-forge, nodefaults]
dependencies:
  - python: 3.10   # keep
  - pytorch=2.3.1
  - torchvision
  - pytorch-cuda=12.1
  - mkl=2023.1=h1*  # [win64]
  - pip:
      - deepspeed<0.14.3   # the good one
      - torch==2.3.1
      - transformers>=4.36
variables:
  TORCH_CUDA_ARCH_LIST: "7.0;8.0;9.9"
  CUDA_HOME: $CONDA_PREFIX
  X: 1.10
  DS_BUILD_SPARSE_ATTN: "1"
"""
MENDED = """\
# our recipe
name: train
channels: [pytorch, nvidia, conda-forge, nodefaults]
dependencies:
  - python=3.10   # keep
  - pytorch=2.3.1.*=*_cuda*
  - torchvision=*=*_cu*
  - pytorch-cuda=12.1
  - mkl==2023.1=h1*  # [win64]
  - pip:
      - "deepspeed<0.14.3,!=0.14.1,!=0.14.2"   # the good one
      - transformers>=4.36
variables:
  TORCH_CUDA_ARCH_LIST: "7.0;8.0;9.9"
  CUDA_HOME: $CONDA_PREFIX
  X: "1.10"
  DS_BUILD_SPARSE_ATTN: "1"
"""


BOMB = "{" * 3000
FORGE = "\n  - conda-forge"


def diff(name: str, before: str, after: str) -> str:
    return Linted(path=Path(name), kind="shell", text=before, lints=(), fixed_text=after, remaining=()).patch


def linted(tmp_path: Path, text: str, name: str = "environment.yml", gpus: tuple[str, ...] = ()) -> Linted:
    path = tmp_path / name
    path.write_bytes(text.encode())
    machine = Machine(gpus=tuple(map(Capability.parse, gpus)))
    return lint(path, None, machine, load(None))


def found(tmp_path: Path, text: str, gpus: tuple[str, ...] = ()) -> dict[str, tuple[int, int]]:
    result = linted(tmp_path, text, gpus=gpus)
    return {item.finding.code: line_and_column(result.text, item.at) for item in result.lints}


def env(*dependencies: str, head: str = "channels: [conda-forge]", tail: str = "") -> str:
    return "\n".join([head, "dependencies:", *(f"  - {item}" for item in dependencies), tail]) + "\n"


def test_the_recipe_is_fixed_and_its_comments_and_order_stay(tmp_path: Path) -> None:
    result = linted(tmp_path, RECIPE)
    assert result.fixed_text == MENDED
    assert linted(tmp_path, result.fixed_text).fixed_text == MENDED
    left = {item.finding.code for item in result.remaining}
    assert left == {"CU101", "CU116", "CU301", "CU302", "CU304", "CU310", "CU311", "CU504"}


def test_each_finding_stands_at_its_line_and_column(tmp_path: Path) -> None:
    assert found(tmp_path, RECIPE) == {
        "CU101": (8, 5),
        "CU301": (3, 42),
        "CU116": (9, 5),
        "CU303": (17, 6),
        "CU104": (7, 5),
        "CU305": (9, 5),
        "CU302": (9, 23),
        "CU503": (11, 9),
        "CU504": (11, 9),
        "CU502": (12, 9),
        "CU310": (15, 25),
        "CU304": (16, 14),
        "CU311": (18, 3),
    }
    assert found(tmp_path, MENDED)["CU311"] == (17, 3)


@collect("number", ["python: 3.10", "{python: 3.10}", 'python: ">=3.9"', "python:"])
def test_a_number_hides_no_other_finding(tmp_path: Path, number: str) -> None:
    others = ("cudatoolkit-dev=12.1", "pytorch=2.3.1", "cuda-version=11.2")
    good, bad = (linted(tmp_path, env(entry, *others)) for entry in ("python=3.10", number))
    codes = [
        [(item.finding.code, line_and_column(bad.text, item.at)) for item in bad.lints if item.finding.code != "CU303"]
    ]
    codes += [[(item.finding.code, line_and_column(good.text, item.at)) for item in good.lints]]
    assert codes[0] == codes[1]
    assert {"CU104", "CU110"} <= {code for code, _ in codes[0]}
    assert bad.fixed_text == linted(tmp_path, env(bad.fixed_text.splitlines()[2][4:], *others)).fixed_text


def test_a_number_hides_no_fault_of_the_file(tmp_path: Path) -> None:
    result = linted(tmp_path, env("python: 3.10", "[numpy]"))
    assert [item.finding.code for item in result.lints] == ["CU300", "CU303"]
    assert "dependencies[1]" in result.lints[0].finding.message


def test_what_a_law_says_of_a_number_stands_at_it(tmp_path: Path) -> None:
    text = env("numpy", "pytorch: 2.7", "cuda-version=12.9")
    result = linted(tmp_path, text)
    assert {item.finding.code: line_and_column(text, item.at) for item in result.lints} == {
        "CU303": (4, 5),
        "CU104": (4, 5),
    }
    assert "  - pytorch=2.7.*=cuda*\n" in result.fixed_text


def test_an_empty_pip_part_is_not_a_number(tmp_path: Path) -> None:
    assert linted(tmp_path, env("numpy", "pip", "pip:")).lints == ()


def test_a_whole_build_string_leaves_nothing_to_read_differently(tmp_path: Path) -> None:
    result = linted(tmp_path, env("conda-forge::icu=78.3=py310h44b86e0_2"))
    assert "CU305" not in {item.finding.code for item in result.lints}


@collect(
    ("text", "code", "mended"),
    [
        (env("numpy", head="channels: [nodefaults, conda-forge]"), "CU301", None),
        (env("numpy  # [win]"), "CU302", None),
        (env("numpy", "pywin32>=300  # only [win64]"), "CU302", None),
        (env("numpy", "# scipy"), "CU300", env("numpy").rstrip("\n") + "\n  # scipy\n\n"),
        (env("python: 3.1"), "CU303", env("python=3.1")),
        (env("python: 3.10", "pip"), "CU303", env("python=3.10", "pip")),
        (env("{python: 3.10, numpy: 1.2}"), "CU303", None),
        (env("{python: 3.10}", "pip"), "CU303", env("python=3.10", "pip")),
        (env('python: ">=3.9,<4"'), "CU303", env('"python>=3.9,<4"')),
        (env("python:"), "CU303", env("python")),
        (env("pip: 24.0"), "CU303", env("pip=24.0")),
        (env('python: "3.9 # x"'), "CU303", None),
        (env("numpy", tail="variables: {A: 1.20}"), "CU303", env("numpy", tail='variables: {A: "1.20"}')),
        (env("conda-forge:numpy=1.26"), "CU305", env("conda-forge::numpy=1.26")),
        (env("numpy=1.26=py312*"), "CU305", env("numpy==1.26=py312*")),
        (env("'numpy=1.26=py312*'"), "CU305", env('"numpy==1.26=py312*"')),
        (env("pytorch=*=*_cuda*", head="channels: [pytorch]"), "CU306", None),
        (env("cudatoolkit-dev=11.7.0"), "CU307", None),
        (env("cudatoolkit-dev"), "CU307", None),
        (env("pytorch=2.7.1", "cuda-version=12.9"), "CU104", env("pytorch=2.7.1.*=cuda*", "cuda-version=12.9")),
    ],
)  # fmt: skip
def test_a_rule_finds_its_thing_and_fixes_only_what_needs_no_choice(
    tmp_path: Path, text: str, code: str, mended: str | None
) -> None:
    result = linted(tmp_path, text)
    assert code in {item.finding.code for item in result.lints}
    if mended is None:
        assert result.fixed_text == text
    else:
        assert result.fixed_text.replace('"', "") == mended.replace('"', "")
        assert code not in {item.finding.code for item in result.remaining}


@collect(
    "text",
    [
        env("conda-forge::pytorch=2.7.1=cuda129*", "python=3.12", "conda-forge::cuda-version=12.9"),
        env("numpy=1.26.4=py312*", "numpy >=1,<2", "numpy[version='1.26',build='x*']"),
        env("numpy  # see [the notes] (not a selector)", "pip: [requests]"),
        env("numpy  # [linux]", "scipy  # [unix]"),
        env("pywin32  # [win]", "numpy", tail="platforms: [linux-64, win-64]"),
        env("pytorch==2.7=cuda129*", "conda-forge::cuda-version=12.9"),
        env("pytorch=2.3.1=*cuda12.1*", "pytorch-cuda=12.1", head="channels: [pytorch, nvidia/label/cuda-12.1.0]"),
        env("numpy", tail="variables: {A: '1.20', B: 3}"),
    ],
)
def test_what_is_right_is_left_alone(tmp_path: Path, text: str) -> None:
    codes = {item.finding.code for item in linted(tmp_path, text).lints}
    assert not {code for code in codes if code.startswith("CU3")}


def test_gpus_judge_the_list_of_targets_only_when_they_are_given(tmp_path: Path) -> None:
    text = env("cuda-version=12.9", tail='variables: {TORCH_CUDA_ARCH_LIST: "8.0;9.0"}')
    assert "CU310" not in found(tmp_path, text)
    assert "CU310" not in found(tmp_path, text, gpus=("8.6", "9.0"))
    assert "CU310" in found(tmp_path, text, gpus=("7.5",))
    for named in ("Ampere;Hopper+PTX", "$ARCHS", "All"):
        assert "CU310" not in found(tmp_path, text.replace("8.0;9.0", named), gpus=("7.5",))
    result = linted(tmp_path, text.replace("8.0;9.0", "3.5;9.0"))
    (bad,) = (item.finding for item in result.lints if item.finding.code == "CU310")
    assert bad.fix == "set TORCH_CUDA_ARCH_LIST=9.0"


def test_windows_line_ends_and_a_byte_order_mark_survive(tmp_path: Path) -> None:
    text = "\ufeff" + env("python: 3.10", "numpy=1.26=py*").replace("\n", "\r\n")
    result = linted(tmp_path, text)
    assert result.fixed_text == text.replace("python: 3.10", "python=3.10").replace("=1.26=", "==1.26=")
    assert run("lint", "--fix", "environment.yml", folder=tmp_path).returncode == 0
    assert (tmp_path / "environment.yml").read_bytes() == result.fixed_text.encode()


@collect(
    "text",
    [
        "",
        "a: [",
        "- 1",
        "dependencies: 5",
        "dependencies:\n\t- x",
        "x: &a [*a]",
        "dependencies: [{a: {b: c}}]",
        "{" * 3000,
    ],
)
def test_a_broken_file_is_one_finding_and_no_crash(tmp_path: Path, text: str) -> None:
    result = linted(tmp_path, text)
    assert [item.finding.code for item in result.lints] == ["CU300"]
    assert result.fixed_text == text


@given(st.text(max_size=200))
@examples(60)
def test_any_text_is_linted(text: str) -> None:
    from cuenv.lint import fix_text
    from cuenv.lint.files import _rules_for

    rules = _rules_for("environment.yml", "x", Machine(), load(None))
    once = fix_text(text, rules)
    assert fix_text(once, rules) == once


@given(
    st.text(alphabet="abc\n", max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.text("xy", max_size=3)), max_size=6),
)
def test_edits_never_overlap_and_touch_nothing_else(text: str, spans: list[tuple[int, int, str]]) -> None:
    finding = Finding(code="CU300", severity="info", subject="", message="")
    edits = tuple(
        Edit(start=min(start, len(text)), end=min(start + length, len(text)), text=new) for start, length, new in spans
    )
    after = apply_edits(text, [Lint(finding=finding, at=0, edits=edits)])
    kept = [index for index in range(len(text)) if not any(edit.start <= index < edit.end for edit in edits)]
    rest = iter(after)
    assert all(text[index] in rest for index in kept)


def test_the_files_of_a_folder_are_found_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        files_in_folder(tmp_path)
    for name in ("environment.yml", "env.gpu.yaml", "conda-lock.yml", "notes.yml", "train.py"):
        (tmp_path / name).write_text("channels: x\n", encoding="utf-8")
    assert [path.name for path in files_in_folder(tmp_path)] == ["conda-lock.yml", "env.gpu.yaml", "environment.yml"]


@collect(
    ("name", "text"),
    [
        ("environment-workflow.yml", "name: x\non:\n- push\njobs:\n  a:\n    steps:\n    - run: cuenv check\n"),
        ("environment.schema.yaml", "type: object\n"),
        ("Dockerfile.md", "# How the image is built\n"),
    ],
)
def test_a_file_whose_name_alone_resembles_ours_is_left_to_others(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "environment.yml").write_text("x", encoding="utf-8")  # of exactly this name: read whatever it holds
    assert [path.name for path in files_in_folder(tmp_path)] == ["environment.yml"]
    with pytest.raises(UsageError, match="by its name or content"):
        lint(tmp_path / name, None, Machine(), load(None))


def test_what_a_lock_was_made_from_is_a_file_of_the_folder(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = request.config.rootpath / "locks/universal-dev"
    text = (source / "conda-lock.yml").read_text(encoding="utf-8")
    (tmp_path / "mended.yml").write_bytes((source / "environment.yml").read_bytes())
    for named, found in (("mended.yml", True), ("../mended.yml", False), ("gone.yml", False)):
        lock = text.replace('- "environment.yml"', f'- "{named}"')
        assert lock != text
        (tmp_path / "conda-lock.yml").write_text(lock, encoding="utf-8")
        names = ["conda-lock.yml", *(["mended.yml"] if found else [])]
        assert [path.name for path in files_in_folder(tmp_path)] == names


def test_a_lock_is_linted_by_the_laws_of_locks(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = (request.config.rootpath / "locks/universal-dev/conda-lock.yml").read_text(encoding="utf-8")
    assert not linted(tmp_path, text, name="conda-lock.yml").lints
    twin = text.replace("cuda129_mkl", "cpu_mkl")
    lines = twin.splitlines()
    found_in = linted(tmp_path, twin, name="conda-lock.yml").lints
    (cpu,) = (item for item in found_in if (item.finding.code, item.finding.subject) == ("CU103", "pytorch"))
    line, _ = line_and_column(twin, cpu.at)
    assert "pytorch" in lines[line - 1]


def test_what_a_lock_allows_is_a_warning_to_lint_as_to_check(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """An edit by hand can never be allowed, and what is only worth knowing is not made worse."""
    text = (request.config.rootpath / "locks/universal-dev/conda-lock.yml").read_text(encoding="utf-8")
    lenient = text.replace("custom_metadata:\n", 'custom_metadata:\n    cuenv_allowed: "CU103 CU108"\n')
    twin = linted(tmp_path, lenient.replace("cuda129_mkl", "cpu_mkl"), name="conda-lock.yml")
    told = {item.finding.code: item.finding for item in twin.lints}
    assert (told["CU103"].severity, told["CU103"].fix) == ("warning", None)
    assert told["CU108"].severity == "error"


def test_the_command_says_where_and_exits_by_severity(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(RECIPE, encoding="utf-8")
    done = run("lint", folder=tmp_path)
    assert done.returncode == 1
    assert "environment.yml:5:5: error CU303 " in done.stdout
    (tmp_path / "environment.yml").write_text(env("numpy=1.26=py*"), encoding="utf-8")
    assert run("lint", folder=tmp_path).returncode == 0
    assert run("lint", ".", "environment.yml", folder=tmp_path).stdout == run("lint", folder=tmp_path).stdout
    assert run("lint", "--strict", folder=tmp_path).returncode == 1
    told = json.loads(run("lint", "--json", folder=tmp_path).stdout)
    assert told["schema"] == "cuenv/lint/1"
    (finding,) = told["files"][0]["findings"]
    assert (finding["code"], finding["line"], finding["column"], finding["fixable"]) == ("CU305", 3, 5, True)


def test_diff_changes_nothing_and_is_a_patch(tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(RECIPE, encoding="utf-8")
    done = run("lint", "--diff", folder=tmp_path)
    assert done.returncode == 1
    assert path.read_text(encoding="utf-8") == RECIPE
    assert done.stdout == diff("environment.yml", RECIPE, MENDED)
    assert run("lint", "--fix", folder=tmp_path).returncode == 1  # what needs a choice is left
    assert path.read_text(encoding="utf-8") == MENDED
    done = run("lint", "--diff", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "left    errors that --fix does not correct: cuenv lint environment.yml\n"


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch here")
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_patch_of_odd_lines_is_one_to_patch_as_well(tmp_path: Path, end: str) -> None:
    """What str.splitlines takes for the end of a line is a character in it."""
    before = f"a\fb\nc\u2028\rd\n\x85e{end}"
    after = before.replace("b", "B").replace("e", "E")
    (tmp_path / "file").write_bytes(before.encode())
    words = ["patch", "-p0", "--binary", "--quiet"]
    subprocess.run(words, cwd=tmp_path, input=diff("file", before, after).encode(), check=True)
    assert (tmp_path / "file").read_bytes() == after.encode()


def test_sarif_is_what_its_readers_expect(tmp_path: Path) -> None:
    (tmp_path / "env é.yml").write_text(RECIPE, encoding="utf-8")
    told = json.loads(run("lint", "--format", "sarif", "--as", "environment.yml", "env é.yml", folder=tmp_path).stdout)
    (one,) = told["runs"]
    rules = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    for result in one["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        (where,) = result["locations"]
        assert where["physicalLocation"]["artifactLocation"]["uri"] == "env%20%C3%A9.yml"
        assert where["physicalLocation"]["region"]["startLine"] >= 1


def test_annotations_name_file_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(env("numpy=1.26=py*"), encoding="utf-8")
    (line,) = run("lint", "--format", "github", folder=tmp_path).stdout.splitlines()
    assert line.startswith("::warning file=environment.yml,line=3,col=5,title=CU305 numpy::")
    assert line.endswith("%0Afix: write numpy==1.26=py*")


@collect(
    ("words", "code"),
    [
        (("lint", "nowhere.yml"), 3),
        (("lint", "."), 2),
        (("lint", "binary.yml"), 3),
        (("lint", "notes.txt"), 2),
        (("lint", "--as", "poem", "notes.txt"), 2),
        (("lint", "--diff", "--json", "fuzzy.yml"), 2),
        (("lint", "--diff", "--format", "sarif", "fuzzy.yml"), 2),
        (("lint", "--fix", "locked/environment.yml"), 4),
    ],
)
def test_a_file_that_cannot_be_linted_is_said(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    (tmp_path / "binary.yml").write_bytes(b"\x00\x01")
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    (tmp_path / "fuzzy.yml").write_text(env("numpy=1.26=py*"), encoding="utf-8")
    folder = tmp_path / "locked"
    folder.mkdir()
    (folder / "environment.yml").write_text(env("python: 3.10"), encoding="utf-8")
    if code == 4:
        import os

        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        folder.chmod(0o500)
    done = run(*words, folder=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_what_ends_in_a_no_is_said_even_quietly(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(env("numpy=1.26=py*"), encoding="utf-8")
    quiet = run("lint", "-q", folder=tmp_path)
    assert (quiet.returncode, quiet.stdout) == (0, "")
    strict = run("lint", "-q", "--strict", folder=tmp_path)
    assert strict.returncode == 1
    assert "CU305" in strict.stdout


def test_a_review_without_findings_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(env("numpy"), encoding="utf-8")
    done = run("lint", "--format", "github", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_account_git_of_a_repository_is_not_a_login(tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies:\n  - pip:\n      - x @ git+https://git@host.example/a/x.git@main\n"
    (tmp_path / "environment.yml").write_text(text, encoding="utf-8")
    assert "CU308" not in run("lint", folder=tmp_path).stdout


def test_a_login_in_a_file_that_is_shared_is_an_error_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(
        "channels:\n  - https://me:s3cret@host.example/chan\n  - https://conda.anaconda.org/t/tk-s3cret/own\n"
        "  - conda-forge\ndependencies:\n  - https://me:s3cret@host.example/chan::numpy\n  - pip:\n"
        "      - six @ https://me:s3cret@host.example/six.whl\n",
        encoding="utf-8",
    )
    done = run("lint", folder=tmp_path)
    assert done.returncode == 1
    places = [line.partition(" ")[0] for line in done.stdout.splitlines() if "CU308" in line]
    assert places == [f"environment.yml:{line}:{column}:" for line, column in ((2, 5), (3, 5), (6, 5), (8, 9))]
    assert "write https://host.example/chan, keep the login in ~/.netrc (machine host.example login" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


@collect(
    "text",
    [
        "@EXPLICIT\nhttps://conda.anaconda.org/conda-forge/linux-64/a-1-0.conda\n",
        "version: 6\nenvironments: {}\npackages: []\n",
    ],
)
def test_what_looks_like_a_lock_is_for_check(tmp_path: Path, text: str) -> None:
    (tmp_path / "some list.txt").write_text(text)
    done = run("lint", "some list.txt", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.endswith("hint: cuenv check 'some list.txt'\n")


def test_what_conda_list_and_pip_list_print_is_named_by_its_content(tmp_path: Path) -> None:
    for text, what in (
        ("# platform: linux-64\na=1=0\n", "conda list --export\nhint: cuenv lock requirements.txt\n"),
        ("# Name  Version  Build  Channel\na  1  0  conda-forge\n", "conda list\nhint: cuenv lock requirements.txt\n"),
        ("Package Version\n------- -------\ntorch   2.1\n", "pip list\nhint: python -m pip list --format=freeze > "),
    ):
        (tmp_path / "requirements.txt").write_text(text)
        done = run("lint", "requirements.txt", folder=tmp_path)
        named, _, hint = what.partition("\n")
        assert f"requirements.txt is an output of {named}, which lint does not read" in done.stderr
        assert hint in done.stderr


def test_an_entry_is_judged_for_a_host_that_is_named(tmp_path: Path) -> None:
    text = env("python=3.12", "pytorch=2.5.1=cuda126*")
    (tmp_path / "environment.yml").write_text(text)
    assert run("lint", folder=tmp_path).returncode == 0
    old = run("lint", "--gpu", "A100", "--driver", "470.129.06", folder=tmp_path)
    assert old.returncode == 1
    assert "environment.yml:4:5: error CU401" in old.stdout
    assert run("lint", "--gpu", "A100", "--driver", "560.35.03", folder=tmp_path).returncode == 0


def test_a_program_of_pip_is_judged_at_its_line(tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies:\n- python=3.7\n- pip\n- pip:\n  - tqdm\n  - tensorflow-gpu==1.15\n"
    (tmp_path / "environment.yml").write_text(text)
    old = run("lint", "--gpu", "V100", "--driver", "396.26", folder=tmp_path)
    assert "environment.yml:7:5: error CU401 tensorflow-gpu==1.15 loads CUDA 10.0: " in old.stdout
    assert old.returncode == 1
    new = run("lint", "--gpu", "V100", "--driver", "535.129.03", folder=tmp_path)
    assert "environment.yml:7:5: info CU403 the cuenv tables do not list the GPU code of tensorflow-gpu" in new.stdout


def test_what_lock_sets_aside_is_said_beforehand_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("psutil\n--index-url simple\n")
    text = "channels: [conda-forge]\ndependencies:\n- python\n- pip\n- pip:\n  - -r more.txt\n  - a\n  - lib/ops\n"
    found = [
        (item.at, item.finding.severity, item.finding.message)
        for item in linted(tmp_path, text).lints
        if item.finding.code in ("CU514", "CU521")
    ]
    place = text.index("lib/ops")
    assert [(at, severity) for at, severity, _ in found if at == place] == [(place, "warning")]
    assert [message for _, severity, message in found if severity == "error"] == [
        "pip: --index-url simple cannot be locked, and pip does not take it: it is not a URL"
    ]


def test_lines_with_one_fault_are_one_finding(tmp_path: Path) -> None:
    names = ("cluster", "scatter", "sparse", "spline-conv")
    lines = "".join(f"  - torch-{name}==latest+cu101\n" for name in names)
    text = f"channels: [conda-forge]\ndependencies:\n- python\n- pip\n- pip:\n{lines}"
    (found,) = [item.finding for item in linted(tmp_path, text).lints if item.finding.code == "CU514"]
    assert found.message.endswith(
        "and 1 more cannot be locked, and pip does not take them: the text after == is not a version"
    )


def test_no_edit_asks_for_cuda_on_macos(tmp_path: Path) -> None:
    text = "channels: [pytorch]\ndependencies:\n  - pytorch=2.1.0{}\n  - pytorch-cuda=11.8 # [linux]\nplatforms: [{}]\n"
    for mark, platforms, mends in (
        ("", "linux-64, osx-arm64", False),
        (" # [linux]", "linux-64, osx-arm64", True),
        ("", "linux-64", True),
    ):
        found = linted(tmp_path, text.format(mark, platforms)).lints
        (told,) = (item for item in found if item.finding.code == "CU104")
        assert bool(told.edits) == mends
        assert ("in a line for Linux only, which ends with # [linux]" in (told.finding.fix or "")) != mends


def test_fix_writes_no_cuda_build_into_the_file_of_somebody_on_macos(tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.11, pytorch]\nprefix: /Users/me/miniforge3\n"
    (tmp_path / "environment.yml").write_text(text)
    told = run("lint", "--fix", folder=tmp_path)
    assert "write pytorch=*=cuda* in a line for Linux only" in told.stdout
    assert (tmp_path / "environment.yml").read_text() == text


def test_several_faults_of_a_file_are_one_line_without_its_name(tmp_path: Path) -> None:
    (only,) = linted(tmp_path, "channels: conda-forge\ndependencies: pytorch\n").lints
    assert only.finding.message == (
        "2 faults: channels: expected a list, got 'conda-forge'; dependencies: expected a list, got 'pytorch'"
    )


def test_a_list_says_what_an_environment_file_needs(tmp_path: Path) -> None:
    (only,) = linted(tmp_path, "- 1\n").lints
    assert only.finding.message == "expected a mapping, got a list of 1; the file needs 'dependencies:'"
    assert only.finding.fix == "cuenv resolve -o environment.yml"


def test_a_list_for_pip_is_judged_as_the_pip_part_of_an_environment_file(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("torch==2.6.0+cu118  # of PyTorch's index\n")
    (tmp_path / "requirements.txt").write_text(
        "# GPUs\n-r more.txt\nnumpy \\\n    >=1.26\n-e .\nhttps://me:secret@x.example/a.whl\n"
    )
    done = run("lint", "requirements.txt", folder=tmp_path)
    assert done.returncode == 1
    found = {(line.split(": ")[0], *line.split(" ")[1:3]) for line in done.stdout.splitlines() if " CU" in line}
    assert {
        ("requirements.txt:2:1", "error", "CU520"),  # of the list that it names
        ("requirements.txt:5:1", "warning", "CU521"),
        ("requirements.txt:6:1", "error", "CU308"),
    } <= found
    assert "secret" not in done.stdout
    (tmp_path / "small.txt").write_text("torch==2.4.1\n")
    assert run("lint", "small.txt", folder=tmp_path).returncode == 0
    old = run("lint", "small.txt", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path)
    assert "small.txt:1:1: error CU403" in old.stdout


@collect(
    ("text", "messages"),
    [
        (
            "torchvision==0.19.0a0+1713e84\n",
            ["torchvision==0.19.0a0+1713e84 is not on PyPI, which has no local versions"],
        ),
        ("torchvision==0.16.0+cu118\n", ["torchvision==0.16.0+cu118 is not on PyPI, which has no local versions"]),
        ("torch==2.1.0+cu118\ntorchvision==0.16.0+cu118\n", ["torch 2.1.0+cu118 is not on PyPI"]),
        (
            "torchvision==0.1a0+17\npycocotools==2.0+nv0.6\n",
            ["torchvision==0.1a0+17, pycocotools==2.0+nv0.6 are not on"],
        ),
        ("--find-links https://x.example/w\ntorchvision==0.19.0a0+1713e84\n", []),
        ("torch==2.0.1+cpu\n", ["torch==2.0.1+cpu is not on PyPI, which has no local versions such as +cpu"]),
        ("pytorch>=1.11\n", ["pip: pytorch>=1.11 cannot be locked, and pip does not take it: the package pytorch on"]),
        ("torchvision>=0.1:   demo\ntorch;: docs\n", ["pip: torchvision>=0.1: demo, torch;: docs cannot be locked"]),
    ],
)
def test_what_no_index_has_and_what_pip_does_not_take_is_one_finding_each(
    tmp_path: Path, text: str, messages: list[str]
) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    found = json.loads(run("lint", "--json", folder=tmp_path).stdout)["files"][0]["findings"]
    told = [item["message"] for item in found if item["severity"] == "error"]
    assert len(told) == len(messages)
    assert all(" ".join(have.split()).startswith(want) for have, want in zip(told, messages, strict=True)), told


@collect(
    ("text", "expected"),
    [
        ("channels: [pytorch]\ndependencies: [torchvision=0.13.1, {pip: [torch==2.0.1]}]\n", "CU502"),
        ("channels: [conda-forge]\ndependencies: [pytorch=1.4.0, cudatoolkit=10.1]\n", "CU111"),
        ("channels: [conda-forge, pytorch]\ndependencies: [pytorch=2.0.1, pytorch-cuda=11.8]\n", "build='*_cuda*'"),
    ],
)
def test_the_torch_of_conda_is_the_one_that_the_file_means(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "environment.yml").write_text(text)
    told = run("lint", folder=tmp_path).stdout
    assert expected.replace("build='*_cuda*'", "=*_cuda*") in told
    assert "=cuda*" not in told.replace("=*_cuda*", "")


@collect(
    ("channel", "torch", "cudnn", "said"),
    [
        ("conda-forge", "pytorch=2.5.1=cuda126*", "cudnn=8.9.7", "require cuDNN 9"),
        ("conda-forge", "pytorch=2.3.0=cuda120*", "cudnn=9.1", "require cuDNN 8"),
        ("conda-forge", "pytorch>=2.3=cuda*", "cudnn=8.9", ""),
        ("conda-forge", "pytorch=2.5.1=cuda126*", "cudnn>=8", ""),
        ("pytorch", "pytorch=2.5.1=*cuda12.4*", "cudnn=8.9.7", ""),  # which has its own inside
        ("conda-forge", "pytorch=2.99=cuda*", "cudnn=8.9.7", ""),
    ],
)
def test_a_cudnn_that_no_build_of_torch_takes_is_an_error(
    tmp_path: Path, channel: str, torch: str, cudnn: str, said: str
) -> None:
    (tmp_path / "environment.yml").write_text(json.dumps({"channels": [channel], "dependencies": [torch, cudnn]}))
    told = run("lint", "environment.yml", folder=tmp_path).stdout
    assert ("contradicts" in told) is bool(said)
    assert said in told


@collect(
    ("pins", "pip", "expected"),
    [
        (("python=3.12", "python=3.11"), (), "python=3.11 and python=3.12 contradict each other"),
        (("numpy<2", "numpy>=2.1"), (), "numpy>=2.1 and numpy<2 contradict each other"),
        (("numpy<2", "numpy<1.27,>=1.20", "numpy!=1.25"), (), ""),
        (("python=3.12", "python=3.12.1", "python>=3.10"), (), ""),
        ((), ("numpy==1.26.4", "numpy==2.0.1"), "numpy==2.0.1 and numpy==1.26.4 contradict each other"),
        ((), ("numpy==1.26.4; python_version<'3.9'", "numpy==2.0.1; python_version>='3.9'"), ""),
        (("numpy=1.26",), ("numpy==2.0.1",), ""),  # that pip replaces what conda installs is another finding
    ],
)
def test_two_releases_of_one_package_are_an_error(
    tmp_path: Path, pins: tuple[str, ...], pip: tuple[str, ...], expected: str
) -> None:
    entries = [*pins, *([{"pip": [*pip]}] if pip else [])]
    (tmp_path / "environment.yml").write_text(json.dumps({"channels": ["conda-forge"], "dependencies": entries}))
    done = run("lint", "environment.yml", folder=tmp_path)
    assert ("contradict each other" in done.stdout) is bool(expected)
    assert expected in done.stdout


def test_a_list_with_hashes_is_a_lock_which_check_reads(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch==2.4.0 --hash=sha256:{'0' * 64}\n")
    done = run("lint", "requirements.txt", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: requirements.txt is a lock, which lint does not read\n")
    assert "hint: cuenv check requirements.txt" in done.stderr


@collect(
    ("name", "text", "what"),
    [
        (
            "pixi.toml",
            '[project]\nname = "a"\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n',
            "a manifest of pixi",
        ),
        (
            "poetry.lock",
            '# @generated by Poetry 1.4.2\n\n[[package]]\nname = "a"\n\n[metadata]\nlock-version = "2.0"\n',
            "a lock of Poetry",
        ),
    ],
)
def test_files_of_other_programs_are_named_for_what_they_are(tmp_path: Path, name: str, text: str, what: str) -> None:
    (tmp_path / name).write_text(text)
    done = run("lint", name, folder=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, f"error: {name} is {what}, which lint does not read")


def test_a_file_of_no_kind_that_is_not_yaml_gets_its_error_and_is_not_asked_for_its_kind(tmp_path: Path) -> None:
    (tmp_path / "gpu.yml").write_text("name: x\nchanels: [\n")
    (tmp_path / "mkdocs.yml").write_text("site: x\nhooks: !!python/name:a.b\n")
    told = run("lint", "gpu.yml", folder=tmp_path)
    assert (told.returncode, told.stdout.split(": ")[1]) == (1, "error CU300 not valid YAML")
    assert "hint: cuenv lint --as environment.yml mkdocs.yml" in run("lint", "mkdocs.yml", folder=tmp_path).stderr


FREEZE = """\
absl-py==1.4.0
pip
git+https://github.com/a/one
numpy==1.26.4
git+https://github.com/a/one-more
nvidia-cudnn-cu12==8.9.2.26
torch==2.4.1
"""


def test_a_finding_about_a_list_stands_at_the_line_that_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(FREEZE)
    done = run("lint", "requirements.txt", "--gpu", "V100", "--driver", "470.223.02", folder=tmp_path)
    found = {
        line.split(" ")[2]: line.split(": ")[0].split(":")[1] for line in done.stdout.splitlines() if " CU" in line
    }
    assert found == {"CU521": "3", "CU505": "6", "CU401": "7"}
    assert "CU401 torch 2.4.1+cu121: CUDA 12.x needs driver 525.60.13" in done.stdout


def test_a_torch_that_somebody_built_is_unknown_on_a_host_too(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy<2\ntorch @ git+https://github.com/pytorch/pytorch@v2.4.1\n")
    done = run("lint", "requirements.txt", "--gpu", "V100", "--driver", "470.223.02", folder=tmp_path)
    assert "requirements.txt:2:1: info CU111 the cuenv tables do not list torch @ git+https" in done.stdout
    assert "unknown" in done.stdout.splitlines()[-1]


def test_a_program_that_needs_a_newer_driver_is_named_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\njax[cuda12]\n")
    done = run("lint", "requirements.txt", "--gpu", "V100", "--driver", "470.223.02", folder=tmp_path)
    assert "requirements.txt:2:1: error CU401 jax[cuda12]: CUDA 12.x needs driver 525.60.13" in done.stdout


def test_a_finding_about_channels_stands_at_what_it_names(tmp_path: Path) -> None:
    text = env("numpy", "pytorch=2.1.0", "pytorch-cuda=12.1", head="channels: [pytorch, nvidia]")
    assert found(tmp_path, text)["CU101"] == (5, 5)
    text = env("pytorch=2.5.1", "cuda-version=12.4", head="channels: [x, conda-forge, nvidia]")
    assert found(tmp_path, text)["CU101"] == (1, 28)


def test_a_file_of_another_program_with_the_name_of_an_environment_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text("image:\n  name: curated\n  context:\n    dir: context\n")
    done = run("lint", "environment.yaml", folder=tmp_path)
    assert (done.returncode, "not a known kind of file" in done.stderr) == (2, True)
    (tmp_path / "Dockerfile").write_text("FROM debian:12\n")
    assert run("lint", folder=tmp_path).returncode == 0
    (tmp_path / "environment.yaml").write_text("name: mine\n")
    assert "dependencies" in run("lint", "environment.yaml", folder=tmp_path).stdout


PROJECT = """\
[project]
name = "mine"
requires-python = ">=3.10"
dependencies = [
    "accelerate",
    "torch==2.6.0 ; sys_platform != 'darwin'",
]

[project.optional-dependencies]
cu118 = ["torch==2.8.0"]
cpu = ["torch==2.6.0"]
mac = ["torch==2.5.0; sys_platform == 'darwin'", 'torchvision==0.20.1']

[tool.uv.sources]
torch = [
    { index = "cu118", extra = "cu118" },
    { index = "cpu", extra = "cpu" },
    { index = "cpu", marker = "sys_platform == 'win32'" },
]

[[tool.uv.index]]
name = "cu118"
url = "https://download.pytorch.org/whl/cu118"
explicit = true

[[tool.uv.index]]
name = "cpu"
url = "https://download.pytorch.org/whl/cpu"
explicit = true
"""


def test_a_project_is_judged_by_the_torch_and_the_index_of_each_of_its_parts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    done = run("lint", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path)
    lines = [line.removeprefix("pyproject.toml:") for line in done.stdout.splitlines() if " CU" in line]
    said = {line.split(": ")[0]: line.split(" ", 1)[1] for line in lines}
    assert list(said) == ["6:5", "10:10", "12:50"]  # who installs the extra for the CPU means that
    assert said["6:5"].startswith("error CU403 torch 2.6.0+cu124 has code for")  # PyPI's, in no extra
    assert said["10:10"].startswith(
        "error CU520 the index cu118 has torch 2.0.0 to 2.7.1, but torch==2.8.0 is requested"
    )
    assert said["12:50"].startswith(
        "error CU505 torchvision==0.20.1 requires torch 2.5.1, but torch==2.6.0 is requested"
    )
    index = "the index https://download.pytorch.org/whl/cu128 in [[tool.uv.index]]"
    assert f"fix: torch==2.7.0+cu128 from {index}, and that index for torch in [tool.uv.sources]" in done.stdout


CHOICE = """\
[project]
name = "mine"
dependencies = ["torchvision"]
[project.optional-dependencies]
cpu = ["torch==2.8.0+cpu"]
cu126 = ["torch==2.8.0+cu126"]
cu129 = ["torch==2.8.0+cu129"]
[[tool.uv.index]]
name = "a"
url = "https://download.pytorch.org/whl/cu129"
[tool.uv.sources]
torch = [{ index = "a", extra = "cu129" }, { index = "b", extra = "cu126" }]
[[tool.uv.index]]
name = "b"
url = "https://download.pytorch.org/whl/cu126"
"""


def test_one_extra_that_runs_is_enough_and_what_all_of_them_have_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(CHOICE)
    young = run("lint", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path)
    assert young.returncode == 0
    assert "pyproject.toml:6:10: info CU403 extra cu126: torch 2.8.0+cu126 has code for" in young.stdout
    assert "; the extra cu129 runs there" in young.stdout
    old = run("lint", "--gpu", "RTX 4090", "--driver", "470.82.01", folder=tmp_path)
    assert (old.returncode, old.stdout.count("error CU401")) == (1, 1)


def test_the_index_in_the_fix_of_a_project_ends_before_what_is_to_go(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["torch==2.6.0", "nvidia-cudnn-cu12==9.1.0.70"]\n'
    )
    said = run("lint", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path).stdout
    assert "the index https://download.pytorch.org/whl/cu128 in [[tool.uv.index]]" in said
    assert "[tool.uv.sources], without the nvidia-cudnn-cu12 of the file" in said


def test_what_a_project_overrides_or_asks_of_another_machine_contradicts_nothing(tmp_path: Path) -> None:
    text = (
        '[project]\ndependencies = ["torch==2.6.0", "torchvision==0.20.1", "nvidia-cudnn-cu12==9.8.0.87", '
        "\"torchaudio==2.5.1; platform_machine == 'aarch64'\"]\n"
    )
    (tmp_path / "pyproject.toml").write_text(text)
    said = run("lint", folder=tmp_path).stdout
    assert (said.count("CU505"), "torchaudio" in said) == (2, False)
    (tmp_path / "pyproject.toml").write_text(
        f'{text}[tool.uv]\noverride-dependencies = ["torchvision==0.20.1", "nvidia-cudnn-cu12==9.8.0.87"]\n'
    )
    assert "CU505" not in run("lint", folder=tmp_path).stdout


def test_a_package_whose_setup_imports_torch_needs_a_build_without_isolation(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    text = '[project]\ndependencies = ["torch==2.6.0", "flash_attn"]\n'
    path.write_text(text)
    (only,) = lint(path, None, Machine(), shipped_base()).lints
    assert (only.finding.code, only.at) == ("CU521", text.index('"flash_attn'))
    assert only.finding.message.startswith("flash_attn is built from source, and its setup.py imports torch")
    for mended in (
        '[tool.uv]\nno-build-isolation-package = ["flash-attn"]\n',
        '[tool.uv.extra-build-dependencies]\nflash-attn = ["torch"]\n',
        '[tool.uv.sources]\nflash_attn = { url = "https://x.example/flash_attn-2-cp312-cp312-linux_x86_64.whl" }\n',
    ):
        path.write_text(text + mended)
        assert lint(path, None, Machine(), shipped_base()).lints == ()


def test_a_list_that_names_nothing_for_gpus_is_not_called_fine_for_them(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "app.txt").write_text("# of the app\nkokoro\nhttpx\n")
    words = ("lint", "requirements/app.txt")
    assert run(*words, folder=tmp_path).stdout == "1 file: fine\n"
    done = run(*words, "--gpu", "V100", "--driver", "535.129.03", folder=tmp_path)
    assert "info CU327 the list names no torch, and what its packages require was not read" in done.stdout
    assert (done.returncode, "unknown" in done.stdout.splitlines()[-1]) == (0, True)
    (tmp_path / "words.txt").write_text("kokoro\nhttpx\n")
    assert "hint: cuenv lint --as requirements.txt words.txt" in run("lint", "words.txt", folder=tmp_path).stderr


def test_an_index_for_one_extra_by_a_marker_is_not_that_of_another(tmp_path: Path) -> None:
    text = PROJECT.replace('extra = "cu118"', "marker = \"extra == 'cu118'\"").replace(
        'extra = "cpu"', "marker = \"extra != 'cu118' and extra == 'cpu'\""
    )
    (tmp_path / "pyproject.toml").write_text(text)
    done = run("lint", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path)
    assert "pyproject.toml:6:5: error CU403 torch 2.6.0+cu124 has code for" in done.stdout
    assert "pyproject.toml:10:10: error CU520 the index cu118 has torch" in done.stdout
    assert "pyproject.toml:11:8" not in done.stdout


def test_a_project_without_a_host_says_what_is_wrong_on_every_machine(tmp_path: Path) -> None:
    text = 'dependencies = ["torch==1.13.1", "numpy>=2"]\nrequires-python = ">=3.12"\n'
    (tmp_path / "pyproject.toml").write_text(f"[project]\n{text}")
    done = run("lint", "pyproject.toml", folder=tmp_path)
    assert done.returncode == 1
    assert 'fix: write requires-python = "==3.11.*"' in done.stdout
    assert "pyproject.toml:2:34: error CU116 numpy>=2 does not work with torch==1.13.1" in done.stdout


@collect(
    ("text", "said"),
    [
        ('[project]\nname = "x"\ndependencies = ["torch>=2.6"]\n[[tool.uv.index]]\n{cu118}', "fine"),
        ('[project]\ndependencies = ["torch"]\n[tool.uv]\nextra-index-url = ["https://x.example/simple"]\n', "fine"),
        ('[project]\ndependencies = ["torch"]\n[tool.uv.sources]\ntorch = {path = "../torch"}\n', "unknown"),
        ('[project]\nname = "x"\ndynamic = ["version", "dependencies"]\n', "unknown"),
        ('[project]\nname = "x"\ndependencies = [1, "-e .", "torch; ("]\n', ""),
        ('[project]\nname = "x"\ndependencies = "torch"\n[tool]\nuv = 1\n', "fine"),
        ("[project\n", "error CU300"),
        ("[project]\nname = \n", "error CU300"),
        ("[tool.ruff]\nline-length = 1\n", "a project file of Python"),
    ],
)
def test_no_project_file_ends_in_a_traceback(tmp_path: Path, text: str, said: str) -> None:
    cu118 = 'name = "a"\nurl = "https://download.pytorch.org/whl/cu118"\n'
    (tmp_path / "pyproject.toml").write_text(text.replace("{cu118}", cu118))
    done = run("lint", "pyproject.toml", "--gpu", "RTX 4090", "--driver", "535.129.03", folder=tmp_path)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
