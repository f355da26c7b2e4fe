"""How Sonde was installed on this machine: what hints need to know to be right."""

from __future__ import annotations

import os
import sys

DISTRIBUTION = "sonde-tracer"  # what pip and pipx call it: on PyPI "sonde" is somebody else's
# The packages of each extra, as pyproject.toml has them (a test compares): a tree and a single file have no metadata.
EXTRAS = {
    "headers": ("libclang",), "dwarf": ("pyelftools",), "ui": ("textual",),
    "export": ("prometheus-client", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http", "pyarrow"),
    "tables": ("pyarrow", "pandas", "polars"), "notebook": ("ipython",),
    "fleet": ("distributed",), "lsp": ("pygls",), "mcp": ("mcp",),
}


def command_path() -> str:
    """What starts this Sonde whoever types it: an absolute path, quoted for a shell."""
    from shlex import join
    started = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    name = os.path.basename(started)
    if name.endswith(".pyz"):
        return join([sys.executable, started] if not os.access(started, os.X_OK) else [started])
    if name == "sonde" and os.access(started, os.X_OK):
        return join([started])
    beside = os.path.join(os.path.dirname(sys.executable), "sonde")
    if os.access(beside, os.X_OK):
        return join([beside])
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return join(["env", f"PYTHONPATH={folder}", sys.executable, "-m", "sonde"])


def start_again() -> list[str]:
    """The command that starts this Sonde as a child: the single file, or the package that is imported."""
    archive = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, archive] if os.path.isfile(archive) else [sys.executable, "-P", "-m", "sonde"]


def as_root() -> str:
    """This command line for root, who may not find Sonde by its name; or that of a program that uses the library."""
    from shlex import join
    program = sys.argv[0] if sys.argv else ""
    if program.endswith(".py") and os.path.basename(program) != "__main__.py":
        return f"sudo {join([sys.executable, *sys.argv])}"
    return f"sudo {command_path()} {join(sys.argv[1:])}".rstrip()


def install_command(extra: str) -> str:
    """The command that brings the packages of an extra to where this Sonde looks for them."""
    packages = " ".join(EXTRAS[extra])
    if "/pipx/" in sys.prefix + "/":
        return f"pipx inject {DISTRIBUTION} {packages}"
    return f"{os.path.basename(sys.executable) if sys.prefix == sys.base_prefix else sys.executable} -m pip install " \
           f"{packages}"
