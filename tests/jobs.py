"""Jobs that people come with: what they ask, and which of these should be among the three best answers."""

from __future__ import annotations

JOBS: tuple[tuple[str, str], ...] = (
    ("dns", "gethostlatency"), ("is name resolution slow", "gethostlatency"), ("slow disk", "biolatency biosnoop"),
    ("which process writes to disk", "biotop filetop"), ("slow file reads", "fileslower"),
    ("which files does my program open", "opensnoop"), ("who deleted my file", "filegone"),
    ("missing configuration file", "opensnoop statsnoop"), ("short lived processes", "execsnoop"),
    ("which commands are run", "execsnoop"), ("why did my process exit", "exitsnoop"),
    ("who killed my process", "killsnoop"), ("out of memory", "oomkill"), ("memory leak", "memleak"),
    ("page cache hit ratio", "cachestat cachetop"), ("swapping", "swapin"), ("cpu profile", "profile flame"),
    ("flame graph", "flame"), ("where does my program spend its time", "flame"),
    ("what is my process waiting for", "offcputime flame"), ("lock contention", "klockstat offcputime"),
    ("run queue latency", "runqlat"), ("is the cpu saturated", "runqlen runqlat"), ("interrupts", "hardirqs softirqs"),
    ("which system calls fail", "syscount"), ("count system calls", "syscount"), ("strace", "syscount trace"),
    ("who uses the network", "tcptop socketio"), ("bandwidth by process", "tcptop socketio"),
    ("packet loss", "skbdrop tcpretrans tcpdrop"), ("tcp retransmissions", "tcpretrans"),
    ("connection refused", "soconnect tcpconnect"), ("how long do connections live", "tcplife"),
    ("incoming connections", "tcpaccept soaccept"), ("which ports are listening", "solisten"),
    ("round trip time", "tcprtt superping"), ("read tls plaintext", "sslsnoop"),
    ("slow function", "funclatency funcslower"),
    ("who calls this kernel function", "stackcount"), ("arguments of a function", "trace argdist"),
    ("python stack", "pystack"), ("garbage collector pauses", "ugc"), ("only one container", "--container"),
    ("trace many hosts", "fleet"), ("prometheus metrics", "export unit"), ("compare before and after", "diff"),
    ("record now and look later", "record replay"), ("cost of a script", "cost overhead"),
    ("does this kernel support it", "doctor"), ("histogram of values", "hist"),
    ("length of a string", "strlen"),
    ("text at a pointer", "str"), ("who became root", "setuids"), ("permission denied", "capable"),
    # as people type
    ("slow dsik", "biolatency biosnoop"), ("retransmision", "tcpretrans"), ("latancy of dns", "gethostlatency"),
    ("conections", "tcpconnect tcplife soconnect"), ("memroy leek", "memleak"), ("flamegraf", "flame"),
)
