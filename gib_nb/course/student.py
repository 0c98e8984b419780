"""The process that runs a handed-in notebook: it runs cells and calls functions when the grader says so.

It knows neither the right values nor the cases: the grader sends one input at a time and compares the value itself.
So nothing that the notebook prints, writes, or replaces can earn a point.
"""

import builtins
import contextlib
import inspect
import os
import pathlib
import re
import sys
import traceback
import types

import numpy as np

from gib_nb.course.confine import confine
from gib_nb.course.wire import LINE, decode, encode, from_line, to_line

MAGIC = re.compile(r"^(\s*)(?:[%!].*|.*\?)$", re.M)  # lines for IPython and the shell


class Pipe:
    "The two ends of the connection to the grader."

    def __init__(self):
        self.reader, self.writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode, encoding="utf-8") for mode in ("r", "w", "w"))

    def read(self) -> dict:
        "The next message; the process ends when there is none."
        return from_line(self.reader.readline() or os._exit(0))

    def write(self, message: dict):
        "Send a message."
        line = to_line(message)
        if len(line) > LINE:
            line = to_line({"value": {"foreign": "a value that is too large"}, "arguments": []})
        self.writer.write(line)
        self.writer.flush()


def hide_exercises():
    "Put functions that do nothing in the place of `gib_nb.exercises`, so that cells that check an answer still run."
    for name in ("gib_nb.exercises", "gib_nb.exercises.base"):
        module = types.ModuleType(name)
        for function in ("check", "ask", "guess", "solution", "progress"):
            setattr(module, function, lambda *arguments, **settings: None)
        sys.modules[name] = module


def failure(error: BaseException, code=None) -> dict:
    "What is known about an error: its type, its message, and its line in the function, or else in the cell."
    try:
        text = str(error)
    except Exception:
        text = "an error whose message cannot be shown"
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    mine = [line - code.co_firstlineno + 1 for there, line in frames if there is code]
    cell = [line for there, line in frames if there.co_filename == "<cell>"]
    line = mine[-1:] if code is not None else cell[-1:] or [getattr(error, "lineno", None)]
    return {"type": type(error).__name__[:80], "message": text[:500], "line": (line or [None])[0]}


def run_cell(source: str, space: dict):
    "Run the source of a cell; lines for IPython or the shell are left out if Python cannot read them."
    try:
        code = compile(source, "<cell>", "exec")
    except SyntaxError:
        code = compile(MAGIC.sub(r"\1pass", source), "<cell>", "exec")
    exec(code, space)


def code_of(function):
    "The code of a function, also below decorators; None for other callables."
    return getattr(inspect.unwrap(function), "__code__", None)


def respond(message: dict, space: dict, pipe: Pipe) -> dict:
    "Do what a message asks for."
    code = None
    try:
        match message:
            case {"cell": source}:
                run_cell(source, space)
                return {"value": None}
            case {"look": name}:
                if name not in space:
                    return {"kind": "missing"}
                if not callable(space[name]):
                    return {"kind": "value", "value": encode(space[name])}
                return {"kind": "function", "code": len(getattr(code_of(space[name]), "co_code", bytes(999)))}
            case {"call": name, "arguments": arguments}:
                code = code_of(space[name])
                given = [decode(each, lambda *some: call_back(pipe, *some)) for each in arguments]
                value = encode(space[name](*given))
                return {"value": value, "arguments": [encode(each) for each in given]}
    except BaseException as error:
        return {"error": failure(error, code)}


def call_back(pipe: Pipe, number: int, *arguments):
    "Call a function of the grader that was an argument."
    pipe.write({"function": number, "arguments": [encode(each) for each in arguments]})
    answer = pipe.read()
    if "error" in answer:
        raise TypeError(answer["error"])
    return decode(answer["value"])


def serve():
    "Receive the limits, apply them, and then answer one message after the other."
    pipe, package = Pipe(), pathlib.Path(__file__).parents[1]
    set_up = pipe.read()
    hide_exercises()
    confined_by = confine(pathlib.Path.cwd(), [package / "exercises"], package, set_up["seconds"], set_up["memory"])
    space = {"__name__": "__main__", "__builtins__": builtins, "display": lambda *things, **settings: None}
    np.seterr(all="ignore")
    pipe.write({"limits": confined_by})
    while True:
        message = pipe.read()
        with contextlib.suppress(BrokenPipeError):
            pipe.write(respond(message, space, pipe))
