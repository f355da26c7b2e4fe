"""``python -m sonde``."""

from .cli import main

raise SystemExit(main())
