"""The examples of docs/language.md and docs/errors.md; a test compiles each of them."""
# ruff: noqa: E501  (tables)

from __future__ import annotations

# (probe, when it fires, example)
PROBES: list[tuple[str, str, str]] = [
    ("begin, end", "before the other probes are attached; after they are detached", 'begin { printf("hello\\n"); exit(); }'),
    ("tracepoint:category:event (t)", "a static tracepoint of the kernel; `args` has its fields",
     "tracepoint:sched:sched_switch { @[args.next_comm] = count(); }"),
    ("rawtracepoint:event (rt)", "the same, with the kernel's own arguments",
     "rawtracepoint:sched_switch { @[args.next.pid] = count(); }"),
    ("kprobe:function (k), kretprobe (kr)", "entry to and return from a kernel function",
     "kprobe:vfs_read { @bytes = hist(arg2); }"),
    ("uprobe:file:function (u), uretprobe (ur)", "entry to and return from a function of a program or library",
     "uprobe:/bin/prog:main { printf(\"%d\\n\", arg0); }"),
    ("interval:unit:n (i)", "every n units on one CPU", "interval:s:1 { print(@); clear(@); } t:sched:sched_switch "
     "{ @ = count(); }"),
    ("profile:unit:n (p)", "every n units on each CPU", "profile:hz:99 { @[kstack] = count(); }"),
    ("software:event:n (s), hardware:event:n (h)", "every n events of a perf counter",
     "software:page-faults:100 { @[comm] = count(); }"),
]

PROBES += [
    ("fentry:function (f), fexit (fr)", "the same with typed `args`, and `retval`; also `fentry:bpf:program`, "
     "and `fentry:bpf:xdp:*` for all programs of a type",
     "fentry:tcp_reset { @[args.sk.__sk_common.skc_dport] = count(); }"),
    ("usdt:file:provider:name (U)", "a static probe of a program or library", "usdt:/bin/prog:app:request { print(arg0); }"),
    ("watchpoint:address:length:mode (w)", "when memory is read, written or executed", "watchpoint:0x10000000:8:w { print(comm); }"),
    ("iter:kind (it)", "once for each task, file, map ... of the kernel; only `begin` and `end` can be in the same script",
     'iter:task { printf("%d %s\\n", ctx.task.pid, ctx.task.comm); }'),
    ("self:signal:SIGUSR1", "when Sonde itself receives the signal", "self:signal:SIGUSR1 { print(@); } t:sched:sched_switch { @ = count(); }"),
    ("test:name", "a test of the script: `--test` runs it; 0 means that it passed", "test:sums { return 1 + 1 - 2; }"),
    ("bench:name", "a piece of code that `--bench` measures", "bench:counting { @ = count(); }"),
]

# (operators, what they do, example)
OPERATORS: list[tuple[str, str, str]] = [
    ("+ - *", "arithmetic in 64 bits; narrow signed and unsigned numbers mix exactly; pointers move by elements",
     "begin { print(pid + 1); print((int32 *)0 + 2); }"),
    ("/ %", "quotient and remainder, rounded towards zero; division by zero gives 1 and a warning", "begin { print(7 / 2); print(-7 % 3); }"),
    ("& | ^ ~ << >>", "bits", "begin { print(pid & 0xff | 1 << 8 ^ ~0); }"),
    ("&& || !", "logic: the right side is computed only if it matters; pointers are true unless NULL",
     "begin { if (curtask && !(pid == 1) || uid == 0) { print(1); } }"),
    ("== !=", "equality of numbers, pointers, strings, arrays, tuples and records", 'begin { print(comm == "sh"); print((1, "a") != (1, "b")); }'),
    ("< <= > >=", "order of numbers and pointers", "begin { print(pid > -1); }"),
    ("= += -= *= /= %= &= |= ^= <<= >>=", "assignment to variables and maps", "begin { $x = 1; $x <<= 3; @n[$x] += 2; }"),
    ("++ --", "increment and decrement, before or after the value is read", "begin { $x = 1; print($x++); print(--@n[1]); }"),
    ("a ? b : c, a ?: c", "choice", 'begin { print(pid == 1 ? "init" : "other"); print(pid ?: 5); }'),
    (". ->", "members; pointers are followed", "begin { print(curtask.mm.start_code); print(curtask->pid); }"),
    (".0 [0]", "fields of tuples, elements of arrays", "begin { $t = (1, 2); print($t.0 + $t[1]); print(curtask.comm[0]); }"),
    ("*p &x", "what a pointer points to; the address of a variable or map", "begin { $x = 5; $p = &$x; print(*$p); }"),
    ("(T)e", "a cast", "begin { print((uint8)300); print((uint8[4])(uint32)pid); }"),
    ("a..b", "numbers from a up to but not including b, in for", "begin { for ($i : 0..ncpus) { print($i); } }"),
]

# (conversions of printf, what they print, example)
CONVERSIONS: list[tuple[str, str, str]] = [
    ("%d %i %u %x %X %o", "numbers, truncated to 32 bits as in C; hh h l ll j z t set another size: `%lld` is 64 bits; the first truncated number causes a warning", 'begin { printf("%d %08x %-6u|", pid, pid, pid); }'),
    ("%c %p", "a character, an address", 'begin { printf("%c %p", 65, curtask); }'),
    ("%s", "text, and everything that has a text form: stacks, symbols, addresses, names of enums, booleans",
     'begin { printf("%s %-16s %.3s", comm, ksym(0), "abcdef"); }'),
    ("%f %e %g %a %F %E %G %A", "floating-point numbers, as in C, with flags, width and precision", 'begin { printf("%.3f %8.2e|%-6g|%a", 1.5, 1e-3, 2.5, -0.0); }'),
    ("%rq", "consecutive strings with their NULs, as words() returns them: each in quotation marks; quotation marks and backslashes inside are escaped with a backslash", 'begin { printf("%rq", buf("a b", 4)); }'),
    ("%r %rx %rh", "bytes: as text with escapes, as escapes only, as plain hexadecimal", 'begin { printf("%r %rx %rh", buf("abc", 3), buf("abc", 3), buf("abc", 3)); }'),
    ("%gr", "the names of memory allocation flags (GFP_...)", 'begin { printf("%gr", 0xcc0); }'),
]

# name -> example
BUILTIN_EXAMPLES: dict[str, str] = {
    "args": "tracepoint:sched:sched_switch { print(args); @[args.next_comm] = count(); }",
    "arg0": "kprobe:vfs_read { @ = hist(arg2); }",
    "container": "tracepoint:syscalls:sys_enter_openat { @[container] = count(); }",
    "pod": "tracepoint:syscalls:sys_enter_openat { @[pod, comm] = count(); }",
    "service": 'tracepoint:syscalls:sys_enter_openat /service == "nginx.service"/ { @[str(args.filename)] = count(); }',
    "cgroup": 'tracepoint:syscalls:sys_enter_openat { printf("%d %s\\n", cgroup, cgroup_path(cgroup)); }',
    "comm": 'tracepoint:syscalls:sys_enter_openat /comm == "sshd"/ { print(comm); print(comm(1)); }',
    "config": "begin { print(config.max_strlen); print(config); }",
    "cpid": "tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @ = count(); }",
    "cpu": "profile:hz:99 { @ = lhist(cpu, 0, 8, 1); }",
    "ctx": "iter:task { print(ctx.task.pid); }",
    "curtask": "begin { print(curtask.mm.start_code); }",
    "dw_ustack": "uprobe:/bin/prog:main { print(dw_ustack); @[dw_ustack(perf, 5)] = count(); }",
    "elapsed": 'interval:s:1 { printf("%d s\\n", elapsed / 1s); }',
    "func": "kprobe:vfs_read,kprobe:vfs_write { @[func] = count(); }",
    "gid": "begin { print(gid); }",
    "goid": "uprobe:/bin/svc:main.work { @[goid] = count(); } "
            "uprobe:/bin/svc:runtime.execute { @run[goid(arg0)] = count(); }",
    "results": "uretprobe:/bin/svc:main.work { @[results.r1] = sum(results.size); }",
    "goroutine": "uprobe:/bin/svc:main.work { @[goroutine] = count(); }",
    "has_cpid": "begin { if (!has_cpid) { errorf(\"run me with -c\"); exit(1); } }",
    "jiffies": "begin { print(jiffies); }",
    "kstack": "profile:hz:99 { @[kstack] = count(); @top[kstack(3)] = count(); @p[kstack(perf, 5)] = count(); }",
    "leader_comm": "begin { print(leader_comm); print(leader_comm(curtask)); }",
    "in_family": "rawtracepoint:sched_wakeup /in_family(args.p)/ { @ = count(); }",
    "net_ns": "rawtracepoint:sys_enter { @[net_ns] = count(); }",
    "leader_tid": "begin { print(leader_tid); }",
    "ncpus": "begin { for ($i : 0..ncpus) { print($i); } }",
    "nsecs": "begin { print(nsecs); print(nsecs(monotonic)); print(nsecs(tai)); }",
    "numaid": "begin { print(numaid); }",
    "pcomm": "begin { print(pcomm); print(pcomm(curtask)); }",
    "pid": "begin { print(pid); print(pid(init)); print(pid(curr_ns)); }",
    "ppid": "begin { print(ppid); print(ppid(curtask)); }",
    "probe": "kprobe:vfs_* { @[probe] = count(); }",
    "probetype": 'begin { print(probetype); }',
    "proctitle": "profile:hz:99 { @[pid, proctitle] = count(); }",
    "pytask": "tracepoint:syscalls:sys_enter_sendto { @sent[pytask] = count(); }",
    "pytask_id": "tracepoint:syscalls:sys_enter_sendto /pytask != \"\"/ { @[pytask_id, pytask] = count(); }",
    "syscall_id": "tracepoint:sched:sched_switch /syscall_id >= 0/ { @[comm, syscall_name(syscall_id)] = count(); }",
    "syscall_arg0": "tracepoint:sched:sched_switch /syscall_id == 0/ { @sleeps_reading[comm, syscall_arg0] = count(); }",
    "pythread": "tracepoint:syscalls:sys_enter_futex /pythread/ { @[pythread] = count(); }",
    "pygil": "tracepoint:syscalls:sys_enter_futex /pygil/ { @[pid, pygil] = count(); }",
    "pystack": "tracepoint:syscalls:sys_enter_openat { @[pystack] = count(); @top[comm, pystack(3)] = count(); }",
    "rand": "begin { print(rand % 6 + 1); }",
    "retval": "kretprobe:vfs_read /(int64)retval < 0/ { @[retval] = count(); }",
    "tid": "tracepoint:syscalls:sys_enter_read { @start[tid] = nsecs; }",
    "uid": "tracepoint:syscalls:sys_enter_openat /uid == 0/ { @ = count(); }",
    "usermode": "profile:hz:99 { @[usermode] = count(); }",
    "username": 'tracepoint:syscalls:sys_enter_openat { printf("%s\\n", username); }',
    "stack": "profile:hz:99 { @[comm, stack] = count(); $s = stack(5); @python[$s.python] = count(); }",
    "ustack": "uprobe:/bin/prog:main { @[ustack] = count(); @raw[ustack(raw, 3)] = count(); }",
}

# name -> value
CONFIG_EXAMPLES: dict[str, str] = {
    "cache_user_symbols": "PER_PID", "cpp_demangle": "false", "group_rows": '"PID" } table reads { PID: "%d";', "lazy_symbolication": "true", "license": '"Dual BSD/GPL"',
    "log_size": "4000000", "max_bpf_progs": "2000", "max_cat_bytes": "65536", "max_map_keys": "100000", "max_probes": "2000",
    "max_strlen": "4096", "missing_probes": "warn", "on_stack_limit": "64", "perf_rb_pages": "256",
    "print_maps_on_exit": "false", "show_debug_info": "false", "stack_mode": "perf", "str_trunc_trailer": '"~"',
    "unstable_dump": "enable", "unstable_import_statement": "warn", "unstable_iter": "enable", "unstable_tseries": "enable", "unstable_typeinfo": "enable", "use_blazesym": "false",
}

# key -> command
OPTION_EXAMPLES: dict[str, str] = {
    "e": "sonde -e 'begin { print(1); exit(); }'", "list": "sonde -l 'tracepoint:sched:*'", "pid": "sonde -p 1234 script.bt",
    "container": "sonde -C web script.bt", "by": "sonde --by container script.bt", "cmd": "sonde -c 'ls -l' script.bt", "follow": "sonde --follow -c 'make -j4' script.bt", "output": "sonde -o trace.txt script.bt", "format": "sonde -f json script.bt",
    "B": "sonde -B line script.bt", "quiet": "sonde -q script.bt", "verbose": "sonde -v script.bt",
    "warnings": "sonde -k script.bt", "no-warnings": "sonde --no-warnings script.bt", "unsafe": "sonde --unsafe script.bt",
    "budget": "sonde --budget 2% script.bt", "flight": "sonde --flight 30s,64M script.bt",
    "flight-to": "sonde --flight 30s --flight-to /var/tmp/dumps script.bt",
    "when": "sonde --flight 30s --when '@errors > 10 within 1s' script.bt",
    "dry-run": "sonde --dry-run script.bt", "test": "sonde --test tests.bt", "bench": "sonde --bench benches.bt",
    "mode": "sonde --mode test tests.bt", "fmt": "sonde --fmt script.bt", "probe-filter": "sonde --probe-filter 'vfs_.*' script.bt",
    "no-feature": "sonde --no-feature kprobe_multi script.bt", "I": "sonde -I include script.bt",
    "include": "sonde --include types.h script.bt", "help": "sonde --help", "version": "sonde --version", "info": "sonde --info",
    "debug": "sonde -d dis script.bt", "stats": "sonde --stats script.bt", "check": "sonde tools --check",
    "btf": "sonde check --btf vmlinux.btf script.bt", "debuginfo": "sonde --debuginfo /srv/debug script.bt",
    "traceable-functions": "sonde --traceable-functions functions.txt -l 'kprobe:tcp_*'",
    "verify-llvm-ir": "sonde --verify-llvm-ir script.bt", "usdt-file-activation": "sonde --usdt-file-activation script.bt",
    "dwarf-pid": "sonde --dwarf-pid 1234 script.bt",
}

# (name, what it does, example)
STATEMENTS: list[tuple[str, str, str]] = [
    ("Predicates", "the block runs if the expression between slashes is true. If a flag, `getopt(\"name\", false)`, or "
     "`exists()` makes the predicate false for the whole run, the probe is removed: it need not exist, and costs nothing.",
     "tracepoint:syscalls:sys_enter_read /pid > 1 && comm != \"sshd\"/ { @ = count(); }"),
    ("Functions by what they take", "`(argN=STRUCT)` behind a kernel function's name or pattern: those functions whose first "
     "parameter `struct STRUCT *` is argN, up to arg5.",
     "kprobe:tcp_*(arg1=sk_buff) { @[func] = sum(((struct sk_buff *)arg1)->len); }"),
    ("Named probes", "a name before an attach point.", "second=interval:s:1 { print(1); }"),
    ("Variables", "`$x` lives in its block; `let` declares a variable, with an optional type.",
     "begin { let $n: uint8 = 3; $m = $n * 2; $m += 1; print($m); }"),
    ("Maps", "`@x` is shared by all probes; with keys it is a table.",
     "tracepoint:syscalls:sys_enter_read { @[pid, comm] = count(); @last = nsecs; }"),
    ("Map declarations", "the kind and the size of a map: hash, lruhash, percpuhash, percpulruhash. `max_threads`, "
     "`max_sockets`, `max_files` and `max_packets` are the numbers of threads, sockets, files and packets on a large machine; "
     "a hash of such a size allocates memory as keys are added. `SONDE_MAX_MAP_KEYS` in the environment overrides these sizes, "
     "and `max_keys`, the size of a map without a declaration.",
     "let @seen = lruhash(1000);\nlet @since = hash(max_sockets);\nbegin { @seen[1] = 2; @since[1] = nsecs; }"),
    ("Conditions", "`if`, `else if`, `else`; also as a value.",
     "begin { if (pid == 0) { print(1); } else { print(2); } $x = if pid > 1 { 1 } else { 0 }; print($x); }"),
    ("Ternary and elvis", "`a ? b : c`, and `a ?: c` for `a` unless it is 0.", "begin { print(pid > 1 ? 1 : 2); $d = pid ?: 5; }"),
    ("Loops", "over a range, over a map, while a condition is true, or a fixed number of copies.",
     "begin { for ($i : 0..10) { if ($i == 5) { break; } @[$i] = 1; } for ($kv : @) { print($kv.0); } unroll (3) "
     "{ print(1); } $n = 0; while ($n < 5) { $n++; } }"),
    ("Loops over tasks", "`iter_task()` goes over the first thread of each process, `iter_threads()` over every thread, "
     "`iter_task_threads(task)` over the threads of a task's process, `iter_task_vma(task)` over a process's mappings. "
     "They come from bpftrace's development branch, and need Linux 6.7.",
     "config = { unstable_iter = enable }\n"
     "begin { for ($t : iter_task()) { for ($v : iter_task_vma($t)) { @bytes[$t.comm] = sum($v.vm_end - $v.vm_start); } } }"),
    ("Blocks as values", "the last expression of a block is its value.", "begin { $x = { let $a = 2; $a * 3 }; print($x); }"),
    ("Tuples and records", "`(1, \"a\")` has fields .0 and .1; `(n=1)` has .n.",
     'begin { $t = (1, "a"); $r = (n=1, s="b"); print(($t.0, $r.n)); }'),
    ("Discarding", "`_ = e` evaluates `e` and ignores its value.", "begin { _ = pid; }"),
    ("Return", "`return` ends the probe's block; in a function it returns a value.", "begin { if (pid == 1) { return; } print(1); }"),
    ("Macros", "expanded where they are called: a name stands for an expression, `$x` for a variable, `@x` for a map.",
     "macro add(a, $b, @c) { $b += a; @c = $b; }\nbegin { $x = 1; add(2, $x, @sum); }"),
    ("Functions", "`fn` declares a function of the BPF program: its parameters and its result have types.",
     "fn clamp($x: int64): int64 { if ($x > 10) { return 10; } return $x; }\nbegin { print(clamp(pid)); }"),
    ("Tables", "a table declares the rows that a script prints. Each column has a name and a format of `printf`. A column with `if` "
     "exists only if the condition is true; the condition must be known when compiling. `name(values)` prints a row, with one value for "
     "each conversion; `heading(name)` prints the names, as wide as their columns. A blank separates two columns, except after "
     "a format that ends with `:` `,` `;` or a blank. A column with two numbers and a point, `%d.%03d`, is one number; "
     "`%.0s` is in the data only, and is not printed; `\\n%s` is printed below its row. A table can begin with the columns of another "
     "table: `other;`. In `-f json`, `-f csv`, data frames and `sonde top` a cell contains the bare value, without the text "
     "around it (hexadecimal and octal numbers are text, so that addresses lose no digits). Other output of the script is not "
     "part of the table. `table` and `heading` are not reserved words.",
     'table reads { TIME: "%-8s" if getopt("timestamp", false); PID: "%-7d"; COMM: "%-16s"; "SIZE(kB)": "%5d.%03d"; }\n'
     "begin { heading(reads); }\n"
     "tracepoint:syscalls:sys_exit_read /args.ret > 0/\n"
     '{ reads(strftime("%H:%M:%S", nsecs), pid, comm, args.ret / 1000, args.ret % 1000); }'),
    ("C definitions", "struct, union, enum and typedef, with bit-fields (unsigned, as in bpftrace), the attributes "
     "packed and aligned, and `#pragma pack`. `long double` and 128-bit members take up space but cannot be read.",
     "struct pair { int a : 4; union { int b; char c[4]; }; } __attribute__((packed));\nenum colour { RED, GREEN = 5 };\n"
     "begin { print(sizeof(struct pair)); print(GREEN); }"),
    ("Preprocessor", "`#define` with and without parameters, `#if`, `#ifdef`, `#undef`, `#include \"header.h\"`; "
     "kernel headers are not needed: the kernel's types come from BTF.",
     "#include <linux/sched.h>\n#define TWICE(x) ((x) * 2)\n#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 0, 0)\n"
     "begin { print(TWICE(4)); }\n#endif"),
    ("Configuration", "a block of configuration variables.", "config = { max_strlen = 128; missing_probes = \"warn\" }\nbegin { print(1); }"),
]

TYPES: list[tuple[str, str, str]] = [
    ("bool", "true or false", "begin { $b = true; print($b); }"),
    ("int8 ... int64, uint8 ... uint64", "integers; a literal takes the smallest type that holds it",
     "begin { let $x: uint16 = 5; print((int32)$x); }"),
    ("1_000 0x1f 0755 1e6", "integer literals", "begin { print(1_000 + 0x1f + 0755 + 1e6); }"),
    ("float, double", "floating-point numbers, read from memory: see below", "struct s { double d; }; begin { $p = (struct s *)0; if ($p->d > 1.5) { print($p->d); } }"),
    ("1.5 2.5e-3", "floating-point literals, of type double", "begin { print(1.5 < 2); }"),
    ("10ns us ms s m h d", "durations, in nanoseconds", "begin { print(1500ms); }"),
    ("string, string[N]", "text, by default of max_strlen bytes", 'begin { let $s: string[8] = "abc"; print($s); }'),
    ("T*, T[N]", "pointers and arrays, also pointers to arrays", "begin { $p = (int32*)0; $a = (uint8[4])(int32)1; print($a[0]); }"),
    ("struct T, union T, enum T", "the script's own, or the kernel's",
     "begin { print(((struct task_struct *)curtask).pid); }"),
    ("typeof(e)", "the type of an expression", "begin { $x = (uint8)1; let $y: typeof($x) = 2; print($y); }"),
]

# What the section on floating-point numbers says, and its examples.
FLOATS: list[str] = [
    """The `float` and `double` of C are read wherever they lie in memory: as members of structs (by DWARF, BTF, C headers or the script's own
definitions), as elements of arrays, behind pointers, as arguments on the stack. BPF has no floating point, so all that programs do with them
is done by integers on their bits (IEEE 754), exactly:""",
    """struct sample { double value; float weight; double window[3]; };
begin {
  $s = (struct sample *)$1;
  printf("%.3f %g %a\\n", $s->value, $s->weight, $s->window[2]);
  if ($s->value >= 0.75 && $s->weight < 10) { @last[$s->weight] = $s->value; }
  @spread = hist($s->value); @tenths = lhist($s->value, 0, 2, 0.1);
  @low = min($s->value); @sum = sum($s->value); @mean = avg($s->value);
  $p = (double *)$1; print(*$p); print((int64)*$p); print(scaled(*$p, 1000));
}""",
    """| what | how exact |
|---|---|
| `print()`, maps, `-f json`, tables, the library | the value, with the fewest digits that tell it from others of its type (`0.1`, `1e-05`, `inf`, `nan`, `-0.0`). JSON has no infinities and NaNs: there they are strings |
| `== != < <= > >=` | exact, also of `float` with `double` and of either with integers of 64 bits. 0.0 equals -0.0; with a NaN only `!=` is true |
| keys of maps | equal numbers are one key, and so are all NaNs; -0.0 is 0.0 |
| `min() max()` | exact; a NaN makes them `nan` |
| `sum() avg() stats()` | integers in units of 2^-64 (5.4e-20) are added, so the order does not matter and nothing is rounded on the way: of each value only what is below 2^-64 is lost. The result is the nearest double. A NaN makes it `nan`; an infinity, or a value of 2^80 (1.2e24) and more, `inf` or `-inf` |
| `hist(x[, bits])` | a bucket for each power of two from 2^-40 (9.1e-13) up to 2^64, and one each for negative values, 0, smaller ones, larger ones, NaNs |
| `lhist(x, min, max, step)` | bounds may have up to six decimals. With integers they are exact; otherwise a value nearer to a bound than 2^-20 (with six decimals 2^-11) of the last decimal lies on it. NaNs have a bucket of their own |
| `(int64)x` and other integers | cut towards 0; what does not fit becomes the nearest that does, a NaN 0 |
| `(double)n` | rounded to the nearest, as in C |
| `scaled(x, n)` | `x` times `n`, rounded to the nearest integer: for arithmetic, `tseries()` and all else that takes integers |""",
    """`+ - * /` are refused: reckon with `scaled(x, 1000)`. So are conditions without a comparison (`if (x)`); write `x != 0`. A `float` stays one in
variables and maps, and becomes a `double` where it meets one. `long double` and decimal numbers have no value, complex numbers are arrays of two.
What only a register has cannot be read: an argument of type `double` is passed in a vector register, and a function's result is returned
in one, which programs do not see. `args.x` and `retval` then are errors that say so (`retval` where the program's own file has debug information); what to do is to probe a place where the value is in memory.""",
]

ERRORS_INTRODUCTION = """An error says what is wrong, where, and what to do instead. NOTE lines show another place in the script that it is
about, HINT lines what helps. The same is there as data: `sonde check --format json` or `--format sarif` writes it, and
in Python `CompileError` has `diagnostics`, each with `code`, `message`, `file`, `line`, `column`, `hints` and `notes`."""

# code -> (meaning, a script that yields it; "" where it takes a certain machine)
ERRORS: dict[str, tuple[str, str]] = {
    "sealed-filter": ("The script of a fleet has a filter of packets, and the agent's policy does not let it use files.", ""),
    "no-libpcap": ("A filter of packets needs libpcap, which is not installed.", ""),
    "aggregate-value": ("count(), hist() and their like are values of maps only.", "begin { $x = count(); }"),
    "arity": ("A function has too many or too few arguments.", "begin { exit(1, 2); }"),
    "array-bounds": ("An index is outside its array.", "struct s { int a[2]; };\nbegin { $p = (struct s *)0; print($p.a[5]); }"),
    "bad-argument": ("An argument is of the wrong kind.", "begin { print(strlen(1)); }"),
    "bad-cast": ("The value cannot be cast to this type.", 'begin { $x = (struct task_struct)"x"; }'),
    "bad-condition": ("A condition is neither a number nor a pointer.", "#if 1 / 0\n#endif\nbegin { }"),
    "bad-define": ("#define is malformed.", "#define 1 2\nbegin { }"),
    "bad-filter": ("libpcap does not take the filter.", 'rawtracepoint:net_dev_queue /pcap("tcp prot 80", args.skb)/ { }'),
    "bad-format": ("The format is malformed.", 'begin { printf("%999999999d", 1); }'),
    "bad-include": ("#include names no header.", "#include x\nbegin { }"),
    "bad-header": ("A header needs libclang, and libclang reports an error in it.", '// a.h: struct s { unknown x : ; };\n#include "a.h"\nbegin { print(1); }'),
    "bad-operand": ("An operator does not take this type.", 'begin { print("a" * 2); }'),
    "bad-parameter": ("A parameter of the script has the wrong form.", "fn f($a: void) { }\nbegin { f(1); }"),
    "bad-range": ("for iterates over a range of numbers or a map, and this is neither.", "begin { for ($i : $x) { } }"),
    "bad-return": ("return has a value of the wrong type.", 'begin { return "x"; }'),
    "bad-shift": ("A shift by more bits than the value has.", "begin { $x = 1; print($x << 70); }"),
    "bad-size": ("An array or a map cannot have this size.", "let @m = hash(0);\nbegin { @m[1] = 1; }"),
    "bad-type": ("These words do not name a type.", "begin { $x = (unsigned signed int)1; }"),
    "bad-unroll": ("unroll makes 1 to 100 copies, no other number.", "begin { unroll (200) { print(1); } }"),
    "builtin-probe": ("The builtin has no value in this kind of probe.", "begin { print(retval); }"),
    "config-environment": ("This variable can only be set in the environment.", "config = { btf = 1 }\nbegin { }"),
    "config-ignored": ("This configuration variable of bpftrace no longer has any effect.",
                       "config = { unstable_macro = enable }\nbegin { }"),
    "config-renamed": ("A configuration variable was renamed.", "config = { strlen = 64 }\nbegin { }"),
    "config-value": ("A configuration variable cannot have this value.", "config = { max_strlen = 1000000 }\nbegin { }"),
    "division-by-zero": ("The divisor is 0.", "begin { print(5 / 0); }"),
    "duplicate-field": ("A record has two fields of the same name.", "begin { $r = (a=1, a=2); }"),
    "empty-script": ("The script is empty.", "// nothing"),
    "error-directive": ("The script contains #error.", "#error not here\nbegin { }"),
    "fail": ("fail() would be reached.", 'begin { fail("no"); }'),
    "floating-point": ("There is no arithmetic on floating-point numbers.", "begin { print(1.5 * 2); }"),
    "format-arguments": ("The arguments do not match the format.", 'begin { printf("%d %d", 1); }'),
    "format-type": ("A conversion does not fit its argument.", 'begin { printf("%d", "x"); }'),
    "function-probe": ("The function does not work in this kind of probe.", "begin { print(path(curtask.fs.pwd)); }"),
    "header-not-found": ("There is no such header.", '#include "none.h"\nbegin { }'),
    "ignored-attribute": ("A C attribute is ignored.", "struct s { int a; } __attribute__((aligned(3)));\nbegin { }"),
    "import-not-found": ("There is no such script.", 'import "none.bt";\nbegin { }'),
    "include-depth": ("Headers include one another endlessly.", '// a.h: #include "a.h"\n#include "a.h"\nbegin { print(1); }'),
    "incomplete-type": ("A struct contains itself, or a struct that is not defined yet.", "struct a { struct a b; };\nbegin { }"),
    "invalid-character": ("This character means nothing here.", "begin { print(1)` }"),
    "invalid-escape": ("There is no such escape sequence.", 'begin { print("\\q"); }'),
    "invalid-number": ("The number is malformed.", "begin { print(1x); }"),
    "invalid-parameter": ("Positional parameters are $1, $2 and so on.", "begin { print($0); }"),
    "key-mismatch": ("All keys of a map must have one type.", 'begin { @[1] = 1; @["a"] = 2; }'),
    "long-string": ("The length passed to str() exceeds max_strlen: the string is cut to max_strlen.",
                    "tracepoint:syscalls:sys_enter_openat { print(str(args.filename, 5000)); }"),
    "macro-arguments": ("A C macro is called with the wrong number of arguments.", "#define F(a, b) a\nbegin { print(F(1)); }"),
    "macro-depth": ("Macros call one another endlessly.", "macro m(a) { m(a) }\nbegin { m(1); }"),
    "macro-hygiene": ("A macro uses a map that it was not given.", "macro m() { @x = 1 }\nbegin { m(); }"),
    "map-key": ("A map is used both with and without keys.", "begin { @x = 1; @x[1] = 2; }"),
    "missing-feature": ("The kernel lacks what the script needs.", 'begin { print(comm(1)); }'),
    "missing-parameter": ("A positional parameter is missing from the command line: it is 0 in a clause, and empty in an attach point.",
                          "begin { print($1); }"),
    "missing-probe": ("There is no such probe on this kernel.", "tracepoint:sched:none { }"),
    "harmful-return": ("The kernel's return probe replaces a return address that something else reads, which could end "
                       "the traced program, and the function's return instructions are not known: probe its entry, or a "
                       "static probe.", ""),
    "no-return-instructions": ("With --returns instructions: not all return instructions of the function are known, or it "
                               "has none. The kernel's return probe does without.", ""),
    "indirect-function": ("The function is an indirect one (IFUNC), whose code is chosen when its file is loaded, and that "
                          "code is not known, or is where there can be no probe.", ""),
    "shared-code": ("Another function has the same code, so that the probe sees its calls too.", ""),
    "goroutine-thread": ("A script matches the calls and returns of a Go function by tid. A goroutine may change its thread in "
                         "between: match by goid, or by caller().", ""),
    "tail-call": ("A function may end with a jump to another one, which is not known and returns in its place, and its returns "
                  "are probed at instructions: the jump counts as its return, or is not seen where retval is used.", ""),
    "inside-function": ("A return probe is inside a function: the return address is on the stack only where a function begins.", ""),
    "sample-rate": ("The kernel limits sampling to a lower rate, and does not count the samples that it skips.", ""),
    "mid-instruction": ("A breakpoint at this offset would overwrite the middle of an instruction and crash the program.", ""),
    "no-argument": ("The probe has fewer arguments, and this one is 0; or a program cannot read it.", ""),
    "mixed-memory": ("A function is called with pointers to user memory and with pointers to kernel memory.",
                     "fn where($p: struct task_struct*): int64 { return (int64)$p; }\n"
                     "begin { print(where(kptr(curtask))); print(where((struct task_struct*)uptr(1))); }"),
    "no-goroutine": ("The probe is in no Go program, or in one whose goroutines Sonde does not know.",
                     "tracepoint:syscalls:sys_enter_openat { @[goid] = count(); }"),
    "no-module": ("The module named in the attach point is not loaded.", ""),
    "no-retval": ("The function returns nothing.", "fexit:tcp_set_state { print(retval); }"),
    "iter-pid": ("-p cannot be used with an iterator over objects that do not belong to a process.", ""),
    "iter-pin": ("A pinned iterator runs without Sonde whenever its file is read: it can only printf().",
                 "iter:task:list { @ = count(); }"),
    "iter-mixed": ("Only begin and end can be in the same script as an iterator.", 'iter:task { print(1); } interval:s:1 { print(2); }'),
    "odd-format": ("The format has a conversion that no argument fits.", 'begin { printf("%y", 1); }'),
    "args-left-out": ("Some arguments of a user function cannot be read: the compiler optimised them away, or they are in "
                      "vector registers.", ""),
    "no-args": ("The probe's arguments are unknown: there is no debug information, or the probe is inside a function.", 'uprobe:bash:readline { print(args.prompt); }'),
    "no-cgroups": ("The script uses paths of control groups, but no hierarchy of version 2 is mounted.",
                   "// on version 1\nbegin { print(cgroup_path(cgroup)); }"),
    "no-child": ("The script uses `cpid`, but there is no command (`-c`). A script that also works without a command tests `has_cpid` first.",
                 "tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @ = count(); }"),
    "user-memory": ("An argument of a system call's function is read as kernel memory, but points to user memory.",
                    "fentry:do_sys_openat2 { print(str(args.filename)); }"),
    "no-flight": ("dump() needs --flight.", 'begin { dump("here"); }'),
    "no-probes": ("The script has no attach points left.", "config = { missing_probes = ignore }\ntracepoint:sched:none { }"),
    "no-return": ("A function has a result type but never returns a value.", "fn f(): int64 { }\nbegin { print(f()); }"),
    "no-value": ("A call without a value is used as a value.", "begin { $x = exit(); }"),
    "not-a-pointer": ("Only pointers can be dereferenced.", 'begin { $x = "a"; print(*$x); }'),
    "not-a-struct": ("Only structs, unions and records have fields.", "begin { $x = 1; print($x.a); }"),
    "not-a-tuple": ("Only tuples have numbered fields.", "begin { $x = 1; print($x.0); }"),
    "not-an-array": ("Only arrays, pointers and strings have elements.", "begin { $x = true; print($x[0]); }"),
    "not-an-integer": ("A number is needed.", 'begin { $a = (uint8[4])(int32)1; print($a["x"]); }'),
    "not-assignable": ("Only variables and maps can be assigned to.", "begin { $t = (1, 2); $t.0 = 3; }"),
    "not-constant": ("The value must be known when compiling.", "begin { unroll (pid) { print(1); } }"),
    "not-for-production": ("debugf() writes to a trace that the whole machine shares.", 'begin { debugf("here"); }'),
    "not-supported": ("Sonde does not support this.", 'begin { unwatch(1); }'),
    "number-too-large": ("The number does not fit 64 bits.", "begin { print(99999999999999999999); }"),
    "out-of-range": ("The number does not fit the variable's type.", "begin { let $x: uint8 = 300; }"),
    "inlined-copies": ("Some calls of this function were inlined: the probe does not see them.",
                       ""),
    "outside-function": ("The offset is beyond the function's last instruction.", ""),
    "outside-loop": ("break and continue are only allowed in loops.", "begin { break; }"),
    "overflow": ("A constant does not fit 64 bits.", "begin { print(18446744073709551615 + 1); }"),
    "probe-filter": ("--probe-filter is not a valid regular expression.", "// sonde --probe-filter '(' script.bt\nbegin { print(1); }"),
    "probe-form": ("The attach point has too few or too many parts.", "tracepoint:sched { }"),
    "recursion": ("A function calls itself.", "fn f(): int64 { return f(); }\nbegin { print(f()); }"),
    "redeclared": ("The name is declared already.", "begin { let $x = 1; let $x = 2; }"),
    "redefinition": ("The name is defined already.", "struct a { int b; };\nstruct a { int b; };\nbegin { }"),
    "kernel-struct": ("The C library's struct of this name has another layout; the script uses the kernel's.",
                      "#include <signal.h>\nbegin { print(sizeof(struct sigaction)); }"),
    "discarded": ("A value is computed but not used.", "begin { 1 + 2; }"),
    "empty-literal": ("A literal string plus a number is the string without that many characters, and here nothing remains.",
                      'begin { print("abc" + 5); }'),
    "never-assigned": ("A variable is declared but never assigned.", "begin { let $x; }"),
    "sign-mismatch": ("A signed and an unsigned 64-bit number are combined: neither type can represent all values of the other.",
                      "begin { $a = (int64)rand; if ($a < nsecs) { print(1); } }"),
    "unreachable": ("Code after return, break or continue never runs.", "begin { return; print(1); }"),
    "signed-division": ("bpftrace would divide signed numbers as if they were unsigned.", "begin { print(pid / -2); }"),
    "used-before-assigned": ("A declared variable is 0 until something is assigned to it.", "begin { let $n: int32; print($n); $n = 1; }"),
    "static-assert": ("The condition of static_assert() is false.", 'begin { static_assert(1 == 2, "no"); }'),
    "string-too-long": ("Strings have 1 to 65536 bytes.", "begin { let $s: string[100000]; }"),
    "syntax-error": ("The text does not follow the language's grammar.", "begin { print(1 }"),
    "program-too-large": ("The script is too large to compile in reasonable time; each copy made by unroll counts.",
                          "begin { unroll(100) { unroll(100) { unroll(100) { @ = 1; } } } }"),
    "type-too-large": ("A type is larger than 2 GiB, or a tuple has more than 1000 values or is nested more than 100 levels deep.", "struct s { char a[4294967296]; };\nbegin { print(sizeof(struct s)); }"),
    "value-too-large": ("A value that is printed or stored in a map has more than two million parts; a struct counts as eight, plus its members.",
                        "struct a { char x; };\nstruct b { struct a y[4000000]; };\nbegin { $p = (struct b *)curtask; print(*$p); }"),
    "too-deep": ("Parentheses or blocks are nested too deeply.", "begin { print(" + "(" * 250 + "1" + ")" * 250 + "); }"),
    "no-process-names": ("`--by` replaces names of processes (`comm`), and the script does not show any.",
                         "// sonde --by container script.bt\nbegin { print(1); }"),
    "too-many-groups": ("A script can compare with up to 15 names of containers, pods and services; -C uses three of them.",
                        "tracepoint:syscalls:sys_enter_openat / " + " || ".join(
                            [f'container == "{name}"' for name in "abcdefghijklmnop"]) + " / { @ = count(); }"),
    "too-many-parameters": ("Functions take up to five parameters.",
                            "fn f($a: int8, $b: int8, $c: int8, $d: int8, $e: int8, $f: int8) { }\nbegin { f(1, 2, 3, 4, 5, 6); }"),
    "too-many-probes": ("The script has more attach points than max_probes.", "config = { max_probes = 1 }\nbegin { } end { }"),
    "too-many-programs": ("The script needs more programs than max_bpf_progs.", "config = { max_bpf_progs = 1 }\nbegin { } end { }"),
    "tuple-index": ("The tuple has fewer fields.", "begin { $t = (1, 2); print($t.5); }"),
    "type-mismatch": ("A variable or map can only hold values of one type.", 'begin { $x = 1; $x = "a"; }'),
    "unbalanced-conditional": ("#if and #endif do not match.", "#if 1\nbegin { }"),
    "unclosed-brace": ("A } is missing.", "begin { if (1) { print(1);"),
    "undefined-map": ("The script never stores anything in this map.", "begin { print(@x); }"),
    "no-boundary": ("It is unknown whether an instruction starts at this address; --unsafe attaches anyway.",
                    ""),
    "other-default": ("A named parameter has two different defaults.", 'begin { print(getopt("n", 1)); print(getopt("n", 2)); }'),
    "unused-map": ("The map is declared but never used.", "let @x = hash(10);\nbegin { }"),
    "undefined-variable": ("The variable has no value here.", "begin { print($x); }"),
    "unknown-cgroup": ("There is no cgroup at this path.", 'begin { print(cgroupid("/none")); }'),
    "unknown-config": ("There is no such configuration variable.", "config = { max_strlem = 1 }\nbegin { }"),
    "unknown-directive": ("There is no such preprocessor directive.", "#defin X\nbegin { }"),
    "unknown-event": ("perf has no such event.", "software:nothing:1 { }"),
    "unknown-field": ("The struct has no such field.", "begin { print(curtask.pidd); }"),
    "unknown-function": ("There is no such function.", "begin { prinf(1); }"),
    "unknown-identifier": ("The name is neither a builtin nor a constant.", "begin { print(pidd); }"),
    "unknown-map-kind": ("There is no such kind of map.", "let @m = tree(5);\nbegin { @m[1] = 1; }"),
    "unknown-parameter": ("The script has no parameter of that name.", '// sonde script.bt -- --port=80\nbegin { print(1); }'),
    "stand-in": ("The kernel has this function only under a new name or as a compiler-made variant (`.isra.0`): that one is probed.", ""),
    "unnecessary-cast": ("The value already has that type.", "begin { print((int8)5); }"),
    "untrusted-import": ("Other users can write to the imported file, or to a directory on its path.", ""),
    "untraceable": ("The kernel does not allow this function to be traced.", ""),
    "forged-address": ("The policy of sonde mcp, or of an agent, does not let scripts read memory of their own choosing.", ""),
    "forbidden-probe": ("The agent's policy, or the caller, forbids probes of this kind.", ""),
    "unknown-probe": ("There is no such kind of probe.", "tracepiont:a:b { }"),
    "unknown-register": ("The CPU has no such register.", 'profile:hz:9 { print(reg("none")); }'),
    "unknown-symbol": ("There is no such symbol.", 'begin { print(kaddr("none")); }'),
    "unknown-table": ("A table includes the columns of another table, which must be declared before it.",
                      'table b { a; } begin { b(1); }'),
    "unknown-type": ("There is no such type.", "begin { let $x: nothing; }"),
    "unsafe": ("The function acts on the system: it needs --unsafe.", 'begin { system("ls"); }'),
    "unstable": ("The feature may still change; the configuration variable unstable_... enables it.",
                 "begin { @ = tseries(1, 1s, 5); }"),
    "unsettled": ("The types of maps and variables depend on themselves, or form too long a chain.", ""),
    "text-address": ("%s prints the address of a text, not the text.",
                     'tracepoint:syscalls:sys_enter_openat { printf("%s\\n", args.filename); }'),
    "unterminated-comment": ("A comment has no */.", "begin { print(1); /* open"),
    "unterminated-string": ("A string has no closing quote.", 'begin { print("open); }'),
}
