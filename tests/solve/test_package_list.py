"""Outputs of ``conda list``, read as the environment that they list."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import collect
from cuenv.core.errors import InputError
from cuenv.lockfile.files import read_environment
from cuenv.solve.environment_yml import render
from cuenv.solve.package_list import listed_environment

EXPORT = """\
# This file may be used to create an environment using:
# $ conda create --name <env> --file <this file>
# platform: linux-64
_libgcc_mutex=0.1=conda_forge
blas=1.0=mkl
pytorch=1.12.1=py3.9_cuda11.3_cudnn8.3.2_0
python=3.9.12=h12debd9_1
Tqdm=4.64.0=pypi_0
mine=0.1=<develop>
"""
TABLE = """\
# packages in environment at /somewhere:
#
# Name                    Version                   Build  Channel
_libgcc_mutex             0.1                        main
pytorch                   1.12.1          py3.9_cuda11.3_cudnn8.3.2_0    pytorch
cuda-cudart               11.7.99                       0    nvidia/label/cuda-11.7.1
numpy                     1.23.1           py39h6c91a56_0    conda-forge
tqdm                      4.64.0                   pypi_0    pypi
"""


def test_an_export_is_the_environment_that_conda_makes_of_it() -> None:
    found = listed_environment(EXPORT)
    assert found is not None
    spec, what = found
    assert what == "conda list --export"
    assert [pin.yaml_text() for pin in spec.pins] == [
        "_libgcc_mutex=0.1=conda_forge",
        "blas=1.0=mkl",
        "pytorch=1.12.1=py3.9_cuda11.3_cudnn8.3.2_0",
        "python=3.9.12=h12debd9_1",
    ]
    assert spec.pip == ("tqdm==4.64.0",)
    assert (spec.channels, spec.platforms) == (("pytorch", "conda-forge"), ("linux-64",))
    assert render(spec)


def test_a_table_names_its_channels_itself() -> None:
    found = listed_environment(TABLE)
    assert found is not None
    spec, what = found
    assert (what, spec.channels) == (
        "conda list",
        ("pytorch", "conda-forge", "nvidia/label/cuda-11.7.1", "defaults"),
    )
    assert spec.pip == ("tqdm==4.64.0",)
    assert len(spec.pins) == 4


@collect(
    "text", ["", "torch==1.2\n", "numpy=1.2\n", "channels: []\n", "# Name Version Build\n", "name: a=b=c\n", "a b c\n"]
)
def test_other_texts_are_none(text: str) -> None:
    assert listed_environment(text) is None


@pytest.mark.parametrize(("text", "said"), [(EXPORT, "conda list --export"), (TABLE, "conda list")])
def test_a_file_that_is_named_as_requirements_is_read_as_what_it_is_with_one_remark(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    spec, (remark,) = read_environment(tmp_path / "requirements.txt")
    assert spec.pin("pytorch")
    assert remark.startswith(f"it is the output of {said}, and is read as an environment file with ")


def test_a_list_that_breaks_off_is_refused_with_what_makes_a_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("numpy=1.23.1=py39_0\nthis is no package\n")
    with pytest.raises(InputError, match="continues like another file") as caught:
        read_environment(file)
    assert caught.value.hint == "conda env export --no-builds > environment.yml"
    file.write_text("torch==1.2\n")
    assert read_environment(file)[0].pip == ("torch==1.2",)
