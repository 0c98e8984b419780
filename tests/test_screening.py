"""Files of molecules: a row for every line, in parts that are never done twice."""
import gzip
import json
import random
import warnings

import pytest

from gib_nb.molecules import molecule_dataset
from gib_nb.screening import explain_lines, screen, smiles_lines
from gib_nb.trainer import GIBTrainer

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow.parquet", reason="install gib-nb[screen]") and pytest.importorskip("pyarrow")
LINES = ["CCO", "C1CC", "", "CC(=O)Oc1ccccc1C(=O)O", "not a molecule", "c1ccccc1O", "[Na+].[Cl-]", "C" * 3000, "\ufffd", "CCN(CC)CC(=O)Nc1c(C)cccc1C"] * 3


@pytest.fixture(scope="module")
def model():
    data = molecule_dataset(limit=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(hidden_channels=8, epochs=6, warmup=1, ramp=1, inner_steps=2, restarts=0, beta=.01).fit(data.train, valid=data.valid, progress=False)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "some.smi"
    path.write_text("\n".join(f"{line} name" if line else "" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["a.smi", "a.txt.gz", "a.csv", "a.csv.gz", "A.SMI.GZ"])
def test_lines_of_every_kind_of_file(name, tmp_path):
    text = "id,smiles\n1,CCO\n2,\"C(=O),x\"\n3\n" if ".csv" in name else "smiles name\nCCO a b\nC(=O),x\n\n"
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.lower().endswith(".gz") else text.encode())
    assert list(smiles_lines(tmp_path / name)) == ["CCO", "C(=O),x", ""]


def test_a_row_for_every_line_with_what_was_found_or_the_reason(model, source, tmp_path):
    assert screen(source, tmp_path / "out.parquet", model, size=7, progress=False) == {"lines": 30, "explained": 18}
    rows = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["line"] for row in rows] == list(range(1, 31)) and [row["smiles"] for row in rows] == [line.split()[0] if line else "" for line in LINES]
    for row, (smiles, e, reason) in zip(rows, explain_lines(smiles_lines(source), model)):
        if e is None:
            assert row["prediction"] is row["fragment"] is row["weights"] is None and row["reason"] == reason != ""
        else:
            assert row["prediction"] == pytest.approx(e.prediction, rel=1e-4) and row["pieces"] == e.pieces and len(row["weights"]) == len(e.weights) and row["fragment"] == e.fragment.smiles
    assert rows[2]["reason"] == "empty line" and "unclosed ring" in rows[1]["reason"]
    assert not (tmp_path / "out.parquet.parts").exists()


def test_stopped_it_goes_on_where_it_was(model, source, tmp_path, monkeypatch):
    from gib_nb import screening
    done, real = [], screening._one_part

    def stops(number, *rest):
        if number == 3 and len(done) < 4:
            raise KeyboardInterrupt
        done.append(number)
        return real(number, *rest)

    monkeypatch.setattr(screening, "_one_part", stops)
    with pytest.raises(KeyboardInterrupt):
        screen(source, tmp_path / "out.parquet", model, size=7, progress=False)
    assert sorted(path.name for path in (tmp_path / "out.parquet.parts").glob("*.parquet")) == [f"{number:07d}.parquet" for number in range(3)]
    done.append("again")
    screen(source, tmp_path / "out.parquet", model, size=7, progress=False)
    assert done == [0, 1, 2, "again", 3, 4] and len(pandas.read_parquet(tmp_path / "out.parquet")) == 30


def test_killed_again_and_again_it_gives_the_same_table(model, source, tmp_path):
    from tests.processes import kill_until_done
    screen(source, tmp_path / "undisturbed.parquet", model, size=3, progress=False)
    dice, kills, turn = random.Random(0), 0, 0
    while kills < 10:
        out = tmp_path / f"{turn}.parquet"
        kills += kill_until_done(.3, dice, screen, source, out, model, size=3, progress=False)
        assert pandas.read_parquet(out).equals(pandas.read_parquet(tmp_path / "undisturbed.parquet"))
        turn += 1


def test_parts_of_something_else_are_refused(model, source, tmp_path):
    out, parts = tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    parts.mkdir()
    (parts / "0000000.parquet").touch()
    for content in ("{}", "", json.dumps({"key": "other"})):
        (parts / "key.json").write_text(content)
        with pytest.raises(ValueError, match="expected the parts of this file, model and version in .*out.parquet.parts"):
            screen(source, out, model, progress=False)
    assert not out.exists()


def test_killed_at_its_first_or_last_step_it_goes_on(model, source, tmp_path, monkeypatch):
    "A folder without a key is one that was just begun; when the parts are thrown away the key is the last to go."
    from gib_nb import screening
    out, parts = tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    parts.mkdir()

    def stops(folder):
        assert [path.name for path in parts.iterdir()] == ["key.json"]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(screening.shutil, "rmtree", stops)
        screen(source, out, model, progress=False)
    table = pandas.read_parquet(out)
    assert screen(source, out, model, progress=False)["lines"] == 30 and pandas.read_parquet(out).equals(table) and not parts.exists()


def test_lines_are_read_as_they_are_needed(model, tmp_path, monkeypatch):
    "Two workers at most four parts ahead: memory does not grow with the file."
    from gib_nb import screening
    source, taken, seen = tmp_path / "long.smi", [0], []
    source.write_text("C\n" * 400)
    real = smiles_lines

    def counted(path):
        for line in real(path):
            taken[0] += 1
            yield line

    def watched(tasks, jobs):
        taken[0] = 0
        for task, positional, named in tasks():
            seen.append(taken[0])
            yield task(*positional, **named)

    monkeypatch.setattr(screening, "smiles_lines", counted)
    monkeypatch.setattr(screening, "finished_tasks", watched)
    screen(source, tmp_path / "out.parquet", model, size=50, progress=False)
    assert seen == [50, 100, 150, 200, 250, 300, 350, 400]


def test_an_empty_file(model, tmp_path):
    (tmp_path / "none.smi").write_text("")
    assert screen(tmp_path / "none.smi", tmp_path / "out.parquet", model, progress=False) == {"lines": 0, "explained": 0}
    assert len(pandas.read_parquet(tmp_path / "out.parquet")) == 0


def test_two_processes_give_the_same_table(model, source, tmp_path):
    screen(source, tmp_path / "one.parquet", model, size=5, progress=False)
    screen(source, tmp_path / "two.parquet", model, size=5, jobs=2, progress=False)
    assert pandas.read_parquet(tmp_path / "one.parquet").equals(pandas.read_parquet(tmp_path / "two.parquet"))


def test_from_the_shell(model, source, tmp_path, capsys):
    from gib_nb import cli
    model.save(tmp_path / "model")
    assert cli.main(["explain", str(source), "--model", str(tmp_path / "model"), "--out", str(tmp_path / "out.parquet"), "--no-progress"]) == 0
    assert len(pandas.read_parquet(tmp_path / "out.parquet")) == 30
    assert cli.main(["explain", "CCO", "--out", "x.parquet"]) == 2 and ".csv, .html or .svg" in capsys.readouterr().err


def test_on_a_dask_cluster(model, source, tmp_path):
    distributed = pytest.importorskip("distributed", reason="install gib-nb[cluster]")
    from joblib import parallel_config
    screen(source, tmp_path / "one.parquet", model, size=5, progress=False)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster, distributed.Client(cluster), parallel_config("dask"):
        assert screen(source, tmp_path / "two.parquet", model, size=5, progress=False) == {"lines": 30, "explained": 18}
    assert pandas.read_parquet(tmp_path / "one.parquet").equals(pandas.read_parquet(tmp_path / "two.parquet"))
