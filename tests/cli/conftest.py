"""Fixtures: the command line in this process, and a folder of small problems."""

import shutil

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from zoo import random_spd

import meshsolve as ms
from meshsolve import cli


@pytest.fixture
def run(capsys):
    """Run the command line in this process: (exit code, standard output, standard error)."""
    def call(*argv):
        try:
            code = cli.main([str(a) for a in argv])
        except SystemExit as e:                     # argparse: wrong usage, --help
            code = e.code
        return (code, *capsys.readouterr())
    return call


@pytest.fixture(scope="session")
def problems(tmp_path_factory):
    """Small problems as files, which no test may change."""
    folder = tmp_path_factory.mktemp("problems")
    ms.datasets.icosphere(2).save(folder / "ball.obj")
    ms.datasets.scan_like(6000).save(folder / "scan.ply")
    A = random_spd(60, 0.05, 3)
    scipy.io.mmwrite(folder / "A.mtx", A)
    scipy.io.mmwrite(folder / "b.mtx", np.arange(60.0)[:, None])
    scipy.io.mmwrite(folder / "L.mtx", ms.datasets.grid2d(6, 5))
    scipy.io.mmwrite(folder / "U.mtx", sp.coo_array(np.triu(np.ones((4, 4)))))
    sp.save_npz(folder / "A.npz", sp.csc_array(A))
    return folder


@pytest.fixture
def folder(problems, tmp_path):
    """A copy of the small problems."""
    return shutil.copytree(problems, tmp_path, dirs_exist_ok=True)
