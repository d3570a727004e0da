"""The draw of the random logs that `make test` streams."""

from __future__ import annotations

from support.streams.drawn_logs import draw

KINDS = ["a"] * 30 + ["b"] * 20 + ["c"]
COMMITS = [f"{number:040x}" for number in range(200)]


def test_each_kind_is_drawn_whatever_the_commit() -> None:
    for commit in COMMITS:
        drawn = draw(KINDS, 16, commit)
        assert len(set(drawn)) == 16
        assert {KINDS[number] for number in drawn} == {"a", "b", "c"}


def test_a_commit_draws_the_same_again_and_many_commits_draw_all() -> None:
    assert draw(KINDS, 16, COMMITS[0]) == draw(KINDS, 16, COMMITS[0])
    assert {number for commit in COMMITS for number in draw(KINDS, 16, commit)} == set(range(len(KINDS)))
