"""Text for the terminal."""

import pytest

from tasks.core.terminal import print_warning


def test_a_warning_is_one_line_without_control_characters_or_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    print_warning(ValueError("a\x1b]0;title\x07\nof https://user:hunter2-4711@host/x"))
    assert capsys.readouterr().err == "warning: a\\x1b]0;title\\x07 of https://***@host/x\n"
