/* The traced side of the benchmarks. It is called nswork, and scripts filter by that name.
 *
 * nswork getppid N              N getppid system calls
 * nswork openat N               N openat system calls of eight paths that do not exist
 * nswork call N                 N calls of f(path, number)
 * nswork tcp N                  N loopback TCP connections, opened, accepted and closed
 * nswork stream N              N pieces of 512 bytes sent and received over one loopback TCP connection
 * nswork burst N SIZE USEC      N getppid calls, a pause of USEC after each SIZE
 * nswork pace N RATE           N getppid calls, RATE each second: what is due in each millisecond at once
 * nswork flood THREADS SPIN KIND
 *                               until killed: rounds of SPIN and a getppid call, or with KIND f a call of f(); prints for
 *                               each 5 ms of each thread: time, rounds, nanoseconds of the rounds that were timed whole
 * nswork stat N                 N calls of stat() of eight paths that do not exist
 * nswork exec N                 N processes that execute /bin/true, one after another
 * nswork files N FOLDER         N files made in FOLDER, written, read and removed
 * nswork dirty N FOLDER         N pages of a file in FOLDER, which are in memory, written; each 64 are written back
 * nswork disk N FILE            N reads of 4 KiB past the page cache, from FILE (a block device, or a file of 1 MiB)
 * nswork sync N FOLDER          N calls of fsync() for a file in FOLDER
 * nswork mount N                N times a tmpfs mounted and unmounted, in a mount namespace of its own
 * nswork kill N                 N calls of kill() of itself with no signal
 * nswork listen N               N sockets bound, listening and closed
 * nswork chroot N               N calls of chroot("/"), which ask for a capability
 * nswork lookup N               N calls of getaddrinfo() of a numeric address
 * nswork switch N               N round trips of a byte between two processes: two switches each
 * nswork time N                 prints the nanoseconds of a getppid call: of N times 20000 the best 500 in a row
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const paths[8] = {
	"/nowhere/one", "/nowhere/two/deep", "/nowhere/three", "/nowhere/four.txt",
	"/nowhere/five/six/seven", "/nowhere/eight", "/nowhere/nine.conf", "/nowhere/ten",
};

enum { BATCH = 20 };
static int calls_f;

__attribute__((noinline, used)) long f(const char *path, long number)
{
	__asm__ volatile("" : : "r"(path), "r"(number) : "memory");
	return number + 1;
}

static void getppids(long n)
{
	while (n-- > 0)
		syscall(SYS_getppid);
}

static void openats(long n)
{
	for (long i = 0; i < n; i++)
		syscall(SYS_openat, AT_FDCWD, paths[i & 7], O_RDONLY);
}

static void calls(long n)
{
	for (long i = 0; i < n; i++)
		f(paths[i & 7], i & 0xffff);
}

/* A listening socket of the loopback; its address. */
static int listening(struct sockaddr_in *address)
{
	socklen_t size = sizeof(*address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (listener < 0 || bind(listener, (void *)address, size) || listen(listener, 16) ||
	    getsockname(listener, (void *)address, &size))
		exit(1);
	return listener;
}

static int connected(const struct sockaddr_in *address)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (s < 0 || connect(s, (const void *)address, sizeof(*address)))
		exit(1);
	return s;
}

static void tcp(long n)
{
	struct sockaddr_in address;
	int listener = listening(&address);

	while (n-- > 0) {
		struct linger at_once = { 1, 0 };
		int s = connected(&address), c = accept(listener, NULL, NULL);

		setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)); /* no TIME_WAIT: ports are few */
		close(s);
		close(c);
	}
}

static void stream(long n)
{
	struct sockaddr_in address;
	int listener = listening(&address), s = connected(&address), c = accept(listener, NULL, NULL);
	char piece[512] = "";

	while (n-- > 0)
		if (send(s, piece, sizeof(piece), 0) != sizeof(piece) ||
		    recv(c, piece, sizeof(piece), MSG_WAITALL) != sizeof(piece))
			exit(1);
}

static void stats(long n)
{
	struct stat buffer;

	for (long i = 0; i < n; i++)
		stat(paths[i & 7], &buffer);
}

static void execs(long n)
{
	while (n-- > 0) {
		pid_t child = fork();
		if (child == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		waitpid(child, NULL, 0);
	}
}

static void files(long n, const char *folder)
{
	char text[128] = "";

	if (chdir(folder))
		exit(1);
	while (n-- > 0) {
		int fd = open("nsfile", O_RDWR | O_CREAT, 0600);

		if (write(fd, text, sizeof(text)) != sizeof(text) || pread(fd, text, sizeof(text), 0) != sizeof(text) ||
		    close(fd) || unlink("nsfile"))
			exit(1);
	}
}

static void dirty(long n, const char *folder)
{
	static char page[4096];
	int fd = chdir(folder) ? -1 : open("nsfile", O_RDWR | O_CREAT, 0600);

	if (ftruncate(fd, 64 * sizeof(page)))
		exit(1);
	for (long i = 0; i < n; i++)
		if (pwrite(fd, page, sizeof(page), (i & 63) * sizeof(page)) != sizeof(page) ||
		    ((i & 63) == 63 && sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)))
			exit(1);
	unlink("nsfile");
}

static void disk(long n, const char *path)
{
	static char block[4096] __attribute__((aligned(4096)));
	int fd = open(path, O_RDONLY | O_DIRECT);

	for (long i = 0; i < n; i++)
		if (pread(fd, block, sizeof(block), (i * 7 & 255) * sizeof(block)) != sizeof(block))
			exit(1);
}

static void syncs(long n, const char *folder)
{
	int fd = chdir(folder) ? -1 : open("nsfile", O_RDWR | O_CREAT, 0600);

	while (n-- > 0)
		if (fsync(fd))
			exit(1);
	unlink("nsfile");
}

static void mounts(long n)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		exit(1);
	while (n-- > 0)
		if (mount("nswork", "/mnt", "tmpfs", 0, NULL) || umount("/mnt"))
			exit(1);
}

static void kills(long n)
{
	while (n-- > 0)
		kill(getpid(), 0);
}

static void listens(long n)
{
	while (n-- > 0) {
		struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int s = socket(AF_INET, SOCK_STREAM, 0);

		if (s < 0 || bind(s, (void *)&address, sizeof(address)) || listen(s, 16) || close(s))
			exit(1);
	}
}

static void chroots(long n)
{
	while (n-- > 0)
		if (chroot("/"))
			exit(1);
}

static void lookups(long n)
{
	while (n-- > 0) {
		struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;

		if (getaddrinfo("127.0.0.1", NULL, &hints, &found))
			exit(1);
		freeaddrinfo(found);
	}
}

static void switches(long n)
{
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) || pipe(back))
		exit(1);
	pid_t child = fork();
	if (child == 0) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	while (n-- > 0)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			exit(1);
	close(there[1]);
	waitpid(child, NULL, 0);
}

static void bursts(long n, long size, long usec)
{
	struct timespec pause = { usec / 1000000, usec % 1000000 * 1000 };

	for (; n > 0; n -= size) {
		getppids(n < size ? n : size);
		nanosleep(&pause, NULL);
	}
}

static void paced(long n, long rate)
{
	struct timespec due;
	long each = rate / 1000;

	clock_gettime(CLOCK_MONOTONIC, &due);
	for (; n > 0; n -= each) {
		getppids(n < each ? n : each);
		due.tv_nsec += 1000000;
		if (due.tv_nsec >= 1000000000)
			due.tv_sec++, due.tv_nsec -= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void timed(long chunks)
{
	double best = 1e18;

	for (chunks *= 40; chunks-- > 0;) {
		double start = now();
		getppids(500);
		double each = (now() - start) / 500;
		if (each < best)
			best = each;
	}
	printf("%.2f\n", best);
}

/* A batch that took four times as long as is usual was interrupted by somebody else: it is not counted. */
static void *flood(void *spin)
{
	double usual = 1e9, slice = now(), sum = 0;
	long rounds = 0;

	for (;;) {
		double begin = now();
		for (int i = 0; i < BATCH; i++) {
			for (volatile long n = (long)spin; n > 0; n--)
				;
			if (calls_f)
				f(paths[0], i);
			else
				syscall(SYS_getppid);
		}
		double took = now() - begin;
		if (took < 4 * usual || calls_f) {
			rounds += BATCH;
			sum += took;
			usual = took < usual ? took : usual + (took - usual) / 64;
		}
		if (begin - slice > 5e6) {
			printf("%.4f %ld %.0f\n", begin / 1e9, rounds, sum);
			fflush(stdout);
			slice = begin, rounds = 0, sum = 0;
		}
	}
	return NULL;
}

static void floods(long threads, long spin)
{
	pthread_t id;

	while (threads-- > 0)
		pthread_create(&id, NULL, flood, (void *)spin);
	pause();
}

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 0;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "getppid"))
		getppids(n);
	else if (!strcmp(argv[1], "openat"))
		openats(n);
	else if (!strcmp(argv[1], "call"))
		calls(n);
	else if (!strcmp(argv[1], "tcp"))
		tcp(n);
	else if (!strcmp(argv[1], "stream"))
		stream(n);
	else if (!strcmp(argv[1], "stat"))
		stats(n);
	else if (!strcmp(argv[1], "exec"))
		execs(n);
	else if (!strcmp(argv[1], "files") && argc > 3)
		files(n, argv[3]);
	else if (!strcmp(argv[1], "dirty") && argc > 3)
		dirty(n, argv[3]);
	else if (!strcmp(argv[1], "disk") && argc > 3)
		disk(n, argv[3]);
	else if (!strcmp(argv[1], "sync") && argc > 3)
		syncs(n, argv[3]);
	else if (!strcmp(argv[1], "mount"))
		mounts(n);
	else if (!strcmp(argv[1], "kill"))
		kills(n);
	else if (!strcmp(argv[1], "listen"))
		listens(n);
	else if (!strcmp(argv[1], "chroot"))
		chroots(n);
	else if (!strcmp(argv[1], "lookup"))
		lookups(n);
	else if (!strcmp(argv[1], "switch"))
		switches(n);
	else if (!strcmp(argv[1], "burst") && argc > 4)
		bursts(n, atol(argv[3]), atol(argv[4]));
	else if (!strcmp(argv[1], "pace") && argc > 3)
		paced(n, atol(argv[3]));
	else if (!strcmp(argv[1], "flood") && argc > 4) {
		calls_f = argv[4][0] == 'f';
		floods(n, atol(argv[3]));
	} else if (!strcmp(argv[1], "time"))
		timed(n);
	else
		return 2;
	return 0;
}
