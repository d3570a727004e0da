"""Typed commands in any order, some killed or frozen: what `status` advises leads on, and each event is there once."""

import logging
import os
import shutil
from pathlib import Path
from random import Random
from typing import Final

import pytest

from support.histories.typed_draws import TypedDraws
from support.histories.typed_moments import TypedProgram
from support.histories.typed_stream import TypedStream
from support.histories.typed_user import TypedUser
from support.releases.environments import REFACTORING, release_with

SEED_VARIABLE: Final = "ORDER_OF_TYPED_SEED"
"""A seed to draw the same commands again. A test run prints it."""


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_typed_in_any_order(tmp_path: Path) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or Random().randrange(10**6))
    log = logging.getLogger(__name__)
    log.warning("%s=%d", SEED_VARIABLE, seed)
    stream = TypedStream.at(tmp_path)
    shutil.copytree(stream.stage.streams, tmp_path / "first")
    (tmp_path / "logs").mkdir()
    program = TypedProgram(stream.stage.home, stream.stage.streams, tmp_path / "logs")
    user = TypedUser(program, stream, Random(seed))
    other = release_with(REFACTORING, tmp_path / "other")
    draws = TypedDraws(user, (program.jobs, other / "jobs"))
    stream.bring(2)
    try:
        user.type("run", "clicks", "--until", "caught-up")
        for number in range(int(os.environ.get("ORDER_OF_TYPED_ROUNDS") or 25)):
            log.warning("round %d: %s", number, draws.one())
            user.follow_operation()
            user.require_settled()
        draws.finish()
        draws.require_erased()
        stream.require_exact()
    finally:
        user.kill_driver()
        user.answers.log()
        log.warning("advised: %s", dict(user.advised))
