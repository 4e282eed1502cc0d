"""Data classes and named tuples like those of the standard library, defined in a tenth and a third of the time.

The standard library generates and compiles source code for each data class, which took a third of a quick command's
time. Here all classes share the same methods. Type checkers see the names of the standard library and check every
use. Differences: ``slots`` has no effect at run time, and ``order`` and ``InitVar`` do not exist: no class uses them.
`typing.NamedTuple` compiles every annotation, although nothing reads them at run time.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["NamedTuple", "asdict", "dataclass", "field", "replace"]

Class = TypeVar("Class", bound=type)

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _NamedTupleMaker(type):
        """Makes a named tuple of what the body of a class declares."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            kinds = body.pop("__annotations__", {})
            defaults = [body.pop(each) for each in kinds if each in body]
            made = namedtuple(name, kinds, defaults=defaults, module=body.pop("__module__"))  # noqa: PYI024 - as above
            made.__annotations__ = kinds
            for key, value in body.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_NamedTupleMaker):
        """The base of a named tuple: its fields are annotated, those with a default last."""


MISSING: Any = object()  # the default of a field that has none


class Field:
    """How a field differs from its annotation: see the library's ``field``."""

    default: Any = MISSING
    default_factory: Any = MISSING
    repr: bool = True
    compare: bool = True

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class _Shape(NamedTuple):
    """The fields of a class."""

    template: Mapping[str, Any]  # every field in order, with its default, or `MISSING`
    positional: tuple[str, ...]  # the fields that need no name
    needed: frozenset[str]  # those without a default
    factories: tuple[tuple[str, Callable[[], Any]], ...]  # what makes a default for each object
    key: Callable[[Any], Any]  # the values that are compared
    shown: tuple[str, ...]  # the fields in its text
    declared: Mapping[str, tuple[Any, Any]]  # type and default as declared, for who asks the library about the class


def _shape(cls: type, *, kw_only: bool) -> _Shape:
    base: _Shape | None = getattr(cls, "__shape__", None)
    own = {
        name: (kind, cls.__dict__.get(name, MISSING))
        for name, kind in cls.__annotations__.items()
        if not str(kind).startswith("ClassVar")
    }
    declared = {**base.declared, **own} if base else own
    template, factories, shown, compared = {}, [], [], []
    for name, (_, default) in declared.items():
        special = default if isinstance(default, Field) else None
        template[name] = special.default if special else default
        if special and special.default_factory is not MISSING:
            factories.append((name, special.default_factory))
        if not special or special.repr:
            shown.append(name)
        if not special or special.compare:
            compared.append(name)
    made = {name for name, _ in factories}
    return _Shape(
        template=template,
        positional=(*(base.positional if base else ()), *(() if kw_only else own)),
        needed=frozenset(name for name, value in template.items() if value is MISSING and name not in made),
        factories=tuple(factories),
        key=attrgetter(*compared) if compared else type,
        shown=tuple(shown),
        declared=declared,
    )


def _init(self: Any, *args: Any, **values: Any) -> None:
    shape: _Shape = self.__shape__
    if args:
        names = shape.positional[: len(args)]
        if len(names) != len(args) or not values.keys().isdisjoint(names):
            raise TypeError(f"{type(self).__name__} takes {len(shape.positional)} values without a name, each once")
        values.update(zip(names, args, strict=True))
    whole = {**shape.template, **values}
    if len(whole) != len(shape.template) or not shape.needed <= values.keys():
        wrong = sorted(shape.needed - values.keys()) or sorted(values.keys() - shape.template.keys())
        raise TypeError(f"{type(self).__name__} lacks, or does not have, the fields {', '.join(wrong)}")
    for name, make in shape.factories:
        if name not in values:
            whole[name] = make()
    object.__setattr__(self, "__dict__", whole)


def _init_then_more(self: Any, *args: Any, **values: Any) -> None:
    _init(self, *args, **values)
    self.__post_init__()


def _eq(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    key = self.__shape__.key
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(self.__shape__.key(self))


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__shape__.shown)})"


def _setattr(_: Any, name: str, value: Any) -> None:  # noqa: ARG001 - as Python calls it
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - the library costs 1 ms, and nobody tries

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - as above

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _as_in_library(default: Any) -> Any:
    """A default as the library declares it."""
    from dataclasses import field as made  # noqa: PLC0415 - seldom asked

    if not isinstance(default, Field):
        return default
    return made(**vars(default))


class _LibraryFields:
    """``__dataclass_fields__``, by which the library knows its classes: made when it is asked for."""

    def __get__(self, _: object, owner: Any) -> Mapping[str, Any]:
        from dataclasses import make_dataclass  # noqa: PLC0415 - seldom asked

        declared = owner.__shape__.declared.items()
        made: Any = make_dataclass(
            owner.__name__,
            [
                (name, kind) if default is MISSING else (name, kind, _as_in_library(default))
                for name, (kind, default) in declared
            ],
            kw_only=True,
        )
        found: Mapping[str, Any] = made.__dataclass_fields__
        owner.__dataclass_fields__ = found
        return found


_library_fields = _LibraryFields()
if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, replace
else:
    field = Field

    def dataclass(
        *,
        frozen: bool = False,
        eq: bool = True,
        kw_only: bool = False,
        slots: bool = True,  # noqa: ARG001 - see the module docstring
    ) -> Callable[[Class], Class]:
        """Make a class of annotated fields, as the library's ``dataclass`` does."""

        def made(cls: Class) -> Class:
            shape = _shape(cls, kw_only=kw_only)
            methods: dict[str, Any] = {
                "__init__": _init_then_more if hasattr(cls, "__post_init__") else _init,
                "__repr__": _repr,
                "__match_args__": shape.positional,
                "__dataclass_fields__": _library_fields,
            }
            if eq:
                methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
            if frozen:
                methods |= {"__setattr__": _setattr, "__delattr__": _delattr}
            for name, method in methods.items():
                if cls.__dict__.get(name) is None:
                    setattr(cls, name, method)
            cls.__shape__ = shape
            for name, (_, default) in shape.declared.items():
                if isinstance(default, Field) and name in cls.__dict__:
                    delattr(cls, name)
            return cls

        return made

    def replace(item: Any, /, **changes: Any) -> Any:
        """The same with other values, as the library's ``replace`` makes it."""
        if not hasattr(item, "__shape__"):  # one of the library's own
            from dataclasses import replace as of_library  # noqa: PLC0415 - seldom needed

            return of_library(item, **changes)
        values = {name: getattr(item, name) for name in item.__shape__.template if name not in changes}
        return type(item)(**values, **changes)

    def asdict(item: Any) -> dict[str, Any]:
        """The fields by name, as the library's ``asdict`` gives them."""
        from dataclasses import asdict as of_library  # noqa: PLC0415 - most runs write no host

        return of_library(item)
