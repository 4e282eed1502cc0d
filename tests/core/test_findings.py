"""A fix is a text that keeps its parts: `cuenv.core.findings`."""

from __future__ import annotations

import json
import pickle  # the public API gives findings to programs that send them to other processes

from cuenv.core.findings import DriverFix, LockFix, PipFix, WheelFix

INDEX = "https://download.pytorch.org/whl/cu126"


def test_a_fix_is_its_text_and_keeps_its_parts() -> None:
    wheel = WheelFix.of(("torch==2.7.1+cu126",), url=INDEX, note=" (the last)", driver="driver 570 or later")
    assert (
        wheel
        == f"install driver 570 or later, or with pip: torch==2.7.1+cu126 (the last) from --extra-index-url {INDEX}"
    )
    assert wheel.worded("uv add torch") == "install driver 570 or later, or uv add torch"
    with_vision = wheel.but(requirements=("torch==2.7.1+cu126", "torchvision"), without=", without triton")
    assert with_vision.endswith(
        f"torch==2.7.1+cu126 torchvision (the last) from --extra-index-url {INDEX}, without triton"
    )
    assert (with_vision.driver, with_vision.url) == ("driver 570 or later", INDEX)
    assert DriverFix.of("driver 570 or later") == "install driver 570 or later"
    assert PipFix.of("vllm>=0.8", "xformers") == "with pip: vllm>=0.8 xformers"
    assert LockFix.of() == "cuenv lock"
    assert LockFix.of("--gpu", "RTX 4090", before="X=1 ") == "X=1 cuenv lock --gpu 'RTX 4090'"


def test_a_fix_survives_another_process_and_json() -> None:
    for fix in (
        DriverFix.of("driver 570 or later"),
        LockFix.of("--platform", "linux-64"),
        PipFix.of("vllm>=0.8"),
        WheelFix.of(("torch==2.7.1+cu126",), url=INDEX),
    ):
        back = pickle.loads(pickle.dumps(fix))
        assert back == fix
        assert type(back) is type(fix)
        assert all(getattr(back, part) == getattr(fix, part) for part in type(fix).__slots__)
        assert json.loads(json.dumps(fix)) == str(fix)
