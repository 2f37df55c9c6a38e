/* A disk with one unreadable place, as LD_PRELOAD library: reads of it fail with EIO, and reads that
   begin before it end there, as the kernel does it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static dev_t bad_device;
static ino_t bad_inode;
static off_t bad_from, bad_to;

int make_unreadable(const char *path, long from, long to) {
    struct stat found;
    if (stat(path, &found)) return -1;
    bad_device = found.st_dev; bad_inode = found.st_ino; bad_from = from; bad_to = to;
    return 0;
}

/* How much of a read is possible; -1: none of it. */
static ssize_t possible(int fd, off_t at, size_t size) {
    struct stat found;
    if (!bad_inode || fstat(fd, &found) || found.st_ino != bad_inode || found.st_dev != bad_device)
        return size;
    if (at + (off_t)size <= bad_from || at >= bad_to || at >= found.st_size) return size;
    if (at < bad_from) return bad_from - at;
    errno = EIO;
    return -1;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t read(int fd, void *to, size_t size) {
    REAL(read);
    ssize_t can = bad_inode ? possible(fd, lseek(fd, 0, SEEK_CUR), size) : (ssize_t)size;
    return can < 0 ? -1 : real(fd, to, can);
}
ssize_t pread(int fd, void *to, size_t size, off_t at) {
    REAL(pread);
    ssize_t can = possible(fd, at, size);
    return can < 0 ? -1 : real(fd, to, can, at);
}
ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
    REAL(pread64);
    ssize_t can = possible(fd, at, size);
    return can < 0 ? -1 : real(fd, to, can, at);
}
ssize_t sendfile(int out, int in, off_t *at, size_t size) {
    REAL(sendfile);
    ssize_t can = possible(in, at ? *at : lseek(in, 0, SEEK_CUR), size);
    return can < 0 ? -1 : real(out, in, at, can);
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) {
    REAL(sendfile64);
    ssize_t can = possible(in, at ? *at : lseek(in, 0, SEEK_CUR), size);
    return can < 0 ? -1 : real(out, in, at, can);
}
ssize_t copy_file_range(int in, off64_t *at, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(copy_file_range);
    ssize_t can = possible(in, at ? *at : lseek(in, 0, SEEK_CUR), size);
    return can < 0 ? -1 : real(in, at, out, to, can, flags);
}
