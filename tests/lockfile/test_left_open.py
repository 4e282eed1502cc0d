"""The Python of a file that leaves it open: `cuenv.lockfile.left_open`."""

from __future__ import annotations

from cases import collect
from cuenv.core.findings import Finding, report
from cuenv.lockfile.left_open import needs_other_python, open_pythons, with_python
from given import base, spec

ALL = ("3.12", "3.11", "3.10", "3.9", "3.8", "3.7", "3.6", "3.13", "3.14")


@collect(
    ("pins", "lines", "tried"),
    [
        (("python",), ("einops",), ALL),
        ((), ("einops",), ALL),
        (("python>=3.9,<3.12",), ("einops",), ("3.11", "3.10", "3.9")),
        (("python=3",), ("einops",), ALL),
        (("python",), ("torch==1.9.1+cu111",), ("3.9", "3.8", "3.7", "3.6")),
        (("python>=3.8",), ("torch==2.4.0",), ("3.12", "3.11", "3.10", "3.9", "3.8")),
        (("python=3.10",), ("torch==2.4.0",), ()),
        (("python==3.10.4",), ("torch==2.4.0",), ()),
        (("python>=3.10,<3.11",), ("torch==2.4.0",), ()),
        (("python",), (), ()),
    ],
)
def test_the_pythons_that_a_file_leaves_open(
    pins: tuple[str, ...], lines: tuple[str, ...], tried: tuple[str, ...]
) -> None:
    assert open_pythons(spec(*pins, "pip", pip=lines), base()) == tried


@collect(
    ("pins", "written"),
    [
        ((), ["pip", "python=3.11"]),
        (("python",), ["python=3.11", "pip"]),
        (("python=3",), ["python=3.11", "pip"]),
        (("python>=3.9.2,<3.12",), ["python>=3.9.2,<3.12,3.11.*", "pip"]),
    ],
)
def test_one_of_them_is_named_beside_what_the_file_says(pins: tuple[str, ...], written: list[str]) -> None:
    made = with_python(spec(*pins, "pip", pip=("einops",)), "3.11")
    assert [pin.yaml_text() for pin in made.pins] == written


@collect(
    ("code", "message", "wants"),
    [
        ("CU510", "Because a==1 has no wheels with a matching Python ABI tag (e.g., `cp314`) and you", True),
        ("CU510", "Because the requested Python version (>=3.14) does not satisfy Python>=3.6,<3.10", True),
        ("CU110", "pip: torch==1.9.1 has wheels for Python 3.6, 3.7, but the file requests Python 3.12", True),
        ("CU510", "Because pandas==1.5.2 depends on numpy>=1.21.0 and you require numpy==1.20.3", False),
        ("CU401", "CUDA 13.x needs driver 580.65.06 or later", False),
    ],
)
def test_another_python_helps_only_where_a_package_is_for_others(code: str, message: str, wants: bool) -> None:
    found = report("x", [Finding(code=code, severity="error", subject="a", message=message)])
    assert needs_other_python(found) == wants
