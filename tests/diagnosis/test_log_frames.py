"""In whose file an exception was raised: the program's, or a package's, in each form of traceback."""

from __future__ import annotations

import textwrap

from cases import collect
from cuenv.diagnosis.log.frames import Frame, frame_before
from failure_logs import read

SITE = "/opt/x/lib/python3.11/site-packages"


def of(text: str) -> Frame | None:
    lines = textwrap.dedent(text).strip("\n").encode().split(b"\n")
    return frame_before(lines, len(lines) - 1)


@collect(
    ("text", "package", "line"),
    [
        ('  File "/home/u/train.py", line 7, in <module>\n    x["a"]\nKeyError: 1', "", "7"),
        (f'  File "{SITE}/foo_bar/a.py", line 7, in f\n    x["a"]\nKeyError: 1', "foo_bar", "7"),
        ('  File "/x/lib/python3.11/site-packages/foo-1.0-py3.6.egg/foo/a.py", line 7, in f\nKeyError: 1', "foo", "7"),
        ('  File "pyarrow/error.pxi", line 91, in pyarrow.lib.check\nKeyError: 1', "pyarrow", "91"),
        ('  File "/home/u/vllm/vllm/v1/core.py", line 9, in f\nKeyError: 1', "vllm", "9"),
        ('  File "/workspace/vllm/config.py", line 9, in f\nKeyError: 1', "vllm", "9"),
        ('  File "/home/u/transformers/examples/run.py", line 9, in f\nKeyError: 1', "", "9"),
        (
            '  File "/r/.cache/huggingface/modules/transformers_modules/m/x.py", line 9, in f\nKeyError: 1',
            "transformers_modules",
            "9",
        ),
        ("/usr/lib/python3/dist-packages/foo/a.py in f(self, i)\n     99\n--> 101   x[i]\n\nKeyError: 1", "foo", ""),
        ("File ~/project/a.py:108, in Foo.fit(self)\n--> 108 x[1]\n\nKeyError: 1", "", "108"),
        (f"[{SITE}/foo/a.py](https://localhost:8080/#) in patch(x)\n--> 854  y[-2]\n\nKeyError: 1", "foo", ""),
        ("File [~/p/a.py:3244](http://localhost/a.py#line=3243), in F.r(self)\n--> 3244 x\n\nKeyError: 1", "", "3244"),
        ("Cell In[3], line 18\n---> 18 fit()\n\nKeyError: 1", "", ""),
        ("│ /home/u/main.py:289 in main │\n│ ❱ 289 │ x[1] │\n╰────╯\nKeyError: 1", "", "289"),
        ('(Worker pid=1)   File "/home/u/a.py", line 3, in f\n(Worker pid=1) KeyError: 1', "", "3"),
    ],
)
def test_a_frame_tells_whose_file_it_is(text: str, package: str, line: str) -> None:
    found = of(text)
    assert found is not None
    assert (found.package, found.line) == (package, line)


def test_python_itself_is_passed_over_and_so_is_a_function_that_raises_for_its_caller() -> None:
    found = of(
        """
          File "/home/u/a.py", line 3, in load
            json.load(f)
          File "/opt/x/lib/python3.11/json/decoder.py", line 355, in raw_decode
            raise JSONDecodeError("x")
        ValueError: x
        """
    )
    assert found == Frame(file="/home/u/a.py", line="3")
    lazy = f'  File "{SITE}/torch/nn/modules/module.py", line 5, in __getattr__\nKeyError: 1'
    assert of(f'  File "/home/u/a.py", line 3, in f\n{lazy}') == Frame(file="/home/u/a.py", line="3")


def test_a_rank_has_its_own_frames_and_an_exception_keeps_its_own() -> None:
    mixed = f"""
        [rank1]: Traceback (most recent call last):
        [rank1]:   File "/home/u/a.py", line 3, in f
        [rank0]:   File "{SITE}/foo/a.py", line 9, in f
        [rank1]: KeyError: 1
        """
    assert of(mixed) == Frame(file="/home/u/a.py", line="3")
    assert of('  File "a.py", line 1, in f\nValueError: x\nwent on\nKeyError: 1') is None


def test_a_check_is_a_raise_in_the_line_of_the_frame() -> None:
    checked = f'  File "{SITE}/foo/a.py", line 9, in f\n    raise ValueError(\nValueError: the two lists differ\n'
    assert read(checked.encode()).causes[0].symptom.id == "value-refused"
    assert "foo checked" in read(checked.encode()).causes[0].why
    apart = f'  File "{SITE}/foo/a.py", line 9, in f\n    layers % stages == 0\nAssertionError: layers do not divide\n'
    assert read(apart.encode()).causes[0].symptom.id == "value-refused"
    of_install = checked.replace("the two lists differ", "foo needs a newer version of bar")
    assert read(of_install.encode()).causes[0].symptom.id != "value-refused"
    unlike = "Quantization is not supported for this model"
    assert read(checked.replace("the two lists differ", unlike).encode()).causes[0].symptom.id == "value-refused"
    assert read(checked.replace("the two lists differ", f"{unlike} on this device").encode()).in_words
    fell = f'  File "{SITE}/foo/a.py", line 9, in f\n    x = max(y)\nValueError: max() of an empty list is not known\n'
    assert read(fell.encode()).in_words


def test_what_only_reports_that_something_else_failed_is_not_a_check_of_the_program() -> None:
    report = (
        '  File "/home/u/fold.py", line 9, in run\n    raise ValueError(x)\nValueError: Fold failed after 9 tries.\n'
    )
    assert read(report.encode()).verdict == "unknown"
    cause = "Error compiling program: nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
    assert read(f"{cause}{report}".encode()).causes[0].symptom.id == "nvcc-unsupported-arch"


def test_what_python_raises_in_a_package_is_a_failure_of_its_code() -> None:
    log = f'  File "{SITE}/foo/a.py", line 9, in f\n    past = keys[0][0]\nIndexError: tuple index out of range\n'
    found = read(log.encode())
    assert (found.verdict, found.causes[0].symptom.id) == ("known", "package-code")
    assert any("raised in foo" in item for item in found.causes[0].because)
    assert read(log.replace("tuple index", "CUDA index").encode()).in_words


@collect(
    ("code", "error"),
    [
        ("out = flash_attn_func(q, k, v)", "NameError: name 'flash_attn_func' is not defined"),
        ("fused_layer_norm_cuda.forward_affine(x)", "TypeError: 'NoneType' object is not callable"),
        ("v = torch.version.cuda.split('.')", "AttributeError: 'NoneType' object has no attribute 'split'"),
        ("assert torch.cuda.device_count() >= 2", "AssertionError"),
        ("home = os.environ['CUDA_HOME']", "KeyError: 'CUDA_HOME'"),
    ],
)
def test_what_the_environment_may_be_to_blame_for_is_not_reported_as_the_programs_own(code: str, error: str) -> None:
    found = read(f'  File "/home/u/a.py", line 3, in f\n    {code}\n{error}\n'.encode())
    assert not any(cause.kind == "raised" for cause in found.causes)
    assert found.verdict == "unknown"


def test_a_key_that_a_table_lacks_was_asked_for_by_the_program() -> None:
    at = b'Traceback (most recent call last):\n  File "/srv/data.py", line 24, in rows\n    return table["reply"]\n'
    table = b'  File "/e/lib/python3.10/site-packages/%s.py", line 270, in __getitem__\n    value = self.data[key]\n'
    for holder in (b"datasets/formatting/formatting", b"pandas/core/frame"):
        assert read(at + table % holder + b"KeyError: 'reply'\n").causes[0].symptom.id == "program-key"
    assert read(at + table % b"transformers/cache_utils" + b"KeyError: 'reply'\n").causes[0].symptom.id != "program-key"


def test_a_module_of_cython_belongs_to_the_package_in_the_path_of_its_function() -> None:
    log = (
        b'Traceback (most recent call last):\n  File "/srv/run.py", line 20, in <module>\n    fit(x)\n'
        b'  File "mst_wrapper.pyx", line 85, in cugraph.tree.mst_wrapper.mst_float\nValueError: the graph is empty\n'
    )
    found = frame_before(log.split(b"\n"), 4)
    assert found is not None
    assert found.package == "cugraph"
