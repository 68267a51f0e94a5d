/* Loaded into the program by LD_PRELOAD: ends it at the n-th call that changes what is on disk for good. KILL_AT says
   which one; KILL_AFTER lets that call happen first; KILL_FAIL makes it fail instead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

/* Only what has to do with files of a patch counts. */
static int due(const char *name) {
    const char *at = getenv("KILL_AT"), *only = getenv("KILL_NAMES");
    if (!at || (name && only && !strstr(name, only) && !strstr(name, ".journeyman-"))) return 0;
    return __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == atoi(at);
}

#define HOOK(name, call)                                            \
    int is_due = due(name);                                         \
    if (is_due && getenv("KILL_FAIL")) { errno = EIO; return -1; }  \
    if (is_due && !getenv("KILL_AFTER")) raise(SIGKILL);            \
    int result = (int)(call);                                       \
    if (is_due) raise(SIGKILL);                                     \
    return result;

int renameat(int a, const char *b, int c, const char *d) { HOOK(b, syscall(SYS_renameat2, a, b, c, d, 0)) }
int renameat2(int a, const char *b, int c, const char *d, unsigned f) { HOOK(b, syscall(SYS_renameat2, a, b, c, d, f)) }
int unlinkat(int a, const char *b, int f) { HOOK(b, syscall(SYS_unlinkat, a, b, f)) }
