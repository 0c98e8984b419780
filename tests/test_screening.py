"""Files of molecules: a row for every line, in parts that are never done twice."""

import csv
import gzip
import itertools
import json
import random
import warnings

import pytest

from gib_nb.cli import main
from gib_nb.data.datasets import molecule_dataset
from gib_nb.data.records import FILES, numbered_molecules, numbered_smiles, smiles_column, smiles_lines
from gib_nb.experiments.screening import explain_lines, screen
from gib_nb.train.trainer import GIBTrainer

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow.parquet", reason="install gib-nb[screen]") and pytest.importorskip("pyarrow")
LINES = [
    "CCO",
    "C1CC",
    "",
    "CC(=O)Oc1ccccc1C(=O)O",
    "not a molecule",
    "c1ccccc1O",
    "[Na+].[Cl-]",
    "C" * 3000,
    "\ufffd",
    "CCN(CC)CC(=O)Nc1c(C)cccc1C",
] * 3


@pytest.fixture(scope="module")
def model():
    data = molecule_dataset(limit=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(
            hidden_channels=8, epochs=6, pretrain_epochs=1, rampup_epochs=1, num_steps=2, max_restarts=0, beta=0.01
        ).fit(data.train, valid=data.valid, progress=False)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "some.smi"
    path.write_text("\n".join(f"{line} name" if line else "" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["a.smi", "a.txt.gz", "a.csv", "a.csv.gz", "A.SMI.GZ"])
def test_lines_of_every_kind_of_file(name, tmp_path):
    text = 'id,smiles\n1,CCO\n2,"C(=O),x"\n3\n' if ".csv" in name else "smiles name\nCCO a b\nC(=O),x\n\n"
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.lower().endswith(".gz") else text.encode())
    assert list(smiles_lines(tmp_path / name)) == ["CCO", "C(=O),x", ""]


# reading


def written(folder, name, text):
    path = folder / name
    text = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


@pytest.mark.parametrize(
    "name, text, expected",
    [
        (
            "a.csv",
            "ligand,canonical_smiles,pKd\nCNO,c1ccccc1O,7\nNCC,CCO,6\n",
            ["c1ccccc1O", "CCO"],
        ),  # CNO is a SMILES too
        ("a.csv", "ligand;canonical_smiles;pKd\nCNO;CCO;7,1\n", ["CCO"]),
        ("a.csv", "ligand\tSMILES\nCNO\tCCO\n", ["CCO"]),
        ("a.tsv", "Drug_ID\tDrug\tY\nA 1\tCCO\t1.5\nB, 2\tCC\t2\n", ["CCO", "CC"]),
        ("a.tab.gz", "name\tCanonicalSMILES\nx\tCCO\n", ["CCO"]),
        ("a.csv", "id|Isomeric SMILES|y\n1|CCO|2\n", ["CCO"]),
        ("a.csv", "CNO,structure\nCNO,CCO\n", ["CCO"]),
        ("a.csv", "smiles,canonical_smiles\n,CCO\n,CC\n", ["CCO", "CC"]),  # two names, one column that is filled
        ("a.csv", "CCO;1,5\nCC;1,6\n", ["CCO", "CC"]),
        ("a.csv", "1,CCO\n2,CC\n", ["CCO", "CC"]),
        ("a.csv", "C1CC\nCCO\nCCN\n", ["C1CC", "CCO", "CCN"]),  # a broken SMILES is no heading
        ("a.csv", "Drug\nCCO\nC1CC\n\nCC\n", ["CCO", "C1CC", "", "CC"]),
        ("a.csv", "SMILES NAME\nCCO ethanol\n", ["CCO"]),
        ("a.smi", "ID\tSMILES\nCNO\tCCO\n", ["CCO"]),
        ("a.smi", "ID SMILES\nCNO CCO\n", ["CCO"]),
        ("a.txt", "mol 1\tCCO\nmol 2\tC1CC\nmol 3\tCC\n", ["CCO", "C1CC", "CC"]),
        ("a.smiles", "CCO vitamin C\nCC N N\n", ["CCO", "CC"]),
        ("a.smi", "canonical smiles\nCCO ethanol\n", ["CCO"]),
        ("a.txt", "name,smiles\nCNO,CCO\n", ["CCO"]),
        ("a.smi", "garbage\tfirst\nCCO\tsecond\n", ["garbage", "CCO"]),
        ("a.smi", "nonsense\n", ["nonsense"]),
        ("a.csv", '"name","smiles"\n"x, y","CCO"\n"z","CC"\n', ["CCO", "CC"]),
        ("a.csv", 'id,smiles,note\n1,CCO,"two\nlines, and\r\n\na ""quote"""\n2,CC,x\n', ["CCO", "CC"]),
        (
            "a.csv",
            'smiles,length\nCCO,"5 inch\nCC,30 cm\nCCC,"1"x\nC,6"\n',
            ["CCO", "CC", "CCC", "C"],
        ),  # quotes that do not close as in CSV
        ("a.csv", "\n\nid,smiles\n1,CCO\n", ["", "", "CCO"]),
        ("a.csv", "id,smiles\n1\n2,CCO,more\n", ["", "CCO"]),
        ("a.csv", "\ufeffid;smiles\r\n1;CCO\r\n", ["CCO"]),
        ("a.csv", "id,smiles\r1,CCO\r2,CC\r", ["CCO", "CC"]),
        ("a.csv", "id\tsmiles\n\u00e4\tCCO\n".encode("utf-16"), ["CCO"]),
        ("a.csv.gz", "\ufeffid\tsmiles\n\u00e4\tCCO\n".encode("utf-16-be"), ["CCO"]),
        ("a.csv", "id,smiles\nS\u00e4ure,CCO\n".encode("latin-1"), ["CCO"]),
        ("a.csv", "id,cx\n1,CCO |$_AV:2;1;0$|\n", ["CCO |$_AV:2;1;0$|"]),
        ("a.csv", "smiles,name\n", []),
        ("a.smi", "smiles name\n", []),
        ("a.csv", "", []),
        ("a.smi", "", []),
    ],
)
def test_never_a_wrong_column_and_never_a_lost_row(name, text, expected, tmp_path):
    assert list(smiles_lines(written(tmp_path, name, text))) == expected


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("a.csv", "ligand,drug\nCNO,CCO\nCN,CC\n", "got columns ligand, drug: ligand and drug may be it.*--smiles"),
        ("a.csv", "CCO,CC\n", "columns 1, 2: 1 and 2 may be it"),
        ("a.csv", "smiles,canonical_smiles\nOCC,CCO\n", "smiles and canonical_smiles may be it"),
        ("a.csv", "smiles,y,smiles\nCCO,1,CC\n", "smiles and smiles may be it"),
        (
            "a.csv",
            "id,drug\n1,CCO\n2,C1CC\n",
            "got columns id, drug: none has SMILES in all",
        ),  # named by nobody, and not all of it SMILES
        ("a.csv", "ligand,drug\n" + "CNO,CCO\n" * 40 + "CNO,broken(\n" + "CNO,CC\n" * 20, "ligand and drug may be it"),
        ("a.tsv", "name\ty\nfoo\t1\n", "none has SMILES"),
        ("a.csv", "a,b\n", "none has SMILES"),
        ("a.smi", "CNO\tCCO\nCN\tCC\n", "1 and 2 may be it"),
        ("a.smi", "CCO CCO\n", "1 and 2 may be it"),
        ("a.csv", "id,smiles\n1,CCO\n".encode("utf-16-le"), "zero bytes.*UTF-8"),
        ("a.csv", b"PK\x03\x04\0\0", "zero bytes"),
    ],
)
def test_a_file_that_is_not_clear_is_refused(name, text, words, tmp_path):
    with pytest.raises(ValueError, match="expected .*" + words):
        smiles_lines(written(tmp_path, name, text))  # at once, not at the first record


def test_a_column_that_is_called(tmp_path):
    path = written(tmp_path, "a.csv", "ligand,Drug,pKd\nCNO,CCO,x\nCN,C1CC,y\n")
    assert [list(smiles_lines(path, column)) for column in ("Drug", "drug", "1", 3)] == [
        ["CCO", "C1CC"],
        ["CCO", "C1CC"],
        ["CNO", "CN"],
        ["x", "y"],
    ]
    assert (
        list(smiles_lines(written(tmp_path, "b.csv", "CCO,CC\nC,N\n"), column=2))
        == ["CC", "N"]
        == list(smiles_lines(written(tmp_path, "b.smi", "CCO CC\nC N\n"), 2))
    )
    for column in ("smiles", 4, 0, -1, ""):
        with pytest.raises(ValueError, match="got columns ligand, Drug, pKd: none is"):
            smiles_lines(path, column)


def test_a_broken_gzip_file_is_refused_and_the_ending_is_not_asked(tmp_path):
    whole = gzip.compress(b"CCO\n" * 100_000)
    (tmp_path / "a.smi.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="complete gzip file .got .*a.smi.gz"):
        list(smiles_lines(tmp_path / "a.smi.gz"))
    (tmp_path / "b.smi.gz").write_bytes(b"CCO\n")
    (tmp_path / "c.smi").write_bytes(gzip.compress(b"CC\n"))
    assert [*smiles_lines(tmp_path / "b.smi.gz"), *smiles_lines(tmp_path / "c.smi")] == ["CCO", "CC"]


def test_a_field_of_any_length(tmp_path):
    limit, text = csv.field_size_limit(), "x" * 200_000
    path = written(tmp_path, "a.csv", f'smiles,note\nCCO,"{text}"\nCC,{text}\n"{text}",z\n')
    assert list(smiles_lines(path)) == ["CCO", "CC", text] and csv.field_size_limit() == limit


def test_a_heading_that_says_smiles_wins_over_the_content(tmp_path):
    path = written(tmp_path, "a.csv", "ligand,smiles\nCNO,C1CC\nCC,C(\n")
    assert list(smiles_lines(path)) == ["C1CC", "C("] and smiles_column(path)[1:] == (1, True, "smiles")


def test_random_tables_are_read_as_the_csv_module_writes_them(tmp_path):
    "Any cells in any quoting: a row for a record, in its column."
    dice = random.Random(0)
    for delimiter, quoting, turn in itertools.product(",;\t|", (csv.QUOTE_MINIMAL, csv.QUOTE_ALL), range(3)):
        rows = [
            [
                "".join(dice.choices('ab ,;\t|"\n1', k=dice.randrange(8))) + "!",
                dice.choice(["CCO", "C1CC", "", "c1ccccc1"]),
            ]
            for _ in range(30)
        ]
        with open(tmp_path / "a.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter, quoting=quoting).writerows([["note", "smiles"], *rows])
        assert list(smiles_lines(tmp_path / "a.csv")) == [smiles for _, smiles in rows], (delimiter, quoting, turn)


def test_a_cell_with_many_lines_is_one_cell(tmp_path):
    "More than are looked at to find the column."
    block = "\n".join(["C" * (i % 3) for i in range(900)])
    path = written(tmp_path, "a.csv", "drug,block\n" + f'CCO,"{block}"\nCC,"{block}"\n')
    assert list(smiles_lines(path)) == ["CCO", "CC"] and smiles_column(path).heading


def test_a_long_table_is_streamed(tmp_path):
    "An open quote far from the end of the file does not gather what follows."
    path = written(tmp_path, "a.csv", 'smiles,note\nCCO,"open\n' + "CC,x\n" * 5000)
    lines = smiles_lines(path)
    assert [next(lines), next(lines)] == ["CCO", "CC"] and sum(1 for _ in lines) == 4999


@pytest.mark.slow
def test_screening_by_column_and_parts(model, tmp_path):
    "A record has the number of its first line; the parts of another column are not taken for these."
    source, out = (
        written(tmp_path, "a.csv", 'ligand,drug\nCNO,"c1ccccc1O"\nCN,"CCO"\nCC,C1CC\n"CO\n",CC\n'),
        tmp_path / "out.parquet",
    )
    with pytest.raises(ValueError, match="ligand and drug may be it"):
        screen(source, out, model, progress=False)
    assert screen(source, out, model, size=2, progress=False, column="drug") == {"lines": 4, "explained": 3}
    rows = pyarrow.parquet.read_table(out).to_dict("records")
    assert [(row["line"], row["smiles"]) for row in rows] == [(2, "c1ccccc1O"), (3, "CCO"), (4, "C1CC"), (5, "CC")]
    from gib_nb.experiments.screening import _screening_key

    assert len({_screening_key(source, model, None, 2, column) for column in ("drug", "ligand", None)}) == 3


def test_a_list_of_endings():
    assert {".smi", ".smiles", ".txt", ".csv", ".tsv", ".tab", ".smi.gz", ".tsv.gz"} <= set(FILES)


# explaining


@pytest.mark.slow
def test_a_row_for_every_line_with_what_was_found_or_the_reason(model, source, tmp_path):
    assert screen(source, tmp_path / "out.parquet", model, size=7, progress=False) == {"lines": 30, "explained": 18}
    rows = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_dict("records")
    assert [row["line"] for row in rows] == list(range(1, 31)) and [row["smiles"] for row in rows] == [
        line.split()[0] if line else "" for line in LINES
    ]
    for row, (smiles, e, reason) in zip(rows, explain_lines(smiles_lines(source), model)):
        if e is None:
            assert (
                row["prediction"] is row["fragment"] is row["weights"] is row["model"] is None
                and row["reason"] == reason != ""
            )
        else:
            assert (
                row["prediction"] == pytest.approx(e.prediction, rel=1e-4)
                and row["components"] == e.components
                and len(row["weights"]) == len(e.weights)
                and row["fragment"] == e.fragment.smiles
            )
            assert row["model"] == e.model.fingerprint
    assert rows[2]["reason"] == "empty line" and "unclosed ring" in rows[1]["reason"]
    assert not (tmp_path / "out.parquet.parts").exists()


@pytest.mark.slow
def test_stopped_it_goes_on_where_it_was(model, source, tmp_path, monkeypatch):
    from gib_nb.experiments import screening

    done, real = [], screening._one_part

    def stops(number, *rest):
        if number == 3 and len(done) < 4:
            raise KeyboardInterrupt
        done.append(number)
        return real(number, *rest)

    monkeypatch.setattr(screening, "_one_part", stops)
    with pytest.raises(KeyboardInterrupt):
        screen(source, tmp_path / "out.parquet", model, size=7, progress=False)
    assert sorted(path.name for path in (tmp_path / "out.parquet.parts").glob("*.parquet")) == [
        f"{number:07d}.parquet" for number in range(3)
    ]
    done.append("again")
    screen(source, tmp_path / "out.parquet", model, size=7, progress=False)
    assert done == [0, 1, 2, "again", 3, 4] and len(pandas.read_parquet(tmp_path / "out.parquet")) == 30


@pytest.mark.slow
def test_killed_again_and_again_it_gives_the_same_table(model, source, tmp_path):
    from tests.processes import kill_until_done

    screen(source, tmp_path / "undisturbed.parquet", model, size=3, progress=False)
    dice, kills, turn = random.Random(0), 0, 0
    while kills < 10:
        out = tmp_path / f"{turn}.parquet"
        kills += kill_until_done(0.3, dice, screen, source, out, model, size=3, progress=False)
        assert pandas.read_parquet(out).equals(pandas.read_parquet(tmp_path / "undisturbed.parquet"))
        turn += 1


def test_parts_of_something_else_are_refused(model, source, tmp_path):
    out, parts = tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    parts.mkdir()
    (parts / "0000000.parquet").touch()
    for content in ("{}", "", json.dumps({"key": "other"})):
        (parts / "key.json").write_text(content)
        with pytest.raises(
            ValueError, match="expected the parts of this file, model, and version in .*out.parquet.parts"
        ):
            screen(source, out, model, progress=False)
    assert not out.exists()


@pytest.mark.slow
def test_killed_at_its_first_or_last_step_it_goes_on(model, source, tmp_path, monkeypatch):
    "A folder without a key is one that was just begun; when the parts are thrown away the key is the last to go."
    from gib_nb.experiments import screening

    out, parts = tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    parts.mkdir()

    def stops(folder):
        assert [path.name for path in parts.iterdir()] == ["key.json"]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(screening.shutil, "rmtree", stops)
        screen(source, out, model, progress=False)
    table = pandas.read_parquet(out)
    assert (
        screen(source, out, model, progress=False)["lines"] == 30
        and pandas.read_parquet(out).equals(table)
        and not parts.exists()
    )


def test_lines_are_read_as_they_are_needed(model, tmp_path, monkeypatch):
    "Two workers at most four parts ahead: memory does not grow with the file."
    from gib_nb.experiments import screening

    source, taken, seen = tmp_path / "long.smi", [0], []
    source.write_text("C\n" * 400)
    real = numbered_smiles

    def counted(path):
        for line in real(path):
            taken[0] += 1
            yield line

    def watched(tasks, jobs):
        taken[0] = 0
        for task, positional, named in tasks():
            seen.append(taken[0])
            yield task(*positional, **named)

    monkeypatch.setattr(screening, "numbered_molecules", counted)
    monkeypatch.setattr(screening, "finished_tasks", watched)
    screen(source, tmp_path / "out.parquet", model, size=50, progress=False)
    assert seen == [50, 100, 150, 200, 250, 300, 350, 400]


def test_an_empty_file(model, tmp_path):
    (tmp_path / "none.smi").write_text("")
    assert screen(tmp_path / "none.smi", tmp_path / "out.parquet", model, progress=False) == {
        "lines": 0,
        "explained": 0,
    }
    assert len(pandas.read_parquet(tmp_path / "out.parquet")) == 0


@pytest.mark.slow
def test_two_processes_give_the_same_table(model, source, tmp_path):
    screen(source, tmp_path / "one.parquet", model, size=5, progress=False)
    screen(source, tmp_path / "two.parquet", model, size=5, jobs=2, progress=False)
    assert pandas.read_parquet(tmp_path / "one.parquet").equals(pandas.read_parquet(tmp_path / "two.parquet"))


@pytest.mark.slow
def test_from_the_shell(model, source, tmp_path, capsys):
    from gib_nb import cli

    model.save(tmp_path / "model")
    assert (
        cli.main(
            [
                "explain",
                str(source),
                "--model",
                str(tmp_path / "model"),
                "--out",
                str(tmp_path / "out.parquet"),
                "--no-progress",
            ]
        )
        == 0
    )
    assert len(pandas.read_parquet(tmp_path / "out.parquet")) == 30
    assert cli.main(["explain", "CCO", "--out", "x.parquet"]) == 2 and ".csv, .html, or .svg" in capsys.readouterr().err


@pytest.fixture
def sdf(tmp_path):
    "Two molecules, and between them a record that RDKit refuses."
    from rdkit import Chem

    good = [Chem.MolToMolBlock(Chem.MolFromSmiles(smiles)) + "$$$$\n" for smiles in ("CCO", "c1ccccc1O")]
    path = tmp_path / "some.sdf"
    path.write_text(good[0] + "broken\n\n\n  1  0  0\n$$$$\n" + good[1])
    return path


def test_records_of_an_sdf_are_explained_or_say_why_not(model, sdf, tmp_path):
    assert [(line, str(found)) for line, found in numbered_molecules(sdf)] == [
        (1, "CCO"),
        (2, "broken"),
        (3, "Oc1ccccc1"),
    ]
    assert screen(sdf, tmp_path / "found.parquet", model, progress=False) == {"lines": 3, "explained": 2}
    rows = pandas.read_parquet(tmp_path / "found.parquet").to_dict("records")
    assert [row["line"] for row in rows] == [1, 2, 3] and rows[1]["smiles"] == "broken"
    assert [pandas.notna(row["prediction"]) for row in rows] == [True, False, True] and "RDKit accepts" in rows[1][
        "reason"
    ]


def test_a_parquet_table_is_explained_as_a_csv(model, tmp_path, capsys):
    table = pandas.DataFrame({"name": ["a", "b"], "smiles": ["CCO", "C1CC"]})
    table.to_csv(tmp_path / "some.csv", index=False)
    table.to_parquet(tmp_path / "some.parquet")
    model.save(tmp_path / "run")
    read = lambda name: [list(record) for record in numbered_molecules(tmp_path / name)]
    assert [smiles for _, smiles in read("some.parquet")] == [smiles for _, smiles in read("some.csv")]
    for name in ("some.csv", "some.parquet"):
        assert main(["explain", str(tmp_path / name), "--out", str(tmp_path / f"{name}.html")]) == 0
    pages = [(tmp_path / f"some.{ending}.html").read_text() for ending in ("csv", "parquet")]
    assert pages[0].count("<svg") == pages[1].count("<svg") == 1


def test_an_sdf_for_a_predictor(sdf, tmp_path, capsys):
    (tmp_path / "oxygens.py").write_text("def count(smiles):\n    return [text.count('O') for text in smiles]\n")
    assert main(["explain", str(sdf), "--predictor", f"{tmp_path}/oxygens.py:count", "--goal", "high"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["line"] for row in rows if row["reason"]] == ["2"] and {row["line"] for row in rows} == {"1", "2", "3"}


@pytest.mark.slow
def test_on_a_dask_cluster(model, source, tmp_path):
    distributed = pytest.importorskip("distributed", reason="install gib-nb[cluster]")
    from joblib import parallel_config

    screen(source, tmp_path / "one.parquet", model, size=5, progress=False)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster),
        parallel_config("dask"),
    ):
        assert screen(source, tmp_path / "two.parquet", model, size=5, progress=False) == {"lines": 30, "explained": 18}
    assert pandas.read_parquet(tmp_path / "one.parquet").equals(pandas.read_parquet(tmp_path / "two.parquet"))
