"""Values as JSON, between the grader and the process that runs an answer.

Only plain data crosses: numbers, text, lists, and arrays. Nothing that an answer sends is executed or unpickled.
"""

import json
import re

import numpy as np

LARGEST = 10**300  # integer
MOST = 200_000  # numbers in one value
LINE = 8 * 2**20  # bytes of one message


class Foreign:
    "Something that an answer returned and that is no plain data; it equals nothing."

    def __init__(self, words: str):
        self.words = words

    def __repr__(self):
        return self.words


def encode(value, functions: list | None = None):
    "A value as plain JSON; functions are appended to a list and sent as their numbers."
    if value is None or value is ...:
        return None
    if isinstance(value, (bool, str)):
        return value
    if callable(value) and functions is not None:
        functions.append(value)
        return {"function": len(functions) - 1}
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return value if isinstance(value, float) or abs(value) < LARGEST else _foreign(value)
    if isinstance(value, (list, tuple)):
        return {type(value).__name__ if type(value) in (list, tuple) else "list": [encode(v, functions) for v in value]}
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind in "biuf" and array.size <= MOST:
            return {"array": array.tolist(), "dtype": array.dtype.str, "shape": list(array.shape)}
    return _foreign(value)


def _foreign(value):
    return {"foreign": f"a value of type {type(value).__name__}"[:80]}


def decode(value, call=None):
    "The value that was encoded; `call(number, *arguments)` stands for a function at the other end."
    match value:
        case {"function": int(number)}:
            return lambda *arguments: call(number, *arguments)
        case {"list": list(parts)}:
            return [decode(part, call) for part in parts]
        case {"tuple": list(parts)}:
            return tuple(decode(part, call) for part in parts)
        case {"array": numbers, "dtype": str(dtype), "shape": list(shape)}:
            if not re.fullmatch("[<>|=]?[biuf][1248]|[<>]f16", dtype):
                raise ValueError(f"expected an array of numbers (got dtype {dtype[:20]})")
            array = np.array(numbers, dtype=dtype).reshape(shape)
            return array if shape else array[()]
        case {"foreign": words}:
            return Foreign(str(words))
        case None | bool() | int() | float() | str():
            return value
    raise ValueError(f"expected an encoded value (got {str(value)[:80]})")


def to_line(message: dict) -> bytes:
    "A message as one line."
    return json.dumps(message, ensure_ascii=True).encode() + b"\n"


def from_line(line: bytes) -> dict:
    "The message of a line; ValueError if it has none."
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ValueError(f"expected a message (got {line[:80]!r})")
    return message
