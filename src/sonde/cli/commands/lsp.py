"""``sonde lsp``: the language server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
lsp: a language server: what an editor shows and offers while a script is written

USAGE
  sonde lsp [--btf FILE]

  The editor starts it, and talks to it over standard input and output. docs/editors.md has the settings for VS Code,
  Neovim, Emacs and Helix.

OPTIONS
  --btf FILE   for the kernel whose BTF this is: /sys/kernel/btf/vmlinux, copied from another machine

EXAMPLE
  $ sonde lsp --help

NEEDS
  the extra lsp (pygls); BTF of the kernel

NOTES
  It attaches nothing. Without root, the tracepoints' names and arguments are known only where tracefs can be read.
"""
TAKES = {"btf", "unsafe", "I", "include", "no-feature"}


def main(parsed: Parsed) -> int:
    """Serve until the editor ends it; the exit status."""
    from ...library.data_frames import import_extra
    from .. import requests
    if btf := parsed.named.pop("btf", ""):
        parsed.options["btf"] = btf
    import_extra("pygls.lsp.server", "lsp")
    from ...editor.analysis import Machine
    from ...editor.server import make_server
    options = requests.options_of(parsed, [])
    options.exercises = True
    make_server(Machine(options, lambda: requests.permitted(requests.kernel_of(parsed), parsed))).start_io()
    return 0
