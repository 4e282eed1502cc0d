"""A question that is asked while the caller works."""

from __future__ import annotations

import threading
from threading import Barrier, Event

import pytest

from cuenv.core.io.exclusive import begin

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

    asker = begin(met)
    assert met() is threading.current_thread()
    assert asker() is not threading.current_thread()
    assert not left()


@pytest.mark.parametrize("first", ["the question", "the work"])
def test_the_answer_is_the_same_whatever_ends_first(first: str) -> None:
    worked = Event()
    answer = begin(lambda: "answer" if first == "the question" or worked.wait(_SECONDS) else "too late")
    if first == "the question":
        assert not left()
    worked.set()
    assert answer() == answer() == "answer"


def test_an_error_of_the_question_is_raised_where_its_answer_is_awaited() -> None:
    answer = begin(lambda: fail("no answer"))
    assert not left()
    with pytest.raises(ValueError, match="no answer"):
        answer()


def test_a_caller_that_fails_does_not_wait_for_the_answer() -> None:
    go = Event()

    def caller() -> None:
        begin(lambda: go.wait(_SECONDS))
        raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            caller()
        assert any(item.name.startswith("cuenv-ask") for item in threading.enumerate())
    finally:
        go.set()
    assert not left()
