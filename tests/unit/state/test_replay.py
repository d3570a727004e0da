"""What is read again after a restore, by kind of source, and what of it is gone."""

from sessionizer.state.restores.ranges import Replay, replay_of_delta, replay_of_files, replay_of_topic
from support.fixtures.reviewed import Reviewed


def test_files_that_were_read_since_come_again(reviewed: Reviewed) -> None:
    then, now = ["a", "b"], ["a", "b", "c", "d"]
    replay = replay_of_files(then, now, lambda uri: uri != "a")  # what was read before is not missed
    reviewed(replay)


def test_a_file_that_was_read_since_and_removed_is_missed() -> None:
    assert replay_of_files([], ["c", "d"], lambda uri: uri == "c").missing == ("d",)


def test_versions_of_a_delta_table_that_its_log_has_lost_are_missed(reviewed: Reviewed) -> None:
    offset = {"sourceVersion": 1, "reservoirId": "x", "reservoirVersion": 7, "index": -1, "isStartingVersion": False}
    reviewed(replay_of_delta(offset, {7, 8, 9}))
    assert replay_of_delta(offset, {9, 10}).missing == ("version 7", "version 8")
    reviewed(replay_of_delta(offset, {5, 6}))
    reviewed(replay_of_delta(None, {3}))


def test_of_a_topic_only_the_position_is_told(reviewed: Reviewed) -> None:
    assert replay_of_topic({"clicks": {"0": 100}}) == Replay('Kafka from {"clicks": {"0": 100}} on')
    reviewed(replay_of_topic(None))
