"""What must survive: killed processes, dead workers, a full disk, two writers in one folder, NaN in one cell."""

import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import time
import warnings

import pytest
import torch

from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments.sweep import grid, read_trial, run_trials, sweep
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils import files
from tests.processes import ended, kill_until_done, started

QUICK = dict(
    hidden_channels=8, epochs=12, pretrain_epochs=3, rampup_epochs=3, num_steps=3, batch_size=16, max_restarts=1
)


class SlowFile:
    "A file that is written in two halves, with time to be killed between them."

    def __init__(self, path, mode):
        self.file = open(path, mode)

    def write(self, content):
        half = len(content) // 2
        self.file.write(content[:half])
        self.file.flush()
        time.sleep(0.005)
        self.file.write(content[half:])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def slowly(work, *arguments, **named):
    "Some work whose results are written in halves; for a process of its own."
    files.open = SlowFile
    work(*arguments, **named)


def train(folder):
    data = motif_dataset(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GIBTrainer(**QUICK).fit(data.train, valid=data.valid, checkpoint=folder / "checkpoint", progress=False).save(
            folder / "model"
        )


def outcome(folder):
    return [(folder / "model" / name).read_bytes() for name in ("model.safetensors", "history.json")]


@pytest.mark.slow
def test_a_training_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    torch.set_num_threads(1)
    start = time.perf_counter()
    train(tmp_path)
    undisturbed, seconds = outcome(tmp_path), time.perf_counter() - start
    dice, kills, runs = random.Random(0), 0, 0
    while kills < 25:
        folder = tmp_path / str(runs)
        kills += kill_until_done(seconds / 3, dice, slowly, train, folder)
        runs += 1
        assert outcome(folder) == undisturbed
    assert runs < 25


def noted(x, log):
    "A cell that leaves a line wherever it ran."
    with open(log, "a") as lines:
        lines.write(f"{x}\n")
    time.sleep(0.01)
    return {"y": 2 * x, "long": [x] * 200}


@pytest.mark.slow
def test_a_sweep_killed_again_and_again_loses_at_most_a_cell_each_time(tmp_path):
    dice, kills, runs = random.Random(1), 0, 0
    while kills < 25:
        log, folder = tmp_path / f"log {runs}", tmp_path / f"cells {runs}"
        trials = grid(x=range(12), log=str(log))
        killed = kill_until_done(0.15, dice, slowly, run_trials, noted, trials, folder, progress=False)
        done = log.read_text().split()
        assert set(done) == set(map(str, range(12))) and len(done) <= 12 + killed
        assert [
            read_trial(path)["y"] for path in sorted(folder.glob("*.json"), key=lambda path: read_trial(path)["x"])
        ] == list(range(0, 24, 2))
        kills, runs = kills + killed, runs + 1
    assert runs < 25


def dies_once(x, folder):
    "A cell whose process is killed when x is 2, the first time."
    mark = pathlib.Path(folder) / "died"
    if x == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"y": x}


def dies_always(x):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_the_cells_of_a_dead_worker_are_done_by_another(tmp_path):
    rows = run_trials(dies_once, grid(x=range(6), folder=str(tmp_path)), tmp_path / "trials", jobs=2, progress=False)
    assert [row["y"] for row in rows] == list(range(6)) and (tmp_path / "died").exists()


@pytest.mark.slow
def test_workers_that_always_die_are_not_replaced_for_ever(tmp_path):
    with pytest.raises(RuntimeError, match="worker processes to live until their task is done"):
        run_trials(dies_always, grid(x=range(3)), tmp_path, jobs=2, progress=False)


@pytest.mark.slow
def test_a_dask_worker_killed_in_mid_sweep(tmp_path):
    distributed = pytest.importorskip("distributed", reason="install gib-nb[cluster]")
    from joblib import parallel_config

    trials = grid(x=range(6), folder=str(tmp_path))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster),
        parallel_config("dask"),
    ):
        rows = run_trials(dies_once, trials, tmp_path / "trials", progress=False)
    assert [row["y"] for row in rows] == list(range(6)) and (tmp_path / "died").exists()


def grows(x):
    return {"long": "x" * (4000 if x == 3 else 100)}


def little_room(size):
    "From now on no file of this process may be longer."
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def sweep_in_little_room(folder):
    said = os.open(folder / "said", os.O_CREAT | os.O_WRONLY)
    little_room(2000)
    try:
        run_trials(grows, grid(x=range(6)), folder / "trials", progress=False)
    except OSError as error:
        os.write(said, str(error).encode())


@pytest.mark.slow
def test_a_file_that_finds_no_room_leaves_the_others_whole(tmp_path):
    """The sweep ends with the operating system's error, finished trials stay, no part of a file is left; with room again it goes on."""
    assert ended(started(sweep_in_little_room, tmp_path)) and "File too large" in (tmp_path / "said").read_text()
    files = {path: path.read_bytes() for path in (tmp_path / "trials").iterdir()}
    assert len(files) == 3 and all(path.suffix == ".json" and "long" in read_trial(path) for path in files)
    assert len(run_trials(grows, grid(x=range(6)), tmp_path / "trials", progress=False)[3]["long"]) == 4000
    assert all(path.read_bytes() == content for path, content in files.items())


def train_until_there_is_no_room(folder):
    data = motif_dataset(40)

    def fill(step):
        if step["epoch"] == 4 and not (folder / "good").exists():
            shutil.copy(folder / "checkpoint", folder / "good")
            little_room(1000)

    with pytest.raises(OSError):
        GIBTrainer(**QUICK).fit(
            data.train, valid=data.valid, checkpoint=folder / "checkpoint", progress=False, callbacks=fill
        )


@pytest.mark.slow
def test_a_checkpoint_that_finds_no_room_leaves_the_one_before(tmp_path):
    assert ended(started(train_until_there_is_no_room, tmp_path))
    assert (tmp_path / "checkpoint").read_bytes() == (tmp_path / "good").read_bytes() and not list(
        tmp_path.glob("*.tmp")
    )


@pytest.mark.slow
def test_a_full_disk(tmp_path):
    "A file system of 64 kB; where one may not be mounted, the limit on files above has to do."
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True
        ).returncode
    ):
        pytest.skip("may not mount a small disk here")
    try:
        with pytest.raises(OSError, match="No space left"):
            run_trials(big, grid(x=range(40)), disk, progress=False)
        done = list(disk.iterdir())
        assert 5 < len(done) < 40 and all(read_trial(path) for path in done)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def big(x):
    return {"long": "x" * 3000}


@pytest.mark.slow
def test_two_sweeps_in_one_folder(tmp_path):
    "Both end well, and at no time does a file hold a part."
    trials, folder = grid(x=range(15), log=str(tmp_path / "log")), tmp_path / "trials"
    writers = [started(run_trials, noted, trials, folder, progress=False) for _ in range(2)]
    while any(writer.is_alive() for writer in writers):
        assert all(read_trial(path) for path in folder.glob("*.json"))
    assert all(map(ended, writers))
    assert sorted(read_trial(path)["y"] for path in folder.iterdir()) == list(range(0, 30, 2))


@pytest.mark.slow
def test_nan_fails_its_cell_and_no_other(tmp_path):
    data = motif_dataset(40)
    with pytest.warns(UserWarning, match="1 of 3 trials failed, the first with DivergenceError"):
        table = sweep(grid(lr=[0.01, 1e30, 0.02], **QUICK), data, tmp_path, progress=False)
    assert table.error.notna().tolist() == [False, True, False] and table.score.notna().tolist() == [True, False, True]
    assert len(list(tmp_path.iterdir())) == 2
