"""What goes to a child and what comes back."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tasks.programs.sandbox.protocol import pack_program, unpack_program
from tasks.programs.sandbox.run_program import ending_json, error_ending, value_ending
from tasks.programs.sandbox.sandbox import _validate


@given(st.text(), st.text(st.characters()), st.binary(), st.booleans())
def test_a_program_arrives_as_it_was_sent(code: str, question: str, replies: bytes, is_proved: bool) -> None:
    assert unpack_program(pack_program(code, question, replies, is_proved)) == (code, question, replies, is_proved)


def test_a_question_may_hold_half_a_character() -> None:
    assert unpack_program(pack_program("", "\ud800 5")) == ("", "\ud800 5", b"", False)


@given(st.integers() | st.floats() | st.text(st.characters(), max_size=50) | st.booleans() | st.none())
def test_an_ending_is_the_json_of_the_library_and_passes_the_host(value: object) -> None:
    for ending in (value_ending(value), error_ending(ValueError(value)), ("memory", None, "MemoryError")):
        written = ending_json(ending)
        assert written == json.dumps(ending).encode()
        result = _validate(json.loads(written))
        assert (result.status, result.value, result.error) == ending
