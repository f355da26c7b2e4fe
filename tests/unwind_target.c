/* Notes its own stack, as the C library's backtrace() sees it, at each close() of a number that is no descriptor: the
 * oracle of dw_ustack.
 *
 * usage: unwind_target OUTPUT ROUNDS
 *
 * OUTPUT gets a line for each such call: its number, then return addresses in hexadecimal, innermost first, from the
 * caller of the function that makes the call on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PART __attribute__((noinline))
#define FIRST (1 << 20)

static FILE *output;
static int next = FIRST;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int sink;

PART int note(int n)
{
    void *frames[200];
    int count = backtrace(frames, 200);
    int number = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    fprintf(output, "%d", number);
    for (int i = 1; i < count; i++)
        fprintf(output, " %lx", (unsigned long)frames[i]);
    fputc('\n', output);
    pthread_mutex_unlock(&lock);
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_close), "D"((long)number) : "rcx", "r11", "memory");
#else
    register long result __asm__("x0") = number, call __asm__("x8") = SYS_close;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(call) : "memory");
#endif
    return n + (int)(result & 1);
}

PART int plain(int n) { return n ? plain(n - 1) + 1 : note(n) + 1; }
PART int with_array(int n) { volatile char room[3000]; memset((void *)room, n, sizeof room); return note(room[n]) + 1; }
PART int with_alloca(int n)
{
    char *p = __builtin_alloca(n * 16);
    memset(p, 1, n * 16);
    return with_array(p[3]) + p[n];
}
#ifdef __x86_64__
#define REALIGNED __attribute__((force_align_arg_pointer))
#else
#define REALIGNED
#endif
PART REALIGNED int aligned(int n)
{
    volatile char room[100] __attribute__((aligned(64)));
    room[n & 63] = n;
    return plain(n & 7) + room[n & 63];
}
PART int large(int n) { volatile char room[40000]; memset((void *)room, n, sizeof room); return note(room[n]) + 1; }
PART int many(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{
    return plain(a & 3) + b * c + d * e + f * g + h * i;
}
PART int pushes(int a) { return many(a, 2, 3, 4, 5, 6, 7, 8, a) + many(1, a, 2, 3, 4, 5, 6, a, 8); }
static int compare(const void *a, const void *b)
{
    return with_alloca((*(const int *)a & 7) + 7) + *(const int *)a - *(const int *)b;
}
PART int sorter(int n)
{
    int v[8];
    for (int i = 0; i < 8; i++)
        v[i] = (n * 7 + i * 5) % 11;
    qsort(v, 8, sizeof *v, compare);
    return v[0] + 1;
}
static int find(const void *a, const void *b) { return pushes(*(const int *)a - *(const int *)b), *(const int *)a - *(const int *)b; }
PART int searcher(int n)
{
    int v[4] = { 1, 2, 3, 4 };
    return bsearch(&n, v, 4, sizeof *v, find) != NULL;
}
static void visit(const void *node, VISIT which, int depth) { (void)node; if (which != endorder) sink += plain(depth & 3); }
static int order(const void *a, const void *b) { return (a > b) - (a < b); }
PART int tree(int n)
{
    static int numbers[16];
    void *root = NULL;
    for (int i = 0; i < 4 + (n & 3); i++)
        tsearch(&numbers[i], &root, order);
    twalk(root, visit);
    while (root)
        tdelete(*(int **)root, &root, order);
    return n;
}
static void handler(int signal) { sink = note(signal) + 1; }
PART int signalled(int n) { raise(SIGUSR1); return n; }
PART int on_other_stack(int n) { raise(SIGUSR2); return n; }
PART int faults(int n)
{
    static char code[] = { 1 };
    volatile char *p = NULL;
    (void)code;
    if (n & 1)
        return signalled(n);
    return p == NULL ? on_other_stack(n) : *p;
}
static int (*const parts[])(int) = { plain, with_alloca, aligned, large, pushes, sorter, searcher, tree, faults, with_array };

static void *work(void *rounds)
{
    for (long i = 0; i < (long)rounds; i++)
        for (unsigned at = 0; at < sizeof parts / sizeof *parts; at++)
            sink += parts[at]((int)(i & 15) + 1);
    return NULL;
}

int main(int argc, char **argv)
{
    static char room[1 << 16];
    stack_t other = { .ss_sp = room, .ss_size = sizeof room };
    struct sigaction own = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    long rounds = argc > 2 ? atol(argv[2]) : 1;
    void *first[4];
    pthread_t thread;
    backtrace(first, 4); /* loads what it needs */
    if (argc < 2 || !(output = fopen(argv[1], "w")))
        return 1;
    signal(SIGUSR1, handler);
    sigaltstack(&other, NULL);
    sigaction(SIGUSR2, &own, NULL);
    usleep(500000); /* a file is known a moment after it was first met */
    work((void *)rounds);
    pthread_create(&thread, NULL, work, (void *)rounds);
    work((void *)rounds);
    pthread_join(thread, NULL);
    return fclose(output);
}
