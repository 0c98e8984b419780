"""An option for every setting of a model and its training, made from the metadata of the configuration.

A setting that is added to a part in `gib_nb.train.parts` becomes an option automatically, with its help, default, and choices.
"""

import argparse
import re

from gib_nb.cli.common import add_renamed
from gib_nb.data.registry import is_graph_file, is_path
from gib_nb.nn.registry import BACKBONES
from gib_nb.train.config import RENAMED, Option, configure, flat_settings, lengths_of, options
from gib_nb.train.fields import Part
from gib_nb.train.parts import Frozen
from gib_nb.train.recipes import RECIPES, recipe, summary_of

GROUPS = {  # slot of a configuration → title of its options
    "encoder": "encoder",
    "mask": "mask: which nodes or edges are selected",
    "classifier": "classifier: what predicts from the subgraph",
    "information": "information term L_MI",
    "weights": "weights of the losses, threshold, seed",
    "phases": "phases of training",
    "optim": "optimization",
}


def choices(option: Option) -> tuple | None:
    "The values that an option can have on the command line; None if any value can be given."
    if option.name == "encoder":
        return tuple(BACKBONES)
    if option.name == "classifier":
        return tuple(
            word for word in option.choices if word != Frozen.word
        )  # it needs a model, which can be given only in Python
    return option.choices


def add_config_options(parser, several: bool = False):
    "Add an option for each setting, with one value or, for sweeps, several; only options that are given appear in the result."
    known = options()
    parser.add_argument(
        "--method",
        choices=tuple(RECIPES),
        metavar="{" + ",".join(RECIPES) + "}",
        help="recipe for all settings below that are not given (default: molecules for a file of molecules, otherwise gib); the defaults below are those of gib",
    )
    groups = {slot: parser.add_argument_group(title) for slot, title in GROUPS.items()}
    for option in sorted(
        known.values(), key=lambda option: option.field is not None
    ):  # options that choose a part come first
        group, flag = groups[option.slot or ("weights" if option.field else "phases")], flag_of(option.name)
        settings = {"default": argparse.SUPPRESS, "help": _help(option, known)}
        if option.type is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **settings)
        else:
            group.add_argument(flag, **_values(option), **({"nargs": "+"} if several else {}), **settings)
    renamed = {flag_of(old): _new_words(new) for old, new in RENAMED.items() if re.split("=", new)[0] in known}
    add_renamed(parser, renamed)


def methods_text() -> str:
    "The recipes with their one-line descriptions, for a help text."
    return "\n".join(f"  {name:<24} {summary_of(name)}" for name in RECIPES)


def flag_of(name: str) -> str:
    "The option for a setting."
    return "--" + name.replace("_", "-")


def _new_words(new: str) -> str:
    'The command-line form of a new name in `RENAMED`, such as `classifier="reencode"`.'
    name, _, value = new.partition("=")
    return flag_of(name) + (" " + value.strip('"') if value else "")


def _optional(kind: type):
    'The type of an option for which "none" means None.'

    def read(text: str):
        return None if text.lower() == "none" else kind(text)

    read.__name__ = kind.__name__  # argparse shows this name in errors
    return read


def _values(option: Option) -> dict:
    "Type, choices, and placeholder of an option with a value."
    found = choices(option)
    words = "{" + ",".join(str(choice).lower() for choice in found) + "}" if found else None
    optional = option.default is None or found and None in found
    return {
        "type": _optional(option.type) if optional else option.type,
        "choices": found,
        "metavar": words or {int: "N", float: "X", str: "NAME"}[option.type],
    }


def _help(option: Option, known: dict[str, Option]) -> str:
    "The meaning of an option, the part that it belongs to if its slot has others, and its default."
    text = option.help.split(": a registered name")[0]  # functions can be given only in Python
    others = [kind for kind in Part.kinds.values() if kind.slot == option.slot and kind not in option.kinds]
    if option.kinds and option.slot and others:
        chooser = next(name for name, each in known.items() if each.slot == option.slot and not each.kinds)
        words = [kind.word for kind in option.kinds if kind.word in choices(known[chooser])]
        text += f"; with {flag_of(chooser)} {' or '.join(words)}"
    default = {"None": "none", "True": "yes", "False": "no"}.get(str(option.default), option.default)
    return (text if "(default:" in text else f"{text} (default: {default})").replace("%", "%%")


def method_of(args) -> str | None:
    "The recipe that was requested, or that for files of molecules; None, which is the GIB of the paper, for other data."
    if asked := getattr(args, "method", None):
        return asked
    datasets = getattr(args, "datasets", [getattr(args, "dataset", "")])
    return "molecules" if all(is_path(each) and not is_graph_file(each) for each in datasets) else None


def given_settings(args) -> dict:
    "The settings that were given on the command line, by their names."
    return {name: getattr(args, name) for name in options() if hasattr(args, name)}


def method_settings(method: str | None, settings: dict) -> dict:
    "Settings for `configure`: those of a recipe, changed by the given settings; only the given ones without a recipe."
    if method is None:
        return settings
    config, standard = recipe(method, **settings), flat_settings(configure())
    return {
        name: value
        for name, value in flat_settings(config).items()
        if name in settings or name in lengths_of(config) or value != standard.get(name)
    }


def config_of(args):
    "The configuration of the arguments and their recipe. ArgumentTypeError for invalid settings or a device that is not available."
    import torch

    try:
        config = configure(**method_settings(method_of(args), given_settings(args)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    try:
        torch.empty(1, device=config.device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise argparse.ArgumentTypeError(
            f"expected a device of this computer, such as cpu (got {config.device}): {reason}"
        ) from None
    return config
