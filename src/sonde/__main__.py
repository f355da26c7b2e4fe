"""``python -m sonde`` and the console script: nothing else imports this module."""

import gc
import sys

from .base.module_cache import use_pack

# Looking for cycles among new objects at the usual rate takes a tenth of a start.
gc.set_threshold(50_000)
use_pack()

from .base.fast_stdlib import signal  # noqa: E402

# Until the session takes Ctrl-C, it just ends the process, and the kernel drops what is loaded: also while the rest is
# being imported. As an exception it could end in a destructor or an import's callback, where Python swallows it.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from .cli.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
