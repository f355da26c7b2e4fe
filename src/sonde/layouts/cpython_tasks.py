"""Where CPython keeps tasks, coroutines and what they refer to, by version: for readers of a process's memory.

The numbers were measured in CPython 3.11.7, 3.12.1, 3.13.0, 3.13.5 and 3.14.10 (builds with the GIL, 64-bit): fields
of objects by looking for the addresses of what they refer to, the others by ``offsetof`` against ``Include/internal``.
3.14 states those of tasks itself, in the section ``.AsyncioDebug`` of its module ``_asyncio``.
"""

from __future__ import annotations

# Of a future or task of the module _asyncio, in every version
LOOP, CALLBACK, CALLBACKS, PENDING = 16, 24, 40, 0
WAITER_BEFORE, CORO_BEFORE = 16, 8  # bytes before a task's name: the future that it waits for, its coroutine
# A generator, coroutine, asynchronous generator: its states from "created" to "runs" are CREATED to 0
RUNS = 0
# A frame that is in a generator's object
FRAME_STACK = 64  # its stack's depth (i32, from the local variables on); from 3.14 on the address of its end
# Other objects
WEAKREF_OBJECT, CELL_CONTENTS, FUNCTION_CLOSURE, FUNCTION_NAME = 16, 16, 72, 40
METHOD_SELF, PARTIAL_FUNCTION, PARTIAL_ARGS = 24, 16, 24
VAR_SIZE = 16
SET_MASK, SET_TABLE, SET_READ, SET_ENTRY = 32, 40, 48, 16  # entries: (object, hash)
TYPE_BASICSIZE, TYPE_DICT, TYPE_DICT_OFFSET, TYPE_MRO = 32, 264, 288, 344
MEMBER, MEMBER_OFFSET = 40, 16  # of a descriptor: its definition, which has the offset
INLINE_VALUES, MANAGED_DICT = 1 << 2, 1 << 4  # flags of a type
MANAGED_AT, OLD_VALUES_AT = -24, -32          # before the object; the second in 3.11
NATIVE_THREAD_AFTER = 8                       # bytes after the C library's number of a thread: the kernel's

# What can be awaited, by the name of its type: where it has the generator or future that it stands for.
WRAPPERS = {"coroutine_wrapper": 16, "async_generator_asend": 16, "async_generator_athrow": 16, "anext_awaitable": 16,
            "_asyncio.FutureIter": 16, "FutureIter": 16}
GENERATORS = ("coroutine", "generator", "async_generator")

_OLDER = {"state": 88, "generator_state": 67, "generator_frame": 72, "locals": 72, "created": -2, "delegates": 0,
          "tuple_items": 24, "node": 0, "thread_tasks": 0, "interp_tasks": 0, "local_dicts": 48,
          "cached_keys": 880, "local_count": 72}
# ``delegates``: the state of a generator that awaits another; 0: the instruction after the one it is at tells.
# ``node``: of a task, in the lists of its thread and, when that has ended, of its interpreter.
# ``local_dicts``: what a threading.local has for each thread.
TASK_LAYOUTS: dict[tuple[int, int], dict[str, int]] = {
    (3, 11): _OLDER | {"generator_state": 75, "generator_frame": 80, "cached_keys": 872, "local_count": 76},
    (3, 12): _OLDER,
    (3, 13): _OLDER | {"state": 96, "created": -3, "delegates": -1, "local_dicts": 40},
    (3, 14): _OLDER | {"state": 104, "created": -3, "delegates": -1, "local_dicts": 40, "locals": 80,
                       "tuple_items": 32, "node": 152, "thread_tasks": 880, "interp_tasks": 10880},
}
