/* burst COUNT PER_SECOND starts that many processes, each of which executes the program again, calls work() three times
   and getppid() once. */
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) void work(int number) { asm volatile("" :: "r"(number)); }
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}
int main(int count, char **words) {
  if (count == 2) {
    for (int i = 0; i < atoi(words[1]); i++) work(i);
    getppid();
    return 0;
  }
  double start = now();
  for (int i = 0; i < atoi(words[1]); i++) {
    while ((now() - start) * atoi(words[2]) < i) usleep(200);
    if (fork() == 0) {
      execl(words[0], words[0], "3", (char *)0);
      _exit(1);
    }
    while (waitpid(-1, 0, WNOHANG) > 0);
  }
  while (wait(0) > 0);
  return 0;
}
