"""Numbers of the kernel helpers that generated code calls (include/uapi/linux/bpf.h; they are ABI)."""

MAP_LOOKUP, MAP_UPDATE, MAP_DELETE = 1, 2, 3
KTIME_NS, TRACE_PRINTK, RANDOM, CPU_ID = 5, 6, 7, 8
PID_TGID, UID_GID, COMM = 14, 15, 16
TASK, NUMA_NODE, SOCKET_COOKIE = 35, 42, 46
WRITE_USER, OVERRIDE_RETURN, TRACE_VPRINTK = 36, 58, 177
GET_STACK, CGROUP_ID = 67, 80
SEND_SIGNAL, READ_USER, READ_KERNEL, READ_USER_STR, READ_KERNEL_STR, SEND_SIGNAL_THREAD = 109, 112, 113, 114, 115, 117
JIFFIES, NS_PID_TGID, BOOT_NS = 118, 120, 125
SEQ_PRINTF = 126
RING_OUTPUT, RING_RESERVE, RING_SUBMIT, RING_DISCARD, RING_QUERY = 130, 131, 132, 133, 134
D_PATH, TASK_BTF, FOR_EACH_MAP, FUNC_IP, ATTACH_COOKIE, TASK_REGISTERS, LOOP = 147, 158, 164, 173, 174, 175, 181
FUNC_ARG, FUNC_RET, PERCPU_LOOKUP, TAI_NS = 183, 184, 195, 208

RING_PRODUCER_POSITION = 3  # flag of RING_QUERY
NO_WAKEUP = 1               # flag of RING_SUBMIT
UPDATE_ANY, UPDATE_NEW = 0, 1
USER_STACK = 1 << 8         # flag of GET_STACK
E2BIG = 7
# Bits in the result of MAP_UPDATE and MAP_DELETE: the verifier replaces the call by one of the map's own function,
# which returned an int until Linux 6.4; what that leaves in the upper half of the register is anybody's guess.
MAP_RESULT = 32
