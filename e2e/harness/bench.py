"""How a benchmark, or the demo, ends: in its report, by Ctrl-C, or in one line that says what went wrong."""

from __future__ import annotations

import signal
import sys
from typing import Callable

from harness.process import ProcessError
from larder.server import ServerError


class Void(RuntimeError):
    """What was measured is not what the row says: other tokens than the cold ones, no hit where one was due, too few answers."""


def line_of(error: Exception) -> str:
    """What a row or the terminal shows of it: of a log's tail the last line alone, which says why."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    return f"{first} {rest[-1]}" if rest and first.endswith(" ends:") else first.removesuffix(" ends:")


def run(program: str, main: Callable[[], int]) -> None:
    """Ends the process with main's status. A failure ends it with 1 and a line; an interruption with 130 when all has ended."""
    for number in (signal.SIGINT, signal.SIGTERM):  # both unwind the with-blocks, which end all processes
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(f"{program}: interrupted; everything that it started was ended", file=sys.stderr)
        sys.exit(130)
    except (Void, ProcessError, ServerError, OSError) as error:
        print(f"{program}: {line_of(error)}", file=sys.stderr)
        sys.exit(1)
