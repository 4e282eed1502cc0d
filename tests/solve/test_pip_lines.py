"""Lines of a pip part: what is locked, what is set aside and why, which options are used, and what never gets out."""

from __future__ import annotations

import pytest
from hypothesis import given as by
from hypothesis import strategies as st

from cases import collect
from cuenv.solve.io.pip import with_options
from cuenv.solve.pip_lines import PipOptions, folder_of, logical_lines, project_of, read_lines

SHA = "ab" * 32
COMMIT = "4b41059694619831a7db195b7e0988fc4ff3a307"


@collect(
    "text",
    [
        *("a", "a>=1", "A.b_c[x,y]~=1.0", "a; sys_platform == 'linux'", f"a @ https://x.example/a.whl#sha256={SHA}"),
        *(f"a==1 --hash=sha256:{SHA}", "torch==1.13.1+cu117"),
    ],
)
def test_what_can_be_locked(text: str) -> None:
    found = read_lines([text])
    assert (found.requirements, found.aside, found.wrong) == ((text,), (), ())


@collect(
    ("text", "why"),
    [
        ("https://example.org/a-1.0-py3-none-any.whl", "a URL without a name"),
        ("a @ https://example.org/a-1.0-py3-none-any.whl", "a URL without a hash"),
        ("./local", "it is a folder"),
        (".", "it is a folder"),
        (".[dev]", "it is a folder"),
        ("submodules/simple-knn", "it is a folder"),
        ("../local-1.0-py3-none-any.whl", "a file on this machine"),
        ("local-1.0-py3-none-any.whl", "a file on this machine"),
        ("a @ file:///opt/a-1.0.tar.gz", "a file on this machine"),
        ("-e .", "it is a folder"),
        ("--editable=src/a", "it is a folder"),
        ("-r more.txt", "a list of requirements that was not read"),
        ("git+https://example.org/a.git", "a repository without a commit"),
        ("git+ssh://git@example.org/a.git@main", "the branch or tag main"),
        ("a @ git+https://example.org/a.git@v1", "the branch or tag v1"),
        (f"a @ git+https://example.org/a.git@{COMMIT}", "it names a commit"),
        ("-e git+https://example.org/a.git@5b838a8#egg=a", "it names a commit"),
        ("-e git+git@example.org:a/b.git@5b838a8#egg=a", "it names a commit"),
        ("-e git+git@example.org:a/b.git#egg=a", "a repository without a commit"),
        ("a @ https://${HOST}/a.whl", "a shell variable"),
    ],
)
def test_what_is_set_aside(text: str, why: str) -> None:
    found = read_lines(["psutil", text])
    assert found.requirements == ("psutil",)
    assert found.wrong == ()
    (aside,) = found.aside
    assert aside.text == text.replace("--editable=", "-e ")
    assert why in aside.why


@collect("text", ["a==", "a b", "--index-url", "-i not-a-url", "--extra-index-url ${HOST}"])
def test_what_pip_refuses_as_well(text: str) -> None:
    (wrong,) = read_lines([text]).wrong
    assert wrong.why
    assert wrong.fix


def test_options_are_used() -> None:
    found = read_lines(
        [
            "-i https://first.example/simple --pre",
            "--extra-index-url=https://more.example/whl/cu117",
            "-fhttps://links.example/page.html",
            "--find-links wheels",
            "torch==2.0.1+cu118 --extra-index-url https://beside.example/whl",
            "--no-binary a",
            "--trusted-host links.example",
            "--no-deps",
            "b  # why",
        ]
    )
    assert found.requirements == ("torch==2.0.1+cu118", "b")
    assert found.options == PipOptions(
        index="https://first.example/simple",
        extra=("https://more.example/whl/cu117", "https://beside.example/whl"),
        links=("https://links.example/page.html", "wheels"),
        flags=("--prerelease", "allow", "--no-binary", "a"),
    )
    assert [text for text, _ in found.ignored] == ["--trusted-host links.example", "--no-deps"]
    assert not found.wrong
    assert not found.aside


def test_the_indexes_of_a_file_stand_beside_those_of_the_user() -> None:
    user = {"UV_INDEX": "own=https://own.example/simple", "UV_DEFAULT_INDEX": "https://usual.example/simple"}
    options = PipOptions(extra=("https://more.example/simple",), links=("https://x.example/a,b",))
    found = with_options(user, options)
    assert found["UV_INDEX"] == "own=https://own.example/simple https://more.example/simple"
    assert found["UV_DEFAULT_INDEX"] == "https://usual.example/simple"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"  # as pip does
    assert found["UV_FIND_LINKS"] == "https://x.example/a%2Cb"
    assert with_options(user, PipOptions(index="https://other.example"))["UV_DEFAULT_INDEX"] == "https://other.example"
    assert with_options(user, PipOptions()) == user


@pytest.mark.parametrize("option", ["--extra-index-url", "--index-url"])
def test_no_login_of_the_user_goes_to_a_host_that_a_file_names(option: str) -> None:
    """``NAME=URL`` would give the host the login of the user's index of that name; ``${NAME}`` any variable."""
    for url in ("own=https://strange.example/simple", "https://strange.example/${UV_INDEX_OWN_PASSWORD}"):
        found = read_lines([f"{option} {url}"])
        assert found.options == PipOptions()
        assert found.wrong
    found = read_lines([f"{option} https://me:${{TOKEN}}@strange.example/simple"])
    assert "https://strange.example/simple" in (found.options.index, *found.options.extra)


def test_nothing_that_is_shown_has_a_login() -> None:
    found = read_lines(
        [
            "--extra-index-url https://me:hunter2@more.example/simple",
            "a @ git+https://me:hunter2@example.org/a.git@main",
            "b @ git+ssh://git@example.org/b.git",
            "-r https://me:hunter2@example.org/list.txt",
        ]
    )
    assert found.options.extra == ("https://me:hunter2@more.example/simple",)
    assert found.options.lines() == ("--extra-index-url https://more.example/simple",)
    assert "hunter2" not in str(found.aside)
    assert "b @ git+ssh://git@example.org/b.git" in [item.text for item in found.aside]


@collect(
    ("text", "folder", "project"),
    [
        ("-e .", ".", ""),
        ("./a/b[x]", "./a/b", "b"),
        ("submodules/simple-knn", "submodules/simple-knn", "simple-knn"),
        ("a @ file:///opt/a", "/opt/a", "a"),
        ("git+https://example.org/team/Flash_Attn.git@5b838a8", "", "flash-attn"),
        ("-e git+https://example.org/x.git@main#egg=taming-transformers", "", "taming-transformers"),
        ("a>=1", "", "a"),
    ],
)
def test_what_a_line_names(text: str, folder: str, project: str) -> None:
    assert (folder_of(text), project_of(text)) == (folder, project)


def test_lines_continue() -> None:
    text = "# head\na==1 \\\n  --hash=sha256:ab  # why\n\nb\n"
    assert list(logical_lines(text)) == [(2, "a==1 --hash=sha256:ab"), (5, "b")]


@by(st.text(min_size=1, max_size=60))
def test_any_line_is_read(text: str) -> None:
    found = read_lines([text])
    for item in found.aside:
        assert item.text.isprintable()
    assert all(item.why and item.fix for item in found.wrong)


BLD = "file:///opt/conda/conda-bld"
WORK = "work"  # the folder below which conda-build unpacks the sources


@collect(
    ("text", "taken"),
    [
        (f"numpy @ {BLD}/numpy_1618497241363/{WORK}", "numpy"),
        (f"Babel @ {BLD}/babel_1671781930836/{WORK}/dist ; python_version < '4'", "Babel"),
        (f"ab @ file:///home/u/build/ab_1609355006118/{WORK}/dist/ab-0.7.0-py2.py3-none-any.whl", "ab==0.7.0"),
        (f"ab @ file:///home/x/ab_1609355006118/{WORK}/packages/ab/dist/ab-5.11.0.tar.gz", "ab==5.11.0"),
    ],
)
def test_what_pip_freeze_writes_of_a_package_of_conda_is_taken_by_its_name(text: str, taken: str) -> None:
    found = read_lines([text])
    assert [item.partition(";")[0] for item in found.requirements] == [taken]
    assert (found.built, found.aside, found.wrong) == ((text,), (), ())


def test_a_folder_of_ones_own_is_not_taken_for_one_of_conda() -> None:
    found = read_lines(["mine @ file:///home/me/mine_2/work", "other @ file:///srv/other"])
    assert (found.requirements, found.built, len(found.aside)) == ((), (), 2)


def test_several_names_on_one_line_are_what_pip_refuses() -> None:
    (wrong,) = read_lines(["one two three -f https://example.org/wheels.html"]).wrong
    assert (wrong.text, wrong.why) == ("one two three", "several names are on one line")
    assert wrong.better == ("one", "two", "three")
    (wrong,) = read_lines(["--pre one -f https://example.org/wheels.html --no-cache-dir two"]).wrong
    assert wrong.better == ("--pre", "one", "-f https://example.org/wheels.html", "--no-cache-dir", "two")


@pytest.mark.parametrize(("end", "system"), [("win_amd64", "Windows"), ("macosx_11_0_arm64", "macOS")])
def test_a_wheel_for_another_system_is_one_that_pip_does_not_take(end: str, system: str) -> None:
    url = f"https://a.example/torch-2.8.0-cp312-cp312-{end}.whl"
    (wrong,) = read_lines([url]).wrong
    assert (wrong.why, wrong.better) == (f"it is a wheel for {system}", ("torch==2.8.0",))
    assert not read_lines([f"torch @ {url} ; sys_platform == 'win32'"]).wrong
    assert not read_lines(["https://a.example/torch-2.8.0-cp312-cp312-linux_x86_64.whl"]).wrong


@collect(
    ("text", "better"),
    [
        ("python==3.10", ()),
        ("pytorch>=2", ("torch>=2",)),
        ("tensorflow-gpu", ("tensorflow[and-cuda]",)),
        ("TensorFlow_GPU>=2.4,<3", ("tensorflow[and-cuda]<3,>=2.4",)),
        ("tensorflow-gpu>=2.4,<2.13", ("tensorflow<2.13,>=2.4",)),
        ("tensorflow-gpu==2.12.0 ; python_version > '3.8'", ('tensorflow==2.12.0; python_version > "3.8"',)),
    ],
)
def test_a_name_under_which_an_index_has_nothing_to_install(text: str, better: tuple[str, ...]) -> None:
    (wrong,) = read_lines([text]).wrong
    assert wrong.better == better
    assert all(item in wrong.fix for item in better)
    assert not read_lines(["tensorflow-gpu==2.10.1", "tensorflow-gpu<2.12", "python-dateutil"]).wrong
