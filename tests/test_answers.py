"""The process that runs the answers of a handed-in notebook: what it returns, and what it cannot reach."""

import functools
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

from gib_nb.course import confine
from gib_nb.course.session import Limits, RemoteFunction, Session
from gib_nb.course.wire import decode, encode, from_line, to_line

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's limits are those of Linux")


# ---- values on the wire


@pytest.mark.parametrize(
    "value",
    [None, True, "word", 3, 0.5, float("inf"), [1, [2.0, "a"]], (1, (2,)), np.float64(2), np.arange(6).reshape(2, 3)]
    + [np.array([True, False]), np.zeros((0, 3)), np.array([np.nan, 1.0])],
    ids=repr,
)
def test_a_value_arrives_as_it_was(value):
    found = decode(from_line(to_line({"value": encode(value)}))["value"])
    assert type(found) is type(value) or np.ndim(value) == 0 and not isinstance(value, (str, list))
    assert repr(np.asarray(found, object)) == repr(np.asarray(value, object))


def test_what_is_no_plain_value_is_named_and_equals_nothing():
    class Equal:
        __eq__ = lambda self, other: True

    for value in (Equal(), {"a": 1}, np.array(["a"]), np.array([Equal()]), 1j, 10**400):
        assert repr(decode(encode(value))).startswith("a value of type") and decode(encode(value)) != 0
    for line in (b"no", b"[1]", b'"a"', b"[" * 100_000):
        with pytest.raises(ValueError, match="expected a message"):
            from_line(line)
    for message in (
        {"array": [1], "dtype": "O", "shape": [1]},
        {"array": ["x"], "dtype": "U9", "shape": [1]},
        {"a": 1},
    ):
        with pytest.raises(ValueError, match="expected an"):
            decode(message)


# ---- the process of an answer


@pytest.fixture(scope="module")
def session():
    with Session(Limits(seconds=5, total=300)) as session:
        yield session


def raised(session, source):
    "The error of a cell, as type: message."
    found = session.run_cell(source)
    return found and f"{found['type']}: {found['message']}"


def test_a_function_runs_there_as_it_would_here(session):
    assert session.run_cell("import numpy as np\n%matplotlib inline\n!ls\ndef double(x):\n    return 2 * x") is None
    double = session.look("double")
    assert isinstance(double, RemoteFunction) and double(3) == 6
    np.testing.assert_array_equal(double(np.array([[1.0, 2.0]])), [[2.0, 4.0]])
    session.run_cell("def twice(f, n):\n    return [f(i) for i in range(n)]\ndef changes(a):\n    a[0] = 7")
    assert session.look("twice")(lambda number: number**2, 3) == [0, 1, 4]
    mine = np.zeros(2)
    session.look("changes")(mine)
    assert mine.tolist() == [7, 0]
    session.run_cell("answer = 0.5\nword = 'c'")
    assert session.look("answer") == 0.5 and session.look("word") == "c"
    with pytest.raises(KeyError):
        session.look("nothing")


def test_an_error_has_its_line(session):
    session.run_cell("def stumbles(x):\n    y = x\n    return y[9]")
    with pytest.raises(Exception, match="out of range") as caught:
        session.look("stumbles")([1])
    assert type(caught.value).__name__ == "IndexError" and caught.value.answer_line == 3
    assert session.run_cell("a = 1\nraise ValueError('no')") == {"type": "ValueError", "message": "no", "line": 2}


FORBIDDEN = {
    "reads the exercises": "open({exercises!r}).read()",
    "reads another file": "open({secret!r}).read()",
    "lists a folder": "import os; os.listdir({folder!r})",
    "writes a file": "open({secret!r} + '2', 'w')",
    "removes a file": "import os; os.remove({secret!r})",
    "changes the rights of a file": "import os; os.chmod({secret!r}, 0)",
    "opens a socket": "import socket; socket.create_connection(('127.0.0.1', 9))",
    "starts a program": "import subprocess; subprocess.run(['ls'])",
    "forks": "import os; os.fork()",
    "becomes another program": "import os; os.execv('/bin/ls', ['ls'])",
    "links to a file": "import os; os.symlink({secret!r}, 'mine')",
    "ends the grader": "import os; os.kill(os.getppid(), 9)",
    "imports the hidden cases": "import gib_nb.exercises.lesson_1",
}


@linux
@pytest.mark.parametrize("does", FORBIDDEN)
def test_an_answer_reaches_nothing_outside(session, does, tmp_path):
    (tmp_path / "secret.txt").write_text("the key")
    exercises = pathlib.Path(confine.__file__).parents[1] / "exercises" / "lesson_1.py"
    code = FORBIDDEN[does].format(exercises=str(exercises), secret=str(tmp_path / "secret.txt"), folder=str(tmp_path))
    assert raised(session, code).startswith(("PermissionError", "ModuleNotFoundError")), does
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert (tmp_path / "secret.txt").read_text() == "the key"


@linux
def test_the_interpreter_refuses_where_the_kernel_cannot(tmp_path, monkeypatch):
    "On another system, or with an old kernel."
    (tmp_path / "secret.txt").write_text("the key")
    (tmp_path / "work").mkdir()
    tries = {does: code for does, code in FORBIDDEN.items() if does != "imports the hidden cases"}
    exercises = pathlib.Path(confine.__file__).parents[1] / "exercises" / "lesson_1.py"
    code = f"""
import pathlib, sys
from gib_nb.course import confine
confine.restrict_files = confine.restrict_calls = lambda *some: False
work = pathlib.Path({str(tmp_path / "work")!r})
package = pathlib.Path(confine.__file__).parents[1]
print(confine.confine(work, [package / "exercises"], package, 60, 2**31))
(work / "mine.txt").write_text("allowed")
for does, code in {tries!r}.items():
    try:
        exec(code.format(exercises={str(exercises)!r}, secret={str(tmp_path / "secret.txt")!r}, folder={str(tmp_path)!r}))
        print("no error:", does)
    except PermissionError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["{'files': 'interpreter', 'network': 'interpreter'}"], done.stdout + done.stderr
    assert (tmp_path / "secret.txt").read_text() == "the key"


def decision(program, machine, number, argument=0):
    "What a seccomp filter returns for a system call: a small machine for its instructions."
    data, value, line = {0: number, 4: machine, 16: argument}, 0, 0
    while True:
        code, yes, no, operand = struct.unpack_from("HBBI", program, 8 * line)
        line += 1
        match code:
            case 0x20:
                value = data[operand]
            case 0x06:
                return operand
            case _:
                line += yes if {0x15: value == operand, 0x35: value >= operand, 0x45: value & operand}[code] else no


@pytest.mark.parametrize("machine", confine.MACHINES)
def test_the_filter_refuses_what_it_should(machine):
    column = confine.MACHINES.index(machine)
    identifier, clone, limits = (numbers[column] for numbers in (confine.IDENTIFIER, confine.CLONE, confine.PRLIMIT))
    ask = functools.partial(decision, confine.filter_of(machine), identifier)
    refused, unknown = confine.ERROR | confine.EPERM, confine.ERROR | confine.ENOSYS
    assert {ask(number) for number in confine.refused_on(machine)} == {refused}
    assert ask(clone, confine.THREAD) == confine.ALLOW and ask(clone) == refused
    assert ask(limits) == confine.ALLOW and ask(limits, 1234) == refused
    assert ask(confine.CLONE3) == unknown and ask(confine.NEWEST + 5) == unknown and ask(2**30 + 41) == unknown
    usual = {"x86_64": (0, 1, 3, 9, 11, 12, 60, 202, 231, 257), "aarch64": (56, 57, 62, 63, 64, 93, 94, 98, 214, 222)}
    assert {ask(number) for number in usual[machine]} == {confine.ALLOW}
    assert decision(confine.filter_of(machine), 0x40000003, 1) == confine.KILL


def test_the_process_knows_nothing_of_the_grader(session):
    session.run_cell("import os, sys\nseen = str(dict(os.environ)) + str(sys.argv) + os.getcwd() + str(os.listdir())")
    seen = session.look("seen")
    assert "key" not in seen.lower() and "submitted" not in seen and str(pathlib.Path.home()) + "'" not in seen
    session.run_cell(
        "from gib_nb.exercises import check\nfrom gib_nb.exercises.base import solution\nsaid = check('a', 1)"
    )
    assert session.look("said") is None


def test_a_process_that_does_not_start_is_an_error_of_the_grader(monkeypatch):
    monkeypatch.setattr("gib_nb.course.session.sys.executable", "/bin/false")
    with pytest.raises(RuntimeError, match="the process for answers did not start"), Session(Limits()):
        pass
