/* Memory that takes a while to be read, a page of which another thread makes the contents (userfaultfd), and a wait for
 * the GIL. Loaded by ctypes.PyDLL. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *state);

static sem_t wanted;
static volatile int held;
static int descriptor;
static int delay_us;

static void *serve(void *unused)
{
    struct uffd_msg message;

    (void)unused;
    if (read(descriptor, &message, sizeof message) == sizeof message) {
        struct uffdio_zeropage page = {.range = {.start = message.arg.pagefault.address & ~4095ul, .len = 4096}};

        usleep(delay_us);
        ioctl(descriptor, UFFDIO_ZEROPAGE, &page);
    }
    return NULL;
}

/* Read such memory; 0, or -1 if the kernel has none. */
int read_slow_memory(int us)
{
    struct uffdio_api api = {.api = UFFD_API};
    pthread_t thread;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {.start = (unsigned long)page, .len = 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int value;

    delay_us = us;
    descriptor = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (descriptor < 0 || ioctl(descriptor, UFFDIO_API, &api) || ioctl(descriptor, UFFDIO_REGISTER, &range))
        return -1;
    pthread_create(&thread, NULL, serve, NULL);
    value = *(volatile char *)page;
    pthread_join(thread, NULL);
    close(descriptor);
    munmap(page, 4096);
    return value;
}

/* Take the GIL when another thread waits for it, and keep it asleep. */
void keep_gil(int us)
{
    void *state = PyEval_SaveThread();

    sem_wait(&wanted);
    PyEval_RestoreThread(state);
    held = 1;
    usleep(us);
    held = 0;
}

/* Let that thread have it, and take it again. */
void wait_for_gil(void)
{
    void *state = PyEval_SaveThread();

    sem_post(&wanted);
    while (!held)
        sched_yield();
    PyEval_RestoreThread(state);
}
