"""`check_same_device` names every tensor and where it is."""

from __future__ import annotations

from collections import deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from cases import collect
from commands import run
from cuenv.runtime import DeviceMismatch, check_same_device


class Tensor:
    """As much of torch's as the check looks at."""

    requires_grad = False
    device: str | None = None

    def __init__(self, device: str, *shape: int, dtype: str = "torch.float32") -> None:
        self.device, self.shape, self.dtype = device, shape or (2,), dtype


class Scalar(Tensor):
    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.shape = ()


class Model:
    """As much of a module."""

    def __init__(self, **tensors: Tensor) -> None:
        self.tensors = tensors

    def requires_grad_(self) -> None: ...

    def named_parameters(self) -> Any:
        return ((name, item) for name, item in self.tensors.items() if not name.startswith("buffer"))

    def named_buffers(self) -> Any:
        return ((name, item) for name, item in self.tensors.items() if name.startswith("buffer"))


def mismatch(*things: Any, **named: Any) -> DeviceMismatch:
    with pytest.raises(DeviceMismatch) as caught:
        check_same_device(*things, **named)
    return caught.value


def test_the_one_device_is_returned() -> None:
    one = Tensor("cuda:1")
    assert check_same_device(Model(weight=one), [Tensor("cuda:1"), None], batch={"ids": Tensor("cuda:1"), "n": 3}) == (
        "cuda:1"
    )
    assert check_same_device() is None
    assert check_same_device(None, {}) is None


def test_every_tensor_is_named_with_its_device() -> None:
    model = Model(weight=Tensor("cuda:0", 4, 3, dtype="torch.float16"), buffer_mean=Tensor("cuda:0", 4))
    error = mismatch(model, batch={"input_ids": Tensor("cpu", 2, 8, dtype="torch.int64")})
    assert isinstance(error, RuntimeError)
    assert error.groups == {
        "cuda:0": ("Model.weight float16 (4, 3)", "Model.buffer_mean float32 (4)"),
        "cpu": ("batch['input_ids'] int64 (2, 8)",),
    }
    assert str(error).splitlines() == [
        "tensors lie on 2 devices, and one operation needs them on one",
        "  cuda:0: 2 tensors",
        "    Model.weight float16 (4, 3)",
        "    Model.buffer_mean float32 (4)",
        "  cpu: 1 tensor",
        "    batch['input_ids'] int64 (2, 8)",
        "  hint: move what lies on cpu: .to('cuda:0')",
    ]


def test_many_tensors_are_counted() -> None:
    model = Model(**{f"layer{number}": Tensor("cuda:0") for number in range(291)})
    text = str(mismatch(model, Tensor("cuda:1")))
    assert "  cuda:0: 291 tensors" in text
    assert "    ... and 283 more" in text
    assert len(text.splitlines()) == 14


def test_containers_of_every_kind_are_looked_into() -> None:
    @dataclass
    class Batch:
        ids: Tensor
        note: str = ""

    pair = namedtuple("pair", "left right")  # noqa: PYI024 - the plain kind is meant
    packed = namedtuple("packed", "data batch_sizes")  # noqa: PYI024 - as above
    cpu = Tensor("cpu")
    wanted = {
        "argument 2[0][1]": [(Tensor("cuda:0"), cpu)],
        "argument 2.right": pair(Tensor("cuda:0"), cpu),
        "argument 2.ids": Batch(cpu),
        "argument 2['a\\x1b']": {"a\x1b": cpu},
        "argument 2[0]": (item for item in [cpu]),
    }
    for name, thing in wanted.items():
        assert mismatch(Tensor("cuda:0"), thing).groups["cpu"] == (f"{name} float32 (2)",)
    assert check_same_device(packed(Tensor("cuda:0"), cpu)) == "cuda:0"


@collect("kind", [deque, iter, reversed, list, zip, tuple, partial(map, lambda item: item)])
def test_no_container_is_passed_over_in_silence(kind: Callable[[list[Tensor]], Any]) -> None:
    for wrapped in (kind([Tensor("cpu")]), [kind([Tensor("cpu")])]):
        assert list(mismatch(Tensor("cuda:0"), Tensor("cuda:0"), x=wrapped).groups) == ["cuda:0", "cpu"]
    assert check_same_device(kind([Tensor("cpu")])) == "cpu"


def test_a_tensor_without_a_shape_is_no_error() -> None:
    class Lazy(Tensor):
        @property
        def shape(self) -> Any:
            raise RuntimeError("Can't access the shape of an uninitialized parameter or buffer.")

        @shape.setter
        def shape(self, _: Any) -> None: ...

    assert check_same_device(Model(weight=Lazy("cpu"), bias=Lazy("cpu"))) == "cpu"
    assert mismatch(Tensor("cuda:0"), Lazy("cpu")).groups["cpu"] == ("argument 2 float32 (shape unknown)",)


def test_nothing_is_described_before_devices_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[Any] = []

    def describe(tensor: Any) -> str:
        described.append(tensor)
        return ""

    monkeypatch.setattr("cuenv.runtime._described", describe)
    assert check_same_device(Model(**{f"layer{number}": Tensor("cuda:0") for number in range(50)})) == "cuda:0"
    assert described == []
    mismatch(Tensor("cpu"), Tensor("cuda:0"))
    assert len(described) == 2


def test_circles_and_depth_do_no_harm() -> None:
    circle: list[Any] = [Tensor("cpu")]
    circle.append(circle)
    deep: Any = Tensor("cpu")
    for _ in range(20000):
        deep = [deep]
    assert check_same_device(circle, deep) == "cpu"
    shared = Tensor("cpu")
    assert mismatch([shared, shared, shared], Tensor("meta")).groups["cpu"] == ("argument 1[0] float32 (2)",)


def test_a_scalar_on_the_cpu_goes_with_any_device() -> None:
    assert check_same_device(Tensor("cuda:0"), Scalar("cpu")) == "cuda:0"
    assert check_same_device(Scalar("cpu")) == "cpu"
    assert "cuda:1" in mismatch(Tensor("cuda:0"), Scalar("cuda:1")).groups


def test_an_optimizer_is_its_parameters_and_its_state() -> None:
    weight = Tensor("cuda:0")
    state = {weight: {"step": Scalar("cpu"), "exp_avg": Tensor("cpu")}}
    optimizer = SimpleNamespace(param_groups=[{"params": [weight], "lr": 0.1}], state=state)
    assert mismatch(optimizer).groups == {
        "cuda:0": ("argument 1.params[0] float32 (2)",),
        "cpu": ("argument 1.state[0]['exp_avg'] float32 (2)",),
    }


def test_a_partitioned_parameter_counts_for_where_it_is_gathered() -> None:
    def partitioned(status: str, place: str | None) -> Tensor:
        tensor: Any = Tensor("cuda:0", 0)
        tensor.ds_id, tensor.ds_shape, tensor.ds_status = 7, (4096, 4096), SimpleNamespace(name=status)
        tensor.ds_tensor = SimpleNamespace(device="cpu", final_location=SimpleNamespace(value=place) if place else None)
        return tensor  # type: ignore[no-any-return]

    model = Model(a=partitioned("NOT_AVAILABLE", None), b=partitioned("INFLIGHT", None))
    assert check_same_device(model, Tensor("cuda:0")) == "cuda:0"
    model = Model(a=partitioned("NOT_AVAILABLE", None), b=partitioned("NOT_AVAILABLE", "nvme"))
    whole = partitioned("AVAILABLE", None)
    assert mismatch(model, whole, x=Tensor("cpu")).groups["cuda:0"] == (
        "Model.a float32 (4096, 4096), ZeRO-3 partitioned, this rank's part on cpu",
        "Model.b float32 (4096, 4096), ZeRO-3 partitioned, this rank's part on nvme",
        "argument 2 float32 (4096, 4096)",
    )


def test_what_holds_no_data_and_what_is_spread_is_said() -> None:
    assert "argument 2 float32 (2), no data" in (text := str(mismatch(Tensor("cpu"), Tensor("meta"))))
    assert "never loaded" in text
    spread = Model(a=Tensor("cuda:0"), b=Tensor("cuda:1"))
    spread.hf_device_map = {"a": 0, "b": 1}  # type: ignore[attr-defined]
    assert "spread by a device_map" in str(mismatch(spread))
    sharded: Any = Tensor("cuda:0")
    sharded.device_mesh, sharded.placements = SimpleNamespace(device_type="cuda"), ()
    assert "argument 1 float32 (2), DTensor over cuda" in str(mismatch(sharded, Tensor("cpu")))


@collect("thing", ["cuda:0", 3, object(), SimpleNamespace(device="cpu", ndim=2), Tensor, Model])
def test_what_can_hold_no_tensor_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="argument 2 is a"):
        check_same_device(Tensor("cpu"), thing)


def test_importing_it_loads_nothing_heavy(tmp_path: Any) -> None:
    done = run(folder=tmp_path, python=("-c", "import sys, cuenv.runtime; print(*sorted(sys.modules))"))
    assert {name for name in done.stdout.split() if name.startswith("cuenv")} == {
        "cuenv",
        "cuenv.core",
        "cuenv.runtime",
    }
    assert "torch" not in done.stdout.split()
