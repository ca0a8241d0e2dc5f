"""Messages of the library in the words of the shell: options of the command instead of Python arguments."""

from __future__ import annotations

import re

PYTHON_ARGUMENT = re.compile(r"""\b(?P<name>[a-z_]+)=(?P<value>'[^']*'|"[^"]*"|True\b|\d+\b|(?=[\s,;:.)]|$))""")
PYTHON_ADVICE = (                   # advice that only a program can follow, and what the user of a shell can do
    ("lu takes unsymmetric matrices; with lower=True cholesky and ildl read the lower triangle alone",
     "meshsolve solve --method lu takes unsymmetric matrices; a Matrix Market file with one triangle must have the word symmetric in its "
     "first line"),
    ("call eigsh with interval=(lo, hi), or sigma below it", "give --interval LO HI"),
    (". F.rcond() estimates the condition", ""),
    ("ms.apps.smooth", "meshsolve smooth"),
    (", or give points in faces (faces, barycentric)", ""),
    ("rename the data of the mesh, for instance mesh.vertex_data['other'] = mesh.vertex_data.pop('name')", "write .vtu or .vtk instead"),
)


def in_the_shell(text, args):
    """Return a message with the options of the command in place of Python arguments: ``boundary='free'`` as ``--boundary free``.

    Parameters
    ----------
    text : str
    args : argparse.Namespace
        The command's arguments. Other names are left as they are.
    """
    for advice, instead in PYTHON_ADVICE:
        text = text.replace(advice, instead)

    def spelled(found):
        name, value = found["name"], found["value"].strip("'\"")
        if not hasattr(args, name):
            return found[0]
        return f"--{name.replace('_', '-')}" + ("" if value in ("", "True") else f" {value}")

    return PYTHON_ARGUMENT.sub(spelled, text)
