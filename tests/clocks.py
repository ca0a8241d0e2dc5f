"""Clocks that a test controls, for code with timeouts."""

import os


class ClockOfHangs:
    """A clock that advances by 100 seconds per reading while the process whose id is in ``file`` is alive, and stands still otherwise.

    A process writes its id into the file just before it hangs. So only this process reaches the timeout, at once, on any machine.
    """

    def __init__(self, file):
        self.file, self.seconds = file, 0.0

    def __call__(self):
        self.seconds += 100 * self.hangs()
        return self.seconds

    def hangs(self):
        number = self.file.read_text() if self.file.exists() else ""
        if not number.endswith("\n"):                       # not written yet
            return False
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            return False
        return True
