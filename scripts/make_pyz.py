#!/usr/bin/env python3
"""Write sonde.pyz: Sonde as a single file that any Python of version 3.11 or newer runs."""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipapp
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 1_000_000  # bytes
START = "import sys\n\nfrom sonde.__main__ import main\n\nsys.exit(main())\n"


def write_pyz(target: Path) -> int:
    """Its size."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "sonde", Path(folder) / "sonde", ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / "__main__.py").write_text(START)
        target.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(folder, target, "/usr/bin/env python3", compressed=True)
    target.chmod(0o755)
    return target.stat().st_size


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "sonde.pyz"
    size = write_pyz(target)
    if size >= MOST:
        sys.exit(f"make_pyz: {target} has {size:,} bytes, and should have less than {MOST:,}")
    print(f"{target}: {size:,} bytes; sudo {target} tcplife")
    return 0


if __name__ == "__main__":
    sys.exit(main())
