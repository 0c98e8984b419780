"""Numbers as people type them: −½, 50%, log 128, .95²⁰.

`spelled` translates the notation of formulas into that of Python, and refuses a text that could mean two numbers. The result is parsed by Python and evaluated
node by node: only numbers, a few names, and a few operations are allowed. Nothing that was typed is executed.
"""

import ast
import math
import operator
import re
import unicodedata

FUNCTIONS = {
    "log": math.log,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
    "sqrt": math.sqrt,
}
CONSTANTS = {"pi": math.pi, "e": math.e}
SIGNS = {"^": "**", "−": "-", "–": "-", "·": "*", "×": "*", "÷": "/", "√": "sqrt", "π": "pi", ",": "."}
_NUMBER = r"(?>(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
_OPERAND = rf"(?:{_NUMBER}|(?:{'|'.join(CONSTANTS)})\b)"


def spelled(text: str) -> str:
    "A typed number as Python: −½ → -0.5, .95²⁰ → .95**20, 50% → (50/100), log₂ 8 → log2(8), 2 log 3 → 2*log(3)."
    text = re.sub("[⁻⁰¹²³⁴-⁹]+", lambda raised: "**" + unicodedata.normalize("NFKC", raised[0]), text)
    text = re.sub("[₀-₉]+", lambda lowered: unicodedata.normalize("NFKC", lowered[0]) + " ", text)
    text = "".join(
        f" {unicodedata.numeric(sign)} " if unicodedata.decomposition(sign).startswith("<fraction>") else sign
        for sign in text
    ).lower()
    text = re.sub(rf"√\s*({_OPERAND})", r"sqrt(\1)", text)
    for sign, plain_sign in SIGNS.items():
        text = text.replace(sign, plain_sign)
    text = re.sub(rf"(?<!\w)({_NUMBER})\s*%", r"(\1/100)", text)
    argument = rf"\b({'|'.join(FUNCTIONS)})\s+({_OPERAND})"
    if unclear := re.search(rf"{argument}\s*([*/]+)\s*[\d.(]", text):
        name, number, sign = unclear.groups()
        raise ValueError(
            f"put parentheses, since {name} {number}{sign}… may be {name}({number}){sign}… or {name}({number}{sign}…)"
        )
    text = re.sub(argument, r"\1(\2)", text)
    text = re.sub(rf"(?<![\w.])({_NUMBER})\s*(?=[a-z(])", r"\1*", text)  # an omitted multiplication sign
    return re.sub(r"\)\s*(?=[a-z(])", ")*", text).strip()


OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
FORMS = (
    "Numbers can be written as 0.5, 0,5, 1e-3, 50%, 7/3, log 128, ln(10), log2(8), log10(2), exp(1), sqrt(2), pi, or e, "
    "with + - * / ** and parentheses. log is the natural logarithm."
)


def _evaluated(node) -> float:
    match node:
        case ast.Constant(value=int() | float()):
            return float(node.value)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](_evaluated(argument))
        case ast.UnaryOp(op=sign, operand=one) if type(sign) in OPERATIONS:
            return OPERATIONS[type(sign)](_evaluated(one))
        case ast.BinOp(left=one, op=sign, right=other) if type(sign) in OPERATIONS:
            return OPERATIONS[type(sign)](_evaluated(one), _evaluated(other))
    raise SyntaxError("this is not a number")


def read_number(
    text: str,
    unit: str = "",  # "bits": an answer in nats is converted; otherwise an answer in bits is
) -> float:
    "The value of a number that was typed, perhaps as a formula; ValueError if it is not one finite number."
    written, ending = re.fullmatch(r"(.*?)\s*(bits?|nats?)?", text[:200].strip(), re.DOTALL | re.IGNORECASE).groups()
    try:
        value = _evaluated(ast.parse(spelled(written), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"expected one number (got {text!r})") from None
    except (ArithmeticError, ValueError) as error:
        if str(error).startswith("put parentheses"):
            raise
        raise ValueError(f"expected a finite number (got {text!r}: {error})") from None
    if isinstance(value, complex) or not math.isfinite(value):
        raise ValueError(f"expected a finite number (got {text!r})")
    converted = {"b": 1.0, "n": 1 / math.log(2)} if unit == "bits" else {"b": math.log(2), "n": 1.0}
    return value * converted[ending[0].lower()] if ending else value
