/* Waits for the GIL and holds it, and notes for how long: the oracle of sonde pygil. Loaded by ctypes.PyDLL. */
#include <time.h>
#include <unistd.h>

extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *state);

static long long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Let it go and take it again, so often; the nanoseconds of taking. */
long long hand_over(int rounds)
{
    long long waited = 0;

    while (rounds--) {
        void *state = PyEval_SaveThread();
        long long began;

        usleep(200); /* another takes it */
        began = now();
        PyEval_RestoreThread(state);
        waited += now() - began;
    }
    return waited;
}

/* Sleep, and do not let it go; the nanoseconds of that. */
long long sleep_holding(int us)
{
    long long began = now();

    usleep(us);
    return now() - began;
}
