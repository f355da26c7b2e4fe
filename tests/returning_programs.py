"""Programs whose calls end in every way that there is, ten kinds of calls in each. A program is run with the numbers of
kinds (``0123456789``); it counts the calls of leaf(), middle() and work() and their returns, adds up arguments and
results, and prints a line for each: ``leaf CALLS ARGUMENTS RETURNS RESULTS``."""

from __future__ import annotations

COUNTING = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <signal.h>
#include <pthread.h>
#include <unistd.h>
struct count { long calls, arguments, returns, results; };
static struct count counts[3];
static const char *const names[] = {"leaf", "middle", "work"};
static int kind;
#define ADD(field, by) __atomic_add_fetch(&counts[i].field, by, __ATOMIC_SEQ_CST)
static inline void begin(int i, int x) { ADD(calls, 1); ADD(arguments, x); }
static inline int end(int i, int result) { ADD(returns, 1); ADD(results, result); return result; }
static void show(void)
{
    for (int i = 0; i < 3; i++)
        printf("%s %ld %ld %ld %ld\n", names[i], counts[i].calls, counts[i].arguments, counts[i].returns,
               counts[i].results);
}
#define NOIPA __attribute__((noipa))
"""

# Exceptions: that skip frames with and without cleanup, are rethrown, nested, thrown by constructors, carried to other
# threads; forced unwinding; coroutines.
CPP = COUNTING + r"""
#include <coroutine>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>
extern "C" { int leaf(int); int middle(int); int work(int); }
struct Guard { NOIPA ~Guard() { guarded++; } static long guarded; };
long Guard::guarded;
struct Thrower { NOIPA Thrower(int x) { if (x % 5 == 0) throw std::logic_error("constructor"); } };
static std::exception_ptr carried;
static jmp_buf there;
extern "C" NOIPA int leaf(int x)
{
    begin(0, x);
    if (kind == 4) { Thrower t(x); return end(0, x * 2); }
    if (x % 3 == 0)
        switch (kind) {
        case 0: throw std::runtime_error("third");
        case 1: throw x;
        case 2: try { throw x; } catch (int) { throw; }
        case 3: try { throw 1; } catch (int) { std::throw_with_nested(std::logic_error("nested")); }
        case 5: carried = std::make_exception_ptr(x); std::rethrow_exception(carried);
        case 6: pthread_exit(NULL);
        case 7: for (;;) pause();
        case 8: longjmp(there, 1);
        case 9: if (x % 5 == 0) throw x;
        }
    return end(0, x * 7 - 3);
}
extern "C" NOIPA int middle(int x)
{
    begin(1, x);
    if (kind == 8) return end(1, leaf(x) + 1);  // without cleanup, which longjmp() would leave out
    Guard guard;
    return end(1, leaf(x) + 1);
}
struct Task {
    struct promise_type {
        int value = 0;
        Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int x) { value = x; return {}; }
        void return_void() {}
        void unhandled_exception() { failed = std::current_exception(); }
        std::exception_ptr failed;
    };
    std::coroutine_handle<promise_type> handle;
};
NOIPA Task generate(int x) { for (int i = 0; i < 3; i++) co_yield middle(x + i); }
static int resume_all(int x)
{
    int sum = 0;
    Task task = generate(x);
    while (!task.handle.done()) { task.handle.resume(); sum += task.handle.promise().value; }
    if (task.handle.promise().failed)
        try { std::rethrow_exception(task.handle.promise().failed); } catch (int) { sum++; }
    task.handle.destroy();
    return sum;
}
extern "C" NOIPA int work(int x)
{
    begin(2, x);
    if (kind == 8) return end(2, setjmp(there) ? -1 : middle(x));
    if (kind == 9) { int r = resume_all(x); return end(2, x > 0 ? r + work(x / 2) : r); }
    try {
        if (kind == 1 && x > 20) return end(2, work(x - 7) + 1);
        std::function<int(int)> f = [](int y) { return middle(y); };
        return end(2, f(x));
    } catch (int y) {
        if (kind == 1 && x > 40) throw;
        return end(2, y);
    } catch (std::exception &) {
        return end(2, -1);
    }
}
static void *in_thread(void *x) { return (void *)(long)work((int)(long)x); }
static void run()
{
    for (int x = 1; x <= 300; x++) {
        if (kind == 6 || kind == 7) {
            pthread_t thread;
            pthread_create(&thread, NULL, in_thread, (void *)(long)x);
            if (kind == 7 && x % 3 == 0) { usleep(200); pthread_cancel(thread); }
            pthread_join(thread, NULL);
        } else if (kind == 5 && x % 10 == 0) {
            std::thread([x] {
                work(x);
                try { if (carried) std::rethrow_exception(carried); } catch (int) { work(1); }
            }).join();
        } else {
            try { work(x); } catch (int) { }
        }
    }
}
int main(int, char **argv)
{
    getchar();
    for (const char *at = argv[1]; *at; at++) {
        kind = *at - '0';
        run();
    }
    printf("%ld\n", Guard::guarded);
    show();
}
"""

# longjmp() from several depths, recursion, threads that end or are cancelled within, signal handlers, cleanup of C.
C = COUNTING + r"""
static __thread jmp_buf there;
static long cleaned;
static void clean(int *x) { cleaned += *x; }
NOIPA int leaf(int x)
{
    begin(0, x);
    if (x % 3 == 0)
        switch (kind) {
        case 0: case 1: longjmp(there, 1);
        case 2: raise(SIGUSR1); break;
        case 3: pthread_exit(NULL);
        case 4: for (;;) pause();
        case 5: raise(SIGUSR2); break;
        }
    return end(0, x * 5 + 1);
}
NOIPA int middle(int x)
{
    begin(1, x);
    if (kind == 9) { int y __attribute__((cleanup(clean))) = x; return end(1, leaf(y) + 1); }
    if (kind == 6 && x > 0) return end(1, middle(x - 1) + leaf(x));
    if (kind == 8) { switch (x % 9) { case 0: return end(1, leaf(x)); case 1: return end(1, leaf(x) * 2);
        case 2: return end(1, 77); case 3: return end(1, leaf(x) + leaf(1)); case 4: return end(1, leaf(2) - 5);
        case 5: return end(1, x); case 6: return end(1, leaf(x) | 1); } }
    return end(1, leaf(x) + 1);
}
NOIPA int work(int x)
{
    begin(2, x);
    if (kind == 1 && x > 10) return end(2, work(x - 10) + 1);
    if (kind == 7) return end(2, x > 0 ? middle(x) + work(x / 2) + work(x / 3) : leaf(x));
    return end(2, (kind <= 1 || kind == 5) && setjmp(there) ? -1 : middle(kind == 6 ? x % 20 : x));
}
static void handle(int signal) { if (signal == SIGUSR2) siglongjmp(there, 1); middle(1); }
static void *in_thread(void *x) { return (void *)(long)work((int)(long)x); }
static void run(void)
{
    for (int x = 1; x <= 300; x++) {
        if (kind == 3 || kind == 4) {
            pthread_t thread;
            pthread_create(&thread, NULL, in_thread, (void *)(long)x);
            if (kind == 4 && x % 3 == 0) { usleep(200); pthread_cancel(thread); }
            pthread_join(thread, NULL);
        } else {
            work(kind == 7 ? x / 3 : x);
        }
    }
}
int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    getchar();
    for (const char *at = argv[1]; *at; at++) {
        kind = *at - '0';
        run();
    }
    show();
}
"""

# Caught panics: across frames, with values that are dropped, resumed, in threads, in recursion, nested.
RUST = r"""
use std::io::Read;
use std::panic::{catch_unwind, panic_any, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
static COUNTS: [AtomicI64; 12] = [const { AtomicI64::new(0) }; 12];
static DROPPED: AtomicI64 = AtomicI64::new(0);
static KIND: AtomicI64 = AtomicI64::new(0);
#[inline(always)] fn begin(i: usize, x: i32) {
    COUNTS[4 * i].fetch_add(1, SeqCst); COUNTS[4 * i + 1].fetch_add(x as i64, SeqCst);
}
#[inline(always)] fn end(i: usize, r: i32) -> i32 {
    COUNTS[4 * i + 2].fetch_add(1, SeqCst); COUNTS[4 * i + 3].fetch_add(r as i64, SeqCst); r
}
struct Guard;
impl Drop for Guard { #[inline(never)] fn drop(&mut self) { DROPPED.fetch_add(1, SeqCst); } }
#[no_mangle] #[inline(never)] pub extern "C-unwind" fn leaf(x: i32) -> i32 {
    begin(0, x);
    if x % 3 == 0 { match KIND.load(SeqCst) {
        0 => panic!("third"), 1 => panic_any(x), 2 => { let v: Vec<i32> = Vec::new(); end(0, v[x as usize]); }
        3 => { None::<i32>.unwrap(); } 4 => { Err::<i32, i32>(x).expect("bad"); } 5 => resume_unwind(Box::new(x)),
        6 => { let zero = x - x; std::hint::black_box(x / std::hint::black_box(zero)); }
        7 => { let e = catch_unwind(|| -> () { panic!("inner") }); if let Err(e) = e { resume_unwind(e) } }
        _ => {} } }
    end(0, x * 4 + 9)
}
#[no_mangle] #[inline(never)] pub extern "C-unwind" fn middle(x: i32) -> i32 {
    begin(1, x);
    let _guard = Guard;
    let r = leaf(x);
    end(1, r + 1)
}
#[no_mangle] #[inline(never)] pub extern "C-unwind" fn work(x: i32) -> i32 {
    begin(2, x);
    if KIND.load(SeqCst) >= 8 && x > 10 { let r = work(x - 9); return end(2, r + middle(x)) }
    let r = match catch_unwind(AssertUnwindSafe(|| middle(x))) { Ok(r) => r, Err(_) => -1 };
    end(2, r)
}
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    std::io::stdin().read(&mut [0]).unwrap();
    for kind in std::env::args().nth(1).unwrap().bytes() {
        KIND.store((kind - b'0') as i64, SeqCst);
        for x in 1..=300 {
            if KIND.load(SeqCst) == 9 || x % 50 == 0 { std::thread::spawn(move || work(x)).join().unwrap(); }
            else { work(x); }
        }
    }
    println!("{}", DROPPED.load(SeqCst));
    for (i, name) in ["leaf", "middle", "work"].iter().enumerate() {
        let c: Vec<i64> = (0..4).map(|j| COUNTS[4 * i + j].load(SeqCst)).collect();
        println!("{} {} {} {} {}", name, c[0], c[1], c[2], c[3]);
    }
}
"""

# Stacks that grow ten thousand times, panics that are recovered, goroutines that end, are preempted, wait.
GO = r"""
package main

import ("fmt"; "os"; "runtime"; "sync"; "sync/atomic"; "time")

var counts [12]int64
var kind int
//go:noinline
func begin(i int, x int) { atomic.AddInt64(&counts[4*i], 1); atomic.AddInt64(&counts[4*i+1], int64(x)) }
//go:noinline
func end(i int, r int) int { atomic.AddInt64(&counts[4*i+2], 1); atomic.AddInt64(&counts[4*i+3], int64(r)); return r }

//go:noinline
func grow(n int) int {
    var room [256]int
    room[n%256] = n
    if n == 0 { return room[0] }
    return room[n%256] + grow(n-1)
}
//go:noinline
func leaf(x int) int {
    begin(0, x)
    if x%3 == 0 {
        switch kind {
        case 0: panic("third")
        case 1: var m map[string]int; m["a"] = x
        case 2: var p *int; *p = x
        case 3: var a []int; end(0, a[x])
        case 4: runtime.Goexit()
        case 5: runtime.Gosched()
        case 6: time.Sleep(10 * time.Microsecond)
        case 7: runtime.GC()
        }
    }
    if kind == 8 || kind == 9 { return end(0, grow(x%40)*3) }
    return end(0, x*6+2)
}
//go:noinline
func middle(x int) int { begin(1, x); defer func() {}(); r := leaf(x); return end(1, r+1) }
//go:noinline
func work(x int) (r int) {
    begin(2, x)
    defer func() { if recover() != nil { r = end(2, -5) } }()
    r = middle(x)
    return end(2, r)
}
func main() {
    os.Stdin.Read(make([]byte, 1))
    for _, each := range os.Args[1] {
        kind = int(each - '0')
        run()
    }
    for i, name := range []string{"leaf", "middle", "work"} {
        fmt.Println(name, counts[4*i], counts[4*i+1], counts[4*i+2], counts[4*i+3])
    }
}
func run() {
    count := 300
    if kind == 9 { count = 10000 }
    var group sync.WaitGroup
    limit := make(chan int, 8)
    for x := 1; x <= count; x++ {
        if kind >= 4 {
            limit <- 1
            group.Add(1)
            go func(x int) { defer func() { <-limit; group.Done() }(); work(x) }(x)
        } else {
            work(x)
        }
    }
    group.Wait()
}
"""
KINDS = "0123456789"  # of calls, in each

COMMANDS = {  # name → its file, its text, the compiler
    "c": ("t.c", C, ("gcc", "-O2", "-g", "-pthread", "-fexceptions")),
    "c unoptimised": ("t.c", C, ("gcc", "-O0", "-pthread", "-fexceptions")),
    "c plain": ("t.c", C, ("gcc", "-O2", "-pthread")),
    "c static": ("t.c", C, ("gcc", "-O2", "-static", "-pthread", "-fexceptions")),
    "c static-pie": ("t.c", C, ("gcc", "-O2", "-static-pie", "-pthread", "-fexceptions")),
    "c stripped": ("t.c", C, ("gcc", "-O2", "-s", "-rdynamic", "-pthread", "-fexceptions")),
    "c 32-bit": ("t.c", C, ("gcc", "-m32", "-O2", "-g", "-pthread")),
    "c 32-bit static": ("t.c", C, ("gcc", "-m32", "-O0", "-static", "-pthread")),
    "c++": ("t.cc", CPP, ("g++", "-std=c++20", "-O2", "-g", "-pthread")),
    "c++ static": ("t.cc", CPP, ("g++", "-std=c++20", "-O1", "-static", "-pthread")),
    "c++ stripped": ("t.cc", CPP, ("g++", "-std=c++20", "-O2", "-s", "-rdynamic", "-pthread")),
    "rust": ("t.rs", RUST, ("rustc", "-O", "-g")),
    "go": ("t.go", GO, ("go", "build")),
}
