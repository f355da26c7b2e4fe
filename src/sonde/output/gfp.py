"""Names of the kernel's allocation flags, for printf's ``%gr`` (much like the kernel's own ``%pGg``)."""

from __future__ import annotations

# include/linux/gfp_types.h, the order of its enum, with everything configured
_BITS = ("DMA HIGHMEM DMA32 MOVABLE RECLAIMABLE HIGH IO FS ZERO - DIRECT_RECLAIM KSWAPD_RECLAIM WRITE NOWARN "
         "RETRY_MAYFAIL NOFAIL NORETRY MEMALLOC COMP NOMEMALLOC HARDWALL THISNODE ACCOUNT ZEROTAGS "
         "SKIP_ZERO SKIP_KASAN NO_OBJ_EXT").split()
_VALUE = {name: 1 << bit for bit, name in enumerate(_BITS)}


def _flags_value(names: str) -> int:
    return sum(_VALUE[name] for name in names.split())


_RECLAIM = _flags_value("DIRECT_RECLAIM KSWAPD_RECLAIM")
_KERNEL = _RECLAIM | _flags_value("IO FS")
_USER = _KERNEL | _flags_value("HARDWALL")
_MOVABLE = _USER | _flags_value("HIGHMEM MOVABLE SKIP_KASAN")
_LIGHT = (_MOVABLE | _flags_value("COMP NOMEMALLOC NOWARN")) & ~_RECLAIM

# include/trace/events/mmflags.h: combinations first, the widest before what it contains; then single bits
NAMES: list[tuple[str, int]] = [
    ("GFP_TRANSHUGE", _LIGHT | _flags_value("DIRECT_RECLAIM")), ("GFP_TRANSHUGE_LIGHT", _LIGHT),
    ("GFP_HIGHUSER_MOVABLE", _MOVABLE), ("GFP_HIGHUSER", _USER | _flags_value("HIGHMEM")),
    ("GFP_USER", _USER), ("GFP_KERNEL_ACCOUNT", _KERNEL | _flags_value("ACCOUNT")), ("GFP_KERNEL", _KERNEL),
    ("GFP_NOFS", _RECLAIM | _flags_value("IO")), ("GFP_ATOMIC", _flags_value("HIGH KSWAPD_RECLAIM")),
    ("GFP_NOIO", _RECLAIM),
    ("GFP_NOWAIT", _flags_value("KSWAPD_RECLAIM NOWARN")), ("GFP_DMA", _VALUE["DMA"]), ("GFP_DMA32", _VALUE["DMA32"]),
    *[(f"__GFP_{name}", bit) for name, bit in _VALUE.items()
      if name not in ("DMA", "DMA32", "MOVABLE", "RECLAIMABLE", "-")]]


def gfp_names(flags: int) -> str:
    """``GFP_KERNEL|__GFP_ZERO``; flags without a name are in hexadecimal; no flags are 0."""
    names = []
    for name, mask in NAMES:
        if flags & mask == mask:
            names.append(name)
            flags &= ~mask
    if flags or not names:
        names.append(hex(flags) if flags else "0")
    return "|".join(names)
