"""A question that is asked while the caller works."""

from __future__ import annotations

import threading
from threading import Barrier, Event

import pytest

from cuenv.core.io.exclusive import run_beside

_SECONDS = 30


def fail(message: str) -> None:
    raise ValueError(message)


def left() -> list[threading.Thread]:
    """The threads of questions, after each had time to end."""
    threads = [item for item in threading.enumerate() if item.name.startswith("cuenv-ask")]
    for item in threads:
        item.join(_SECONDS)
    return [item for item in threads if item.is_alive()]


def test_the_question_is_asked_while_the_caller_works() -> None:
    both = Barrier(2, timeout=_SECONDS)

    def met() -> threading.Thread:
        both.wait()
        return threading.current_thread()

    asker, worker = run_beside(met, met)
    assert worker is threading.current_thread()
    assert asker is not worker
    assert not left()


@pytest.mark.parametrize("first", ["the question", "the work"])
def test_the_answer_comes_before_the_work_whatever_ends_first(first: str) -> None:
    done = Event()

    def early(value: str) -> str:
        done.set()
        return value

    def late(value: str) -> str:
        assert done.wait(_SECONDS)
        return value

    ask, work = (early, late) if first == "the question" else (late, early)
    assert run_beside(lambda: ask("answer"), lambda: work("work")) == ("answer", "work")


def test_an_error_of_the_question_is_raised_once_the_work_is_done() -> None:
    worked = Event()
    with pytest.raises(ValueError, match="no answer"):
        run_beside(lambda: fail("no answer"), worked.set)
    assert worked.is_set()
    assert not left()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_of_the_work_does_not_wait_for_the_answer(error: type[BaseException]) -> None:
    answer, asked = Event(), Event()

    def ask() -> bool:
        asked.set()
        return answer.wait(_SECONDS)

    def work() -> None:
        assert asked.wait(_SECONDS)
        raise error

    try:
        with pytest.raises(error):
            run_beside(ask, work)
        assert any(item.name.startswith("cuenv-ask") for item in threading.enumerate())
    finally:
        answer.set()
    assert not left()
