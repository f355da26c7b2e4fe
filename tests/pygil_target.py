"""A Python program whose threads wait for the GIL and hold it: see pygil_target.c.

usage: python pygil_target.py LIBRARY ROUNDS

Begins with a line on standard input, ends with another; prints what each thread noted, as JSON.
"""

import ctypes
import json
import sys
import threading

library = ctypes.PyDLL(sys.argv[1])
library.hand_over.restype = library.sleep_holding.restype = ctypes.c_longlong
rounds = int(sys.argv[2])
ended = threading.Event()
noted = {"waited": {}, "slept": {}}


def wait_in_line():
    waited = library.hand_over(rounds)  # waits
    noted["waited"][threading.get_native_id()] = waited


def compute():
    while not ended.is_set():
        sum(range(1000))


def hold():
    slept = 0
    for _ in range(10):
        slept += library.sleep_holding(20000)  # asleep
    noted["slept"][threading.get_native_id()] = slept


print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=function) for function in (wait_in_line, wait_in_line, hold)]
burner = threading.Thread(target=compute)
for thread in (burner, *threads):
    thread.start()
for thread in threads:
    thread.join()
ended.set()
burner.join()
print(json.dumps(noted), flush=True)
sys.stdin.readline()
