#!/usr/bin/env python3
"""Write tests/unit/world.json.z: this kernel's answers to what the tests' scripts ask (needs root and BTF).

    PYTHONPATH=src python3 scripts/record_world.py [FILE]
"""

import base64
import fnmatch
import sys
from pathlib import Path

from sonde.btf import codec
from sonde.kernel.features import TABLE
from sonde.kernel.types import tracefs
from sonde.kernel.types.world import LiveWorld

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from btf_subset import extract_subset
from recorded_world import save_world

STRUCTS = """
kmem_cache socket_alloc fs_struct mnt_namespace mount address_space
task_struct thread_info mm_struct files_struct fdtable file dentry qstr path inode super_block vfsmount socket sock
sock_common tcp_sock inet_sock inet_connection_sock request_sock udp_sock sk_buff sk_buff_head skb_shared_info iphdr
ipv6hdr tcphdr udphdr icmphdr icmp6hdr ethhdr in_addr in6_addr sockaddr sockaddr_in sockaddr_in6 sockaddr_un net
net_device
netdev_queue Qdisc Qdisc_ops dql css_set cgroup cgroup_subsys_state kernfs_node cred signal_struct sighand_struct pid
upid nsproxy pid_namespace uts_namespace ns_common pt_regs request request_queue gendisk bio block_device hrtimer
linux_binprm page folio user_struct iovec iov_iter msghdr user_msghdr cmsghdr pollfd timespec64 __kernel_timespec
vm_area_struct rq seq_file bpf_iter_meta bpf_iter__task list_head hlist_node rb_node kprobe tcp_skb_cb neighbour
sockaddr_storage rusage proto proto_ops trace_entry clone_args open_how statx stat epoll_event mmsghdr napi_struct
unix_skb_parms nameidata bio_vec bdi_writeback wb_writeback_work backing_dev_info cfs_rq oom_control
trace_event_raw_mark_victim compact_control zone readahead_control file_ra_state scatterlist virtqueue virtio_device
task_group signal_struct device device_driver pglist_data kobject cfs_rq
""".split()

TYPEDEFS = """
u8 u16 u32 u64 s8 s16 s32 s64 __u8 __u16 __u32 __u64 __s32 __be16 __be32 uint8_t uint16_t uint32_t uint64_t int8_t
int16_t int32_t int64_t size_t ssize_t pid_t uid_t gid_t umode_t dev_t loff_t off_t gfp_t sector_t ino_t bool uintptr_t
fd_set sigset_t siginfo_t kuid_t kgid_t atomic_t atomic64_t ktime_t cpumask_t clockid_t blk_opf_t socklen_t uint ulong
dma_addr_t
""".split()

ENUMS = """pid_type skb_drop_reason hrtimer_mode bpf_func_id bpf_map_type sock_type zone_type migrate_mode
           wb_reason compact_result zone_stat_item zone_watermarks""".split()
CONSTANTS = "TCP_ESTABLISHED IPPROTO_TCP SS_CONNECTED SKB_NOT_DROPPED_YET PG_swapbacked __REQ_PREFLUSH PG_head".split()

FUNCTIONS = """
vfs_read vfs_write vfs_open tcp_sendmsg tcp_recvmsg tcp_connect tcp_v4_connect tcp_v6_connect tcp_set_state
tcp_retransmit_skb tcp_rcv_established inet_csk_accept ip_rcv udp_sendmsg udp_recvmsg do_sys_openat2 do_nanosleep
__alloc_skb build_skb napi_build_skb skb_clone skb_copy __pskb_copy_fclone skb_split skb_segment skb_gro_receive
skb_try_coalesce kfree_skbmem napi_skb_cache_put security_socket_sendmsg bpf_rdonly_cast bpf_iter_task
kfree_skb_reason sock_alloc_file __x64_sys_getppid vfs_create vfs_fsync_range lookup_fast d_lookup cap_capable
swap_read_folio do_filp_open vfs_unlink __destroy_inode mutex_lock mutex_lock_interruptible mutex_lock_killable
mutex_trylock mutex_unlock page_cache_ra_unbounded page_cache_ra_order virtqueue_add_sgs virtqueue_add_outbuf
virtqueue_add_inbuf virtqueue_add_inbuf_ctx folio_mark_accessed xfs_file_read_iter xfs_file_write_iter xfs_file_open
xfs_file_fsync
""".split()

TRACEPOINTS = """
vmscan:mm_vmscan_memcg_reclaim_* filemap:mm_filemap_* writeback:writeback_dirty_folio
sched:* sock:* tcp:* net:* skb:* raw_syscalls:* signal:* task:* irq:* udp:* qdisc:* block:block_rq_* block:block_io_*
timer:hrtimer_* timer:timer_start kmem:kmem_cache_* kmem:mm_page_* kmem:kmalloc exceptions:* neigh:* power:cpu_*
vmscan:mm_vmscan_direct_* oom:* workqueue:* ext4:ext4_sync_file_* napi:* cgroup:cgroup_mkdir fib:*
block:block_bio_queue block:block_getrq capability:* writeback:writeback_start writeback:writeback_written
readahead:page_cache_ra_* compaction:mm_compaction_begin compaction:mm_compaction_end lock:contention_* kvm:kvm_exit
""".split()

SYSCALLS = """
openat open openat2 close read write readv writev pread64 pwrite64 execve execveat getppid getpid connect accept
accept4 bind listen socket sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown setsockopt poll ppoll select
pselect6 epoll_wait epoll_ctl nanosleep clock_nanosleep futex mmap munmap newfstat newstat newfstatat statx ioctl fcntl
dup dup2 dup3 kill tgkill exit exit_group clone clone3 unlink unlinkat rename mkdir mount umount sync fsync nanosleep
prctl sched_yield getrandom newuname tkill setuid setreuid setresuid setfsuid statfs newlstat syncfs fdatasync msync
sync_file_range fsopen fsmount move_mount shmget shmat shmdt shmctl rmdir renameat renameat2
""".split()

SYMBOLS = """schedule do_sys_openat2 vfs_read init_task jiffies tcp_sendmsg do_nanosleep init_net avenrun
           tcp_pace_kick""".split()

BINARIES = {
    "c": (["c", "libc", "libc.so.6"], "malloc free calloc getaddrinfo gethostbyname* read write open connect puts "
                                      "nanosleep getpid strlen pthread_create", "environ stdout"),
    "ssl": (["ssl", "libssl"], "SSL_read* SSL_write* SSL_do_handshake", ""),
    "crypto": (["crypto", "libcrypto"], "EVP_PKEY_* EVP_Digest*", ""),
    "bash": (["bash"], "readline main shell_execve", "shell_name"),
}


def types(world: LiveWorld) -> str:
    btf = world.btf
    assert btf
    roots = [btf.find_id(name, codec.STRUCT) for name in STRUCTS]
    roots += [btf.find_id(name, codec.TYPEDEF) for name in TYPEDEFS]
    roots += [btf.find_id(name, codec.ENUM, codec.ENUM64) for name in ENUMS]
    roots += [btf.find_id(name, codec.FUNC) for name in FUNCTIONS]
    for name in CONSTANTS:
        roots += [i for i in btf.index.candidate_enums(name)
                  if any(n == name for _, n in btf.enumerators(btf.raw_type(i)))]
    for event in {event for _, event in events(world)} | {"sys_enter", "sys_exit"}:
        for prefix, kind in (("btf_trace_", codec.TYPEDEF), ("__probestub_", codec.FUNC), ("__traceiter_", codec.FUNC)):
            roots.append(btf.find_id(prefix + event, kind))
    return base64.b64encode(extract_subset(btf, [root for root in roots if root])).decode()


def events(world: LiveWorld) -> list[tuple[str, str]]:
    wanted = [*TRACEPOINTS, *[f"syscalls:sys_{side}_{name}" for name in SYSCALLS for side in ("enter", "exit")]]
    return [(category, event) for category, event in world.tracepoints()
            if any(fnmatch.fnmatchcase(f"{category}:{event}", pattern) for pattern in wanted)]


def without_print(text: str) -> str:
    return text.partition("\nprint fmt:")[0] + "\n"


def binary(world: LiveWorld, path: str, names: list[str], functions: str, objects: str) -> dict[str, object]:
    chosen = [f for f in world.user_functions(path)
              if any(fnmatch.fnmatchcase(f.name, pattern) for pattern in functions.split())]
    found = {name: world.user_object(path, name) for name in objects.split()}
    return {"names": names, "functions": [[f.name, f.address, f.offset, f.size] for f in chosen],
            "objects": {name: place for name, place in found.items() if place}}


def main() -> None:
    world = LiveWorld()
    binaries = {}
    for name, (names, functions, objects) in BINARIES.items():
        for path in world.find_binaries(name):
            binaries[path] = binary(world, path, names, functions, objects)
    save_world(sys.argv[1] if len(sys.argv) > 1 else "tests/unit/world.json.z", {
        "arch": world.arch, "cpus": world.cpus, "release": world.release,
        "features": {row.name: world.has_feature(row.name) for row in TABLE},
        "btf": types(world),
        "tracepoints": {f"{category}:{event}": without_print(tracefs.read_format(world.tracefs, category, event) or "")
                        for category, event in events(world)},
        "symbols": {name: address for name in SYMBOLS if (address := world.kernel_symbol(name))},
        "functions": [["vmlinux", name] for name in FUNCTIONS],
        "binaries": binaries,
    })


if __name__ == "__main__":
    main()
