/* Loaded into the server by LD_PRELOAD: ends it at the n-th step of making a worktree, which is a process that it starts or
   a change below `.journeyman` that it makes itself. KILL_AT says which one; KILL_AFTER lets that step happen first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int steps;
static pid_t server;

__attribute__((constructor)) static void begin(void) { server = getpid(); }

static int due(const char *path) {
    const char *at = getenv("KILL_AT");
    if (!at || getpid() != server || (path && !strstr(path, "/.journeyman/"))) return 0;
    return __atomic_add_fetch(&steps, 1, __ATOMIC_SEQ_CST) == atoi(at);
}

#define STEP(path, type, call)                              \
    int is_due = due(path);                                 \
    if (is_due && !getenv("KILL_AFTER")) raise(SIGKILL);    \
    type result = call;                                     \
    if (is_due && getpid() == server) raise(SIGKILL);       \
    return result;

#define REAL(name) dlsym(RTLD_NEXT, name)

pid_t fork(void) { STEP(NULL, pid_t, ((pid_t (*)(void))REAL("fork"))()) }
int mkdir(const char *path, mode_t mode) { STEP(path, int, ((int (*)(const char *, mode_t))REAL("mkdir"))(path, mode)) }
int rmdir(const char *path) { STEP(path, int, ((int (*)(const char *))REAL("rmdir"))(path)) }
int symlink(const char *to, const char *path) { STEP(path, int, ((int (*)(const char *, const char *))REAL("symlink"))(to, path)) }
