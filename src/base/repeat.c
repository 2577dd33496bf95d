/* Large constant memory: one chunk in a memory file, mapped again and again.
 *
 * Weights that a model makes by ConstantOfShape are hundreds of megabytes of one number. Filling
 * them costs more than computing with them: every page is cleared, written and read from memory. */
#include "base/repeat.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/size.h"

static const size_t large = (size_t)8 << 20;     /* smaller ones cost more mapped than filled */
static const size_t chunk_min = (size_t)2 << 20; /* a multiple of every page size */
static const size_t n_chunks_max = 64; /* the kernel allows 65,530 mappings in a process */

/* The bytes of the chunk, a multiple of chunk_min; 0 = too small, or too large to be meant. */
static size_t chunk_bytes(size_t n_bytes) {
    if (n_bytes < large || n_bytes > SIZE_MAX / 4) return 0;
    size_t chunk = chunk_min;
    while (n_bytes / chunk >= n_chunks_max)
        chunk *= 2;
    return chunk;
}

static size_t in_chunks(size_t n_bytes, size_t chunk) {
    return (n_bytes + chunk - 1) / chunk * chunk;
}

void pl_fill(void *to, const void *element, size_t element_bytes, size_t n) {
    size_t done = 1;
    if (n == 0) return;
    memcpy(to, element, element_bytes);
    while (done < n) { /* what is there doubles, so that long copies do the work */
        const size_t more = done < n - done ? done : n - done;
        memcpy((char *)to + done * element_bytes, to, more * element_bytes);
        done += more;
    }
}

/* A memory file of one filled chunk; -1 on failure. */
static int chunk_file(const void *element, size_t element_bytes, size_t chunk) {
    const int fd = memfd_create("plumb-repeat", MFD_CLOEXEC);
    if (fd < 0) return -1;
    if (ftruncate(fd, (off_t)chunk) == 0) {
        void *p = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED) {
            pl_fill(p, element, element_bytes, chunk / element_bytes);
            munmap(p, chunk);
            return fd;
        }
    }
    close(fd);
    return -1;
}

static void *map_chunks(int fd, size_t chunk, size_t n_bytes) {
    const int both = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_NORESERVE;
    char *p = mmap(NULL, n_bytes, PROT_NONE, kind | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    for (size_t at = 0; at < n_bytes; at += chunk) {
        if (mmap(p + at, chunk, both, kind | MAP_FIXED, fd, 0) == MAP_FAILED) {
            munmap(p, n_bytes);
            return NULL;
        }
    }
    return p;
}

void *pl_repeat_alloc(const void *element, size_t element_bytes, size_t n) {
    size_t n_bytes;
    if (!pl_size_mul(n, element_bytes, &n_bytes)) return NULL;
    const size_t chunk = chunk_bytes(n_bytes);
    if (chunk == 0 || !pl_may_allocate(n_bytes)) return NULL;
    const int fd = chunk_file(element, element_bytes, chunk);
    if (fd < 0) return NULL;
    void *p = map_chunks(fd, chunk, in_chunks(n_bytes, chunk));
    close(fd);
    return p;
}

void pl_repeat_free(void *p, size_t n_bytes) {
    if (p != NULL) munmap(p, in_chunks(n_bytes, chunk_bytes(n_bytes)));
}
