#!/usr/bin/env python3
"""An objective checker: say when a running process breaks its objectives, and by which lines of Python.

    sudo python3 examples/objectives.py PID read=2ms write=5ms

99 % of the calls within a second may take no longer. It ends with the process, or by Ctrl-C; the status is 1 if an
objective was broken.
"""

from __future__ import annotations

import sys
import time

import sonde


def main(pid: str, *objectives: str) -> int:
    p99 = dict(each.split("=", 1) for each in objectives)
    broken = 0
    with sonde.watch(int(pid), p99=p99, every="1s") as watching:
        print(f"watching process {pid}", flush=True)
        try:
            for each in watching:
                broken += 1
                print(time.strftime("%H:%M:%S"), each, flush=True)
        except KeyboardInterrupt:
            pass
    return 1 if broken else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except sonde.SondeError as error:
        sys.exit("\n".join([error.message, *error.hints]))
