// Shifts the wall clock of a process by the number of seconds that the file CLOCK_OFFSET_FILE holds, in its first eight
// bytes, at any moment. The monotonic clock goes on as it is.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset;

__attribute__((constructor)) static void find(void) {
	const char *name = getenv("CLOCK_OFFSET_FILE");
	int file = name ? open(name, O_RDONLY) : -1;
	if (file < 0)
		abort();
	offset = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
	if (offset == MAP_FAILED)
		abort();
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *offset;
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
	int failed = syscall(SYS_gettimeofday, now, zone);
	if (!failed && offset)
		now->tv_sec += *offset;
	return failed;
}

time_t time(time_t *to) {
	struct timeval now;
	gettimeofday(&now, NULL);
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}
