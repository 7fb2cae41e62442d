/* Power loss, simulated: a preload shim that writes a journal of everything a process does to files under one folder.
 *
 * The journal holds every write, truncation, creation, rename, removal and sync, in the order they happened, with the
 * bytes. powerloss.py replays a part of it as a disk would that lost power there. The shim changes nothing that the
 * process sees, except where POWERLOSS_SWALLOW says that syncs are not passed on (`files`, `folders` or `all`): then they
 * succeed without having happened, as with fsync switched off.
 *
 * POWERLOSS_FOLDER is the folder (absolute, without links), POWERLOSS_JOURNAL the journal, outside it. A record is six
 * 64-bit numbers (operation, inode, offset or size, length of path, of second path, of data) and what they announce.
 * One lock is held around each operation and its record, so that the order is true. Mapped writes are not seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

enum { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, SYNC_FOLDER, NOTE };
enum { DESCRIPTORS = 65536 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char watched[DESCRIPTORS];
static char folder[PATH_MAX];
static size_t folder_length;
static int journal = -1;
static int swallow_files, swallow_folders;
static pid_t owner;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

__attribute__((constructor)) static void begin(void) {
    const char *named = getenv("POWERLOSS_FOLDER"), *to = getenv("POWERLOSS_JOURNAL");
    const char *swallow = getenv("POWERLOSS_SWALLOW");
    if (!named || !to || strlen(named) >= sizeof folder) return;
    strcpy(folder, named);
    folder_length = strlen(folder);
    swallow_files = swallow && (!strcmp(swallow, "files") || !strcmp(swallow, "all"));
    swallow_folders = swallow && (!strcmp(swallow, "folders") || !strcmp(swallow, "all"));
    owner = getpid();
    journal = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal < 0) abort();
}

static void put(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        long wrote = syscall(SYS_write, journal, at, size);
        if (wrote < 0) {
            if (errno == EINTR) continue;
            abort();
        }
        at += wrote;
        size -= (size_t)wrote;
    }
}

static void record(int what, uint64_t inode, int64_t number, const char *path, const char *to, const void *data,
                   size_t size) {
    int kept = errno;
    uint64_t head[6] = {(uint64_t)what, inode, (uint64_t)number, path ? strlen(path) : 0, to ? strlen(to) : 0, size};
    put(head, sizeof head);
    if (path) put(path, head[3]);
    if (to) put(to, head[4]);
    if (size) put(data, size);
    errno = kept;
}

/* The absolute path of `path` at `at`, and whether it is the folder or below it. Relative parts are not resolved. */
static int inside(int at, const char *path, char *out) {
    if (journal < 0 || getpid() != owner || !path) return 0;
    if (path[0] == '/') {
        if (strlen(path) >= PATH_MAX) return 0;
        strcpy(out, path);
    } else {
        char link[64], base[PATH_MAX];
        ssize_t length;
        if (at == AT_FDCWD) strcpy(link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        length = readlink(link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
        if ((size_t)length + strlen(path) + 2 > PATH_MAX) return 0;
        memcpy(out, base, (size_t)length);
        out[length] = '/';
        strcpy(out + length + 1, path);
    }
    return !strncmp(out, folder, folder_length) && (out[folder_length] == '/' || !out[folder_length]);
}

static uint64_t inode_of(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) ? 0 : (uint64_t)status.st_ino;
}

static int is_watched(int descriptor) {
    return journal >= 0 && descriptor >= 0 && descriptor < DESCRIPTORS && watched[descriptor] && getpid() == owner;
}

static int opened(int at, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    struct stat status;
    int is_inside = inside(at, path, full), existed, descriptor;
    if (!is_inside) return (int)syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    existed = !fstatat(at, path, &status, 0);
    descriptor = (int)syscall(SYS_openat, at, path, flags, mode);
    if (descriptor >= 0 && descriptor < DESCRIPTORS) {
        watched[descriptor] = 1;
        if (!existed) record(CREATE, inode_of(descriptor), 0, full, NULL, NULL, 0);
        else if (flags & O_TRUNC) record(TRUNCATE, inode_of(descriptor), 0, NULL, NULL, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return descriptor;
}

static mode_t mode_of(int flags, va_list *arguments) {
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(*arguments, unsigned) : 0;
}

#define OPEN(name)                                                  \
    int name(const char *path, int flags, ...) {                    \
        va_list arguments;                                          \
        va_start(arguments, flags);                                 \
        mode_t mode = mode_of(flags, &arguments);                   \
        va_end(arguments);                                          \
        return opened(AT_FDCWD, path, flags, mode);                 \
    }
#define OPENAT(name)                                                \
    int name(int at, const char *path, int flags, ...) {            \
        va_list arguments;                                          \
        va_start(arguments, flags);                                 \
        mode_t mode = mode_of(flags, &arguments);                   \
        va_end(arguments);                                          \
        return opened(at, path, flags, mode);                       \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int descriptor) {
    int result;
    if (!is_watched(descriptor)) return REAL(close)(descriptor);
    pthread_mutex_lock(&lock);
    watched[descriptor] = 0;
    result = REAL(close)(descriptor);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t write(int descriptor, const void *data, size_t size) {
    ssize_t wrote;
    if (!is_watched(descriptor)) return REAL(write)(descriptor, data, size);
    pthread_mutex_lock(&lock);
    wrote = REAL(write)(descriptor, data, size);
    if (wrote > 0)
        record(WRITE, inode_of(descriptor), lseek(descriptor, 0, SEEK_CUR) - wrote, NULL, NULL, data, (size_t)wrote);
    pthread_mutex_unlock(&lock);
    return wrote;
}

static ssize_t written_at(int descriptor, const void *data, size_t size, off_t offset) {
    ssize_t wrote;
    if (!is_watched(descriptor)) return syscall(SYS_pwrite64, descriptor, data, size, offset);
    pthread_mutex_lock(&lock);
    wrote = syscall(SYS_pwrite64, descriptor, data, size, offset);
    if (wrote > 0) record(WRITE, inode_of(descriptor), offset, NULL, NULL, data, (size_t)wrote);
    pthread_mutex_unlock(&lock);
    return wrote;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    return written_at(descriptor, data, size, offset);
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
    return written_at(descriptor, data, size, offset);
}

/* Vectors are written a part at a time: shorter writes than were asked for are allowed. */
ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    if (!is_watched(descriptor)) return REAL(writev)(descriptor, parts, count);
    for (int place = 0; place < count; place++)
        if (parts[place].iov_len) return write(descriptor, parts[place].iov_base, parts[place].iov_len);
    return 0;
}
static ssize_t vector_at(int descriptor, const struct iovec *parts, int count, off_t offset) {
    for (int place = 0; place < count; place++)
        if (parts[place].iov_len) return written_at(descriptor, parts[place].iov_base, parts[place].iov_len, offset);
    return 0;
}
ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    return vector_at(descriptor, parts, count, offset);
}
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset) {
    return vector_at(descriptor, parts, count, offset);
}

static int truncated(int descriptor, off_t size) {
    int result;
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_ftruncate, descriptor, size);
    if (!result && is_watched(descriptor)) record(TRUNCATE, inode_of(descriptor), size, NULL, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}
int ftruncate(int descriptor, off_t size) { return truncated(descriptor, size); }
int ftruncate64(int descriptor, off64_t size) { return truncated(descriptor, size); }

/* A hole that is punched reads as zeros. */
static int allocated(int descriptor, int mode, off_t offset, off_t length) {
    static const char zeros[65536];
    int result;
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_fallocate, descriptor, mode, offset, length);
    if (!result && is_watched(descriptor)) {
        if (!(mode & FALLOC_FL_PUNCH_HOLE)) abort(); /* nobody does; it would have to be journaled */
        for (off_t done = 0; done < length; done += (off_t)sizeof zeros) {
            size_t part = length - done < (off_t)sizeof zeros ? (size_t)(length - done) : sizeof zeros;
            record(WRITE, inode_of(descriptor), offset + done, NULL, NULL, zeros, part);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}
int fallocate(int descriptor, int mode, off_t offset, off_t length) {
    return allocated(descriptor, mode, offset, length);
}
int fallocate64(int descriptor, int mode, off64_t offset, off64_t length) {
    return allocated(descriptor, mode, offset, length);
}

static int synced(int descriptor, long call) {
    struct stat status;
    int result = 0, is_folder;
    if (!is_watched(descriptor)) return (int)syscall(call, descriptor);
    pthread_mutex_lock(&lock);
    if (fstat(descriptor, &status)) abort();
    is_folder = S_ISDIR(status.st_mode);
    if (!(is_folder ? swallow_folders : swallow_files)) {
        char link[64], path[PATH_MAX];
        ssize_t length;
        result = (int)syscall(call, descriptor);
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        length = readlink(link, path, sizeof path - 1);
        path[length < 0 ? 0 : length] = 0;
        if (!result) record(is_folder ? SYNC_FOLDER : SYNC, status.st_ino, 0, is_folder ? path : NULL, NULL, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
int fsync(int descriptor) { return synced(descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return synced(descriptor, SYS_fdatasync); }

static int renamed(int from_at, const char *from, int to_at, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    int from_inside = inside(from_at, from, old), to_inside = inside(to_at, to, new), result;
    if (from_inside != to_inside) {
        errno = EXDEV;
        return -1;
    }
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_renameat2, from_at, from, to_at, to, 0);
    if (!result && from_inside) record(RENAME, 0, 0, old, new, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int from_at, const char *from, int to_at, const char *to) { return renamed(from_at, from, to_at, to); }

static int removed(int at, const char *path, int flags) {
    char full[PATH_MAX];
    int is_inside = inside(at, path, full), result;
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_unlinkat, at, path, flags);
    if (!result && is_inside) record(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, full, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}
int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return removed(at, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    struct stat status;
    if (lstat(path, &status)) return -1;
    return removed(AT_FDCWD, path, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
}

static int made(int at, const char *path, mode_t mode) {
    char full[PATH_MAX];
    int is_inside = inside(at, path, full), result;
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_mkdirat, at, path, mode);
    if (!result && is_inside) record(MKDIR, 0, 0, full, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}
int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return made(at, path, mode); }

/* What the process under test tells of itself, in order with everything else: acknowledgements. */
void powerloss_note(const char *text) {
    if (journal < 0 || getpid() != owner) return;
    pthread_mutex_lock(&lock);
    record(NOTE, 0, 0, text, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
}
