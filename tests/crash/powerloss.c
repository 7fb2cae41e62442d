/* Logs every change that a process makes under one directory, and every sync, in order, so that a test can replay what a
 * power loss would have left: only what was synced. Preloaded; the directory is MN_POWER_DIR, the log MN_POWER_LOG. With
 * MN_POWER_NOSYNC set, syncs are left out of the log: then acknowledged writes must be lost, which shows that the test can
 * tell.
 *
 * A record is: kind (1 byte), path length and second length (4 bytes each), offset (8 bytes), path, second. Kinds:
 * O created, W written (second is the bytes), T truncated to offset, S synced, D directory synced, R renamed (second is the
 * new path), U unlinked, M directory made.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 4096
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *paths[FDS];
static char is_dir[FDS];
static int log_fd = -1;
static const char *root;
static size_t root_len;

static void start(void) {
  if (log_fd >= 0) return;
  root = getenv("MN_POWER_DIR");
  const char *name = getenv("MN_POWER_LOG");
  if (!root || !name) return;
  root_len = strlen(root);
  log_fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int watched(const char *path) { return root && path && strncmp(path, root, root_len) == 0; }

static void put(char kind, const char *path, const void *second, uint32_t second_len, int64_t offset) {
  uint32_t path_len = (uint32_t)strlen(path);
  char head[17];
  head[0] = kind;
  memcpy(head + 1, &path_len, 4);
  memcpy(head + 5, &second_len, 4);
  memcpy(head + 9, &offset, 8);
  struct iovec parts[3] = {{head, 17}, {(void *)path, path_len}, {(void *)second, second_len}};
  if (syscall(SYS_writev, log_fd, parts, 3) != (long)(17 + path_len + second_len)) abort();
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); \
  start();

static int opened(int fd, const char *path, int flags, int existed) {
  if (fd < 0 || fd >= FDS || !watched(path)) return fd;
  struct stat st;
  free(paths[fd]);
  paths[fd] = strdup(path);
  is_dir[fd] = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
  if ((flags & O_CREAT) && !existed) put('O', path, "", 0, 0);
  if ((flags & O_TRUNC) && existed) put('T', path, "", 0, 0);
  return fd;
}

static int exists(const char *path) { return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name) \
    va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
    if (!watched(path)) return real(path, flags, mode); \
    pthread_mutex_lock(&lock); \
    int existed = exists(path); \
    int fd = opened(real(path, flags, mode), path, flags, existed); \
    pthread_mutex_unlock(&lock); \
    return fd; \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int at, const char *path, int flags, ...) { \
    REAL(name) \
    va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
    if (!watched(path)) return real(at, path, flags, mode); \
    pthread_mutex_lock(&lock); \
    int existed = exists(path); \
    int fd = opened(real(at, path, flags, mode), path, flags, existed); \
    pthread_mutex_unlock(&lock); \
    return fd; \
  }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  REAL(close)
  pthread_mutex_lock(&lock);
  if (fd >= 0 && fd < FDS && paths[fd]) { free(paths[fd]); paths[fd] = NULL; }
  pthread_mutex_unlock(&lock);
  return real(fd);
}

#define CHANGE(fd, call, record) \
  if (fd < 0 || fd >= FDS || !paths[fd]) return call; \
  pthread_mutex_lock(&lock); \
  __typeof__(call) done = call; \
  if (done >= 0 && paths[fd]) { record; } \
  pthread_mutex_unlock(&lock); \
  return done;

ssize_t write(int fd, const void *data, size_t size) {
  REAL(write)
  if (fd < 0 || fd >= FDS || !paths[fd]) return real(fd, data, size);
  pthread_mutex_lock(&lock);
  off_t at = (fcntl(fd, F_GETFL) & O_APPEND) ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
  ssize_t done = real(fd, data, size);
  if (done > 0 && paths[fd]) put('W', paths[fd], data, (uint32_t)done, at);
  pthread_mutex_unlock(&lock);
  return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  REAL(pwrite) CHANGE(fd, real(fd, data, size, at), put('W', paths[fd], data, (uint32_t)done, at))
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  REAL(pwrite64) CHANGE(fd, real(fd, data, size, at), put('W', paths[fd], data, (uint32_t)done, at))
}
int ftruncate(int fd, off_t size) { REAL(ftruncate) CHANGE(fd, real(fd, size), put('T', paths[fd], "", 0, size)) }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64) CHANGE(fd, real(fd, size), put('T', paths[fd], "", 0, size)) }

static void synced(int fd) {
  if (!getenv("MN_POWER_NOSYNC")) put(is_dir[fd] ? 'D' : 'S', paths[fd], "", 0, 0);
}
int fsync(int fd) { REAL(fsync) CHANGE(fd, real(fd), synced(fd)) }
int fdatasync(int fd) { REAL(fdatasync) CHANGE(fd, real(fd), synced(fd)) }

#define NAMED(call, record, path) \
  if (!watched(path)) return call; \
  pthread_mutex_lock(&lock); \
  int done = call; \
  if (done == 0) { record; } \
  pthread_mutex_unlock(&lock); \
  return done;

int rename(const char *old, const char *new) {
  REAL(rename) NAMED(real(old, new), put('R', old, new, (uint32_t)strlen(new), 0), old)
}
int renameat(int a, const char *old, int b, const char *new) {
  REAL(renameat) NAMED(real(a, old, b, new), put('R', old, new, (uint32_t)strlen(new), 0), old)
}
int unlink(const char *path) { REAL(unlink) NAMED(real(path), put('U', path, "", 0, 0), path) }
int unlinkat(int at, const char *path, int flags) { REAL(unlinkat) NAMED(real(at, path, flags), put('U', path, "", 0, 0), path) }
int remove(const char *path) { REAL(remove) NAMED(real(path), put('U', path, "", 0, 0), path) }
int mkdir(const char *path, mode_t mode) { REAL(mkdir) NAMED(real(path, mode), put('M', path, "", 0, 0), path) }
