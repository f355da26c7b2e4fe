"""The task that an event loop of asyncio's runs in the current thread, found in its interpreter's memory.

From 3.14 on a thread's state has it. Before, the module ``_asyncio`` has a dict of the tasks that run, by their loop,
and the thread's own dict has the loop that runs. Where the module's dict lies is remembered for each interpreter.
"""

from __future__ import annotations

from ....layouts import cpython as py
from ....types import UINT64
from ... import helpers as h
from ...ir import BasicBlock, BpfFunction, MapFd, Operand, Reg
from .. import memory
from ..core import Lower
from ..strings import words
from ..tasks import current_task, task_memory
from .python import look_up_image
from .python_memory import AT, FRAMES, READ, SIZE, Walk
from .python_threads import find_thread

RUNNING_LOOP, MODULE, RUNNING_TASKS = b"__asyncio_running_event_loop__", b"_asyncio", b"_current_tasks"
# Most entries of dicts that are read: values of a thread, modules, names in one, event loops.
THREAD_VALUES, MODULES, MODULE_NAMES, LOOPS = 256, 16384, 512, 4096
TRIES = 4          # to read the dict of an interpreter of several threads with loops
_KEY_TEXT = 32     # bytes of a key that is looked for
# The working memory of this search beside that of a walk: where frames would be.
_MORE = ("task", "tasks", "dict_type", "keys", "entry", "stride", "entries", "value", "candidate", "wanted", "length",
         "unread", *(f"text{number}" for number in range(_KEY_TEXT // 8)))
_AT = AT | {name: FRAMES + 8 * at for at, name in enumerate(_MORE)}


class TaskWalk(Walk):
    """A walk to a task."""

    def get(self, name: str) -> Reg:
        return self.b.load(self.work, _AT[name])

    def put(self, name: str, value: Operand) -> None:
        self.b.store(self.work, _AT[name], value)

    def read_word(self, address: Operand, bad: BasicBlock) -> Reg:
        """A word of the process's memory."""
        good = self.b.block("word")
        self.read(READ, 8, address, good, bad)
        self.b.start(good)
        return self.b.load(self.work, READ)


def find_task(lo: Lower, none: BasicBlock) -> TaskWalk:
    """Find the current thread's task, and leave it as the word ``task``; to ``none`` if it runs none, or it is not
    known, which is counted."""
    b = lo.b
    image, start = look_up_image(lo, none)
    walk = TaskWalk(lo, image, b.address(b.function.slot(SIZE, "walk", scratch=True)))
    b.zero(walk.work, 0, READ)
    b.zero(walk.work, FRAMES, 8 * len(_MORE))
    find_thread(walk, start)
    bad, some, modern, older, running = (b.block(n) for n in ("unread", "thread", "modern", "older", "running"))
    alive = b.block("alive")
    b.branch("jeq", walk.get("failed"), 0, alive, bad)
    b.start(alive)
    b.branch("jne", walk.get("mine"), 0, some, none)
    b.start(some)
    b.branch("jne", walk.word("running_task"), 0, modern, older)
    b.start(modern)
    walk.put("task", walk.read_word(b.alu("add", walk.get("mine"), walk.word("running_task")), bad))
    b.jump(running)
    b.start(older)
    _find_by_loop(walk, start, none, bad)
    b.jump(running)
    b.start(bad)
    lo.count_error("pytask_read")
    b.jump(none)
    b.start(running)
    there = b.block("task")
    b.branch("jne", walk.get("task"), 0, there, none)
    b.start(there)
    return walk


def _find_by_loop(walk: TaskWalk, start: Operand, none: BasicBlock, bad: BasicBlock) -> None:
    """The task of the loop that runs in this thread, by the dict of the tasks that run. Other threads may exchange its
    entries meanwhile."""
    b = walk.b
    known = b.block("task")
    loop = _find_loop(walk, none, bad)
    _find_dict(walk, start, bad)
    for _ in range(TRIES):
        ended, again = b.block("ended"), b.block("again")
        walk.put("unread", 0)
        _search(walk, walk.get("tasks"), LOOPS, again, wanted=loop)
        walk.put("task", walk.get("value"))
        b.branch("jne", walk.get("value"), 0, known, ended)
        b.start(ended)
        keys = walk.read_word(b.alu("add", walk.get("tasks"), py.DICT_KEYS), bad)
        b.branch("jeq", keys, walk.get("keys"), none, again)
        b.start(again)
    b.jump(bad)
    b.start(known)


def _find_loop(walk: TaskWalk, none: BasicBlock, bad: BasicBlock) -> Reg:
    b = walk.b
    loop = b.function.reg("loop")
    own, older, values, started, held, some, on = (
        b.block(n) for n in ("own", "older", "values", "started", "held", "some", "on"))
    b.branch("jne", walk.word("running_loop"), 0, own, older)
    b.start(own)
    b.set(loop, walk.read_word(b.alu("add", walk.get("mine"), walk.word("running_loop")), bad))
    b.jump(on)
    b.start(older)
    dict = walk.read_word(b.alu("add", walk.get("mine"), walk.word("thread_dict")), bad)
    b.branch("jne", dict, 0, values, none)
    b.start(values)
    _search(walk, dict, THREAD_VALUES, bad, text=RUNNING_LOOP)
    b.set(loop, walk.get("value"))
    b.branch("jne", loop, 0, started, none)
    b.start(started)
    b.branch("jne", walk.word("holder_loop"), 0, held, on)
    b.start(held)
    b.set(loop, walk.read_word(b.alu("sub", b.alu("add", loop, walk.word("holder_loop")), 1), bad))
    b.start(on)
    b.branch("jne", loop, 0, some, none)  # or it is None, which has no task
    b.start(some)
    return loop


def _find_dict(walk: TaskWalk, start: Operand, bad: BasicBlock) -> None:
    """``tasks``: the dict of the interpreter's tasks that run, by loop."""
    lo, b = walk.lo, walk.b
    known, new, module, names, done = (b.block(n) for n in ("known", "new", "module", "names", "done"))
    map = MapFd(lo.unit.python_tasks())
    with lo.scope():
        key, record = lo.temp(py.TASKS_KEY.size, "interpreter"), lo.temp(py.TASKS.size, "tasks")
        memory_map = memory.read_scalar(lo, task_memory(lo, current_task(lo), "mm"), UINT64)
        for at, value in enumerate((walk.get("interp"), start, memory_map)):
            b.store(key.base, key.off + 8 * at, value)
        address = b.call(h.MAP_LOOKUP, [map, lo.operand_address(key)], "map_lookup_elem")
        b.branch("jne", address, 0, known, new)
        b.start(known)
        walk.put("tasks", b.load(address, 0))
        b.jump(done)
        b.start(new)
        modules = walk.read_word(b.alu("add", walk.get("interp"), walk.word("modules")), bad)
        _search(walk, modules, MODULES, bad, text=MODULE)
        b.branch("jne", walk.get("value"), 0, module, bad)
        b.start(module)
        _search(walk, walk.read_word(b.alu("add", walk.get("value"), py.MODULE_DICT), bad), MODULE_NAMES, bad,
                text=RUNNING_TASKS)
        tasks = walk.get("value")
        b.branch("jne", tasks, 0, names, bad)
        b.start(names)
        walk.put("tasks", tasks)
        b.store(record.base, record.off, tasks)
        b.call(h.MAP_UPDATE, [map, lo.operand_address(key), lo.operand_address(record), h.UPDATE_ANY],
               "map_update_elem")
        b.jump(done)
        b.start(done)


# --- dicts ----------------------------------------------------------------------------------------------------


def _search(walk: TaskWalk, dict: Operand, most: int, bad: BasicBlock, text: bytes = b"", wanted: Operand = 0) -> None:
    """``value``: that of the key which is this object, or a str with this text; 0 if there is none. To ``bad`` if it is
    no dict of up to ``most`` entries."""
    b = walk.b
    walk.put("value", 0)
    walk.put("wanted", wanted)
    if text:
        walk.put("length", len(text))
        for number in range(_KEY_TEXT // 8):
            walk.put(f"text{number}", int.from_bytes(text[8 * number:8 * number + 8], "little", signed=True))
    _open_dict(walk, dict, most, bad)
    words.run_loop(walk.lo, most, [walk.image, walk.work], "pytask entry",
                   lambda function: _entry_function(walk.lo, function))
    good = b.block("searched")
    b.branch("jeq", walk.get("unread"), 0, good, bad)
    b.start(good)


def _open_dict(walk: TaskWalk, dict: Operand, most: int, bad: BasicBlock) -> None:
    """``entry``, ``stride`` and ``entries``: where (key, value) of the first lies, how far the next is, how many there
    are, those without values included."""
    b = walk.b
    good, first, same, combined, keyed, bounded, general, plain, on = (b.block(n) for n in (
        "dict", "first", "same", "combined", "keyed", "bounded", "general", "plain", "on"))
    walk.read(READ, py.DICT_READ, dict, good, bad)
    b.start(good)
    type, known = b.load(walk.work, READ + py.TYPE), walk.get("dict_type")
    b.branch("jeq", known, 0, first, same)
    b.start(first)
    walk.put("dict_type", type)
    b.start(same)
    typed = b.block("typed")
    b.branch("jeq", type, walk.get("dict_type"), typed, bad)
    b.start(typed)
    keys = b.load(walk.work, READ + py.DICT_KEYS)
    walk.put("keys", keys)
    b.branch("jeq", b.load(walk.work, READ + py.DICT_VALUES), 0, combined, bad)
    b.start(combined)
    walk.read(READ, py.KEYS_READ, keys, keyed, bad)
    b.start(keyed)
    entries = b.load(walk.work, READ + py.KEYS_ENTRIES)
    walk.put("entries", entries)
    b.branch("jle", entries, most, bounded, bad)
    b.start(bounded)
    index = b.alu("lsh", b.mov(1), b.alu("and", b.load(walk.work, READ + py.KEYS_INDEX, 1), 63))
    entry = b.alu("add", b.alu("add", keys, py.KEYS_READ), index)
    b.branch("jeq", b.load(walk.work, READ + py.KEYS_KIND, 1), py.GENERAL, general, plain)
    b.start(general)  # (hash, key, value)
    walk.put("entry", b.alu("add", entry, 8))
    walk.put("stride", 24)
    b.jump(on)
    b.start(plain)    # (key, value)
    walk.put("entry", entry)
    walk.put("stride", 16)
    b.start(on)


def _entry_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): look at an entry of a dict; 1 ends the search."""
    b, state = lo.b, function.params[1]
    walk = TaskWalk(lo, b.load(state, 0), b.load(state, 8))
    inside, good, some, object, text, match, again, bad, end = (b.block(n) for n in (
        "inside", "entry", "some", "object", "text", "match", "again", "bad", "end"))
    index = b.extend(function.params[0], 32, False)
    b.branch("jlt", index, walk.get("entries"), inside, end)
    b.start(inside)
    walk.read(READ, 16, b.alu("add", walk.get("entry"), b.alu("mul", index, walk.get("stride"))), good, bad)
    b.start(good)
    key, value = b.load(walk.work, READ), b.load(walk.work, READ + 8)
    b.branch("jne", value, 0, some, again)
    b.start(some)
    walk.put("candidate", value)
    b.branch("jne", walk.get("wanted"), 0, object, text)
    b.start(object)
    b.branch("jeq", key, walk.get("wanted"), match, again)
    b.start(text)
    _compare_key(walk, key, match, again, bad)
    b.start(match)
    walk.put("value", walk.get("candidate"))
    b.jump(end)
    b.start(bad)
    walk.put("unread", 1)
    b.start(end)
    b.exit(1)
    b.start(again)
    b.exit(0)


def _compare_key(walk: TaskWalk, key: Reg, match: BasicBlock, other: BasicBlock, bad: BasicBlock) -> None:
    b = walk.b
    good, equal, ascii, read = (b.block(n) for n in ("key", "equal", "ascii", "read"))
    walk.read(READ, py.TEXT_STATE + 8, key, good, bad)
    b.start(good)
    length = b.load(walk.work, READ + py.TEXT_LENGTH)
    b.branch("jeq", length, walk.get("length"), equal, other)
    b.start(equal)
    state = b.alu("and", b.load(walk.work, READ + py.TEXT_STATE, 4), py.COMPACT | py.ASCII)
    b.branch("jeq", state, py.COMPACT | py.ASCII, ascii, other)
    b.start(ascii)
    b.zero(walk.work, READ, _KEY_TEXT)
    walk.read(READ, b.at_most(length, _KEY_TEXT), b.alu("add", key, walk.word("ascii_size")), read, bad)
    b.start(read)
    for number in range(_KEY_TEXT // 8):
        same = b.block("same")
        b.branch("jeq", b.load(walk.work, READ + 8 * number), walk.get(f"text{number}"), same, other)
        b.start(same)
    b.jump(match)
