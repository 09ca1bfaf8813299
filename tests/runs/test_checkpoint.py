import pickle
from pathlib import Path

import pytest
import torch

from tracoco.errors import UserError
from tracoco.files import content_hash
from tracoco.runs.folder import load_checkpoint, load_with_digest, save_checkpoint


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"step": 3, "weights": torch.arange(4.0), "config": {"a": [1, "b"]}})
    loaded = load_checkpoint(path)
    assert loaded["step"] == 3
    assert loaded["config"] == {"a": [1, "b"]}
    assert torch.equal(loaded["weights"], torch.arange(4.0))
    assert [file.name for file in tmp_path.iterdir()] == ["last.pt"]


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_file_cut_short_is_named(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"weights": torch.arange(100.0)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"last\.pt is damaged"):
        load_checkpoint(path)


def test_every_flipped_bit_is_told(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"step": 3, "weights": torch.arange(20.0)})
    content, told = path.read_bytes(), 0
    places = range(0, 8 * len(content), 41)
    for place in places:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(UserError, match=r"last\.pt is damaged"):
            load_checkpoint(path)
        told += 1
    assert told == len(places) > 300


def test_a_checkpoint_of_an_earlier_version_has_no_digest_and_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    torch.save({"step": 3}, path)
    assert load_checkpoint(path) == {"step": 3}


def test_torch_reads_a_checkpoint_with_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"step": 3})
    assert torch.load(path, weights_only=True) == {"step": 3}
    assert load_with_digest(path) == ({"step": 3}, content_hash(path))


def test_nothing_in_a_checkpoint_is_executed(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.mkdir, (str(tmp_path / "harm"),))

    path = tmp_path / "last.pt"
    path.write_bytes(pickle.dumps(Harm(), protocol=2))
    with pytest.raises(UserError, match="not a checkpoint"):
        load_checkpoint(path)
    torch.save({"weights": Harm()}, path)
    with pytest.raises(UserError, match="not a checkpoint"):
        load_checkpoint(path)
    assert not (tmp_path / "harm").exists()


def test_a_missing_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"best\.pt does not exist"):
        load_checkpoint(tmp_path / "best.pt")


def test_a_full_disk_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"step": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match=r"last\.pt: no space left on the disk"):
        save_checkpoint(path, {"step": 2})
    assert load_checkpoint(path)["step"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["last.pt"]
