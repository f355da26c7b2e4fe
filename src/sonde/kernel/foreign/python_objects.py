"""Objects of a CPython process, read from its memory. All of it may be hostile, or change while it is read: every step
is bounded, and what is not as it has to be ends in UnreadableError."""

from __future__ import annotations

from sys import byteorder

from ...layouts import cpython as py
from ...layouts import cpython_tasks as layout
from .process_pages import Note, Pages, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

_TEXT, _NAME, _BASES = 512, 64, 16   # characters of a str, bytes of a type's name, types from which a type is made
MOST_ENTRIES = 1 << 14               # of a dict
_GENERAL_ENTRY, _TEXT_ENTRY = 24, 16  # bytes: (hash, key, value), (key, value)


class Objects:
    """The objects in some pages of a process with an interpreter, of which ``words`` are those of its image and
    ``more`` its row of TASK_LAYOUTS."""

    def __init__(self, pages: Pages, words: dict[str, int], more: dict[str, int]) -> None:
        self.pages, self.at, self.more = pages, words, more
        self._known: dict[tuple[str, int, str], Note] = {}

    # --- types ------------------------------------------------------------------------------------------------

    def type_of(self, object: int) -> int:
        """The address of an object's type."""
        return self.pages.word(object + py.TYPE)

    def type_names(self, type: int) -> tuple[str, ...]:
        """The names of a type and of those that it is made from."""
        return self.once("names", type, "", lambda: self._read_type_names(type))

    def _read_type_names(self, type: int) -> tuple[str, ...]:
        names = list[str]()
        while type and len(names) < _BASES:
            names.append(self._c_text(self.pages.word(type + py.TYPE_NAME)))
            type = self.pages.word(type + py.TYPE_BASE)
        return tuple(names) or ("",)

    def names_of(self, object: int) -> tuple[str, ...]:
        """The names of its type and of those that this is made from."""
        return self.type_names(self.type_of(object))

    def is_one(self, object: int, name: str) -> bool:
        """Whether an object is of the type of this name, or of one made from it."""
        return name in self.names_of(object)

    def _c_text(self, address: int) -> str:
        raw = self.pages.read(address, min(_NAME, 4096 - address % 4096))
        if b"\0" not in raw:
            raw = self.pages.read(address, _NAME)
        return raw.partition(b"\0")[0].decode("utf-8", "replace")

    # --- texts and numbers ------------------------------------------------------------------------------------

    def text(self, object: int) -> str:
        """The beginning of a str."""
        return self.once("text", object, "", lambda: self._read_text(object))

    def _read_text(self, object: int) -> str:
        flags = self.pages.word(self.type_of(object) + py.TYPE_FLAGS)
        if not flags & py.TEXT_SUBCLASS:
            raise UnreadableError
        head = self.pages.read(object, self.at["compact_size"])
        length = int.from_bytes(head[py.TEXT_LENGTH:py.TEXT_LENGTH + 8], byteorder)
        state = int.from_bytes(head[py.TEXT_STATE:py.TEXT_STATE + 4], byteorder)
        start = self.at["ascii_size" if state & py.ASCII else "compact_size"]
        size = min(length, _TEXT) * (state >> py.KIND_SHIFT & py.KIND_BITS)
        raw = head[:start] + self.pages.read(object + start, size) if size else head
        text = py.decode_text(raw.ljust(self.at["compact_size"], b"\0"), self.at["ascii_size"], self.at["compact_size"])
        if text is None:
            raise UnreadableError
        return text

    def number(self, object: int) -> int | None:
        """An int of up to 60 bits; None if it is none."""
        if not self.pages.word(self.type_of(object) + py.TYPE_FLAGS) & py.INT_SUBCLASS:
            return None
        tag, digits = self.pages.words(object + py.INT_TAG, 2)
        value = digits & 0x3FFFFFFF
        return value | (digits >> 32) << 30 if tag >> py.INT_SHIFT > 1 else value

    # --- containers -------------------------------------------------------------------------------------------

    def items(self, dict: int, most: int = MOST_ENTRIES) -> Iterator[tuple[int, int]]:
        """(key, value) of a dict, by address."""
        keys, values = self.pages.words(dict + py.DICT_KEYS, 2)
        for index, (key, value) in enumerate(self._entries(keys, most)):
            if values:
                value = self.pages.word(self._values_start(values) + 8 * index)
            if value:
                yield key, value

    def find(self, dict: int, name: str, most: int = MOST_ENTRIES) -> int:
        """The value of a key that is this str; 0 if there is none."""
        return next((value for key, value in self.items(dict, most) if self._is_text(key, name)), 0)

    def set_items(self, set: int, most: int) -> list[int]:
        """What is in a set."""
        mask, table = self.pages.words(set + layout.SET_MASK, 2)
        if mask >= 8 * most:
            raise UnreadableError
        entries = self.pages.words(table, 2 * (mask + 1))
        return [object for object, hash in zip(entries[::2], entries[1::2]) if object and hash != (1 << 64) - 1]

    def tuple_items(self, tuple: int, most: int) -> list[int]:
        """The first items of a tuple."""
        size = self.pages.word(tuple + layout.VAR_SIZE)
        return self.pages.words(tuple + self.more["tuple_items"], min(size, most)) if 0 < size < 1 << 40 else []

    def list_items(self, list: int, most: int) -> list[int]:
        """The first items of a list."""
        size, items = self.pages.words(list + layout.VAR_SIZE, 2)
        return self.pages.words(items, min(size, most)) if 0 < size < 1 << 40 else []

    def _entries(self, keys: int, most: int) -> Iterator[tuple[int, int]]:
        head = self.pages.read(keys, py.KEYS_READ)
        count = int.from_bytes(head[py.KEYS_ENTRIES:], byteorder)
        if count > most or head[py.KEYS_INDEX] > 40:
            raise UnreadableError
        start, general = keys + py.KEYS_READ + (1 << head[py.KEYS_INDEX]), head[py.KEYS_KIND] == py.GENERAL
        size = _GENERAL_ENTRY if general else _TEXT_ENTRY
        for index in range(count):
            key, value = self.pages.words(start + index * size + size - 16, 2)
            yield key, value

    def _is_text(self, object: int, name: str) -> bool:
        """Whether it is this str of ASCII characters."""
        head = self.pages.read(object, py.TEXT_STATE + 8)
        return int.from_bytes(head[py.TEXT_LENGTH:py.TEXT_LENGTH + 8], byteorder) == len(name) and \
            head[py.TEXT_STATE] & (py.COMPACT | py.ASCII) == py.COMPACT | py.ASCII and \
            self.pages.read(object + self.at["ascii_size"], len(name)) == name.encode("ascii", "replace")

    # --- attributes -------------------------------------------------------------------------------------------

    def attributes(self, object: int, most: int = 256) -> Iterator[tuple[int, int]]:
        """(name, value) of what an object's own dict has, wherever it keeps that."""
        type = self.type_of(object)
        flags = self.pages.word(type + py.TYPE_FLAGS)
        if not flags & layout.MANAGED_DICT:
            offset = self.pages.word(type + layout.TYPE_DICT_OFFSET)
            dict = self.pages.word(object + offset) if 16 <= offset < 1 << 16 else 0
            yield from self.items(dict, most) if dict else ()
            return
        values, dict = self._managed_values(object, type, flags)
        if dict:
            yield from self.items(dict, most)
        elif values:
            keys = self.pages.word(type + self.more["cached_keys"])
            for index, (key, _) in enumerate(self._entries(keys, most)):
                value = self.pages.word(values + 8 * index)
                if value:
                    yield key, value

    def _managed_values(self, object: int, type: int, flags: int) -> tuple[int, int]:
        """(its values, in the order of its type's keys; its dict): one of them is 0."""
        dict = self.pages.word(object + layout.MANAGED_AT)
        if self._has_inline_values:
            basic = self.pages.word(type + layout.TYPE_BASICSIZE)
            return (0, dict) if dict or not flags & layout.INLINE_VALUES else (object + basic + 8, 0)
        if self.more["cached_keys"] == layout.TASK_LAYOUTS[3, 11]["cached_keys"]:
            return (0, dict) if dict else (self.pages.word(object + layout.OLD_VALUES_AT), 0)
        return (dict + 1, 0) if dict & 1 else (0, dict)

    @property
    def _has_inline_values(self) -> bool:
        """From 3.13 on, values of attributes follow four bytes about them."""
        return bool(self.more["delegates"])

    def _values_start(self, values: int) -> int:
        return values + 8 if self._has_inline_values else values

    def attribute(self, object: int, name: str) -> int:
        """An attribute, of the object's dict or slots; 0 if it has none."""
        for key, value in self.attributes(object):
            if self._is_text(key, name):
                return value
        offset = self._slot(self.type_of(object), name)
        return self.pages.word(object + offset) if offset else 0

    def _slot(self, type: int, name: str) -> int:
        """Where objects of a type have the slot of this name; 0 if they have none."""
        return self.once("slot", type, name, lambda: self._read_slot(type, name))

    def _read_slot(self, type: int, name: str) -> int:
        offset = 0
        for base in self.tuple_items(self.pages.word(type + layout.TYPE_MRO), _BASES):
            dict = self.pages.word(base + layout.TYPE_DICT)
            member = self.find(dict, name, 4096) if dict else 0
            if member and self.names_of(member)[0] == "member_descriptor":
                offset = self.pages.word(self.pages.word(member + layout.MEMBER) + layout.MEMBER_OFFSET)
                break
        if offset >= 1 << 16:
            raise UnreadableError
        return offset

    # --- what was read before ---------------------------------------------------------------------------------

    def once(self, kind: str, address: int, name: str, read: Callable[[], T]) -> T:
        """What ``read`` reads of an address, which is read once; the log has what it was read from."""
        note = self._known.get((kind, address, name))
        if note is None:
            outer, self.pages.log = self.pages.log, []
            try:
                note = self._known[kind, address, name] = Note(read(), self.pages.log)
            finally:
                self.pages.log = outer
        self.pages.log.append(note)
        return note.value  # type: ignore[no-any-return]
