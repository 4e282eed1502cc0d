"""The data classes of cuenv against those of Python's own library, which stay the measure of what they do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import typing
from dataclasses import FrozenInstanceError
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cases import collect
from cuenv.core import record
from cuenv.core.versions import version
from cuenv.host.facts import Libc


def _classes(dataclass: Any, field: Any) -> tuple[type[Any], ...]:
    """The same classes, made by the one or the other."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        kind: ClassVar[str] = "named"
        one: int
        two: str = "b"
        secret: str = field(default="s", repr=False)
        aside: dict[str, int] = field(default_factory=dict, compare=False)

    @dataclass(frozen=True, slots=True)
    class Placed:
        one: int
        two: tuple[int, ...] = ()

    @dataclass(frozen=True, kw_only=True)
    class Longer(Placed):
        three: int = 3

        @cached_property
        def double(self) -> int:
            return self.three * 2

    @dataclass(slots=True)
    class Loose:
        one: int
        many: list[int] = field(default_factory=list)

    @dataclass(frozen=True, slots=True, eq=False)
    class Itself:
        one: int = 1

    @dataclass(frozen=True)
    class Checked:
        one: int

        def __post_init__(self) -> None:
            if self.one < 0:
                raise ValueError("below 0")

    @dataclass(frozen=True)
    class Empty:
        pass

    return Named, Placed, Longer, Loose, Itself, Checked, Empty


OURS = _classes(record.dataclass, record.field)
THEIRS = _classes(dataclasses.dataclass, dataclasses.field)
NAMES = [made.__name__ for made in OURS]

VALUES: dict[str, tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]] = {
    "Named": (
        ((), {"one": 1}),
        ((), {"one": 1, "aside": {"x": 1}}),
        ((), {"two": "c", "one": 1}),
        ((), {"one": 1, "secret": "t"}),
        ((), {"one": 2}),
        ((), {}),
        ((1,), {}),
        ((), {"one": 1, "none": 2}),
    ),
    "Placed": (((1,), {}), ((1, (2,)), {}), ((), {"two": (2,), "one": 1}), ((1,), {"one": 1}), ((1, (), 3), {})),
    "Longer": (((1,), {}), ((1, (2,)), {"three": 4}), ((1, (2,), 3), {}), ((), {"one": 1, "three": 3})),
    "Loose": (((1,), {}), ((1, [2]), {}), ((), {"one": 1}), ((), {})),
    "Itself": (((), {}), ((2,), {}), ((), {"two": 2})),
    "Checked": (((1,), {}), ((-1,), {}), ((), {})),
    "Empty": (((), {}), ((1,), {})),
}


def _made(kind: type[Any], args: tuple[Any, ...], values: dict[str, Any]) -> Any:
    """The object, or the kind of error."""
    try:
        return kind(*args, **values)
    except (TypeError, ValueError) as error:
        return type(error)


@collect(("ours", "theirs"), list(zip(OURS, THEIRS, strict=True)))
def test_objects_are_made_shown_compared_and_hashed_as_by_the_library(ours: type[Any], theirs: type[Any]) -> None:
    mine, told = ([_made(kind, *asked) for asked in VALUES[ours.__name__]] for kind in (ours, theirs))
    good = [index for index, item in enumerate(told) if not isinstance(item, type)]
    assert [item for item in mine if isinstance(item, type)] == [item for item in told if isinstance(item, type)]
    assert good == [index for index, item in enumerate(mine) if not isinstance(item, type)]
    assert [repr(mine[index]).partition("(")[2] for index in good] == [
        repr(told[index]).partition("(")[2] for index in good
    ]
    hashed = bool(getattr(theirs, "__hash__", None))
    for left in good:
        assert mine[left] != told[left]
        for right in good:
            assert (mine[left] == mine[right]) is (told[left] == told[right])
            if hashed and mine[left] == mine[right]:
                assert hash(mine[left]) == hash(mine[right])
    assert bool(getattr(ours, "__hash__", None)) is hashed
    assert ours.__match_args__ == theirs.__match_args__


@collect(("ours", "theirs"), list(zip(OURS, THEIRS, strict=True)))
def test_the_library_knows_the_classes(ours: type[Any], theirs: type[Any]) -> None:
    mine, told = (
        [(item.name, item.repr, item.compare) for item in dataclasses.fields(kind)] for kind in (ours, theirs)
    )
    assert mine == told
    for args, values in VALUES[ours.__name__]:
        made, whole = _made(ours, args, values), _made(theirs, args, values)
        if not isinstance(made, type):
            assert dataclasses.asdict(made) == dataclasses.asdict(whole)
            again = dataclasses.replace(made)
            assert vars(again) == vars(record.replace(made)) == vars(copy.copy(made)) == vars(made)


class _Ours(record.NamedTuple):
    """A pair."""

    one: int
    two: tuple[int, ...] = ()

    @property
    def many(self) -> int:
        """How many there are."""
        return len(self.two)


class _Theirs(typing.NamedTuple):
    """A pair."""

    one: int
    two: tuple[int, ...] = ()


def test_named_tuples_are_those_of_the_library() -> None:
    for args, values in VALUES["Placed"]:
        mine, told = _made(_Ours, args, values), _made(_Theirs, args, values)
        assert mine == told
        assert repr(mine).removeprefix("_Ours") == repr(told).removeprefix("_Theirs")
    made = _Ours(1, two=(2, 3))
    assert (made.many, made._replace(one=4), made._asdict()) == (2, (4, (2, 3)), {"one": 1, "two": (2, 3)})
    assert pickle.loads(pickle.dumps(made)) == made == copy.copy(made)
    for name in ("_fields", "_field_defaults", "__annotations__", "__doc__", "__module__", "__match_args__"):
        assert list(getattr(_Ours, name)) == list(getattr(_Theirs, name)), name
    assert not hasattr(made, "__dict__")


def test_every_class_of_cuenv_is_made_so() -> None:
    own = Path(record.__file__)
    sources = [path for path in own.parents[1].rglob("*.py") if path != own]
    assert sources
    theirs = re.compile(r"from dataclasses import dataclass|from typing import .*NamedTuple|typing\.NamedTuple\)")
    assert [path.name for path in sources if theirs.search(path.read_text())] == []


def test_what_is_frozen_does_not_change() -> None:
    longer, loose = OURS[2](1), OURS[3](1)
    assert longer.double == 6  # a cached value is no field
    assert longer == OURS[2](1)
    assert record.replace(longer, three=4).double == 8
    with pytest.raises(FrozenInstanceError, match="three"):
        longer.three = 4
    with pytest.raises(FrozenInstanceError, match="three"):
        del longer.three
    loose.one = 2
    assert loose.many is not OURS[3](1).many
    assert loose == OURS[3](2)


def test_what_the_library_made_is_replaced_as_well() -> None:
    assert record.replace(THEIRS[1](1), one=2) == THEIRS[1](2)
    with pytest.raises(TypeError, match="none"):
        record.replace(OURS[1](1), none=2)


def test_a_copy_through_pickle_is_equal() -> None:
    libc = Libc(family="musl", version=version("1.2.5"))
    assert pickle.loads(pickle.dumps(libc)) == libc
