"""Pipes to a child process, on each system as it hands them to children."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

if sys.platform == "win32":
    from multiprocessing import Pipe
    from multiprocessing.connection import PipeConnection

    def start(command: Sequence[str], log: IO[bytes]) -> tuple[subprocess.Popen[bytes], Any]:
        """Start a command with a number behind it; return its process and our end of the pipe.

        log: where it prints to. The child gives the number to `connection`.
        """
        ours, theirs = Pipe()
        number = theirs.fileno()
        os.set_handle_inheritable(number, True)
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [number]})
        with theirs:
            process = subprocess.Popen(
                [*command, str(number)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                startupinfo=startup,
            )
        return process, ours

    def connection(number: int) -> Any:
        """Return the child's end of its pipe."""
        return PipeConnection(number)

    def stop(process: subprocess.Popen[bytes]) -> None:
        """Stop a process until `go_on`, where the system can; return when its threads stand."""

    def go_on(process: subprocess.Popen[bytes]) -> None:
        """Resume a process after `stop`."""

    def end(process: subprocess.Popen[bytes]) -> None:
        """End a process."""
        process.kill()

else:
    import contextlib
    import signal
    import socket
    from multiprocessing.connection import Connection

    def start(command: Sequence[str], log: IO[bytes]) -> tuple[subprocess.Popen[bytes], Any]:
        """Start a command with a number behind it; return its process and our end of the pipe.

        log: where it prints to. The child gives the number to `connection`.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return process, Connection(ours.detach())

    def connection(number: int) -> Any:
        """Return the child's end of its pipe."""
        return Connection(number)

    def stop(process: subprocess.Popen[bytes]) -> None:
        """Stop a process until `go_on`; return when all its threads stand still."""
        process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(process: subprocess.Popen[bytes]) -> None:
        """Resume a process after `stop`."""
        process.send_signal(signal.SIGCONT)

    def end(process: subprocess.Popen[bytes]) -> None:
        """End a process, with all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
