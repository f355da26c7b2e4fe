"""The child that carries out one request: started by the server, bounded, and ended by it if it takes too long."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys

from ...base.limits import lower_limit
from ...errors import CompileError, SondeError
from ...kernel import syscalls
from ...library.policy import Policy
from .jobs import Job, carry_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import JsonObject

CPU_SECONDS = 120      # of CPU time; a run of an hour gets more, see below
MEMORY = 1 << 30       # bytes of data, beside what the policy allows
_MOST_MESSAGES = 20


def serve_job() -> int:
    """Carry out the request at standard input, and write the answer to standard output; the exit status. What else
    would be printed becomes messages."""
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 1)
    request = json.loads(sys.stdin.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    job = Job(**{**request, "policy": Policy(**request["policy"])})
    syscalls.die_with_parent()
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_CPU, CPU_SECONDS + int(job.policy.seconds))
    lower_limit(resource.RLIMIT_DATA, MEMORY + (job.policy.memory << 20))
    lower_limit(resource.RLIMIT_FSIZE, (job.policy.disk << 20) * 2)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.stderr = messages = io.StringIO()
    answer = _answer(job)
    if lines := messages.getvalue().splitlines()[:_MOST_MESSAGES]:
        answer["messages"] = [*lines]
    with open(answers, "wb") as out:
        out.write(json.dumps(answer).encode())
    return 0


def _answer(job: Job) -> JsonObject:
    """The result, or what is wrong."""
    from ...output.findings import finding_data
    try:
        return {"result": carry_out(job)}
    except CompileError as error:
        return _failure(error.message, error.hints) | {
            "diagnostics": [finding_data(item) for item in error.diagnostics]}
    except SondeError as error:
        return _failure(error.message, error.hints)
    except RecursionError:
        return _failure("the script is nested too deeply")
    except MemoryError:
        return _failure("it takes more memory than is allowed")
    except OSError as error:
        return _failure(error.strerror or str(error))
    except Exception as error:  # a mistake of Sonde's own
        return _failure(f"internal error, please report it: {type(error).__name__}: {error}")


def _failure(message: str, hints: list[str] | None = None) -> JsonObject:
    return {"error": message[:2000], "hints": [each[:1000] for each in (hints or [])[:20]]}
