/*
 * Stands in front of libc, by LD_PRELOAD: a disk that fails.
 *
 * While the file FAULT_SWITCH exists, calls that write to a file below FAULT_FOLDER fail, after the first so many of
 * them; "SKIP ERRNO" stands in that file. The first failing write of a full disk writes a half, as a real one does.
 * FAULT_SWITCH.hit appears with the first failure.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long passed;

static int below(const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int ours(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* 0, or the errno with which this call fails; *first says whether no other has failed before it. */
static int failure(int *first) {
    const char *name = getenv("FAULT_SWITCH");
    long skip = 0;
    int error = 0;
    FILE *file = name ? fopen(name, "re") : NULL;
    pthread_mutex_lock(&lock);
    if (!file) {
        passed = 0;
    } else {
        if (fscanf(file, "%ld %d", &skip, &error) != 2) error = 0;
        *first = passed == skip;
        if (passed++ < skip) error = 0;
    }
    pthread_mutex_unlock(&lock);
    if (file) fclose(file);
    if (error) {
        char hit[PATH_MAX];
        snprintf(hit, sizeof hit, "%s.hit", name);
        int fd = (int)syscall(SYS_openat, AT_FDCWD, hit, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0) syscall(SYS_close, fd);
    }
    return error;
}

#define FAIL_IF(mine)                          \
    do {                                       \
        int first = 0, before = errno;         \
        int error = (mine) ? failure(&first) : 0; \
        errno = before;                        \
        if (error) {                           \
            errno = error;                     \
            return -1;                         \
        }                                      \
    } while (0)

ssize_t write(int fd, const void *bytes, size_t length) {
    int first = 0, before = errno;
    int error = ours(fd) ? failure(&first) : 0;
    errno = before;
    if (error == ENOSPC && first && length > 1) return syscall(SYS_write, fd, bytes, length / 2);
    if (error) {
        errno = error;
        return -1;
    }
    return syscall(SYS_write, fd, bytes, length);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    FAIL_IF(ours(fd));
    return syscall(SYS_pwrite64, fd, bytes, length, at);
}

int fsync(int fd) {
    FAIL_IF(ours(fd));
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    FAIL_IF(ours(fd));
    return (int)syscall(SYS_fdatasync, fd);
}

int ftruncate64(int fd, off64_t length) {
    FAIL_IF(ours(fd));
    return (int)syscall(SYS_ftruncate, fd, length);
}

int rename(const char *from, const char *to) {
    FAIL_IF(below(from));
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    FAIL_IF((flags & O_CREAT) && below(path));
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
