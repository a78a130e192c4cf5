"""The end of a benchmark, or of the demo: the report, Ctrl-C, or one line with the error."""

from __future__ import annotations

import signal
import sys
from typing import Callable

from harness.process import ProcessError
from larder.server import ServerError


class Void(RuntimeError):
    """The measurement does not fit its row: other tokens than the cold ones, no hit where one was
    due, too few answers."""


def line_of(error: Exception) -> str:
    """The error in a row or on the terminal: of a log's tail the last line alone, which has the
    reason."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    return (
        f"{first} {rest[-1]}" if rest and first.endswith(" ends:") else first.removesuffix(" ends:")
    )


def run(program: str, main: Callable[[], int]) -> None:
    """Ends the process with main's status. A failure ends the process with 1 and a line; an
    interruption with 130 when all has ended."""
    # both unwind the with-blocks, which end all processes
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(f"{program}: interrupted; everything that it started was ended", file=sys.stderr)
        sys.exit(130)
    except (Void, ProcessError, ServerError, OSError) as error:
        print(f"{program}: {line_of(error)}", file=sys.stderr)
        sys.exit(1)
