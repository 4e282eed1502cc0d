"""The Python of a file that leaves it open: `cuenv.lockfile.left_open`."""

from __future__ import annotations

from cases import collect
from cuenv.core.findings import Finding, report
from cuenv.core.versions import parse_version_spec
from cuenv.lockfile.left_open import needs_other_python, open_pythons, with_python
from cuenv.lockfile.pip_findings import conflict_finding
from cuenv.resolver.asked_torch import torch_asked
from cuenv.resolver.torch_findings import python_findings
from cuenv.solve.pip_part import PipConflict
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
    ("text", "wants"),
    [
        ("Because a==1 has no wheels with a matching Python ABI tag (e.g., `cp314`) and you", True),
        ("Because the requested Python version (>=3.14) does not satisfy Python>=3.6,<3.10", True),
        ("Because pandas==1.5.2 depends on numpy>=1.21.0 and you require numpy==1.20.3", False),
    ],
)
def test_another_python_helps_only_where_a_package_is_for_others(text: str, wants: bool) -> None:
    whole, later = PipConflict(text=text), PipConflict(text="Because a==1 depends on b==2", then=(text,))
    found = [report("x", [conflict_finding(item)]) for item in (whole, later)]
    assert [needs_other_python(item) for item in found] == [wants, wants]


def test_another_python_helps_where_torch_has_no_wheel_for_this_one() -> None:
    asked = torch_asked(("torch==1.9.1",))
    assert asked is not None
    found = python_findings(asked, parse_version_spec("3.12", what="python"), "linux-64", base())
    assert needs_other_python(report("x", found))
    assert not needs_other_python(report("x", [Finding(code="CU401", severity="error", subject="a", message="driver")]))
