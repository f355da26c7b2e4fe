"""How many keys a map of a kind of objects has room for: ``let @since = hash(max_threads);``.

A size is what a large machine has of them at once. Memory is taken as keys come, so it costs nothing to have room; maps
with ``lruhash`` take all of it at once. ``SONDE_MAX_MAP_KEYS`` in the environment holds instead of each of them.
"""

MAP_SIZES = {
    "max_keys": 4096,       # what the maps of a tool's results have without a declaration
    "max_threads": 1 << 16,
    "max_sockets": 1 << 17,  # both ends of 65,000 connections on one machine
    "max_files": 1 << 20,
    "max_packets": 1 << 16,  # under way at once; also requests of disks, pings
}
