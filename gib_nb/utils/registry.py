"""Registries of things that are chosen by name: one `register` call makes a thing available to the package, the command line, the sweeps, and the tests."""

import importlib
from collections.abc import Mapping


class Registry(Mapping):
    'A mapping name → thing. A thing may be given as "module:attribute", which is imported when it is first used.'

    def __init__(self, kind: str):  # what the things are, for errors: "data set", "backbone"
        self.kind, self._things = kind, {}

    def register(self, name: str, thing=None):
        "Add a thing under a name; without a thing, returns a decorator. ValueError for a name that is taken."
        if thing is None:
            return lambda given: self.register(name, given)
        if name in self._things:
            raise ValueError(f"expected a new name for a {self.kind} (got {name!r}, which is taken)")
        self._things[name] = thing
        return thing

    def unregister(self, name: str):
        "Remove a thing."
        del self._things[name]

    def __getitem__(self, name):
        if name not in self._things:
            raise KeyError(f"expected a {self.kind} among {', '.join(self._things)} (got {name!r})")
        thing = self._things[name]
        if isinstance(thing, str) and ":" in thing:
            module, attribute = thing.split(":")
            thing = self._things[name] = getattr(importlib.import_module(module), attribute)
        return thing

    def __contains__(self, name):
        return isinstance(name, str) and name in self._things

    def __iter__(self):
        return iter(self._things)

    def __len__(self):
        return len(self._things)

    def __repr__(self):
        return f"Registry of {self.kind}s: {', '.join(self._things)}"
