"""The command line of the demos: an input file that may be left out, -o for a picture, numbers with defaults."""

import argparse


def options(doc, arguments, file, about, **numbers):
    """What was given. The first line of ``doc`` describes the demo, ``about`` its ``file``; ``numbers`` are --name INTEGER."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument(file, nargs="?", help=about)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    return parser.parse_args(arguments)
