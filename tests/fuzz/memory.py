"""What the programs of the generator find in the test's own memory: C definitions, and the same told to ctypes.

``$2`` of a program is the address of THINGS. ctypes lays its structures out by itself, so it is a second opinion on
where a member lies. Each thing leads to the next, the last to the first: every pointer can be followed.
"""

from __future__ import annotations

import ctypes
import random

from evaluator_memory import CLASSES, OBJECTS

SIZE = 64  # of a text
COUNT = 4  # things; a power of two
HUES = {0: "RED", 7: "GREEN", 200: "BLUE"}
# Bit-fields fill their word: ctypes would place what follows differently from C. They are read without a sign, as in
# bpftrace, whatever their type is.
PREAMBLE = """enum hue { RED, GREEN = 7, BLUE = 200 };
struct part { short x; unsigned char b[4]; unsigned int y; };
struct thing {
    signed char a; unsigned short b; int c; unsigned int d; long long e; unsigned long long f;
    unsigned int low : 3; int high : 9; unsigned int rest : 20; char name[12]; enum hue hue; struct part part;
    int n[4]; struct part parts[2]; struct thing *next; char *text;
    union { unsigned int word; unsigned char bytes[4]; };
    struct { short inner; long long more; };
};
"""


class Part(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int16), ("b", ctypes.c_uint8 * 4), ("y", ctypes.c_uint32)]


class _Word(ctypes.Union):
    _fields_ = [("word", ctypes.c_uint32), ("bytes", ctypes.c_uint8 * 4)]


class _Inner(ctypes.Structure):
    _fields_ = [("inner", ctypes.c_int16), ("more", ctypes.c_int64)]


class Thing(ctypes.Structure):
    _anonymous_ = ("u", "s")
    _fields_ = [("a", ctypes.c_int8), ("b", ctypes.c_uint16), ("c", ctypes.c_int32), ("d", ctypes.c_uint32),
                ("e", ctypes.c_int64), ("f", ctypes.c_uint64),
                ("low", ctypes.c_uint32, 3), ("high", ctypes.c_uint32, 9),
                ("rest", ctypes.c_uint32, 20), ("name", ctypes.c_char * 12), ("hue", ctypes.c_uint32), ("part", Part),
                ("n", ctypes.c_int32 * 4), ("parts", Part * 2), ("next", ctypes.c_uint64), ("text", ctypes.c_uint64),
                ("u", _Word), ("s", _Inner)]


CLASSES.update({"thing": Thing, "part": Part})
_TEXTS = [ctypes.create_string_buffer(text, SIZE) for text in (b"hello", b"", b"hello world, hello", b"x" * 40)]
NAMES = (b"hello", b"", b"abc", b"elevenchars")
THINGS = (Thing * COUNT)()


def _fill() -> None:
    choose = random.Random(1)
    raw = bytes([choose.choice((0, 1, 127, 128, 255, choose.randrange(256))) for _ in range(ctypes.sizeof(THINGS))])
    ctypes.memmove(THINGS, raw, len(raw))
    for i, thing in enumerate(THINGS):
        ctypes.memmove(ctypes.addressof(thing) + Thing.name.offset, NAMES[i].ljust(12, b"\0"), 12)
        thing.hue = (7, 0, 200, 5)[i]
        thing.next = ctypes.addressof(THINGS) + (i + 1) % COUNT * ctypes.sizeof(Thing)
        thing.text = ctypes.addressof(_TEXTS[i])


_fill()
OBJECTS += [THINGS, *_TEXTS]
ADDRESS = ctypes.addressof(THINGS)
