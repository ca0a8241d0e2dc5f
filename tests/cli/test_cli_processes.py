"""The command line as a process: broken pipes, Ctrl-C, a closed standard output, a progress bar."""

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_files import listing

from meshsolve import cli


def process(*argv, **options):
    return subprocess.run([sys.executable, "-m", "meshsolve", *map(str, argv)], capture_output=True, text=True, timeout=1200, **options)


def test_as_a_process(folder):
    done = process("solve", "A.mtx", "b.mtx", "-o", "x.mtx", cwd=folder, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stderr) == (0, "") and (folder / "x.mtx").is_file()


@pytest.mark.skipif(os.name != "posix", reason="a shell closes it")
def test_closed_standard_output_is_no_error(folder):
    command = shlex.join([sys.executable, "-m", "meshsolve", "info", "A.mtx"])
    done = subprocess.run(["sh", "-c", f"{command} >&-"], cwd=folder, stderr=subprocess.PIPE, text=True, timeout=1200,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    """`meshsolve info FILE | true`"""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "meshsolve", "info", str(folder / "A.mtx")], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_standard_error_does_not_stop_the_output(folder):
    """`meshsolve mcf MESH -o OUT 2>&1 | head -1`: the exit code was 0, and there was no OUT."""
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
    (folder / "d.obj").write_text(corners + "f 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\nf 1 1 2\n")          # the last face is dropped, with a warning
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "meshsolve", "mcf", str(folder / "d.obj"), "-o", str(folder / "o.obj"), "--quiet"],
                          stdout=subprocess.PIPE, stderr=write, text=True)
    os.close(write)
    assert (done.returncode, (folder / "o.obj").exists()) == (0, True)


@pytest.mark.skipif(os.name != "posix", reason="pipes with names")
def test_a_pipe_that_breaks_before_all_is_written_is_an_error(folder):
    os.mkfifo(folder / "x.npy")
    np.save(folder / "b.npy", np.ones((60, 3000)))                      # more than a pipe holds
    child = subprocess.Popen([sys.executable, "-m", "meshsolve", "solve", folder / "A.mtx", folder / "b.npy", "-o", folder / "x.npy"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    open(folder / "x.npy", "rb").close()
    text, err = child.communicate(timeout=1200)
    assert (child.returncode, text) == (1, "") and err.startswith("meshsolve: error: ") and err.count("\n") == 1
    assert "x.npy: the program that reads this pipe ended" in err


LONG = ["mcf", "ball.obj", "-o", "out.obj", "--steps", "1000000", "--dt", "1e-12", "--report", "r.json"]


ANNOUNCED = """
import sys
from meshsolve import apps, cli

def announced(*arguments, run=apps.mcf, **options):
    print("begun", file=sys.stderr, flush=True)
    return run(*arguments, **options)

apps.mcf = announced
sys.exit(cli.main())
"""


def test_ctrl_c_ends_a_long_run_with_one_line_and_no_files(folder):
    before = listing(folder)
    child = subprocess.Popen([sys.executable, "-c", ANNOUNCED, *LONG], cwd=folder, stderr=subprocess.PIPE, text=True,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert child.stderr.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    lines = child.communicate(timeout=1200)[1].splitlines()
    assert child.returncode == 130 and lines == ["meshsolve: error: interrupted"] and listing(folder) == before


def test_ctrl_c_while_the_command_line_is_read_is_one_line_too(run, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "parser", interrupted)
    assert run("info") == (130, "", "meshsolve: error: interrupted\n")


def test_a_bar_is_shown_on_a_terminal(folder):
    main, side = pty.openpty()
    child = subprocess.Popen([sys.executable, "-m", "meshsolve", *LONG], cwd=folder, stdout=subprocess.DEVNULL, stderr=side,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"})
    os.close(side)
    seen, end = b"", time.monotonic() + 1200
    bar = rb"step \d+/1000000 (assemble|numeric|solve) +\d+% \|"
    while not re.search(bar, seen) and time.monotonic() < end:
        if select.select([main], [], [], 1)[0]:
            seen += os.read(main, 4096)
    child.send_signal(signal.SIGINT)
    child.wait(timeout=1200)
    os.close(main)
    assert child.returncode == 130 and re.search(bar, seen)


@pytest.mark.parametrize("command", [["-m", "meshsolve"], ["meshsolve"]])
def test_ctrl_c_during_the_imports_is_one_line(tmp_path, command):
    (tmp_path / "numpy.py").write_text("import sys, time\nprint('begun', file=sys.stderr, flush=True)\ntime.sleep(600)\n")
    (tmp_path / "meshsolve").write_text("from meshsolve.cli import main\nmain()\n")            # as pip writes it
    command = [str(tmp_path / word) if word == command[0] == "meshsolve" else word for word in command]
    child = subprocess.Popen([sys.executable, *command, "info"], stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    assert child.stderr.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    assert (child.communicate(timeout=1200)[1], child.returncode) == ("meshsolve: error: interrupted\n", 130)


@pytest.mark.slow
def test_other_programs_keep_their_ctrl_c(tmp_path):
    (tmp_path / "tool.py").write_text("import signal\nimport meshsolve\nassert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n")
    for command in (["tool.py"], ["-m", "tool"], ["-c", "import tool", "meshsolve"]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
        assert (done.returncode, done.stderr) == (0, "")
