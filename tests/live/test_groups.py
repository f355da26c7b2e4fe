"""Containers, pods and services by name: control groups in each runtime's shape, with tasks that say in which they are.

A task tells its place by the mask that it gives to umask(). All of it runs in a mount namespace in which /var/lib and
/run are the test's own, so that the runtimes' files can lie where they belong.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sonde
from sonde.kernel.procfs import cgroup2_mount_point
from support import environment, run_sonde, sonde_command

MOUNT = cgroup2_mount_point()
pytestmark = pytest.mark.skipif(MOUNT is None or not os.access(MOUNT, os.W_OK),
                                reason="there is no cgroup2 file system that can be written to")
COUNT = int(os.environ.get("SONDE_CONTAINERS", "200"))  # 1000 for the full run
FIRST = 1000  # masks below it are other programs'

# Makes COUNT containers that live 50 ms each, 20 at a time. Names of those that are gone are gone from the files, too.
WORKLOAD = """
import json, os, shutil, sys, time
root, count, first, named = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
TASKS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
STORAGE = "/var/lib/containers/storage/overlay-containers"
folders = ("/var/lib/docker/containers", TASKS, STORAGE)
for folder in folders:
    os.makedirs(folder, exist_ok=True)

def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(content, file)
    os.rename(path + ".new", path)

def identity(i):
    return f"{i:012x}" + f"{i:052x}"

def uid(i):
    return f"{i:08x}-0000-4000-8000-000000000000"

def plan(i):
    '''The group's path, the runtime's file, and (container, pod, service).'''
    me, name, flat = identity(i), named[i % len(named)] if named else f"c{i}", uid(i).replace("-", "_")
    pod = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{flat}.slice"
    notes = {"io.kubernetes.cri.container-name": name, "io.kubernetes.cri.sandbox-name": f"p{i}",
             "io.kubernetes.cri.sandbox-namespace": "prod", "io.kubernetes.cri.sandbox-uid": uid(i)}
    cri = (f"{TASKS}/{me}/config.json", {"annotations": notes})
    docker = (f"/var/lib/docker/containers/{me}/config.v2.json", {"Name": f"/{name}"})
    return [
        (f"docker/{me}", docker, (name, "", "")),
        (f"system.slice/docker-{me}.scope/system.slice/cron.service", docker, (name, "", "cron.service")),
        (f"docker/{me}", None, (me[:12], "", "")),
        (f"{pod}/cri-containerd-{me}.scope", cri, (name, f"prod/p{i}", f"cri-containerd-{me}.scope")),
        (f"kubepods/besteffort/pod{uid(i)}/{me}", cri, (name, f"prod/p{i}", "")),
        (f"{pod}/crio-{me}.scope/container", None, (me[:12], uid(i), f"crio-{me}.scope")),
        (f"machine.slice/libpod-{me}.scope", "stored", (name, "", f"libpod-{me}.scope")),
        (f"lxc.payload.{name}/x{i}", None, (name, "", "")),
        (f"machine.slice/machine-{name}.scope/x{i}", None, (name, "", f"machine-{name}.scope")),
        (f"system.slice/job-{i}.service", None, ("", "", f"job-{i}.service")),
    ][i % 10]

write(f"{STORAGE}/containers.json", [{"id": identity(i), "names": [plan(i)[2][0]]} for i in range(count)
                                     if plan(i)[1] == "stored"])

def child(group, i):
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write("0")
    for _ in range(i % 7 + 1):
        os.umask(first + i)
    time.sleep(0.05)
    os._exit(0)

truth, running = [], []
def finish(pid, folder, kept, i):
    os.waitpid(pid, 0)
    if isinstance(kept, tuple):
        shutil.rmtree(os.path.dirname(kept[0]))
    while folder != root:
        try:
            os.rmdir(folder)
        except OSError:
            break
        folder = os.path.dirname(folder)

os.makedirs(root)
try:
    for i in range(count):
        path, kept, names = plan(i)
        if isinstance(kept, tuple):
            write(*kept)
        group = f"{root}/{path}"
        os.makedirs(group, exist_ok=True)
        pid = os.fork() or child(group, i)
        running.append((pid, group, kept, i))
        truth.append([first + i, *names, i % 7 + 1])
        if len(running) == 20:
            finish(*running.pop(0))
finally:
    while running:
        finish(*running.pop(0))
    os.rmdir(root)
print(json.dumps(truth))
"""
PRIVATE = "mount --make-rprivate / && mount -t tmpfs none /var/lib && mount -t tmpfs none /run && exec \"$@\""


def run_containers(folder: Path, script: str, *words: str) -> tuple[list[dict[str, object]], list[list[object]], str]:
    """(what sonde printed as JSON, the workload's truth, what was said on stderr)."""
    (folder / "work.py").write_text(WORKLOAD)
    root = f"{MOUNT}/sonde-test-{os.getpid()}"
    (folder / "work.sh").write_text(
        f"exec {sys.executable} {folder}/work.py {root} {COUNT} {FIRST} {' '.join(words)} > {folder}/truth\n")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", PRIVATE, "sh", *sonde_command(
        ("-f", "json", "-e", script, "-c", f"sh {folder}/work.sh"))], capture_output=True, text=True, timeout=300,
        env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    truth = json.loads((folder / "truth").read_text())
    return [json.loads(line) for line in done.stdout.splitlines()], truth, done.stderr


def counted(lines: list[dict[str, object]], name: str) -> dict[str, int]:
    return next((line["data"][name] for line in lines if line["type"] == "map" and name in line["data"]), {})  # type: ignore[index]


def test_containers_of_all_runtimes_have_their_names(tmp_path: Path) -> None:
    """None of them is there when names are printed, and neither are their files. On a busy machine Sonde may get to a
    file too late: then the id is shown, and never another's name."""
    lines, truth, said = run_containers(tmp_path, f"tracepoint:syscalls:sys_enter_umask /args.mask >= {FIRST}/ "
                                        "{ @[args.mask, container, pod, service] = count(); }")
    found = {name.split(",")[0]: (name, count) for name, count in counted(lines, "@").items()}
    assert len(found) == len(truth) == COUNT
    unnamed = 0
    for mask, container, pod, service, count in truth:
        number = int(str(mask)) - FIRST
        late = f"{mask},{number:012x},{pod and f'{number:08x}-0000-4000-8000-000000000000'},{service}"
        assert found[str(mask)] in ((f"{mask},{container},{pod},{service}", count), (late, count)), said
        unnamed += found[str(mask)][0] == late and container.startswith("c")  # type: ignore[attr-defined]
    assert unnamed <= COUNT // 10


def test_a_filter_takes_new_containers_at_once(tmp_path: Path) -> None:
    """What is decided by the group's folder takes no event for another's. Where only the runtime's file has the name,
    as many events as are missing are said to be."""
    lines, truth, said = run_containers(
        tmp_path, f"""tracepoint:syscalls:sys_enter_umask /args.mask >= {FIRST} && container == "web"/ {{
            @in[args.mask] = count(); }}
        tracepoint:syscalls:sys_enter_umask /args.mask >= {FIRST} && container != "web"/ {{
            @out[args.mask] = count(); }}
        tracepoint:syscalls:sys_enter_umask /args.mask >= {FIRST} && service == "cron.service"/ {{
            @cron[args.mask] = count(); }}""", "web", "db", "cache")
    inside, outside, cron = (counted(lines, name) for name in ("@in", "@out", "@cron"))
    assert cron == {str(row[0]): row[-1] for row in truth if row[3] == "cron.service"}
    late = 0
    for mask, container, _, _, count in truth:
        there, elsewhere = inside.get(str(mask), 0), outside.get(str(mask), 0)
        assert there + elsewhere == count
        if container != "web":
            assert there == 0
        elif (mask - FIRST) % 10 in (7, 8):  # LXC, nspawn: the folder has the name
            assert elsewhere == 0
        late += elsewhere if container == "web" else 0
    told = sum(int(line.split()[1]) for line in said.splitlines() if "of web came before" in line)
    perhaps = sum(int(line.split()[1]) for line in said.splitlines() if "outside of web: nothing said" in line)
    assert told <= 2 * late <= told + perhaps, said  # both comparisons asked


def test_one_container_has_one_row(tmp_path: Path) -> None:
    """Groups of one name, whichever they were, are added up: those of LXC and nspawn, whose folders have it."""
    lines, truth, _ = run_containers(tmp_path, f"""
        tracepoint:syscalls:sys_enter_umask /args.mask >= {FIRST} && (args.mask % 10 == 7 || args.mask % 10 == 8)/ {{
        @n[container] = count(); @sum[container] = sum(args.mask); @hist[container] = hist(args.mask);
        @low[container] = min(args.mask); @plain[container]++; }}""", "web", "db", "cache")
    rows: dict[str, list[int]] = {}
    for mask, container, _, _, count in truth:
        if (mask - FIRST) % 10 in (7, 8):  # type: ignore[operator]
            rows.setdefault(str(container), []).extend([int(str(mask))] * int(str(count)))
    assert counted(lines, "@n") == {name: len(masks) for name, masks in rows.items()}
    assert counted(lines, "@plain") == counted(lines, "@n")
    assert counted(lines, "@sum") == {name: sum(masks) for name, masks in rows.items()}
    assert counted(lines, "@low") == {name: min(masks) for name, masks in rows.items()}
    hists = next(line["data"]["@hist"] for line in lines if "@hist" in line["data"])  # type: ignore[operator,index]
    assert {name: sum(bucket["count"] for bucket in hist) for name, hist in hists.items()} == counted(lines, "@n")


def test_a_tool_is_limited_to_a_container(tmp_path: Path) -> None:
    """-C, and groups that were there before."""
    root = f"{MOUNT}/sonde-test-{os.getpid()}"
    groups = [f"{root}/lxc.payload.web", f"{root}/lxc.payload.web/inner.service", f"{root}/lxc.payload.db", root]
    work = tmp_path / "work.sh"
    work.write_text("".join([f"(echo 0 > {group}/cgroup.procs; cat {tmp_path}/{at} 2>/dev/null)\n"
                             for at, group in enumerate(groups)]) + "true\n")
    for group in groups:
        os.makedirs(group, exist_ok=True)
    try:
        done = subprocess.run(sonde_command(("-C", "web", "-e", "tracepoint:syscalls:sys_enter_openat "
                              f"/strncmp(str(args.filename), \"{tmp_path}/\", {len(str(tmp_path)) + 1}) == 0/ "
                              "{ @[str(args.filename), container] = count(); }", "-c", f"sh {work}")),
                              capture_output=True, text=True, timeout=60, env=environment(), check=False)
    finally:
        for group in sorted(groups, reverse=True):
            os.rmdir(group)
    assert sorted(filter(None, done.stdout.splitlines())) == [f"@[{tmp_path}/{at}, web]: 1" for at in range(2)], done


def test_tools_that_ask_nobody_refuse() -> None:
    for words, said in ((("biolatency",), "biolatency cannot be limited to a container"),
                        (("runqlat",), "runqlat cannot be limited to a container"),
                        (("flame", "--off-cpu", "1"), "-C is for time on the CPU"),
                        (("fleet", "-H", "a", "-e", "begin { exit(); }"), "-C is not sent to the hosts")):
        done = subprocess.run(sonde_command(("-C", "web", *words)), capture_output=True, text=True, timeout=60,
                              env=environment(), check=False)
        assert done.returncode != 0 and said in done.stderr


def test_a_tool_shows_containers_for_processes(tmp_path: Path) -> None:
    """--by, in the heading and in tables that views make of it."""
    group, file = f"{MOUNT}/lxc.payload.sonde-{os.getpid()}", tmp_path / "x.csv"
    work = tmp_path / "work.sh"
    work.write_text(f"echo $$ > {group}/cgroup.procs\nread line < {tmp_path}/work.sh\necho $$ > {MOUNT}/cgroup.procs\n")
    os.mkdir(group)
    try:
        done = subprocess.run(sonde_command(("--by", "container", "opensnoop", "-n", "sh", "-c", f"/bin/sh {work}")),
                              capture_output=True, text=True, timeout=60, env=environment(), check=False)
        subprocess.run(sonde_command(("--by", "container", "-f", "csv", "-o", str(file), "opensnoop", "-c",
                                      f"/bin/sh {work}")), timeout=60, env=environment(), check=True)
    finally:
        os.rmdir(group)
    heading, *rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert heading == ["PID", "CONTAINER", "FD", "ERR", "PATH"]
    opened = [row for row in rows if row[-1] == str(work)]
    assert [row[1] for row in opened if len(row) == 5] == [f"sonde-{os.getpid()}"]
    with file.open() as text:
        table = list(csv.DictReader(line for line in text if not line.startswith("#")))
    assert {row["CONTAINER"] for row in table if row["PATH"] == str(work)} == {"", f"sonde-{os.getpid()}"}


def test_by_needs_names_of_processes() -> None:
    for words, said in ((("--by", "host", "opensnoop"), "--by takes container, pod or service, not 'host'"),
                        (("--by", "pod", "biolatency"), "no names of processes are shown here")):
        done = subprocess.run(sonde_command(words), capture_output=True, text=True, timeout=60, env=environment(),
                              check=False)
        assert done.returncode != 0 and said in done.stderr


def told_absent(*words: str) -> list[str]:
    """What a script says of names that nothing bears."""
    done = run_sonde(*words, "-c", "true")
    return [line for line in done.stderr.splitlines() if "is called" in line]


def test_a_name_that_nothing_has_is_said() -> None:
    """Once, of the names that are asked for and not there."""
    script, group = "tracepoint:syscalls:sys_enter_openat ", Path(f"{MOUNT}/lxc.payload.there{os.getpid()}")
    group.mkdir()
    try:
        name = group.name.removeprefix("lxc.payload.")
        assert told_absent("-C", name, "-e", script + "{ @ = count(); }") == []
        assert told_absent("-C", "wbe", "-e", script + "{ @ = count(); }") == [
            "WARNING: no container or pod or service is called wbe yet"]
        either = f'/container == "{name}" || pod == "x" || service == "x"/ {{ @ = count(); }}'
        assert told_absent("-e", script + either) == ["WARNING: no pod or service is called x yet"]
    finally:
        group.rmdir()


def test_from_python() -> None:
    """Names are known when the trace, and the group, are gone; everything is closed."""
    group = f"{MOUNT}/lxc.payload.sonde-{os.getpid()}"
    os.mkdir(group)
    command = [sys.executable, "-c", f"open('{group}/cgroup.procs', 'w').write('0'); import os; os.umask({FIRST}); "
               f"open('{MOUNT}/cgroup.procs', 'w').write('0'); os.umask({FIRST})"]
    with sonde.trace(f"tracepoint:syscalls:sys_enter_umask /args.mask == {FIRST}/ {{ @[container, service]++; }}",
                     command=command, container=f"sonde-{os.getpid()}") as tracing:
        for _ in tracing.events(timeout=60):
            pass
    os.rmdir(group)
    assert [(str(container), str(service), count) for (container, service), count in tracing.maps["@"].items()] == [
        (f"sonde-{os.getpid()}", "", 1)]
    assert not tracing.losses.unplaced and not tracing.losses.unknown
