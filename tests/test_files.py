"""A user's own file: every row is used or rejected with a reason, and what is not clear is refused."""

import csv
import gzip
import io
import pickle
import re

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from gib_nb.chem.standardize import inchikey, murcko_scaffold, standardize_molecule
from gib_nb.data.files import read_graphs, read_molecules, write_rejected
from gib_nb.data.records import iter_records
from gib_nb.data.splits import predefined_split, scaffold_split, split_indices
from gib_nb.data.targets import parse_target

PEPTIDE = "N[C@@H](Cc1ccccc1)C(=O)" * 20 + "O"  # more than 200 atoms


def written(folder, name, text):
    path = folder / name
    text = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


# molecules


@pytest.mark.parametrize(
    "smiles, parent",
    [
        ("CC(=O)[O-].[Na+]", "CC(=O)O"),
        ("C[NH3+].[Cl-]", "CN"),
        ("C[N+](C)(C)C.[Br-]", "C[N+](C)(C)C"),
        ("F[P-](F)(F)(F)(F)F.C[N+]1=CN(C)C=C1", "Cn1cc[n+](C)c1"),
        ("Oc1ccccn1", "Oc1ccccn1"),  # no other tautomer
        ("*CC", "*CC"),
    ],
)
def test_the_parent_of_a_molecule(smiles, parent, capfd):
    assert Chem.MolToSmiles(standardize_molecule(smiles)) == Chem.CanonSmiles(parent)
    assert capfd.readouterr() == ("", "")


def test_keys_are_the_same_for_all_ways_to_write_a_molecule(capfd):
    assert inchikey("OCC") == inchikey("C(C)O") == "LFQSCWFLJHTTHZ-UHFFFAOYSA-N"
    assert inchikey("C[C@H](N)O") != inchikey("C[C@@H](N)O")
    for smiles, key in (("CC*", "*CC"), ("N->[Pt]", "[NH3]->[Pt]"), ("C$C", "C$C"), ("C" * 1100, "C" * 1100)):
        assert inchikey(smiles) == key  # InChI has no word for these
    assert capfd.readouterr() == ("", "")


def test_scaffolds():
    assert murcko_scaffold("CCOc1ccc(CC2CCN(C)C2)cc1") == "c1ccc(CC2CCNC2)cc1"
    assert murcko_scaffold("C[C@H]1CC[C@@H](C)N1") == "C1CCNC1" and murcko_scaffold("CCO") == murcko_scaffold("C") == ""


# tables


def test_rows_with_their_lines_labels_and_columns(tmp_path):
    text = 'id,smiles,y,note\nA1,CCO,1.5,x\n\nA2,C1CC,2,"two\nlines"\nA3,OCC,2.5,\nA4,CC,,z\n,,,\nA5,c1ccccc1 ,NA,\nA6,CN,-3e-1,"a, b"\n'
    table = read_molecules(written(tmp_path, "a.csv", text))
    assert table.smiles == ["CCO", "OCC", "CN"] and table.lines == [2, 6, 10] and len(table) == 3
    assert table.targets.y.tolist() == [1.5, 2.5, -0.3] and table.targets.y.dtype == float
    assert table.table.to_dict("list") == {
        "id": ["A1", "A3", "A6"],
        "smiles": ["CCO", "OCC", "CN"],
        "y": ["1.5", "2.5", "-3e-1"],
        "note": ["x", None, "a, b"],
    }
    assert [row[:2] for row in table.rejected] == [(4, "C1CC"), (7, "CC"), (9, "c1ccccc1")]
    assert "unclosed ring" in table.rejected[0].reason and "a label in y .got an empty cell" in table.rejected[
        1
    ].reason.replace("(", ".")
    assert table.keys[0] == table.keys[1] == inchikey("CCO") and table.duplicates == 1
    assert table.conflicts == [(inchikey("CCO"), (2, 6))]
    assert (table.smiles_column, table.target_columns) == ("smiles", ["y"])
    assert table.notes == [
        "the SMILES are in column smiles",
        "the labels are in column y, the only one that may hold them",
    ]


def test_records_know_their_first_line():
    lines = ['a,"x\n', "b\n", 'c"\n', 'd,"open\n', "e\n", "f\n"]
    assert list(iter_records(lines, ",")) == [(1, ["a", "x\nb\nc"]), (4, ["d", '"open']), (5, ["e"]), (6, ["f"])]


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["CCO", "C1C", "", "c1ccccc1", "\u00e9", "[Na+].[Cl-]"]),
            st.sampled_from(["1", "2.5", "", "NA"]),
            st.text('ab ,;\t|"\n\r1', max_size=8),
        ),
        max_size=12,
    ),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    delimiter=st.sampled_from(",;\t|"),
)
def test_no_row_is_lost(rows, quoting, delimiter, tmp_path_factory):
    "However a table is quoted: each row is used or rejected, in the line where it begins."
    rows = [("CC", "7", "first"), *rows]
    text = io.StringIO()
    writer, starts = csv.writer(text, delimiter=delimiter, quoting=quoting), []
    writer.writerow(["smiles", "y", "note"])
    for row in rows:
        starts.append(1 + len(re.findall("\r\n|\r|\n", text.getvalue())))
        writer.writerow(row)
    path = written(tmp_path_factory.mktemp("rows"), "a.csv", text.getvalue())
    table = read_molecules(path, target="y", progress=False)
    filled = [start for start, row in zip(starts, rows) if any(map(str.strip, row))]
    assert sorted([*table.lines, *(row.line for row in table.rejected)]) == filled
    good = [
        row[0] for row in rows if row[0] in ("CC", "CCO", "c1ccccc1", "[Na+].[Cl-]") and row[1] in ("7", "1", "2.5")
    ]
    assert table.smiles == good


def test_what_was_named_is_not_noted(tmp_path):
    table = read_molecules(written(tmp_path, "a.csv", "smiles,y\nCCO,1\nCC,2\n"), "smiles", "y")
    assert table.notes == [] and table.scaffolds == ["", ""]


def test_rejected_rows_are_written(tmp_path):
    table = read_molecules(written(tmp_path, "a.csv", 'smiles,y\nCCO,1\n"C,1",2\nCC,\n'))
    write_rejected(tmp_path / "rejected.csv", table)
    with open(tmp_path / "rejected.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["line", "text", "reason"] and [row[:2] for row in rows[1:]] == [["3", "C,1"], ["4", "CC"]]


def test_duplicates_conflict_only_where_labels_differ(tmp_path):
    text = "smiles,a,b\nCCO,1,\nOCC,1,2\nC(C)O,,2\nCC,0,1\nCC,0,1\nCN,0,1\nNC,1,1\n"
    table = read_molecules(written(tmp_path, "a.csv", text), target=["a", "b"])
    assert table.duplicates == 4 and table.conflicts == [(inchikey("CN"), (7, 8))]
    assert table.targets.a.isna().tolist() == [False, False, True, False, False, False, False]


@pytest.mark.parametrize(
    "name, text, smiles, values",
    [
        ("a.csv", "\ufeffsmiles,y\r\nCCO,1\r\nCC,2\r\n", ["CCO", "CC"], [1, 2]),
        ("a.csv.gz", "smiles\ty\nCCO\t1\n\nCC\t0\n", ["CCO", "CC"], [1, 0]),
        ("a.csv", '"name, full";"smiles";"y"\n"x; y";"CCO";"1,5"\n"x; y";CC;2\n', ["CCO", "CC"], [1.5, 2]),
        ("a.csv", "CCO,1\nCC,2.5\n", ["CCO", "CC"], [1, 2.5]),  # no names
        ("a.csv", ",smiles,y\n0,CCO,3\n1,CC,4\n2,CN,3\n", ["CCO", "CC", "CN"], [3, 4, 3]),  # as pandas writes its index
        ("a.csv", "smiles,toxic\nCCO,True\nCC,False\nCN,True\n", ["CCO", "CC", "CN"], ["True", "False", "True"]),
        ("a.csv", "smiles,class\nCCO,none\nCC,-\nCN,none\n", ["CCO", "CC", "CN"], ["none", "-", "none"]),
        ("a.csv", "smiles,canonical_smiles,y\n,CCO,1\n,CC,2\n", ["CCO", "CC"], [1, 2]),
        ("a.csv", "smiles,y,inchi\nCCO,1,InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3\nCC,1,\n", None, None),
        ("a.csv", "smiles,y,split,date\nCCO,1,train,2020-01-02\nCC,2,test,2020-01-02\n", ["CCO", "CC"], [1, 2]),
        ("a.csv", "id\tsmiles\ty\n\u00e4\tCCO\t1\n".encode("utf-16"), ["CCO"], [1]),
        (
            "a.csv",
            "smiles,S\u00e4ure\nCCO,\u00e4\nCC,b\nCN,b\n".encode("latin-1"),
            ["CCO", "CC", "CN"],
            ["\u00e4", "b", "b"],
        ),
        ("a.smi", "CCO 1.5\nCC 2\n", ["CCO", "CC"], [1.5, 2]),
        ("a.tab", "smiles\ty\nCCO |$_AV:2;1;0$|\t1\n", ["CCO |$_AV:2;1;0$|"], [1]),
        ("a.csv", "smiles,y\nCCO ethanol,1\nCC,2\n", ["CCO", "CC"], [1, 2]),
        ("a.smi", "C[C@H](F)Cl |&1:1| 1.5\nCC 2\n", ["C[C@H](F)Cl", "CC"], [1.5, 2]),
        ("a.smi", "CCO |$_AV:2; 1;0$| 1.5\nCC 2\n", ["CCO", "CC"], [1.5, 2]),
        (
            "a.csv",
            f"smiles,y\n{PEPTIDE},1\n*CC,2\n[2H]OC,3\nN->[Pt],4\n[CH3],5\n[Na+].[Cl-],6\n",
            [PEPTIDE, "*CC", "[2H]OC", "N->[Pt]", "[CH3]", "[Na+].[Cl-]"],
            [1, 2, 3, 4, 5, 6],
        ),
    ],
)
def test_read_and_not_refused(name, text, smiles, values, tmp_path, capfd):
    path = written(tmp_path, name, text)
    if smiles is None:  # an unquoted comma moves what is behind it
        table = read_molecules(path)
        assert table.smiles == ["CC"] and table.rejected[0].line == 2 and "expected 3 cells" in table.rejected[0].reason
        return
    table = read_molecules(path)
    assert table.smiles == smiles and table.targets.iloc[:, 0].tolist() == values and table.rejected == []
    assert capfd.readouterr() == ("", "")


def test_lists_with_names(tmp_path):
    text = "CCO vitamin C\nCC\tethane\nCN |r| x\n\nC1C ring\n"
    table = read_molecules(written(tmp_path, "a.smi", text), labels=False)
    assert table.smiles == ["CCO", "CC", "CN"] and table.lines == [1, 2, 3] and table.rejected[0].line == 5
    assert table.table["2"].tolist() == ["vitamin C", "ethane", "x"] and table.targets.shape == (3, 0)
    assert read_molecules(written(tmp_path, "b.smi", "CCO a b\tc\n"), labels=False).smiles == ["CCO"]


def test_a_field_of_any_length_is_one_row(tmp_path):
    limit, text = csv.field_size_limit(), "C" * 200_000
    table = read_molecules(
        written(tmp_path, "a.csv", f'smiles,y,note\nCCO,1,"{text}"\n{text},2,x\nCC,3,x\n'), target="y"
    )
    assert table.smiles == ["CCO", "CC"] and csv.field_size_limit() == limit
    assert table.rejected[0].line == 3 and len(table.rejected[0].text) < 100 and "200,000" in table.rejected[0].reason


def test_standardized_molecules(tmp_path):
    path = written(tmp_path, "a.csv", "smiles,y\nCC(=O)[O-].[Na+],1\nCC(=O)O,2\n")
    assert read_molecules(path).duplicates == 0
    table = read_molecules(path, standardize=True)
    assert table.smiles == ["CC(=O)O"] * 2 and table.duplicates == 1 and table.table.smiles[0] == "CC(=O)[O-].[Na+]"


def test_tautomers_with_one_key_have_one_scaffold(tmp_path):
    "So that a scaffold split does not part them."
    table = read_molecules(written(tmp_path, "a.csv", "smiles,y\nO=c1cccc[nH]1,1\nOc1ccccn1,1\n"))
    assert table.duplicates == 1 and len(set(table.scaffolds)) == 1 == 3 - len({*map(murcko_scaffold, table.smiles)})


def test_a_few_cells_that_are_no_numbers_are_missing(tmp_path):
    rows = [f"{'C' * (i + 1)},{i / 10}" for i in range(30)]
    path = written(tmp_path, "a.csv", "\n".join(["smiles,pIC50", *rows, "CCN,>10", "CCF,1e999", "CCS,7"]))
    table = read_molecules(path)
    assert len(table) == 31 and [row.line for row in table.rejected] == [32, 33]
    assert "expected a number in pIC50 (got '>10')" in table.rejected[0].reason
    assert (
        table.notes[-1] == "column pIC50: 2 cells are not numbers and count as missing; the first is '>10' in line 32"
    )


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), min_size=1))
def test_numbers_are_read_as_python_writes_them(values):
    target = parse_target([None if value is None else repr(value) for value in values], False)
    assert not target.words and not target.no_number
    assert np.array_equal(target.values, [np.nan if value is None else value for value in values], equal_nan=True)


@pytest.mark.parametrize("text", ["1_000", "\u0661", "0x1F", "inf", "1,5", "1e", ".", "1 2"])
def test_what_is_no_number_is_a_word(text):
    assert parse_target(["1", text], False).words


def test_columns_by_number_and_in_other_letters(tmp_path):
    path = written(tmp_path, "a.csv", "Drug,B,a\nCCO,1,x\nCC,2,y\nCN,2,y\n")
    for target in ("b", 2, "2", ["B"]):
        assert read_molecules(path, "drug", target).target_columns == ["B"]
    assert read_molecules(path, target=["a", "B"]).targets.columns.tolist() == ["a", "B"]
    headless = read_molecules(written(tmp_path, "b.csv", "CCO,CC,4\nC,N,5\n"), smiles=2, target=3)
    assert headless.smiles == ["CC", "N"] and headless.target_columns == ["3"]
    assert len(read_molecules(written(tmp_path, "c.csv", "CCO,2\nCC,3\n"), target=2)) == 2  # a cell like the number


def test_columns_of_the_same_name(tmp_path):
    table = read_molecules(written(tmp_path, "a.csv", "smiles,y,y,\nCCO,1,2,3\n"), target="y.1")
    assert table.table.columns.tolist() == ["smiles", "y", "y.1", "4"] and table.targets.iloc[0, 0] == 2


MANY = "".join(f"{'C' * (i + 1)},word{i},2020-01-{i % 28 + 1:02d},{i % 2},{i}.5,\n" for i in range(25))


@pytest.mark.parametrize(
    "target, words",
    [
        ("z", "a column named z .*got columns smiles, id, date, class, x, empty.*--target"),
        (9, "a column named 9 "),
        ("date", "got dates such as 2020-01-01"),
        ("id", "got 25 different words such as word0"),
        ("empty", "got only empty cells"),
        ("smiles", "got the column with the SMILES"),
        (["x", "x"], "got a column twice: x"),
        ([], "at least one target"),
        (None, "got several candidates: class, x; its columns are smiles, id, date, class, x, empty"),
    ],
)
def test_a_target_that_is_none_is_refused(target, words, tmp_path):
    with pytest.raises(ValueError, match="expected .*" + words):
        read_molecules(written(tmp_path, "a.csv", "smiles,id,date,class,x,empty\n" + MANY), target=target)


@pytest.mark.parametrize(
    "date",
    ["02/01/2020", "1.2.20", "2020/1/2", "2-Jan-2020", "2020-01-02T10:00:00", "2020-01-02 10:00", "January 2, 2020"],
)
def test_dates_are_no_labels(date, tmp_path):
    with pytest.raises(ValueError, match="got dates such as"):
        read_molecules(written(tmp_path, "a.csv", f'smiles,when\nCCO,"{date}"\nCC,"{date}"\n'), target="when")


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("a.csv", "", "at least one molecule .*is empty"),
        ("a.smi", "\n \n", "at least one molecule .*is empty"),
        ("a.csv", "smiles,y\n", "at least one molecule .*only the names"),
        ("a.sdf", "", "at least one molecule .*is empty"),
        ("a.csv", ",\n", "one column of SMILES"),
        (
            "a.csv",
            "first,drug,ligand\nCCO,CC,CN\nC,O,N\n",
            "one column of SMILES .*first and drug and ligand may be it.*--smiles",
        ),
        (
            "a.csv",
            "smiles,canonical_smiles,other_smiles,y\nOCC,CCO,CCO,1\n",
            "smiles and canonical_smiles and other_smiles may",
        ),
        ("a.csv", "smiles\nCCO\n", "got none that holds numbers or a few classes; its columns are smiles"),
        ("a.csv", "smiles,id,name\nCCO,1,x\nCC,2,y\n", "got none that holds"),
        ("a.csv", "smiles,y\nC1C,1\nC(,2\n", "at least one row .*got none among 2: line 2: .*unclosed ring.*line 3"),
        ("a.csv", "smiles,y\n1,2,CCO\n", "at least one row .*line 2: expected 2 cells"),
        ("a.csv", b"PK\x03\x04\0\0", "zero bytes.*UTF-8"),
        ("a.csv", "smiles,y\nCCO,1\n".encode("utf-16-le"), "zero bytes.*UTF-8"),
        ("a.xlsx", "x", r"expected a file ending in \.smi, .*\.parquet, \.sdf"),
        ("a.parquet", b"PAR1 no", "expected a Parquet file"),
        ("a.sdf", "no\nrecord\n\n\n$$$$\n", "at least one row .*line 1: expected a record that RDKit accepts"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(name, text, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        read_molecules(written(tmp_path, name, text))


def test_folders_and_files_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="got .*: a folder"):
        read_molecules(tmp_path)
    for name in ("a.csv", "a.sdf", "a.parquet"):
        with pytest.raises(FileNotFoundError):
            read_molecules(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.sdf.gz", "a.parquet.gz"])
def test_a_truncated_gzip_file(name, tmp_path):
    rows = "smiles,y\n" + "".join(f"C,{i * i % 9973}\n" for i in range(100_000))
    whole = gzip.compress(rows.encode())
    for size in (len(whole) // 2, len(whole) - 4):
        (tmp_path / name).write_bytes(whole[:size])
        with pytest.raises(ValueError, match="complete gzip file .got .*" + name):
            read_molecules(tmp_path / name)


# SDF and Parquet


def sdf(*records):
    return "".join(
        Chem.MolToMolBlock(Chem.MolFromSmiles(smiles)).replace("\n", f"{title}\n", 1)
        + "".join(f"> <{name}>\n{value}\n\n" for name, value in properties.items())
        + "$$$$\n"
        for smiles, title, properties in records
    )


RECORDS = [
    ("CCO", "one", {"pIC50": "1.5", "note": "a\nb"}),
    ("C/C=C/C", "two", {"pIC50": "2.5"}),
    ("C[C@H](N)O", "three", {"note": "\u00e4"}),
]


@pytest.mark.parametrize("name, ends", [("a.sdf", "\n"), ("a.sdf.gz", "\r\n"), ("A.SDF", "\n")])
def test_an_sdf(name, ends, tmp_path, capfd):
    broken = sdf(("CCCCC", "four", {"pIC50": "9"})).replace(" 1  2  1", " 1  9  1").replace("  1  2  1", "  1  9  1")
    path = written(tmp_path, name, (sdf(*RECORDS) + broken).replace("\n", ends))
    table = read_molecules(path, target="pIC50")
    assert table.smiles == ["CCO", "C/C=C/C"] and table.lines == [1, 2] and table.smiles_column is None
    assert table.targets.pIC50.tolist() == [1.5, 2.5] and table.table.note.tolist() == ["a\nb", None]
    assert [row[:2] for row in table.rejected] == [(3, "C[C@H](N)O"), (4, "four")]
    assert read_molecules(path).target_columns == ["pIC50"]
    assert read_molecules(path, labels=False).smiles[2] == "C[C@H](N)O" and capfd.readouterr() == ("", "")
    with pytest.raises(ValueError, match="a column named logP .*got columns pIC50, note"):
        read_molecules(path, target="logP")
    with pytest.raises(ValueError, match="no column of SMILES for an SDF"):
        read_molecules(path, smiles="note")


def test_an_sdf_in_latin1_and_without_its_last_line(tmp_path):
    text = sdf(*RECORDS).encode("latin-1").removesuffix(b"$$$$\n")
    assert read_molecules(written(tmp_path, "a.sdf", text), labels=False).table.note[2] == "\u00e4"


def test_an_sdf_without_properties(tmp_path):
    with pytest.raises(ValueError, match="its columns are none"):
        read_molecules(written(tmp_path, "a.sdf", sdf(("CCO", "x", {}))))


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="install gib-nb[screen]")
    frame = pandas.DataFrame(
        {
            "drug": ["CCO", "C1C", None, "CC"],
            "y": [1.5, 2, 3, np.nan],
            "label": pandas.array([1, 0, None, 1], dtype="Int64"),
            "toxic": [True, False, True, True],
            "when": pandas.date_range("2020-01-01", periods=4),
            "many": [[1.0], [2.0], [3.0], [4.0]],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet")
    table = read_molecules(tmp_path / "a.parquet", "drug", ["y", "label", "toxic"])
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    packed = read_molecules(tmp_path / "a.parquet.gz", "drug", ["y", "label", "toxic"])
    assert packed.smiles == table.smiles and packed.targets.equals(table.targets)
    assert table.smiles == ["CCO", "CC"] and table.lines == [1, 4] and [row.line for row in table.rejected] == [2, 3]
    assert table.targets.label.tolist() == [1, 1] and table.targets.toxic.tolist() == ["True", "True"]
    with pytest.raises(ValueError, match="got dates"):
        read_molecules(tmp_path / "a.parquet", "drug", "when")
    with pytest.raises(ValueError, match="got columns drug, y, .*: no|none"):
        read_molecules(tmp_path / "a.parquet", "smiles", "y")
    frame[:0].to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="is empty"):
        read_molecules(tmp_path / "b.parquet")


# published sets


@pytest.mark.parametrize(
    "name, targets, usable, rejected, duplicates, conflicts",
    [
        ("esol", None, 1128, 0, 11, 6),
        ("freesolv", None, 642, 0, 0, 0),
        pytest.param("bace", ["Class", "pIC50"], 1513, 0, 0, 0, marks=pytest.mark.slow),
        ("clintox", ["FDA_APPROVED", "CT_TOX"], 1480, 4, 23, 21),
        pytest.param("bbbp", None, 2039, 11, 68, 11, marks=pytest.mark.slow),
        pytest.param("lipophilicity", None, 4200, 0, 0, 0, marks=pytest.mark.slow),
        pytest.param("tox21", 12, 7823, 8, 2, 1, marks=pytest.mark.slow),
        pytest.param("hiv", None, 41120, 7, 2, 0, marks=pytest.mark.slow),
    ],
)
def test_published_sets(name, targets, usable, rejected, duplicates, conflicts, data_root):
    path = data_root / "moleculenet" / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip(f"published data not found: {path}")
    if targets == 12:
        with gzip.open(path, "rt") as lines:
            targets = next(lines).strip().split(",")[1:]
    table = read_molecules(path, target=targets, progress=False)
    found = (len(table), len(table.rejected), table.duplicates, len(table.conflicts))
    assert found == (usable, rejected, duplicates, conflicts) and (table.targets.dtypes == float).all()
    with gzip.open(path, "rt") as lines:
        text = [line.split(",")[0].strip() for line in lines]
    assert all(text[line - 1] == smiles for line, smiles in zip(table.lines, table.smiles))


# graphs


def graphs(number=3):
    return [
        Data(
            x=torch.full((i + 2, 2), i),
            edge_index=torch.tensor([[0, i + 1], [i + 1, 0]]),
            y=torch.tensor([i]),
            name=f"g{i}",
        )
        for i in range(number)
    ]


def same(found, expected):
    return len(found) == len(expected) and all(
        type(a) is Data
        and sorted(a.keys()) == sorted(b.keys())
        and all(torch.equal(a[k], b[k]) for k in ("x", "edge_index", "y"))
        and a.name == b.name
        for a, b in zip(found, expected)
    )


def test_graphs_in_every_form_that_pyg_saves(tmp_path):
    forms = {
        "list": graphs(),
        "tuple": tuple(graphs()),
        "batch": Batch.from_data_list(graphs()),
        "collated": InMemoryDataset.collate(graphs()),
    }
    for name, content in forms.items():
        torch.save(content, tmp_path / f"{name}.pt")
        assert same(read_graphs(tmp_path / f"{name}.pt"), graphs()), name
    torch.save(graphs()[1], tmp_path / "one.pt")
    assert same(read_graphs(tmp_path / "one.pt"), graphs()[1:2])
    (tmp_path / "set" / "processed").mkdir(parents=True)
    InMemoryDataset.save(graphs(), str(tmp_path / "set" / "processed" / "data.pt"))
    torch.save("None", tmp_path / "set" / "processed" / "pre_filter.pt")
    assert same(read_graphs(tmp_path / "set"), graphs()) and same(read_graphs(tmp_path / "set" / "processed"), graphs())


def test_a_folder_of_graphs_in_the_order_of_their_numbers(tmp_path):
    for i, graph in enumerate(graphs(12)):
        torch.save(graph, tmp_path / f"g{i}.pt")
    assert same(read_graphs(tmp_path), graphs(12))


class Harmful:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


@pytest.mark.parametrize(
    "content, words",
    [
        (Harmful(), "got an object of .*exec, which is not loaded for safety reasons"),
        ([Harmful()], "not loaded for safety reasons"),
        ({"a": torch.ones(2)}, "got dict"),
        ([torch.ones(2)], "got Tensor"),
        (torch.nn.Linear(2, 2), "got an object of torch.nn"),
        ([HeteroData()], "got .*HeteroData"),
        ([], "at least one graph"),
    ],
)
def test_what_holds_no_graphs_is_refused(content, words, tmp_path):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=f'expected .*{words}.*torch.save..data, ...., "graphs.pt".'):
        read_graphs(tmp_path / "a.pt")


def test_files_without_graphs(tmp_path):
    with pytest.raises(FileNotFoundError, match="a.pt"):
        read_graphs(tmp_path / "a.pt")
    with pytest.raises(ValueError, match="at least one graph"):
        read_graphs(tmp_path)
    for content in (b"", b"no", pickle.dumps(Harmful()), b"PK\x03\x04no"):
        (tmp_path / "b.pt").write_bytes(content)
        with pytest.raises(ValueError, match="(?s)expected .*b.pt.* save them as"):
            read_graphs(tmp_path / "b.pt")
    with pytest.raises(ValueError, match="expected a .pt file"):
        read_graphs(tmp_path / "a.pkl")


# splits


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), max_size=60), st.integers(0, 5))
def test_groups_stay_together(rows, seed):
    labels, groups = [row[0] for row in rows], [row[1] for row in rows]
    split = split_indices(labels, seed=seed, groups=groups)
    assert sorted(np.concatenate(list(split.values()))) == list(range(len(rows)))
    parts = [{groups[i] for i in part} for part in split.values()]
    assert sum(map(len, parts)) == len(set(groups))


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 5))
def test_groups_of_one_change_nothing(labels, seed):
    plain, grouped = (
        split_indices(labels, 0.7, 0.2, seed),
        split_indices(labels, 0.7, 0.2, seed, [f"k{i}" for i in range(len(labels))]),
    )
    assert all(np.array_equal(plain[part], grouped[part]) for part in plain)


def deepchem_split(scaffolds, train, valid):
    "ScaffoldSplitter of DeepChem, as published."
    groups = {}
    for i, scaffold in enumerate(scaffolds):
        groups.setdefault(scaffold, []).append(i)
    found = [], [], []
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if len(found[0]) + len(group) > train * len(scaffolds):
            found[2 if len(found[0]) + len(found[1]) + len(group) > (train + valid) * len(scaffolds) else 1].extend(
                group
            )
        else:
            found[0].extend(group)
    return [sorted(part) for part in found]


@given(st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1, max_size=64))
def test_the_scaffold_split_is_that_of_deepchem(scaffolds):
    expected = deepchem_split(scaffolds, 0.75, 0.125)
    if not expected[0]:
        with pytest.raises(ValueError, match="expected scaffolds that can be divided"):
            scaffold_split(scaffolds, 0.75, 0.125)
    else:
        assert [part.tolist() for part in scaffold_split(scaffolds, 0.75, 0.125).values()] == expected


def test_a_split_in_a_column():
    split = predefined_split(["Train", " test ", "VALID", "val", "validation", "training"])
    assert {name: part.tolist() for name, part in split.items()} == {"train": [0, 5], "valid": [2, 3, 4], "test": [1]}
    for values, got in ((["train", "fold 1", None], "fold 1, None"), (["test", "val"], "test, val"), ([], "no values")):
        with pytest.raises(ValueError, match=f"expected a split column with train, .*got {got}"):
            predefined_split(values)


def test_groups_and_shares_are_checked():
    with pytest.raises(ValueError, match="a group for each of 3 graphs .got 2"):
        split_indices([0, 0, 0], groups=[1, 2])
    with pytest.raises(ValueError, match="expected shares"):
        scaffold_split(["a"], 1.2)


def test_characters_that_are_not_utf8_are_reported(tmp_path):
    for text, encoding, reported in (("Säure", "latin-1", True), ("Säure", "utf-8", False), ("Säure", "utf-16", False)):
        (tmp_path / "a.csv").write_bytes(f"smiles,{text}\nCCO,1\nCC,0\nCN,1\n".encode(encoding))
        found = read_molecules(tmp_path / "a.csv")
        assert found.target_columns == [text] and any("not UTF-8" in note for note in found.notes) == reported
