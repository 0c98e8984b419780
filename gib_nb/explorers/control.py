"""A value that a user may change: one record says everything about a slider, a menu, a switch, or a text field."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Control:
    "A value that a user may change."

    name: str  # attribute of the explorer
    label: str  # short words beside it
    options: tuple = ()  # the values, in order; a text has none
    default: object = None  # None: the first option
    kind: str = "slider"  # "slider", "dropdown", "toggle", or "text"
    format: Callable = str  # value -> what is shown
    help: str = ""  # a sentence, shown on hovering

    def __post_init__(self):
        if self.kind not in ("slider", "dropdown", "toggle", "text"):
            raise ValueError(
                f'expected kind "slider", "dropdown", "toggle", or "text" of {self.name} (got {self.kind!r})'
            )
        if self.kind == "toggle" and not self.options:
            object.__setattr__(self, "options", (False, True))
        if self.default is None:
            object.__setattr__(self, "default", self.options[0] if self.options else "")
        if self.options and self.default not in self.options:
            raise ValueError(
                f"expected the default of {self.name} among its options {self.options} (got {self.default!r})"
            )

    def check(self, value):
        "The option that equals a value; ValueError with the options when there is none."
        if self.kind == "text":
            if not isinstance(value, str):
                raise ValueError(f"expected {self.name} as a text (got {value!r})")
            return value
        for option in self.options:
            if option == value and isinstance(option, bool) == isinstance(value, bool):
                return option
        raise ValueError(f"expected {self.name} to be one of {', '.join(map(repr, self.options))} (got {value!r})")
