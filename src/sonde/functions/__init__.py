"""The functions of the language, one family per file: a function's row, the rule for its type, and its lowering."""

from __future__ import annotations

from ..base.lazy_rows import FamilyTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..compiler.lower.calls import Function

# The order is that of the documentation.
FAMILIES = {
    "printing": "printf print errorf warnf debugf cat system time strftime nstat",
    "maps": "clear zero delete has_key has_keys in_order tell_more find is_scalar len",
    "aggregates": "count sum avg min max stats hist lhist tseries",
    "numbers": "scaled",
    "strings": "str buf strlen strcap strncmp strcontains strstr memcmp path abspath fs_root default_str_length",
    "joining": "words join str_join str_concat",
    "patterns": "globmatch",
    "names": "ksym usym strerror signal_name syscall_name cgroup_path cgroupid",
    "network": "ntop ntop_by pton macaddr bswap sock_laddr sock_raddr sock_spliced fd_socket socket_inode "
               "recv_takes tcp_state socket_cookie skboutput",
    "packets": "pcap packet ifname skb_id",
    "block": "request_disk bio_disk",
    "tasks": "is_dead compat_call is_forked role",
    "calls": "running caller stack_end enter_call return_call leave_calls end_calls tell_left say_left",
    "runs": "is_over warn_count at_intervals",
    "addresses": "kaddr percpu_kaddr uaddr kptr uptr container_of is_err reg",
    "actions": "exit dump signal signal_thread override write_user unwatch",
    "checks": "assert static_assert fail comptime getopt exists one_of assert_str is_array is_integer is_literal "
              "is_ptr is_str is_unsigned_integer kfunc_exist kfunc_allowed typeinfo",
}

FUNCTIONS: FamilyTable[Function] = FamilyTable(__name__, FAMILIES)
