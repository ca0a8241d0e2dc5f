"""An extension of griffe: the reference shows the defaults of signatures, and the names of orderings where docstrings list them.

The parser of docstrings takes the first of several words for the default, or the default of one parameter for all that share a line.
"""

import importlib
import inspect

import griffe

from meshsolve.order.methods import PLACEHOLDER


class SignatureDefaults(griffe.Extension):
    """Sets the default of each documented parameter to that of the signature."""

    def on_package(self, *, pkg, loader, **kwargs):
        self._visit(pkg)

    def _visit(self, thing):
        for member in thing.members.values():
            if member.is_alias:
                continue
            if member.docstring and member.is_function and f"{PLACEHOLDER}}}" in member.docstring.value:
                member.docstring.value = inspect.cleandoc(getattr(importlib.import_module(thing.path), member.name).__doc__)
            if member.docstring and (member.is_function or member.is_class):
                self._correct(member)
            if member.is_class or member.is_module:
                self._visit(member)

    @staticmethod
    def _correct(function):
        known = {parameter.name: parameter.default for parameter in function.parameters}
        for section in function.docstring.parsed:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for parameter in section.value:
                    parameter.value = known.get(parameter.name)
