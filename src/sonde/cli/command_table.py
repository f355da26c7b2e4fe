"""The names of commands, and names that tools have elsewhere."""

from __future__ import annotations

# The name of each command, and how it is used.
COMMANDS = {
    "top": "top [options] FILE | TOOL | -e 'PROGRAM' [parameters]",
    "serve": "serve [options] FILE | TOOL | -e 'PROGRAM' [parameters]",
    "record": "record [options] FILE | TOOL | -e 'PROGRAM' [parameters] -o RECORDING",
    "replay": "replay [-f FORMAT] [-o FILE] RECORDING",
    "diff": "diff BEFORE AFTER | diff --baseline COMMAND -c COMMAND [--repeat N] FILE | TOOL | -e 'PROGRAM'",
    "dump": "dump [NAME [WHY]]",
    "cost": "cost [--seconds N] FILE | TOOL | -e 'PROGRAM' [parameters]",
    "flame": "flame [--on-cpu | --off-cpu | --off-wake | --chain] [-p PID] [SECONDS] | flame --diff BEFORE AFTER",
    "argdist": "argdist [-C | -H] [-p PID] PROBE EXPR [/FILTER/]",
    "trace": "trace [-t] [-K] [-U] [-M N] [-p PID] PROBE [PROBE ...]",
    "profile": "profile [-F HZ] [-p PIDS] [-U | -K] [SECONDS]",
    "tcpsubnet": "tcpsubnet [-i SECONDS] [-p PID] [SUBNETS]",
    "pygil": "pygil [--holds] -p PID [SECONDS]",
    "pyloop": "pyloop [-m MS] -p PID [SECONDS]",
    "pytasks": "pytasks [--flame] -p PID [SECONDS]",
    "packets": "packets [--drops] [-t] [-k] [-S] [-w FILE] [-d SECONDS] [FILTER]",
    "ucalls": "ucalls [-l LANGUAGE] [-L] [-S] PID [SECONDS]",
    "uflow": "uflow [-l LANGUAGE] [-M METHOD] [-C CLASS] PID",
    "ugc": "ugc [-l LANGUAGE] [-M MS] PID",
    "uobjnew": "uobjnew [-l LANGUAGE] [-C N] [-S N] PID [SECONDS]",
    "ustat": "ustat [-l LANGUAGE] [-S WHAT] [-p PID] [INTERVAL [COUNT]]",
    "uthreads": "uthreads [-l LANGUAGE] PID",
    "symbols": "symbols list | take FILE... | pack -o PACK [BUILD-ID...] | use PACK | drop BUILD-ID...",
    "overhead": "overhead [[--annotate] id:NUMBER | NAME] [SECONDS]",
    "export": "export --prometheus [ADDRESS] | --otlp[-profiles] [URL] | --parquet FILE SCRIPT [parameters]",
    "tools": "tools [--check] [QUESTION]",
    "doctor": "doctor [--btf FILE]",
    "check": "check [--btf FILE] [-f FORMAT] SCRIPT...",
    "lsp": "lsp [--btf FILE]",
    "mcp": "mcp [--policy FILE] [--recordings DIR]",
    "help": "help [NAME | QUESTION]",
    "man": "man [NAME | --write DIR]",
    "completion": "completion SHELL",
    "version": "version",
    "fleet": "fleet -H HOSTS | --dask ADDRESS [options] FILE | TOOL [parameters] | -e 'PROGRAM' [SECONDS]",
    "agent": "agent --stdio | --socket PATH",
    "unit": "unit --prometheus [ADDRESS] | --otlp [URL] SCRIPT [parameters] | --agent [GROUP]",
}
TOPICS = {  # of commands, in the order of ``sonde --help``
    "COMMANDS FOR RUNS": "top serve record replay diff dump cost overhead",
    "COMMANDS THAT TRACE": "flame profile trace argdist packets tcpsubnet",
    "COMMANDS FOR RUNTIMES OF LANGUAGES": "ucalls uflow ugc uobjnew ustat uthreads pygil pyloop pytasks",
    "COMMANDS FOR MANY HOSTS, AND OTHER SYSTEMS": "fleet agent mcp export unit",
    "COMMANDS FOR THIS MACHINE, AND HELP": "help man completion tools doctor check symbols lsp version",
}
VIEWERS = ("top", "serve", "record")  # words before the program that say what is made of the run
WRAPPERS = ("fleet", "export", "unit", "cost")  # commands that take a program, which may be a tool with its own options

_LANGUAGES = {  # of bcc's tools for the runtimes of languages
    "calls": "java perl php python ruby tcl", "flow": "java perl php python ruby tcl", "gc": "java node python ruby",
    "objnew": "c java ruby tcl", "stat": "java node perl php python ruby tcl", "threads": "c java",
}
# Names that tools have elsewhere, and the words that run the same here.
ALIASES = {
    "bindsnoop": "tcpbind", "spfdsnoop": "sofdsnoop", "tcpconnlat": "soconnect", "tcptracer": "tcpstates",
    "sslsniff": "sslsnoop",  # bcc
    "iolatency": "biolatency", "iosnoop": "biosnoop",  # perf-tools
} | {f"{language}{what}": f"u{what} -l {language}" for what, languages in _LANGUAGES.items()
     for language in languages.split()}


def own_words(word: str) -> list[str]:
    """``word`` as it is called here: a tool or a command, perhaps with an option; any other word as it is."""
    return ALIASES[word].split() if word in ALIASES else [word]
