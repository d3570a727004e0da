"""The folder of a proof is removed with it; the spec of a replay takes no file of the source away."""

from contextlib import nullcontext
from typing import Any

import pytest

from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.proof.replay import Fork, replay_spec, scratch_folder, write_recorded_offsets
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from support.places import opened
from support.streams.stage import clicks_spec

DAY_MS = 24 * 3_600_000


def spec(**source: Any) -> StreamSpec:
    written = clicks_spec()
    written["source"] |= source
    return StreamSpec.model_validate({**written, "name": "clicks"})


def test_a_scratch_folder_is_there_for_one_proof_also_one_that_fails(home: StreamHome) -> None:
    for error in (None, ValueError("no")):
        ends = pytest.raises(ValueError, match="no") if error else nullcontext()
        with ends, scratch_folder(home, mint_id(epoch_ms())) as folder:
            opened(folder / "checkpoint").mkdir()
            assert folder.parent == home.proofs
            if error:
                raise error
        assert list(opened(home.proofs).iterdir()) == []


def test_what_killed_proofs_left_goes_after_a_day(home: StreamHome) -> None:
    now = epoch_ms()
    killed, running = (home.proofs / mint_id(at) for at in (now - DAY_MS - 60_000, now - DAY_MS + 60_000))
    for folder in (killed, running):
        opened(folder / "tables").mkdir(parents=True)
    with scratch_folder(home, mint_id(now)):
        assert not opened(killed).exists()
        assert opened(running).exists()


def test_a_replay_leaves_the_files_of_the_source_and_keeps_the_key_groups_of_the_state() -> None:
    cleaning = {"cleanSource": "archive", "sourceArchiveDir": "/archive", "maxFilesPerTrigger": 1}
    found = replay_spec(spec(options=cleaning), key_groups=4)
    assert document_of(found)["source"]["options"] == {"maxFilesPerTrigger": "1"}
    assert found == replay_spec(spec(options={"CLEANSOURCE": "delete", "maxFilesPerTrigger": 1}), key_groups=4)
    now = StreamSpec.model_validate({**document_of(spec()), "key_groups": 64})
    assert replay_spec(now, key_groups=4) == replay_spec(spec(), key_groups=4)


@pytest.mark.parametrize(("shift", "number"), [(0, "7"), (5, "2")])
def test_a_batch_is_planned_by_its_recorded_offsets(home: StreamHome, shift: int, number: str) -> None:
    fork = Fork(home.root / "fork", home.root / "fork" / "checkpoint", shift)
    opened(write_recorded_offsets(fork.folder)).mkdir(parents=True)
    opened(fork.checkpoint / "offsets").mkdir(parents=True)
    opened(write_recorded_offsets(fork.folder) / "7").write_text("v1\n{}\n-")
    fork.plan_batch(7)
    assert opened(fork.checkpoint / "offsets" / number).read_text() == "v1\n{}\n-"
