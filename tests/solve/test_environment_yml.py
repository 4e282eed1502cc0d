"""environment.yml: what cuenv writes, every reader reads alike; what people write, it reads or refuses with a place."""

from __future__ import annotations

import re
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import InputError
from cuenv.core.yaml_read import load
from cuenv.core.yaml_write import quote, scalar
from cuenv.lockfile.files import read_environment
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.environment_yml import parse, render
from thorough import examples

SPEC = EnvironmentSpec(
    name="universal-dev",
    header=("Written by cuenv.", "", "GPUs: 8.0, 9.0 [linux]"),
    channels=("conda-forge", "nvidia/label/cuda-11.8.0"),
    platforms=("linux-64",),
    pins=(
        Pin(
            name="pytorch",
            version="2.12.0",
            build="cuda129*",
            channel="conda-forge",
            role="pytorch-cuda",
            why=("the newest build with SASS for every GPU", "a long reason " * 12 + "# [win]"),
        ),
        Pin(name="libcudnn", version=">=9,<9.11", build="cuda*", channel="conda-forge", role="cudnn"),
        Pin(name="python", version="3.12", why=("nearest to 3.12\x1b[31m\nas asked",)),
        Pin(name="y", version="==1.0"),
        Pin(name="pip"),
    ),
    pip=("vllm==0.11.1", "x @ https://example.org/x.whl#egg=x[linux]", 'y[z]>=1; python_version < "4"'),
    variables={"TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX", "A": "1e3", "NO": "off # [win]"},
)

GOLDEN = """\
# Written by cuenv.
#
# GPUs: 8.0, 9.0 [linux]
name: universal-dev
channels:
  - conda-forge
  - nvidia/label/cuda-11.8.0
platforms:
  - linux-64
dependencies:
  # role: pytorch-cuda
  # the newest build with SASS for every GPU
  # a long reason a long reason a long reason a long reason a long reason a long reason a long
  # reason a long reason a long reason a long reason a long reason a long reason # [win]
  - conda-forge::pytorch=2.12.0=cuda129*
  # role: cudnn
  - "conda-forge::libcudnn[version='>=9,<9.11',build='cuda*']"
  # nearest to 3.12 [31m as asked
  - python=3.12
  - y==1.0
  - pip
  - pip:
      - "vllm==0.11.1"
      - "x @ https://example.org/x.whl\\x23egg=x[linux]"
      - "y[z]>=1; python_version < \\"4\\""
variables:
  A: "1e3"
  "NO": "off \\x23 [win]"
  TORCH_CUDA_ARCH_LIST: "8.0;9.0+PTX"
"""


def bare(spec: EnvironmentSpec) -> EnvironmentSpec:
    """What can come back: everything but the comments."""
    return EnvironmentSpec(
        name=spec.name,
        channels=spec.channels,
        platforms=spec.platforms,
        pins=tuple(Pin(name=p.name, version=p.version, build=p.build, channel=p.channel) for p in spec.pins),
        pip=spec.pip,
        variables=dict(spec.variables),
    )


def test_written_as_agreed_and_the_same_twice() -> None:
    assert render(SPEC) == GOLDEN
    assert render(SPEC) == render(SPEC)


def test_read_back_whole() -> None:
    spec, warnings = parse(GOLDEN, "environment.yml")
    assert spec == replace(bare(SPEC), ours=True)
    assert warnings == ()
    assert render(spec) == "".join(
        line for line in GOLDEN.splitlines(keepends=True) if not line.lstrip().startswith("#")
    )


def test_no_line_looks_like_a_selector_to_conda_lock() -> None:
    """The pattern is that of conda-lock 4: a line that matches is dropped on another platform."""
    pattern = re.compile(r"(.+?)\s*(#.*)\[([^\[\]]+)\](?(2)[^\(\)]*)$")
    lines = [line for line in GOLDEN.splitlines() if not line.lstrip().startswith("#")]
    assert not [line for line in lines if pattern.match(line)]
    assert pattern.match("  - x @ https://example.org/x.whl#egg=x[linux]")


def test_nodefaults_is_never_written() -> None:
    text = render(EnvironmentSpec(name="x", channels=("nodefaults", "conda-forge"), pins=(Pin(name="a"),)))
    assert "nodefaults" not in text


def test_an_environment_without_anything() -> None:
    spec = EnvironmentSpec(name="", channels=(), pins=())
    assert render(spec) == "dependencies: []\n"
    assert parse(render(spec), "e")[0] == spec


def test_two_pins_on_one_name_both_stay() -> None:
    spec, warnings = parse("dependencies:\n- python>=3.10\n- python<3.13\n- numpy\n- numpy\n", "e")
    assert [pin.yaml_text() for pin in spec.pins] == ["python>=3.10", "python<3.13", "numpy"]
    assert len(warnings) == 2


@collect(
    ("text", "warning"),
    [
        ("dependencies: [a]\ncategory: dev\n", None),
        ("dependencies: [a]\nprefix: /opt/x\n", "prefix: ignored"),
        ("dependencies: [a]\npip-repositories: []\n", "'pip-repositories': ignored"),
        ("dependencies: [a]\n'bad\\x1b[31m': 1\n", "ignored"),
        ("dependencies: [a]\n3.5: 1\n", "3.5: ignored"),
        (
            "dependencies: [a]\nchannels: [nodefaults, conda-forge]\n",
            "'nodefaults': conda's default channels are not added",
        ),
        ("dependencies: [a]\nchannels: [x, x]\n", "channels: 'x' appears twice"),
        ("dependencies: ['a[security]']\n", "dependencies[0]: [security] has no effect, because only pip has extras"),
        ("dependencies:\n- a\n- b  # [win]\n", "line 3: left out, because [win]"),
        ("dependencies:\n- a  # [linux]\n", None),
        ("dependencies:\n- a  # because of [x] (y)\n", None),
        ("dependencies:\n# [win]\n- a\n", None),
        ("dependencies:\n- sel(win): b\n- a\n", "sel(win) is not Linux"),
        ("dependencies:\n- a\n- pip: [b]\n", "so it is added, as conda does"),
        ("dependencies:\n- a\n- pip\n- pip: [b, b]\n", "'b' appears twice"),
        ("dependencies:\n- a\n- pip:\n", None),
        ("dependencies:\n- a\n-  # b\n", "dependencies[1]: ignored, because nothing follows the dash"),
        ("dependencies:\n- a\n- pip\n- pip:\n  - # b\n  - c\n", "dependencies[2].pip[0]: ignored"),
        ("dependencies:\n- b:a=1\n", "'b:a=1' is read as b::a=1"),
        ("dependencies:\n- a=>3.11\n", "'a=>3.11' is read as conda does: a>=3.11"),
        ("dependencies:\n- a=<3.11\n", "'a=<3.11' is read as conda does: a<3.11"),
        ("name: /Users/me/venv\ndependencies: [a]\n", "name: '/Users/me/venv' is a path"),
        ("dependencies: [a]\nvariables: {B: true}\n", "variables.B: True"),
        ("dependencies: [a]\nvariables: {B: 010}\n", "variables.B: 8"),
        ("\ufeffdependencies: [a]\n", None),
        ("dependencies:\r\n- a\r\n", None),
    ],
)
def test_what_is_ignored_is_said(text: str, warning: str | None) -> None:
    spec, warnings = parse(text, "e")
    assert spec.pin("a")
    assert "nodefaults" not in spec.channels
    assert len(warnings) == (0 if warning is None else 1)
    assert all(item.isprintable() for item in warnings)
    assert warning is None or warning in warnings[0]


def test_selectors_of_micromamba_are_obeyed() -> None:
    spec, _ = parse("dependencies: [{sel(linux): a}, {sel(unix): b}, {sel(win): c}, {sel(osx): d}]", "e")
    assert [pin.name for pin in spec.pins] == ["a", "b"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)
)


@collect(
    ("text", "parts"),
    [
        ("", ["e.yml: the file is empty"]),
        ("# only a comment\n", ["the file is empty"]),
        ("---\n", ["the file is empty"]),
        ("just words", ["expected a mapping, got 'just words'"]),
        ("- a\n", ["expected a mapping, got a list of 1"]),
        ("name: x\n", ["dependencies: expected a list, got nothing"]),
        ("dependencies: a\n", ["dependencies: expected a list, got 'a'"]),
        ("dependencies: {a: 1}\n", ["dependencies: expected a list, got a mapping of 1"]),
        ("dependencies:\n- 3.1\n", ["dependencies[0]: expected a string such as python=3.12, got 3.1; a number alone"]),
        ("dependencies:\n- a\n- true\n", ["dependencies[1]: ", "got True"]),
        ("dependencies:\n- [a]\n", ["dependencies[0]: ", "got a list of 1"]),
        ("dependencies:\n-\n", ["dependencies[0]: ", "got nothing"]),
        ("dependencies:\n- python: 3.10\n", ["dependencies[0]: ", "write '- python=VERSION'"]),
        ("dependencies:\n- npm: [a]\n", ["dependencies[0]: unknown section 'npm'"]),
        ("dependencies:\n- a=\x1b\n", ["not a text file"]),
        ('dependencies:\n- "a=\\x1b"\n', ["dependencies[0]: ", "control character"]),
        ("dependencies:\n- https://x/linux-64/a-1-0.conda\n", ["dependencies[0]: ", "direct URLs"]),
        ("dependencies:\n- pip: a\n", ["dependencies[0].pip: expected a list, got 'a'"]),
        ("dependencies:\n- pip: [1]\n", ["dependencies[0].pip[0]: expected a string, got 1"]),
        ('dependencies:\n- pip: ["a\\nb"]\n', ["dependencies[0].pip[0]: expected a requirement on one line"]),
        ("dependencies:\n- sel(linux): 3.1\n", ["dependencies[0].sel(linux): "]),
        ("dependencies: []\nname: [x]\n", ["name: expected a string, got a list of 1"]),
        ("dependencies: []\nname: a b\n", ["name: expected a name without"]),
        ("dependencies: []\nname: 3.10\n", ["name: expected a string, got 3.1"]),
        ("dependencies: []\nchannels: conda-forge\n", ["channels: expected a list, got 'conda-forge'"]),
        ("dependencies: []\nchannels: [1, a]\n", ["channels[0]: expected a string, got 1"]),
        ('dependencies: []\nchannels: ["  "]\n', ["channels[0]: expected a channel"]),
        (
            "dependencies: []\nchannels: [/srv/team, ../team, ~/team]\n",
            [
                "channels[0]: '/srv/team' is a folder of this machine: write file:///srv/team",
                "channels[1]: '../team' is a folder of this machine: write file:// and its whole path",
                "channels[2]: '~/team' is a folder",
            ],
        ),
        ("dependencies: []\nplatforms: [noarch]\n", ["platforms[0]: expected a platform such as linux-64"]),
        ("dependencies: []\nvariables: [a]\n", ["variables: expected a mapping, got a list of 1"]),
        ("dependencies: []\nvariables: {A: [1]}\n", ["variables.A: expected a string, got a list of 1"]),
        ("dependencies: []\nvariables: {1: a}\n", ["variables[1]: expected a name"]),
        ("dependencies: []\nvariables: {a-b: a}\n", ["variables.a-b: expected a name"]),
        ("dependencies: []\nname: a\nname: b\n", ["line 3: the key 'name' appears twice"]),
        ("dependencies: []\n---\nname: b\n", ["line 2: a second document begins"]),
        ("dependencies:\n\t- a\n", ["line 2", "cannot start any token"]),
        ("dependencies: [a\n", ["line 2"]),
        ("dependencies: [*a]\n", ["an alias (*) comes before its anchor"]),
        ("dependencies: &a [*a]\n", ["an alias (*) comes before its anchor"]),
        ("dependencies: !!python/object:os.system [a]\n", ["tags are not supported: 'tag:yaml.org,2002:python/"]),
        ("<<: {a: 1}\ndependencies: []\n", ["merge keys"]),
        ("? [a]\n: 1\n", ["a key must be a plain text"]),
        ("dependencies: [a]\nname: 2024-99-99\n", ["line 2: invalid value: '2024-99-99'"]),
        ("[" * 200_000, ["nested deeper than 24"]),
        ("- " * 200_000, ["nested deeper than 24"]),
        ("{a: " * 200_000, ["nested deeper than 24"]),
        (BOMB, ["more than 2000000 nodes"]),
        ("\x00\x01\x02", ["not a text file"]),
        ("\udcff", ["not a text file"]),
        ("\x7fELF\x02", ["not a text file"]),
    ],
)
def test_bad_files_are_refused_with_their_place(text: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "e.yml")
    message = caught.value.message
    assert message.startswith("e.yml: ")
    assert message.replace("\n", "").isprintable()
    assert [part for part in parts if part not in message] == []


def test_all_faults_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse("name: a b\nchannels: [1]\ndependencies: [3.1, a ==, b]\nvariables: {A: []}\n", "e.yml")
    lines = caught.value.message.splitlines()
    assert lines[0] == "e.yml: 5 faults"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "name",
        "channels[0]",
        "dependencies[0]",
        "dependencies[1]",
        "variables.A",
    ]


def test_tabs_are_explained() -> None:
    with pytest.raises(InputError) as caught:
        parse("dependencies:\n\t- a\n", "e.yml")
    assert caught.value.hint == "YAML is indented with spaces, not tabs"


def test_bombs_cost_neither_time_nor_memory() -> None:
    tracemalloc.start()
    start = time.perf_counter()
    for text in (BOMB, "[" * 200_000, "a: " + "&b " * 10, "dependencies: " + "1:" + ":59" * 100_000):
        with pytest.raises(InputError):
            parse(text, "e.yml")
    seconds = time.perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 20  # 0.1 s; minutes without the bounds
    assert peak < 20_000_000


@pytest.mark.slow
def test_many_entries_cost_linear_time() -> None:
    text = "channels:\n" + "".join(f"- c{i % 5000}\n" for i in range(10_000))
    text += "dependencies:\n" + "".join(f"- p{i}\n" for i in range(10_000))
    start = time.perf_counter()
    spec, warnings = parse(text, "e.yml")
    assert time.perf_counter() - start < 20  # 0.3 s; minutes where it is quadratic
    assert (len(spec.channels), len(spec.pins), len(warnings)) == (5000, 10_000, 5000)


def test_cut_at_every_character_it_is_read_or_refused() -> None:
    whole = bare(SPEC)
    for end in range(len(GOLDEN)):
        try:
            spec, _ = parse(GOLDEN[:end], "e.yml")
        except InputError:
            continue
        assert spec.pins[:-1] == whole.pins[: len(spec.pins)][: len(spec.pins) - 1]


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_with_and_without_the_c_library(loader: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuenv.core.yaml_read.LOADER", loader)
    assert parse(GOLDEN, "e.yml")[0] == replace(bare(SPEC), ours=True)
    for text in ("[" * 5000, "- " * 5000, BOMB, "a: 1\na: 2", "\ud800", "\x00", "a: b: c", ""):
        with pytest.raises(InputError):
            parse(text, "e.yml")


# Laws

texts = st.text(st.characters(exclude_categories=["Cs"]))
WORDS = "1e3 0o17 0x1f 1_000 12e34 1:30 yes No ~ null # - *a &a !x %x @x `x ' { [a = << .inf 2024-01-01 \u00e9"
HOSTILE = WORDS.split()
HOSTILE += [
    "",
    " ",
    "a # [linux]",
    "- a",
    "a: b",
    '"',
    "\\",
    "\\x23",
    "\x00",
    "\x1b",
    "\x7f",
    "\x85",
    "\u2028",
    "\ufeff",
]
HOSTILE += ["a\nb", "a\r\nb", "\t", "\ud7ff", "\ue000", "\ufffe", "\U0001f600", " a", "a ", "a\n", "\n a"]
hostile = st.sampled_from(HOSTILE)


@given(texts | hostile)
def test_every_string_comes_back(text: str) -> None:
    for written in (quote(text), scalar(text)):
        document = f"- {written}\n- {{{quote(text)}: 1}}\n"
        assert load(document, "x")[0] == text
        assert list(load(document, "x")[1]) == [text]
        assert yaml.safe_load(document)[0] == text
        assert yaml.load(document, Loader=yaml.SafeLoader)[0] == text
        assert "\n" not in written
        assert written.isascii() or "\x85" not in written


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    with pytest.raises(InputError, match=r"U\+D800"):
        quote("a\ud800")


names = st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,9}", fullmatch=True).filter(lambda name: ".conda" not in name)
words = texts.map(lambda text: "".join(char for char in text if char.isprintable()).strip())
pins = st.builds(
    Pin,
    name=names | st.sampled_from(["y", "on", "null", "1e3", "0o17", "12e34", "true"]),
    version=st.sampled_from(["", "1.2", "==1.2", ">=1,<2", "1.2.*|>=3", "!=1.2"]),
    channel=st.sampled_from(["", "conda-forge", "nvidia/label/cuda-12.4.1", "https://conda.example.org/x"]),
    why=st.lists(texts, max_size=2).map(tuple),
    role=st.sampled_from(["", "nccl"]),
)


def _names_a_channel(text: str) -> bool:
    return text not in ("", "nodefaults") and not re.match(r"[/~.]|[A-Za-z]:[\\/]", text)  # these are folders


specs = st.builds(
    EnvironmentSpec,
    name=words.map(lambda text: re.sub("[ /:#]", "", text).lstrip(".~")),  # a folder is no name
    channels=st.lists(words.filter(_names_a_channel) | names, unique=True).map(tuple),
    pins=st.lists(pins, unique_by=lambda pin: pin.yaml_text()).map(tuple),
    platforms=st.sampled_from([(), ("linux-64",), ("linux-64", "linux-aarch64")]),
    pip=st.lists(words.filter(bool), unique=True).map(tuple),
    variables=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), texts | hostile),
    header=st.lists(texts, max_size=2).map(tuple),
)


@given(specs)
def test_what_is_written_is_read_again(spec: EnvironmentSpec) -> None:
    text = render(spec)
    again, _ = parse(text, "e.yml")
    assert again == bare(spec)
    assert render(again) == render(bare(spec))
    data = yaml.safe_load(text)
    assert [item for item in data["dependencies"] if isinstance(item, str)] == [pin.yaml_text() for pin in spec.pins]
    assert all(len(line) <= 120 or " " not in line for line in text.splitlines() if line.startswith("#"))


@examples(60)
@given(st.binary(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>#'\"\n\t ,.?%@01", max_size=60).map(str.encode))
def test_bytes_of_any_kind(data: bytes) -> None:
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape"), data.decode("utf-8", "replace")):
        try:
            parse(text, "e.yml")
        except InputError as error:
            message = error.message
        else:
            message = ""
        assert message.replace("\n", "").isprintable()
        try:
            expected = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, UnicodeError, RecursionError, TypeError, KeyError, AttributeError):
            continue
        try:
            found = load(text, "x")
        except InputError:
            continue
        assert repr(found) == repr(expected)


def test_a_file_without_channels_says_which_are_read(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [numpy]\n")
    (told,) = read_environment(file)[1]
    assert "repo.anaconda.com/pkgs/main" in told
    assert "terms of service" in told
    for head in ("channels: [conda-forge]\n", "channels: [defaults]\n"):
        file.write_text(f"{head}dependencies: [numpy]\n")
        assert not read_environment(file)[1]


def test_a_file_that_is_far_too_long_is_refused_at_once() -> None:
    began = time.monotonic()
    for text in ("dependencies:\n" + "- a\n" * 1_500_000, "dependencies:\n" + "- a\n" * 10_001):
        with pytest.raises(InputError, match=r"at most"):
            parse(text, "environment.yml")
    assert time.monotonic() - began < 20
