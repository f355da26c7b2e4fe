// Makes a request of io_uring for each file: ring_target OPCODE PATH... (18 opens it, 21 is statx(), 36 unlinkat())
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **paths)
{
	struct io_uring_params setup = {0};
	int ring = syscall(SYS_io_uring_setup, 4, &setup);
	if (ring < 0)
		return 77;
	char *submissions = mmap(0, setup.sq_off.array + setup.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
	                         IORING_OFF_SQ_RING);
	struct io_uring_sqe *entry = mmap(0, setup.sq_entries * sizeof *entry, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
	                                  IORING_OFF_SQES);
	unsigned *tail = (unsigned *)(submissions + setup.sq_off.tail);
	unsigned *array = (unsigned *)(submissions + setup.sq_off.array);
	static struct statx result;
	int opcode = atoi(paths[1]);
	for (int i = 2; i < count; i++) {
		memset(entry, 0, sizeof *entry);
		entry->opcode = opcode;
		entry->fd = AT_FDCWD;
		entry->addr = (unsigned long)paths[i];
		if (opcode == IORING_OP_STATX) {
			entry->len = STATX_SIZE;
			entry->off = (unsigned long)&result;
		}
		array[*tail & (setup.sq_entries - 1)] = 0;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, ring, 1, i - 1, IORING_ENTER_GETEVENTS, 0, 0) != 1)
			return 1;
	}
	return 0;
}
