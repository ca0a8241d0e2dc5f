"""A hook of mkdocs: docstrings say :func:`name` and ``code`` (reStructuredText), the site shows plain code for both."""

import re

ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):(?=<code>)")
TYPED = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`([^`<>]+)`")                # in the type of a parameter
LITERAL = re.compile(r"``([^`<>]+)``")


def on_page_content(html, **_):
    return LITERAL.sub(r"<code>\1</code>", TYPED.sub(r"\1", ROLE.sub("", html)))
