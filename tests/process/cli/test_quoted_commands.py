"""Commands in messages, pasted into a shell: whatever an event has for a key or an id, nothing else is run."""

from __future__ import annotations

import subprocess

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessionizer.home.names import quoted_command

PROGRAM = "sessionizer() {{ printf '%s\\0' \"$@\"; }}; {}"


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), max_size=30))
@example("x; touch /tmp/pasted #")
@example("`touch /tmp/pasted`")
@example("$(touch /tmp/pasted)'\"")
@example("--open")
def test_a_pasted_command_has_the_words_that_it_was_made_of(value: str) -> None:
    text = quoted_command("find", "clicks", f"--event={value}")
    command = text.split("`")
    assert len(command) == 3, "a page shows what is between two backticks as a command"
    done = subprocess.run(["sh", "-c", PROGRAM.format(command[1])], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == ["find", "clicks", f"--event={value}"]
