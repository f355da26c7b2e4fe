// Lives: many objects of one kind, all there at once, each ended in one of the ways in which it can end.
//
//   lives threads N            threads that end by returning, 32 at a time
//   lives exec N               processes whose second thread executes this program again
//   lives killed N             processes whose second thread sleeps when SIGKILL comes
//   lives tcp4|tcp6 N HOW      connections on the loopback device, held open together, and ended so:
//                              close, reset, shutdown, dup2, close_range, exit, kill, exec
//   lives unix N HOW           pairs of connected stream sockets
//   lives udp N HOW            connected sockets
//   lives nap K US             four threads nap0 to nap3 that sleep K times for so many microseconds each
//   lives each...              several of them, with "+" between them, one after the other
//
// Waits for a line on stdin before each step, if LIVES_ASKS is set. Says what it did on stdout: "WHAT N".
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) { perror(what); exit(2); }

static long check(const char *what, long result)
{
	if (result < 0) fail(what);
	return result;
}

// threads

static void *return_at_once(void *nothing) { return nothing; }

static void end_threads(long count)
{
	pthread_t some[32];
	for (long made = 0; made < count; made += 32) {
		long now = count - made < 32 ? count - made : 32;
		for (long i = 0; i < now; i++) if (pthread_create(&some[i], 0, return_at_once, 0)) fail("pthread_create");
		for (long i = 0; i < now; i++) pthread_join(some[i], 0);
	}
}

static void *execute_end(void *nothing)
{
	execl("/proc/self/exe", "lives", "end", (char *)0);
	fail("execl");
	return nothing;
}

static void *sleep_on(void *nothing)
{
	pause();
	return nothing;
}

static void end_processes(long count, void *(*body)(void *), int signal)
{
	for (long i = 0; i < count; i++) {
		pid_t child = check("fork", fork());
		if (!child) {
			pthread_t other;
			if (pthread_create(&other, 0, body, 0)) fail("pthread_create");
			if (signal) {
				usleep(300);
				kill(getpid(), signal);
			}
			pause();
		}
		waitpid(child, 0, 0);
	}
}

static long naps, nap_us;

static void *nap(void *number)
{
	char name[16];
	struct timespec span = {nap_us / 1000000, nap_us % 1000000 * 1000};
	snprintf(name, sizeof name, "nap%ld", (long)number);
	prctl(PR_SET_NAME, name);
	for (long i = 0; i < naps; i++) nanosleep(&span, 0);
	return 0;
}

static void take_naps(long count, long us)
{
	pthread_t four[4];
	naps = count, nap_us = us;
	for (long i = 0; i < 4; i++) if (pthread_create(&four[i], 0, nap, (void *)i)) fail("pthread_create");
	for (long i = 0; i < 4; i++) pthread_join(four[i], 0);
}

// sockets

static int *held;      // the descriptors of the ends that are ended as asked, then those of the others
static long how_many;  // of each

static void hold_inet(int family, int type, long count)
{
	struct sockaddr_in6 six = {AF_INET6, 0, 0, IN6ADDR_LOOPBACK_INIT, 0};
	struct sockaddr_in four = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
	struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
	socklen_t size = family == AF_INET ? sizeof four : sizeof six;
	int listener = check("socket", socket(family, type, 0)), one = 1;
	check("setsockopt", setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
	check("bind", bind(listener, address, size));
	check("getsockname", getsockname(listener, address, &size));
	if (type == SOCK_STREAM) check("listen", listen(listener, 128));
	for (long i = 0; i < count; i++) {
		if (type == SOCK_STREAM && i % 20000 == 19999) { // the ports of one address are 28,000
			close(listener);
			four.sin_port = six.sin6_port = 0;
			listener = check("socket", socket(family, type, 0));
			check("bind", bind(listener, address, size));
			check("getsockname", getsockname(listener, address, &size));
			check("listen", listen(listener, 128));
		}
		held[i] = check("socket", socket(family, type, 0));
		check("connect", connect(held[i], address, size));
		held[count + i] = type == SOCK_STREAM ? check("accept", accept(listener, 0, 0)) : -1;
	}
	close(listener);
}

static void hold_pairs(long count)
{
	for (long i = 0; i < count; i++) {
		int two[2];
		check("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, two));
		held[i] = two[0], held[count + i] = two[1];
	}
}

static void end_one_by_one(const char *how)
{
	struct linger at_once = {1, 0};
	int other = check("open", open("/dev/null", O_RDWR));
	for (long i = 0; i < how_many; i++) {
		int fd = held[i];
		if (!strcmp(how, "reset")) check("SO_LINGER", setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
		if (!strcmp(how, "shutdown")) shutdown(fd, SHUT_RDWR);
		if (!strcmp(how, "dup2")) check("dup2", dup2(other, fd));
		close(fd);
	}
	close(other);
}

static void end_all(const char *how)
{
	if (!strcmp(how, "close_range")) {
		int lowest = held[0], highest = held[0];
		for (long i = 1; i < how_many; i++) {
			if (held[i] < lowest) lowest = held[i];
			if (held[i] > highest) highest = held[i];
		}
		check("close_range", syscall(SYS_close_range, lowest, highest, 0)); // with it all that lie between
	} else if (!strcmp(how, "exec")) {
		for (long i = 0; i < how_many; i++) fcntl(held[i], F_SETFD, FD_CLOEXEC);
		for (long i = 0; i < how_many; i++) if (held[how_many + i] >= 0) fcntl(held[how_many + i], F_SETFD, FD_CLOEXEC);
		execute_end(0);
	} else if (!strcmp(how, "kill")) {
		kill(getpid(), SIGKILL);
	} else if (!strcmp(how, "exit")) {
		_exit(0);
	} else {
		end_one_by_one(how);
		for (long i = 0; i < how_many; i++) if (held[how_many + i] >= 0) close(held[how_many + i]);
	}
}

static void ask(void)
{
	char line[64];
	if (getenv("LIVES_ASKS") && !fgets(line, sizeof line, stdin)) exit(3);
}

static void live_sockets(const char *kind, long count, const char *how)
{
	pid_t child = check("fork", fork());
	if (!child) {
		struct rlimit limit = {1 << 20, 1 << 20};
		setrlimit(RLIMIT_NOFILE, &limit);
		held = calloc(2 * count, sizeof *held), how_many = count;
		if (!strcmp(kind, "unix")) hold_pairs(count);
		else hold_inet(strcmp(kind, "tcp6") ? AF_INET : AF_INET6, strcmp(kind, "udp") ? SOCK_STREAM : SOCK_DGRAM, count);
		ask();
		end_all(how);
		_exit(0);
	}
	waitpid(child, 0, 0);
}

static int live(int count, char **words)
{
	if (count < 2) return 0;
	long number = atol(words[1]);
	ask();
	if (!strcmp(words[0], "threads")) end_threads(number);
	else if (!strcmp(words[0], "exec")) end_processes(number, execute_end, 0);
	else if (!strcmp(words[0], "killed")) end_processes(number, sleep_on, SIGKILL);
	else if (!strcmp(words[0], "nap")) take_naps(number, atol(words[2]));
	else live_sockets(words[0], number, words[2]);
	printf("%s %ld\n", words[0], number);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	int from = 1;
	for (int i = 1; i <= argc; i++)
		if (i == argc || !strcmp(argv[i], "+")) {
			live(i - from, argv + from);
			from = i + 1;
		}
	return 0;
}
