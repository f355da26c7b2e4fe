"""``sonde man``: manual pages, made from the pages that --help prints."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
man: the manual page of Sonde, of a tool or of a command; or all of them as files, for man itself

USAGE
  sonde man [NAME]
  sonde man --write DIR

  Shows a page with man, or prints it where man is not installed.

OPTIONS
  --write DIR   write all pages to DIR/man1, such as /usr/local/share/man: then `man sonde-tcplife` works

EXAMPLE
  # sonde man tcplife
  # sonde man --write /usr/local/share/man
  ...
  # man sonde-tcplife

NEEDS
  nothing; man, to show pages by it

NOTES
  The wheel of Sonde has the page of Sonde itself, `man sonde`. The other pages say what `sonde NAME --help` says, and
  which of Sonde's own options are of use there.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Show or write pages; the exit status."""
    from ..pages.manual import manual_page
    if len(parsed.words) > 2 or parsed.named.get("write") and len(parsed.words) > 1:
        raise UsageError("sonde man takes one name, or --write DIR", ["sonde man --help explains"])
    if folder := parsed.named.get("write"):
        count = write_pages(os.path.join(folder, "man1"))
        sys.stdout.write(f"{count} pages written to {folder}/man1: man -M {folder} sonde-tcplife\n")
        return 0
    from ..command_table import own_words
    return _show(manual_page(own_words(parsed.words[1])[0] if len(parsed.words) > 1 else ""), parsed)


def write_pages(folder: str) -> int:
    """Write every page into ``folder``, which is made if it is missing; how many there are. Raises OSError."""
    from ..pages.manual import manual_names, manual_page
    os.makedirs(folder, exist_ok=True)
    names = ["", *manual_names()]
    for name in names:
        with open(os.path.join(folder, f"sonde-{name}.1" if name else "sonde.1"), "w", encoding="utf-8") as file:
            file.write(manual_page(name))
    return len(names)


def _show(text: str, parsed: Parsed) -> int:
    from shutil import which
    from subprocess import run
    if program := which("man"):
        return run([program, "-l", "-"], input=text.encode(), check=False).returncode
    from ..requests import print_to_stderr
    from .help import main as print_help
    print_to_stderr("man is not installed: this is what --help says")
    return print_help(parsed)
