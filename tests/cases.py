"""Many cases as one test: all of them are tried, and every failure is reported at once."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

_SHOWN = 30
"""That many failures are shown; of the others only the number."""


def collect(
    names: str | tuple[str, ...], values: Iterable[Any], ids: Callable[[Any], str] = repr, *, one_in: int = 1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test that tries all cases and names each that fails.

    For tables of cheap cases: pytest spends more on a test of its own than such a case takes. Each case gets its own
    `tmp_path` and `monkeypatch`; other fixtures are shared by all cases.

    Args:
        names: the arguments that differ, as for `parametrize`.
        values: one value, or one tuple of values, for each case; `pytest.param` is not understood.
        ids: how a value is named in the report.
        one_in: a test with every so many-th case, which is quick, and one with all of them, which is marked ``slow``.
    """
    arguments = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    cases = [(value,) if len(arguments) == 1 and isinstance(names, str) else tuple(value) for value in values]
    assert cases, f"there is no case of {names}"
    assert all(len(case) == len(arguments) for case in cases), f"a case has not {len(arguments)} values"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test, eval_str=False)

        @wraps(test)
        def every(**fixtures: Any) -> None:
            failures: list[tuple[str, BaseException]] = []
            skipped: list[str] = []
            chosen = cases[:: fixtures.pop("one_in", 1)]
            for number, case in enumerate(chosen):
                with pytest.MonkeyPatch.context() as patch:
                    try:
                        test(**_own(fixtures, number, patch), **dict(zip(arguments, case, strict=True)))
                    except pytest.skip.Exception as error:
                        skipped.append(str(error))
                    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the next case is tried anyway
                        failures.append(("-".join(ids(value) for value in case), error))
            if failures:
                shown = "\n".join(_report(name, error) for name, error in failures[:_SHOWN])
                more = f"\n... and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
                message = f"{len(failures)} of {len(chosen)} cases failed\n{shown}{more}"
                raise AssertionError(message) from failures[0][1]
            if skipped:
                pytest.skip(f"{len(skipped)} of {len(chosen)} cases: {skipped[0]}")

        kept = [item for name, item in signature.parameters.items() if name not in arguments]
        own = [inspect.Parameter("one_in", inspect.Parameter.KEYWORD_ONLY)] if one_in > 1 else []
        every.__signature__ = signature.replace(parameters=[*kept, *own])  # type: ignore[attr-defined]  # what pytest asks for
        return pytest.mark.parametrize("one_in", quick_and_slow(one_in, 1))(every) if own else every

    return decorate


def quick(values: Iterable[Any], *names: Any, first: int = 0) -> list[Any]:
    """The values for `pytest.mark.parametrize`, all ``slow`` but the first few and those that are named."""
    every = list(values)
    return [
        value if number < first or value in names else pytest.param(*_each(value), marks=pytest.mark.slow)
        for number, value in enumerate(every)
    ]


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def quick_and_slow(quick: int, slow: int) -> list[Any]:
    """Two values for `pytest.mark.parametrize`, the second marked ``slow``: how far a loop over cases goes."""
    return [quick, pytest.param(slow, marks=pytest.mark.slow)]


def _own(fixtures: dict[str, Any], number: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fixtures for one case: a folder and patches that no other case sees."""
    own = dict(fixtures)
    if "tmp_path" in own:
        folder: Path = own["tmp_path"] / str(number)
        folder.mkdir()
        own["tmp_path"] = folder
    if "monkeypatch" in own:
        own["monkeypatch"] = patch
    return own


def _report(name: str, error: BaseException) -> str:
    """One failure: the case, the line of the test and what was wrong there."""
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame for frame in frames if Path(frame.filename).name.startswith("test_")), frames[-1])
    text = "\n    ".join(f"{type(error).__name__}: {error}".splitlines()[:12])
    return f"- {name} (line {line.lineno}: {line.line})\n    {text}"
