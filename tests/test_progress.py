"""Progress is kept in a file, survives a restart, and moves the bar of a notebook."""

import json

import nbformat
import pytest
from nbclient import NotebookClient

from gib_nb.exercises import check, progress, record
from gib_nb.exercises.base import LESSONS, exercises_of, find
from gib_nb.exercises.questions import Question


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("GIB_NB_PROGRESS", str(tmp_path / "mine.json"))
    return tmp_path / "mine.json"


def test_what_is_solved_stays_solved(file):
    for answer in (1, 0.5, 0, 1):
        check("half_of_xor", answer)
    check("no_information", "a")
    check("entropy_in_bits", lambda p: None)  # not written yet
    assert json.loads(file.read_text()) == {
        "half_of_xor": {"tries": 3, "solved": True},
        "no_information": {"tries": 1, "solved": False},
    }
    assert progress(1).now()[0].marks == {
        "entropy_in_bits": "open",
        "conditional_entropy": "open",
        "mutual_information": "open",
        "half_of_xor": "solved",
        "no_information": "tried",
    }
    assert repr(progress(1)) == "Lesson 1: 1 of 5 exercises solved"


def test_the_field_of_a_question_counts(file):
    question = find("no_information")
    widget = Question(**{name: value for name, value in vars(question).items() if name != "widget"}).widget
    widget.children[1].value = "c"
    assert "Right" in widget.children[2].value and progress(1).now()[0].marks["no_information"] == "solved"


def test_outside_of_notebooks_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in (None, ""):
        monkeypatch.delenv("GIB_NB_PROGRESS", raising=False) if value is None else monkeypatch.setenv(
            "GIB_NB_PROGRESS", ""
        )
        check("half_of_xor", 0)
        assert not list(tmp_path.iterdir()) and progress(1).now()[0].solved == 0


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}', '{"a": {"tries": "many"}}', "\\xff"])
def test_a_file_that_is_no_record_is_said_and_replaced(file, content):
    file.write_text(content)
    with pytest.warns(UserWarning, match="expected a record of your progress"):
        check("half_of_xor", 0)
    assert json.loads(file.read_text()) == {"half_of_xor": {"tries": 1, "solved": True}}


def test_a_folder_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GIB_NB_PROGRESS", str(tmp_path / "file" / "mine.json"))
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert check("half_of_xor", 0)


def test_there_is_a_line_for_each_lesson(file):
    states = progress().now()
    assert [state.name for state in states[: len(LESSONS)]] == [f"Lesson {lesson}" for lesson in LESSONS]
    assert all(list(state.marks) == list(exercises_of(lesson)) for lesson, state in zip(LESSONS, states))
    with pytest.raises(ValueError, match="expected a lesson from 1 to 11"):
        progress(0)


def test_the_bar_of_a_notebook_moves_and_the_next_session_knows(tmp_path, monkeypatch):
    monkeypatch.delenv("GIB_NB_PROGRESS", raising=False)
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("from gib_nb.exercises import check, progress\nprogress(1)"),
            nbformat.v4.new_code_cell('check("half_of_xor", 0)'),
        ]
    )
    run = lambda: NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    run()
    bar = notebook.cells[0].outputs[0]["data"]
    assert bar["text/plain"] == "Lesson 1: 1 of 5 exercises solved" and "half_of_xor: solved" in bar["text/html"]
    assert [path.name for path in tmp_path.iterdir()] == [record.FILE]
    del notebook.cells[1]
    run()
    assert notebook.cells[0].outputs[0]["data"]["text/plain"] == "Lesson 1: 1 of 5 exercises solved"
