"""Swift's symbol names as in source code, as far as they are simple: the module, the types and the function of what is
declared in them (Swift's docs/ABI/Mangling.rst). Names of local functions, extensions, generic and witness code, and
those whose parameters have types of other modules, stay as they are: they cannot be told from one another without
knowing the whole grammar.
"""

from __future__ import annotations

import re

MOST = 2048  # characters of a name
_PREFIX = re.compile(r"_?\$[sS]")
_SIZE = re.compile(r"[1-9][0-9]{0,3}")
_KINDS = "VCO"     # struct, class, enum
_PRIVATE = re.compile(r"_[0-9A-F]{32}")  # what tells private names of several files apart
_SIGNATURE = r"(?:[A-Za-z_]|[SA][0-9]{1,3}(?=[A-Za-z]))*"  # types without names of their own
_ENDS = ((re.compile(_SIGNATURE + "(?:fC|fc)"), "init"), (re.compile("f[dD]"), "deinit"))
_MEMBER_ENDS = ((re.compile(_SIGNATURE + "FZ?"), ""), (re.compile(_SIGNATURE + "vgZ?"), ".getter"),
                (re.compile(_SIGNATURE + "vsZ?"), ".setter"), (re.compile(_SIGNATURE + "vMZ?"), ".modify"),
                (re.compile(_SIGNATURE + "vrZ?"), ".read"))


class NotSwiftError(Exception):
    """The name is not a simple one."""


def demangle_swift(name: str) -> str | None:
    """``$s3app5QueueC3addyySiF`` → ``app.Queue.add``; None if it is no such name, or not a simple one."""
    prefix = _PREFIX.match(name)
    if prefix is None or len(name) > MOST or not name.isascii():
        return None
    parser = _Parser(name, prefix.end())
    try:
        return parser.read_entity()
    except (NotSwiftError, IndexError):
        return None


class _Parser:
    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at
        self.words: list[str] = []

    def read_entity(self) -> str:
        """The module and types around it, and its own name."""
        names = ["Swift"] if self.text.startswith("s", self.at) else [self._identifier()]
        self.at += names == ["Swift"] and self.text[self.at] == "s"
        while True:
            for end, shown in _ENDS:
                if len(names) > 1 and end.fullmatch(self.text, self.at):
                    return ".".join([*names, shown])
            name = self._identifier()
            if self.text[self.at].isdigit() and (private := self._private_name()):
                self.at = private
            if self.text[self.at] in _KINDS:
                self.at += 1
                names.append(name)
                continue
            return ".".join([*names, name + self._member_end()])

    def _private_name(self) -> int:
        """Where a private name's discriminator ends; 0 if there is none."""
        size = _SIZE.match(self.text, self.at)
        if size is None or size[0] != "33" or not _PRIVATE.fullmatch(self.text, size.end(), size.end() + 33) or \
                not self.text.startswith("LL", size.end() + 33):
            return 0
        return size.end() + 35

    def _member_end(self) -> str:
        """What kind of code a function's or property's is. The names of parameters come first."""
        while self.text[self.at] == "_" or self.text[self.at].isdigit():
            if self.text[self.at] == "_":
                self.at += 1
            else:
                self._identifier()
        for end, shown in _MEMBER_ENDS:
            if end.fullmatch(self.text, self.at):
                return shown
        raise NotSwiftError

    def _identifier(self) -> str:
        """A length and a text; after 0 there are letters for words that the name had before."""
        substitutes = self.text[self.at] == "0"
        self.at += substitutes
        parts: list[str] = []
        while True:
            while substitutes and self.text[self.at].isalpha():
                letter = self.text[self.at]
                self.at += 1
                substitutes = letter.islower()
                parts.append(self.words[ord(letter.lower()) - ord("a")])
            if parts and self.text[self.at] == "0":
                self.at += 1
                break
            size = _SIZE.match(self.text, self.at)
            if size is None or (end := size.end() + int(size[0])) > len(self.text):
                raise NotSwiftError
            parts.append(self.text[size.end():end])
            self.at = end
            self._note_words(parts[-1])
            if not substitutes:
                break
        return "".join(parts)

    def _note_words(self, text: str) -> None:
        """The words of an identifier, as later ones refer to them."""
        start = -1
        for index, (before, letter) in enumerate(zip("\0" + text, text + "\0")):
            if start >= 0 and (letter in "_\0" or letter.isupper() and not before.isupper()):
                if index - start >= 2 and len(self.words) < 26:
                    self.words.append(text[start:index])
                start = -1
            if start < 0 and letter not in "_\0" and not letter.isdigit():
                start = index
