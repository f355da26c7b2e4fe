"""Everything Sonde raises.

::

    SondeError                    base; carries ``message`` and ``hints``
    ├── CompileError              the script is wrong; carries the diagnostics
    ├── UsageError                the command line or an API argument is wrong
    ├── MachineError              this machine refuses or lacks something
    │   ├── PrivilegeError        not root / a capability is missing
    │   ├── MissingFeatureError   the kernel has no BTF, ring buffer, tracefs ...
    │   └── AttachError           one attach point could not be attached; carries its name and errno
    ├── VerifierError             the kernel rejected a program; carries log, cause and script span
    └── SyscallError              any other failing system call; carries its name and errno
"""

from __future__ import annotations

import os

from .source import ERROR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .source import Diagnostic, Span


class SondeError(Exception):
    """Base of all of Sonde's errors: a message for people, and hints on what to do next."""

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = list(hints)

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle and copy: what it carries, since ``__init__`` takes something else in each class."""
        return _remake, (type(self), self.args), self.__dict__


def _remake(error: type[SondeError], args: tuple[object, ...]) -> SondeError:
    return error.__new__(error, *args)


class CompileError(SondeError):
    """The script does not compile. ``diagnostics`` has every finding, errors and warnings, in order; ``message`` and
    ``hints`` are of the first error. As text it is what the command prints: each finding with its line."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        first = next((d for d in diagnostics if d.severity == ERROR), None)
        super().__init__("compilation failed" if first is None else first.message, [] if first is None else first.hints)
        self.diagnostics = list(diagnostics)

    def __str__(self) -> str:
        return "\n".join([item.render() for item in self.diagnostics]) or self.message


class UsageError(SondeError):
    """A wrong option or argument."""


class OptionError(UsageError):
    """An option that there is not, or that lacks its value: the command line shows what there is."""


class MachineError(SondeError):
    """This machine lacks or refuses something that the script needs."""


class PrivilegeError(MachineError):
    """Not root, or a capability is missing; ``needs`` names what would help (e.g. ``CAP_BPF``)."""

    def __init__(self, message: str, needs: str = "root", hints: Sequence[str] = ()) -> None:
        super().__init__(message, hints)
        self.needs = needs


class MissingFeatureError(MachineError):
    """The kernel has no such thing; ``feature`` names it."""

    def __init__(self, message: str, feature: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message, hints)
        self.feature = feature


class AttachError(MachineError):
    """One attach point could not be attached; ``probe`` is its full name, ``errno`` the kernel's answer."""

    def __init__(self, message: str, probe: str, errno: int = 0, hints: Sequence[str] = ()) -> None:
        super().__init__(message, hints)
        self.probe = probe
        self.errno = errno


class StandInError(AttachError):
    """The kernel takes no fentry or fexit of ``functions``, by which kprobes or kretprobes were to be served."""

    def __init__(self, error: AttachError, functions: list[str]) -> None:
        super().__init__(error.message, error.probe, error.errno, error.hints)
        self.functions = functions


class VerifierError(SondeError):
    """The kernel's verifier rejected a program.

    ``log`` is the whole log, ``cause`` its deciding line in words, ``span`` the place in the script
    (None if unknown), ``program`` the name of the rejected program.
    """

    def __init__(self, message: str, program: str, log: str, cause: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.program = program
        self.log = log
        self.cause = cause
        self.span = span


class SyscallError(SondeError):
    """A system call failed; ``call`` is its name, ``errno`` its error number."""

    def __init__(self, call: str, errno: int, hints: Sequence[str] = ()) -> None:
        super().__init__(f"{call}: {os.strerror(errno)}", hints)
        self.call = call
        self.errno = errno
