import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from samples import write_balls
from worker_tasks import die_of_b

from tracoco import files
from tracoco.errors import UserError
from tracoco.lock_file import TEMPORARY
from tracoco.project import cases as sources
from tracoco.project import prepare as prepare_module
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare

Save = Callable[..., Path]


@pytest.fixture
def project(data: Path, tmp_path: Path) -> Project:
    return init_project(data, tmp_path / "project", test=1)


def modified(project: Project) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in project.store_root.iterdir()}


def hide_label_of(project: Project, id_: str) -> None:
    splits = json.loads(project.splits_file.read_text())
    for part in ("labelled", "validation", "test"):
        splits[part] = [other for other in splits[part] if other != id_]
    splits["unlabelled"].append(id_)
    project.splits_file.write_text(json.dumps(splits))


def test_all_cases_are_prepared(project: Project) -> None:
    done: list[str] = []
    assert prepare(project, done.append) == 5
    assert done == ["a", "b", "c", "u", "v"]
    names = {file.name for file in project.store_root.iterdir()}
    assert {name for name in names if name.startswith("a.")} == {
        "a.image.npy",
        "a.label.npy",
        "a.foreground.npy",
        "a.json",
    }
    assert {name for name in names if name.startswith("u.")} == {"u.image.npy", "u.json"}


def test_the_facts_beside_a_case_say_where_it_comes_from(project: Project) -> None:
    prepare(project)
    facts = json.loads((project.store_root / "a.json").read_text())
    assert facts["shape"] == [4, 5, 6]
    assert facts["spacing_mm"] == [1, 1, 1]
    assert facts["scan_shape"] == [4, 5, 6]
    assert facts["box"] == {"start": [0, 0, 0], "size": [4, 5, 6]}
    assert sum(facts["class_voxels"]) == 4 * 5 * 6
    assert facts["plan"] == project.load_plan().hash()
    assert len(facts["sources"]["images"][0]) == 64
    assert len(facts["stamps"]["images"][0]) == 64
    assert any("percentiles 0.5 and 99.5" in step for step in facts["steps"])
    assert json.loads((project.store_root / "u.json").read_text())["class_voxels"] is None


def test_the_facts_say_which_part_of_a_scan_is_stored(
    project: Project, data: Path, save: Save
) -> None:
    image = np.zeros((4, 5, 6), dtype=np.float32)
    image[1:3, :, 2:] = np.random.default_rng(0).uniform(1, 2, (2, 5, 4))
    save(data / "images" / "u.nii.gz", image)
    prepare(project)
    facts = json.loads((project.store_root / "u.json").read_text())
    assert (facts["shape"], facts["scan_shape"]) == ([2, 5, 4], [4, 5, 6])
    assert facts["box"] == {"start": [1, 0, 2], "size": [2, 5, 4]}
    assert any("(1, 0, 2) to before (3, 5, 6) of (4, 5, 6)" in step for step in facts["steps"])


def test_what_is_done_is_not_done_again(project: Project) -> None:
    prepare(project)
    before = modified(project)
    assert prepare(project) == 5
    assert modified(project) == before


def test_only_what_changed_is_done_again(project: Project, data: Path, save: Save) -> None:
    prepare(project)
    before = modified(project)
    (project.store_root / "b.foreground.npy").unlink()
    (project.store_root / "c.json").unlink()
    save(data / "images" / "u.nii.gz", np.arange(120, dtype=np.float32).reshape(4, 5, 6))
    prepare(project)
    after = modified(project)
    assert after.keys() == before.keys()
    assert {name[0] for name in after if after[name] != before[name]} == {"b", "c", "u"}


def test_another_plan_prepares_all_cases_anew(project: Project) -> None:
    prepare(project)
    before = modified(project)
    plan = project.plan_file.read_text()
    project.plan_file.write_text(plan.replace("high_percentile: 99.5", "high_percentile: 95.0"))
    prepare(project)
    after = modified(project)
    assert all(after[name] != before[name] for name in before)


def test_the_label_of_an_unlabelled_case_is_never_opened(project: Project, data: Path) -> None:
    hidden = project.load_splits().labelled[0]
    hide_label_of(project, hidden)
    (data / "labels" / f"{hidden}.nii.gz").unlink()  # would raise if it were opened
    assert prepare(project) == 5
    assert not (project.store_root / f"{hidden}.label.npy").exists()


def test_a_label_that_is_hidden_later_leaves_the_store(project: Project) -> None:
    prepare(project)
    hidden = project.load_splits().labelled[0]
    hide_label_of(project, hidden)
    prepare(project)
    assert not (project.store_root / f"{hidden}.label.npy").exists()
    assert not (project.store_root / f"{hidden}.foreground.npy").exists()
    assert json.loads((project.store_root / f"{hidden}.json").read_text())["class_voxels"] is None


def test_all_problems_are_named_and_the_rest_is_prepared(
    project: Project, data: Path, save: Save
) -> None:
    save(data / "labels" / "a.nii.gz", np.full((4, 5, 6), 9, dtype=np.uint8))
    save(data / "images" / "u.nii.gz", np.full((4, 5, 6), np.nan))
    (data / "images" / "v.nii.gz").unlink()
    with pytest.raises(UserError) as error:
        prepare(project)
    text = str(error.value)
    assert text.startswith("3 problems:")
    assert "a.nii.gz has 120 voxels with the values 9" in text
    assert "u.nii.gz has 120 NaN or infinite voxels" in text
    assert "v.nii.gz cannot be read" in text
    assert {file.name[0] for file in project.store_root.iterdir()} == {"b", "c"}


def test_ids_that_are_no_file_names_are_refused(project: Project) -> None:
    for file in (project.cases_file, project.splits_file):
        file.write_text(file.read_text().replace('"u"', '"../u"'))
    with pytest.raises(UserError, match=r"case '\.\./u' cannot be the name of a file"):
        prepare(project)
    assert not project.store_root.exists()


def test_a_full_disk_ends_the_work_and_leaves_no_half_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(project)
    before = {file: file.read_bytes() for file in project.store_root.iterdir()}
    plan = project.plan_file.read_text()
    project.plan_file.write_text(plan.replace("high_percentile: 99.5", "high_percentile: 95.0"))

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    done: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array_header_1_0", full)
        with pytest.raises(UserError, match=r"a\.image\.npy: no space left"):
            prepare(project, done.append)
    assert done == []
    assert {file: file.read_bytes() for file in project.store_root.iterdir()} == before
    assert prepare(project) == 5  # and the same command goes on
    image = project.store_root / "a.image.npy"
    assert image.read_bytes() != before[image]


def test_processes_prepare_what_one_process_prepares_and_name_all_problems(
    project: Project, data: Path, save: Save, tmp_path: Path
) -> None:
    prepare(project)
    alone = {file.name: file.read_bytes() for file in project.store_root.iterdir()}
    project.store_root.rename(tmp_path / "alone")
    save(data / "labels" / "a.nii.gz", np.full((4, 5, 6), 9, dtype=np.uint8))
    (data / "images" / "v.nii.gz").unlink()
    done: list[str] = []
    with pytest.raises(UserError, match=r"2 problems:\n.*a\.nii\.gz has 120.*\n.*v\.nii\.gz"):
        prepare(project, done.append, workers=2)
    assert sorted(done) == ["a", "b", "c", "u", "v"]
    assert {file.name: file.read_bytes() for file in project.store_root.iterdir()} == {
        name: content for name, content in alone.items() if name[0] in "bcu"
    }


@pytest.mark.slow
def test_a_case_that_its_process_died_of_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "prepare_one", die_of_b)
    with pytest.raises(UserError, match=r"case 'b': .*was killed by SIGKILL.*fewer --workers"):
        prepare(project, workers=2)
    assert {file.name[0] for file in project.store_root.iterdir()} == {"a", "c", "u", "v"}


def test_content_is_read_again_only_where_size_or_time_differ(
    project: Project, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(project)
    read: list[str] = []

    def content_of(path: Path) -> str:
        read.append(path.name)
        return files.content_of(path)

    monkeypatch.setattr(sources, "content_of", content_of)
    assert prepare(project) == 5
    assert read == []
    before = modified(project)
    os.utime(data / "images" / "u.nii.gz", ns=(1, 1))  # touched, but the same
    prepare(project)
    assert read == ["u.nii.gz"]
    after = modified(project)
    assert {name for name in after if after[name] != before[name]} == {"u.json"}
    prepare(project)
    assert read == ["u.nii.gz"]  # its new time is known


def test_half_files_of_a_process_elsewhere_are_removed_once_they_are_old(project: Project) -> None:
    project.store_root.mkdir()
    name = f"{TEMPORARY}0badcafe.12.34.00000000.a.image"
    old, new = (project.store_root / f"{name}{n}.npy" for n in (1, 2))
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1, 1))
    prepare(project)
    assert not old.exists()
    assert new.exists()  # somebody may still write it


KILLED = """
import sys
from pathlib import Path
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare

prepare(Project(Path(sys.argv[1])), lambda id_: print(id_, flush=True))
"""


def test_killed_in_the_middle_it_goes_on(data: Path, tmp_path: Path, save: Save) -> None:
    for index in range(60):
        image = np.random.default_rng(index).random((32, 32, 32), dtype=np.float32)
        save(data / "images" / f"x{index:02d}.nii.gz", image)
    project = init_project(data, tmp_path / "project")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(project.root)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    done = {file.name for file in project.store_root.glob("*.json") if file.name[0] != "."}
    assert 5 <= len(done) < 65
    before = modified(project)
    assert prepare(project) == 65
    after = modified(project)
    assert all(after[name] == before[name] for name in done)


MEASURED = """
import os, re, sys, threading, time
from pathlib import Path

def anonymous(process):
    try:
        text = Path(f"/proc/{process}/status").read_text()
        return int(re.search(r"RssAnon:\\s+(\\d+) kB", text)[1])
    except (OSError, TypeError):
        return 0

def watch():
    global most
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        most = max(most, sum(map(anonymous, [os.getpid(), *children])))
        time.sleep(0.02)

if __name__ == "__main__":
    from tracoco.project.folder import Project
    from tracoco.project.prepare import prepare

    most = 0
    threading.Thread(target=watch, daemon=True).start()
    prepare(Project(Path(sys.argv[1])), workers=2)
    print(most)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's memory figures")
def test_memory_does_not_grow_with_the_number_of_scans_and_again_takes_no_time(
    tmp_path: Path, save: Save
) -> None:
    program = tmp_path / "measured.py"
    program.write_text(MEASURED)
    megabytes = []
    for count in (50, 500):
        data = tmp_path / str(count)
        for index in range(count):
            image = np.random.default_rng(index).random((24, 24, 24), dtype=np.float32)
            save(data / "images" / f"{index:03d}.nii", image)
            if index < 2:
                save(data / "labels" / f"{index:03d}.nii", (image > 0.5).astype(np.uint8))
        project = init_project(data, tmp_path / f"project{count}")
        command = [sys.executable, str(program), str(project.root)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        megabytes.append(int(result.stdout) / 1024)
    # Held in memory, 450 scans of 24^3 would take 25 MB.
    assert megabytes[1] - megabytes[0] < 12
    began = time.monotonic()
    assert prepare(project) == 500
    assert time.monotonic() - began < 5


def test_parts_of_the_cases_are_prepared_apart_and_make_the_whole_store(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=2)
    whole, shared = (init_project(data, tmp_path / name, validation=1) for name in ("a", "b"))
    assert prepare(whole) == 5
    assert prepare(shared, shard=(2, 2)) == 2
    assert len(list(shared.store_root.glob("*.json"))) == 2
    assert prepare(shared, shard=(1, 2)) == 3
    arrays = sorted(file.name for file in whole.store_root.glob("*.npy"))
    assert arrays == sorted(file.name for file in shared.store_root.glob("*.npy"))
    for name in arrays:
        ours, theirs = whole.store_root / name, shared.store_root / name
        assert ours.read_bytes() == theirs.read_bytes(), name
