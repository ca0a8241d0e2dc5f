"""Fixtures: the command line in this process, and a folder of small problems."""

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


@pytest.fixture
def folder(tmp_path):
    """Small problems as files."""
    ms.datasets.icosphere(2).save(tmp_path / "ball.obj")
    ms.datasets.scan_like(6000).save(tmp_path / "scan.ply")
    A = random_spd(60, 0.05, 3)
    scipy.io.mmwrite(tmp_path / "A.mtx", A)
    scipy.io.mmwrite(tmp_path / "b.mtx", np.arange(60.0)[:, None])
    scipy.io.mmwrite(tmp_path / "L.mtx", ms.datasets.grid2d(6, 5))
    scipy.io.mmwrite(tmp_path / "U.mtx", sp.coo_array(np.triu(np.ones((4, 4)))))
    sp.save_npz(tmp_path / "A.npz", sp.csc_array(A))
    return tmp_path
