"""Names that tools have elsewhere, and the command lines that run the same here."""

from __future__ import annotations

_LANGUAGES = {  # of bcc's tools for the runtimes of languages
    "calls": "java perl php python ruby tcl", "flow": "java perl php python ruby tcl", "gc": "java node python ruby",
    "objnew": "c java ruby tcl", "stat": "java node perl php python ruby tcl", "threads": "c java",
}
ALIASES = {
    "bindsnoop": "tcpbind", "spfdsnoop": "sofdsnoop", "tcpconnlat": "soconnect", "tcptracer": "tcpstates",
    "sslsniff": "sslsnoop",  # bcc
    "iolatency": "biolatency", "iosnoop": "biosnoop",  # perf-tools
} | {f"{language}{what}": f"u{what} -l {language}" for what, languages in _LANGUAGES.items()
     for language in languages.split()}


def own_words(word: str) -> list[str]:
    """``word`` as it is called here: a tool or a command, perhaps with an option; any other word as it is."""
    return ALIASES[word].split() if word in ALIASES else [word]
