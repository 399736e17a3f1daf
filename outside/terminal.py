"""A pseudo-terminal: runs a command as a person sees it, and gives back the screen as plain text."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

ROWS, COLUMNS = 50, 118
READ_S = 0.1
END_S = 30


class Terminal:
    """One command on a terminal of its own."""

    def __init__(self, command, folder, environment):
        self.command, self.data, self.code = command, b"", None
        self.process, self.master = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "-c", command], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def read(self):
        """Takes what is there; False when nobody writes any more."""
        ready, _, _ = select.select([self.master], [], [], READ_S)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.data += data
        return bool(data)

    def wait(self, limit, until=None):
        """Reads until the end, or until the screen has what is looked for. True when that came in time."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if not self.read():
                self.collect()
                return until is None or bool(re.search(until, self.text()))
            if until and re.search(until, self.text()):
                return True
        return False

    def collect(self):
        """The exit code."""
        if self.code is None:
            _, status = os.waitpid(self.process, 0)
            self.code = os.waitstatus_to_exitcode(status)
            os.close(self.master)

    def interrupt(self):
        """Ctrl-C, typed."""
        if self.code is None:
            os.write(self.master, b"\x03")

    def end(self):
        """Whatever it does, it ends."""
        if self.code is None and not self.wait(END_S):
            os.kill(self.process, signal.SIGKILL)
            self.wait(END_S)
        if self.code is None:
            self.collect()

    def text(self):
        """Everything that was written, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", lambda match: "\x00" if match.group()[-1] in "KJ" else "",
                      self.data.decode("utf-8", "replace"))

    def screen(self):
        """What is left on the screen: a line that was written over is what was written last."""
        lines = []
        for line in self.text().replace("\r\n", "\n").split("\n"):
            parts = line.split("\r")
            shown = ""
            for part in parts:
                # An erased line is empty; a shorter one leaves nothing of the one below.
                shown = part.split("\x00")[-1] if "\x00" in part or part else shown
            lines.append(shown.rstrip())
        return "\n".join(lines).strip("\n")
