"""Acts of another user while a command stands still, and between its kill and the command that resumes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from support.histories.typed_moments import is_approved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.histories.typed_user import TypedUser

NAME: Final = "clicks"
SHORT_WAIT: Final = ("--wait", "5")
"""A frozen command or driver does not end when it is asked to."""
OTHERS: Final = (
    ("rollback", NAME),
    ("rescale", NAME, "--key-groups", "3"),
    ("apply", NAME, "--new-lineage"),
    ("upgrade", NAME, "--new-lineage"),
    ("seed", NAME, "--history", "source", "--backfill", "--start-over"),
)


def act_while_frozen(user: TypedUser, words: Sequence[str]) -> None:
    """Type another command while that of ``words`` stands still. It is refused, or does all of its work."""
    elsewhere = user.chance.random() < 0.4  # there the lease is taken over once its owner has been silent for long
    match user.chance.randrange(6):
        case 0 | 1:
            user.ask(*words, *SHORT_WAIT, elsewhere=elsewhere)
        case 2:
            user.ask("run", NAME, "--until", "caught-up", elsewhere=elsewhere)
        case 3:
            user.ask("abandon", NAME, elsewhere=elsewhere)
        case 4:
            user.ask("stop", NAME, *SHORT_WAIT)
        case _:
            approve_other(user)


def act_after_kill(user: TypedUser) -> None:
    """Do something that a user may do before the killed command is resumed, or nothing."""
    match user.chance.randrange(8):
        case 0 | 1:
            edit_rules(user)
        case 2:
            user.ask("run", NAME, "--until", "caught-up")
        case 3:
            approve_other(user)
        case 4:
            user.ask("stop", NAME, *SHORT_WAIT)
        case 5:
            user.stream.bring(1)
        case _:
            pass


def approve_other(user: TypedUser) -> None:
    """Type another command that changes the state, and approve its plan if it has one."""
    words = user.chance.choice(OTHERS)
    digest = user.digest_of(user.ask(*words, "--json"))
    if digest is not None:
        user.ask(*words, "--approve", digest, *SHORT_WAIT)


def edit_rules(user: TypedUser) -> None:
    """Write the file with another gap timeout, in the folder that the stream reads."""
    stream = user.stream
    gap = user.chance.choice(["40 seconds", "50 seconds", "60 seconds"])
    stream.edit(rules={**stream.document["rules"], "gap_timeout": gap})


def freeze_driver_for(user: TypedUser, words: Sequence[str]) -> tuple[str, ...]:
    """Freeze a running driver before an approved command at times. Returns the words of the command."""
    if user.driver is None or not is_approved(words) or user.chance.random() < 0.7:
        return tuple(words)
    user.driver.freeze()
    return (*words, *SHORT_WAIT)
