"""Clocks that a test controls, for code that ends what takes too long."""

import os


class ClockOfHangs:
    """Seconds that pass only while the process lives whose number is in ``file``: a hundred at each look.

    A process writes its number there just before it hangs. So it is ended at once, and no other is, however slow the machine is.
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
