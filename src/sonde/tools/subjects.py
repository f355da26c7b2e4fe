"""The tools by subject: what `sonde --help` lists, and what manual pages name as related."""

from __future__ import annotations

SUBJECTS = {
    "processes and files":
        "execsnoop exitsnoop opensnoop statsnoop filetop fileslower dcsnoop vfscount vfsstat syscount "
        "killsnoop setuids capable threadsnoop pidpersec naptime bashreadline ttysnoop filegone filelife "
        "dirtop shmsnoop",
    "waiting and CPUs":
        "runqlat runqlen cpudist cpuwalk offcputime offwaketime wakeuptime loads hardirqs softirqs "
        "hrtimers runqslower cpuunclaimed klockstat criticalstat llcstat kvmexit",
    "disks and file systems":
        "biolatency biosnoop biostacks biotop bitesize mdflush syncsnoop writeback xfsdist biolatpcts "
        "biopattern readahead mountsnoop virtiostat",
    "memory": "cachestat drsnoop memleak oomkill slabratetop swapin cachetop compactsnoop",
    "functions and libraries": "funccount funcprofile stackcount sslsnoop ssllatency funclatency funcslower",
    "sockets":
        "sockstat sofamily soprotocol soconnect soaccept socketio socksize sormem soconnlat so1stbyte "
        "solisten solife sofdsnoop undump",
    "TCP":
        "tcpconnect tcpaccept tcplife tcptop tcpstates tcpretrans tcpdrop tcpsynbl tcpwin tcprtt tcpcong "
        "tcpnagle tcpsend tcpbind pacinglat",
    "UDP, names, pings": "udpconnect udplife udporder gethostlatency superping arplat",
    "packets, queues, devices":
        "netsize netqtop nettxlat qdisclat bqllat skbdrop skblife skbstages ipecn ieee80211scan",
}


def related_tools(name: str, most: int = 6) -> list[str]:
    """The tools nearest to this one among those of its subject."""
    for names in [each.split() for each in SUBJECTS.values()]:
        if name in names:
            first = max(0, min(names.index(name) - most // 2, len(names) - most - 1))
            return [other for other in names[first:first + most + 1] if other != name]
    return []
