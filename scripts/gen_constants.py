#!/usr/bin/env python3
"""Write src/sonde/semantics/constants.z: the numbers that the headers of Linux's interface to programs define.

    scripts/gen_constants.py [DIRECTORY...]

The directories have linux/, asm/ and so on (default: /usr/include, of linux-libc-dev). gcc says what each macro and
enumerator is. The file is for all architectures: what asm/ defines, and numbers of 64 bits that depend on sizes, are
left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from sonde.semantics.constants import macro_constant  # noqa: E402
from sonde.semantics.header_constants import FILE, pack_constants, unpack_constants  # noqa: E402

FOLDERS = ("linux", "asm-generic", "mtd", "misc", "scsi", "video", "sound", "rdma", "drm", "xen")
# Of devices, formats and protocols that hardly anybody traces by number.
LEFT_OUT = re.compile(
    r"drm/|rdma/|sound/|xen/|video/|scsi/|misc/|mtd/|asm-generic/unistd|linux/(?:dvb/|usb|raid/|isdn|mmc|android|cifs|hdlc"
    r"|genwqe|tc_|netfilter_bridge|netfilter_arp|sunrpc|surface|spi|iio|hsi|misc|byteorder|caif|dlm|dm-|drbd|firewire"
    r"|videodev2|v4l2|media|cec|comedi|soundcard|atm|omap|ivtv|kfd|rkisp|vbox|nl80211|wireless|keyboard|kd\.|pci_regs"
    r"|mdio|hid|cd|coff|fpga|fsi|gfs2|joystick|mei|nbd|ndctl|nsm|phantom|ppdev|rio|serial|vt\.|wmi|zorro|sonypi|toshiba"
    r"|i8k|cxl|auto_dev|matrox|radeonfb|sisfb|synclink|uvc|virtio_(?:gpu|snd|crypto|scmi|iommu|bt|i2c|mem|pmem|rtc)"
    r"|xilinx|i2o|mtio|apm_bios|hdreg|fb\.|fdreg|fd\.|pmu|switchtec|tipc|rds|pfkeyv2|nilfs2|psci|ublk|hyperv|ipmi|nfs"
    r"|isst|idxd|mii|ps2|x25|ax25|netrom|rose|irda|dn\.|ipx|llc|lapb|pps|ptp|rtc|rxrpc|ncsi|nfc|papr|patchkey|dccp|dcb"
    r"|acrn|adb|adfs|affs|agpgart|amt|arcfb|aspeed|batadv|batman|baycom|bcache|bcm933|befs|bfs|bpqether|bt-bm|can"
    r"|coda|cyclades|efs|hfs|jffs2|minix|qnx|romfs|reiserfs|ufs|udf|vboxguest|remoteproc|rpmsg|sed-opal|pktcdvd|seg6"
    r"|stm|suspend|times|tps|um_|gpio|gsmmux|gtp|i2c|if_(?:arcnet|eql|fc|fddi|hippi|infini|plip|pppol|slip|x25|tunnel"
    r"|alg|ltalk|cablem)|ila|input\.|ioam|ip_vs|ivtvfb|jffs|kcm|lirc|lp\.|lwtunnel|map_|max2175|mpls|ncp|npcm|nvme"
    r"|parport|pcitest|pg\.|pxa|qemu_fw|qrtr|quota|random|raw|screen|sctp|sync_file|tee|ttr|ultra|uinput|unix_diag"
    r"|vduse|vmcore|watch_queue|watchdog|wwan|xdp_diag)")
IOCTL = r"(?m)^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+\(?_?[A-Z_]*IO[RWC]*\w*\s*\("  # numbers of 32 random bits
MOST = 60_000  # bytes


def main(folders: list[str]) -> None:
    places = [Path(f) for f in folders or ["/usr/include"]]
    headers = sorted({str(f.relative_to(place)) for place in places for folder in FOLDERS
                      for f in (place / folder).rglob("*.h")})
    headers = [header for header in headers if not LEFT_OUT.match(header)]
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(headers, pool.map(lambda header: constants_of(header, places), headers)))
    data = pack_constants({header: values for header, values in found.items() if values})
    assert unpack_constants(data) == {h: v for h, v in found.items() if v}
    print(f"{sum(map(len, found.values()))} constants of {len(found)} headers in {len(data)} bytes")
    assert len(data) <= MOST
    Path(FILE).write_bytes(data)


def constants_of(header: str, places: list[Path]) -> dict[str, int]:
    """The integers that a header defines as macros: those of enumerations are in the kernel's BTF."""
    text = next(place / header for place in places if (place / header).exists()).read_text("utf-8", "replace")
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    names = re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+\S", bare)
    enumerators = {name for body in re.findall(r"\benum\b[^{};]*\{([^}]*)\}", re.sub(r"(?m)^[ \t]*#.*", "", bare))
                   for name in re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", body)}
    numbers = set(re.findall(IOCTL, bare)) if header != "linux/kvm.h" else set()
    names = [name for name in dict.fromkeys(names) if name not in enumerators | numbers]
    return {name: value for name, value in ask_gcc(header, names, places).items() if macro_constant(name) != value}


def ask_gcc(header: str, names: list[str], places: list[Path]) -> dict[str, int]:
    lines = [f"void question_{n}(void) {{ enum {{ value = ({name}) }}; }}" for n, name in enumerate(names)]
    content, errors, _ = run_gcc(header, lines, places, "-fsyntax-only")
    wrong = {int(n) for n in re.findall(r"In function .question_(\d+)", errors)}
    right = [name for n, name in enumerate(names) if n not in wrong]
    table = ["long long answers[] = {", *[f"(long long)({name})," for name in right], "1};"]
    content, errors, good = run_gcc(header, table, places, "-S", "-o", "-")
    if not good:
        return {}
    values: list[int] = []
    for kind, number in re.findall(r"\.(quad|zero)\s+(-?\d+)", content.partition("\nanswers:")[2]):
        values += [int(number)] if kind == "quad" else [0] * (int(number) // 8)
    return dict(zip(right, values))


def run_gcc(header: str, lines: list[str], places: list[Path], *options: str) -> tuple[str, str, bool]:
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write("\n".join([f"#include <{header}>", *lines, ""]))
        file.flush()
        found = subprocess.run(["gcc", "-w", "-fmax-errors=0", "-ftrack-macro-expansion=0",
                                *[f"-isystem{place}" for place in places], *options, file.name],
                               capture_output=True, text=True, check=False)
    return found.stdout, found.stderr, not found.returncode


if __name__ == "__main__":
    main(sys.argv[1:])
