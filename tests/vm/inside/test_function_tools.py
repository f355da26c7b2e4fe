"""The tools that trace kernel functions, on kernels that can, against workloads of this process's own."""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from printed import histogram_total, rows
from support import Tracer

ME = str(os.getpid())


def test_funccount() -> None:
    """By the function of a system call that nothing else here uses."""
    with Tracer("funccount", "-p", ME, "core_sys_selec*", timeout=150) as tracer:
        for _ in range(37):
            select.select([], [], [], 0)
    assert "@count[kprobe:core_sys_select]: 37\n" in tracer.stdout


def test_funcprofile() -> None:
    """The function's time lies between the time asked for and the time measured around it; from these the bounds."""
    asked = [0.05] * 4 + [0.25] * 3
    measured = []
    with Tracer("funcprofile", "-p", ME, "-f", "json", "--histogram", "core_sys_select", timeout=150) as tracer:
        for seconds in asked:
            begun = time.monotonic()
            select.select([], [], [], seconds)
            measured.append(time.monotonic() - begun)
    [row] = [row for row in rows(tracer.stdout) if row["FUNCTION"] == "core_sys_select"]
    n = len(asked)
    total, average = float(str(row["TIME_US"])), float(str(row["AVG_US"]))
    assert row["HITS"] == n
    assert sum(asked) * 1e6 - 1 <= total <= sum(measured) * 1e6 + 1
    assert abs(average - total / n) <= 0.1
    # A standard deviation moves by no more than the norm of what the values move by, over sqrt(n - 1).
    error = sum((high - low) ** 2 for low, high in zip(asked, measured)) ** 0.5 / (n - 1) ** 0.5
    assert abs(float(str(row["S2_US"])) ** 0.5 / 1e6 - statistics.stdev(measured)) <= error + 1e-6
    [histogram] = [line for line in tracer.stdout.splitlines() if '"hist"' in line]
    assert sum(int(count) for count in re.findall(r'"count": (\d+)', histogram)) == n


def test_funclatency_and_funcslower() -> None:
    """Each call of a system call that nothing else here uses; of them those that took as long as was asked."""
    with Tracer("funclatency", "-p", ME, "-m", "core_sys_select", timeout=150) as all_of_them, \
            Tracer("funcslower", "-p", ME, "-m", "40", "-a", "1", "-f", "json", "core_sys_select", timeout=150) as slow:
        for seconds in (0.0, 0.0, 0.0, 0.05, 0.08):
            select.select([], [], [], seconds)
    assert histogram_total(all_of_them.stdout, "msecs") == 5
    told = rows(slow.stdout)
    assert [(row["PID"], row["FUNC"], row["RVAL"], row["ARG0"]) for row in told][-2:] == [
        (os.getpid(), "core_sys_select", 0, "0x0")] * 2
    times = [float(str(row["LAT(ms)"])) for row in told]
    assert times[-2] >= 50 and times[-1] >= 80 and all(time >= 40 for time in times)


def test_filelife(tmp_path: Path) -> None:
    """What was there before is not shown, nor folders; the age lies between the time asked for and that around it."""
    (tmp_path / "old").write_text("")
    measured = []
    with Tracer("filelife", "-p", ME, "-f", "json", timeout=150) as tracer:
        for number in range(3):
            file = tmp_path / f"short{number}"
            begun = time.monotonic()
            file.write_text("x")
            file.write_text("again")
            time.sleep(0.1)
            file.unlink()
            measured.append(time.monotonic() - begun)
        (tmp_path / "old").unlink()
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder").rmdir()
    found = rows(tracer.stdout)
    assert [(row["PID"], row["FILE"]) for row in found] == [(os.getpid(), f"short{number}") for number in range(3)], \
        tracer.stderr
    for row, took in zip(found, measured):
        assert 0.099 <= float(str(row["AGE(s)"])) <= took + 0.001


def test_filelife_tells_files_from_what_has_their_inodes_later(tmp_path: Path) -> None:
    """Another is renamed over some; then symbolic links and FIFOs get their inodes, and go. A file with two names goes
    with the first."""
    with Tracer("filelife", "-p", ME, "-f", "json", timeout=150) as tracer:
        for _ in range(30):
            (tmp_path / "file").write_text("x")
            (tmp_path / "old").symlink_to("nowhere")
            (tmp_path / "old").rename(tmp_path / "file")
            (tmp_path / "file").unlink()
            os.mkfifo(tmp_path / "pipe")
            (tmp_path / "pipe").unlink()
        (tmp_path / "one").write_text("x")
        (tmp_path / "two").hardlink_to(tmp_path / "one")
        (tmp_path / "two").unlink()
        (tmp_path / "one").unlink()
    assert [row["FILE"] for row in rows(tracer.stdout)] == ["two"], tracer.stderr


def test_klockstat_tells_who_holds(tmp_path: Path) -> None:
    """lseek() of a file that two descriptors share takes the mutex of its position, each time."""
    with (tmp_path / "file").open("w") as file, open(os.dup(file.fileno()), "w"), \
            Tracer("klockstat", "-p", ME, "-s", "8", timeout=150) as tracer:
        for _ in range(37):
            os.lseek(file.fileno(), 0, os.SEEK_SET)
    _, held = tracer.stdout.split(" TOTAL(us)\n")[1:]
    blocks = re.findall(r"^ +\d+ +(\d+) +\d+ +\d+\n\n((?: +\S+\+\d+\n)+)", held, re.M)
    assert sum(int(count) for count, stack in blocks if "sys_lseek+" in stack) == 37


@pytest.mark.skipif(os.listdir("/sys/kernel/btf") == ["vmlinux"], reason="kernel lacks types of modules (Linux 5.11)")
def test_virtiostat() -> None:
    """The root is a device of virtio (virtiofs): a file of it that is not in memory comes from there."""
    path = next(path for path in Path("/usr/lib").rglob("*.so*") if path.stat().st_size > 1 << 20)
    with path.open("rb") as file, Tracer("virtiostat", "-d", "virtiofs", "-f", "json", timeout=150) as tracer:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = len(file.read())
    told = [row for row in rows(tracer.stdout) if row["DRIVER"] == "virtiofs"]
    assert sum(int(str(row["IN_KB"])) for row in told) >= size // 1024
    assert all(int(str(row["OUT_SGS"])) > 0 for row in told)


def test_tcpsend_and_tcpnagle() -> None:
    """By tracepoint where there is one, else by the function."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        port = str(near.getsockname()[1])
        with far, Tracer("tcpsend", "-L", port, "-f", "json", timeout=150) as sent, \
                Tracer("tcpnagle", "-P", port, timeout=150) as nagle:
            for size in (3, 4000):
                near.sendall(b"x" * size)
                while size > 0:
                    size -= len(far.recv(size))
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            near.send(b"corked")
            far.recv(6)
    assert [(row["PID"], row["BYTES"], row["RESULT"]) for row in rows(sent.stdout)] == [
        (os.getpid(), size, "Success") for size in (3, 4000, 6)]
    assert "@nagle[ON]: 2\n" in nagle.stdout and "@nagle[CORK]: 1\n" in nagle.stdout
    assert "@blocked_us[CORK]" in nagle.stdout


def network_device() -> str:
    """The machine's network device, up, with neighbours that nobody asks for."""
    subprocess.run(["modprobe", "virtio_net"], check=True)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for name in os.listdir("/sys/class/net"):
            if os.path.exists(f"/sys/class/net/{name}/device"):
                ip("link", "set", name, "up")
                ip("addr", "replace", "10.99.0.1/24", "dev", name)
                ip("neigh", "replace", "10.99.0.2", "lladdr", "02:00:00:00:00:02", "dev", name)
                return name
        time.sleep(0.1)
    raise AssertionError("no network device")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def packets_sent(device: str) -> int:
    return int(Path(f"/sys/class/net/{device}/statistics/tx_packets").read_text())


def await_packets(device: str, before: int, count: int) -> int:
    """Packets since ``before``, at least ``count``: the driver counts one when it takes it back, which may be later."""
    deadline = time.monotonic() + 60
    while packets_sent(device) - before < count:
        assert time.monotonic() < deadline, "packets were lost"
        time.sleep(0.1)
    return packets_sent(device) - before


def test_bqllat() -> None:
    """With a limit of two packets most of a burst has to wait; a driver without limits is said to have none."""
    device = network_device()
    limit = Path(f"/sys/class/net/{device}/queues/tx-0/byte_queue_limits/limit_max")
    limited = has_limits()
    if limited:
        limit.write_text("3000")
    with Tracer("bqllat", "-s", "-i", device, timeout=150) as tracer, \
            Tracer("bqllat", "-i", "lo", timeout=150) as other, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        before = packets_sent(device)
        for _ in range(300):
            sock.sendto(b"x" * 1400, ("10.99.0.2", 9))
        await_packets(device, before, 300)
    if not limited:
        assert int(re.findall(rf"^@without_bql\[{device}\]: (\d+)$", tracer.stdout, re.M)[0]) >= 300
        assert "@stops" not in tracer.stdout
        return
    packets = re.findall(rf"^@limit\[{device}\]: {{ .count = (\d+), .average = (\d+), .total = \d+ }}$",
                         tracer.stdout, re.M)
    assert len(packets) == 1 and 300 <= int(packets[0][0]) and int(packets[0][1]) <= 3000
    sent = await_packets(device, before, int(packets[0][0]))  # the kernel may have one of its own under way
    stops = re.findall(rf"^@stops\[{device}\]: {{ .count = (\d+), .average = \d+, .total = (\d+) }}$",
                       tracer.stdout, re.M)
    assert len(stops) == 1 and 0 < int(stops[0][0]) <= sent
    assert device not in other.stdout


@pytest.mark.parametrize("kind", ["codel", "fq_codel"])
def test_codel_of_a_busy_device(kind: str) -> None:
    """They let packets pass by as long as the device takes them: with a limit of two packets a burst has to wait."""
    if not has_limits():
        pytest.skip("virtio_net has no byte queue limits before Linux 6.11")
    device = network_device()
    Path(f"/sys/class/net/{device}/queues/tx-0/byte_queue_limits/limit_max").write_text("3000")
    words = "qdisc", "replace", "dev", device, "root", kind, "target", "1s", "interval", "10s"
    subprocess.run(["tc", *words], check=True)
    try:
        with Tracer("qdisclat", "-s", "-i", device, kind, timeout=150) as tracer, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            before, begun = packets_sent(device), time.monotonic()
            for _ in range(300):
                sock.sendto(b"x" * 1400, ("10.99.0.2", 9))
            deadline = begun + 20
            while packets_sent(device) - before < 300 and time.monotonic() < deadline:
                time.sleep(0.05)
            sent, whole = packets_sent(device) - before, time.monotonic() - begun
        shown = subprocess.run(["tc", "-s", "qdisc", "show", "dev", device], check=True, capture_output=True, text=True)
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], check=True)
    found = re.findall(rf"^@wait\[{kind}\]: {{ .count = (\d+), .average = (\d+), .total = (\d+) }}$",
                       tracer.stdout, re.M)
    assert len(found) == 1, tracer.stdout
    count, average, total = map(int, found[0])
    assert 0 < count <= sent
    assert 0 < average <= whole * 1e6 and total <= count * whole * 1e6
    # A packet that met a stopped device goes back, and is taken out a second time.
    again = re.search(rf"^@unmatched\[{kind}\]: (\d+)$", tracer.stdout, re.M)
    assert int(again[1] if again else 0) <= int(re.search(r"requeues (\d+)", shown.stdout)[1])  # type: ignore[index]


def has_limits() -> bool:
    """virtio_net has byte queue limits since Linux 6.11."""
    return tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 11)


def test_ieee80211scan() -> None:
    """A simulated device looks at each of its channels in turn: those that it lists."""
    if shutil.which("iw") is None:
        pytest.skip("iw is not installed")
    if subprocess.run(["modprobe", "mac80211_hwsim", "radios=1", "channels=1"], check=False).returncode:
        pytest.skip("this kernel was built without simulated wireless devices (mac80211_hwsim)")
    ip("link", "set", "wlan0", "up")
    listed = subprocess.run(["iw", "phy"], capture_output=True, text=True, check=True).stdout
    channels = {int(mhz) for mhz in re.findall(r"\* (\d+)(?:\.\d+)? MHz \[\d+\](?! \(disabled\))", listed)}
    with Tracer("ieee80211scan", "-f", "json", timeout=150) as tracer:
        subprocess.run(["iw", "dev", "wlan0", "scan"], check=True, capture_output=True)
    found = rows(tracer.stdout)
    assert [row["EVENT"] for row in found if row["EVENT"] != "channel"] == ["started", "completed"]
    assert found[0]["COMM"] == "iw"
    assert {row["FREQ"] for row in found if row["EVENT"] == "channel"} == channels


def sums(text: str, map: str) -> dict[str, tuple[int, int]]:
    """Key -> (count, total) of a map of stats()."""
    found = re.findall(rf"^@{map}\[(.*)\]: {{ .count = (\d+), .average = \d+, .total = (\d+) }}$", text, re.M)
    return {key: (int(count), int(total)) for key, count, total in found}


def test_skblife() -> None:
    """A datagram is a buffer that lives until it is read."""
    datagrams = socket.AF_INET, socket.SOCK_DGRAM
    with socket.socket(*datagrams) as near, socket.socket(*datagrams) as far:
        far.bind(("127.0.0.1", 0))
        with Tracer("skblife", "-s", "-p", ME, timeout=190) as tracer:
            begun = time.monotonic_ns()
            for _ in range(25):
                near.sendto(b"x" * 100, far.getsockname())
            sent = time.monotonic_ns()
            time.sleep(0.3)
            waited = time.monotonic_ns() - sent
            for _ in range(25):
                far.recv(100)
            whole = time.monotonic_ns() - begun
    assert set(sums(tracer.stdout, "buffer")) == {"alloc"} == set(sums(tracer.stdout, "packet"))
    assert sums(tracer.stdout, "buffer") == sums(tracer.stdout, "packet")
    count, total = sums(tracer.stdout, "buffer")["alloc"]
    assert count == 25 and 25 * (waited // 1000 - 1) <= total <= 25 * (whole // 1000 + 1)


def test_skblife_of_clones() -> None:
    """What TCP sends are clones, never older than their packets."""
    with socket.create_server(("127.0.0.1", 0)) as listener, Tracer("skblife", "-s", "-p", ME, timeout=190) as tracer:
        with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
            for _ in range(10):
                client.sendall(b"x" * 1000)
                server.recv(1000)
        time.sleep(0.3)
    buffers, packets = sums(tracer.stdout, "buffer"), sums(tracer.stdout, "packet")
    assert buffers["clone"][0] == packets["clone"][0] >= 10
    assert buffers["clone"][1] <= packets["clone"][1] and buffers["alloc"] == packets["alloc"]
