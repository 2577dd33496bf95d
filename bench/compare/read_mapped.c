/* A plain read of files through mmap: the yardstick for `plumb compare`. Every byte is loaded and
 * added up, by as many threads as asked for; prints seconds and a sum nobody needs.
 *   read_mapped THREADS FILE… */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, MAX_FILES = 16, MAX_THREADS = 64 };

typedef struct file {
    const unsigned char *data;
    size_t n;
} file;
static file files[MAX_FILES];
static int n_files;
static size_t n_chunks;
static size_t next_chunk;
static uint64_t total;

static uint64_t sum(const unsigned char *p, size_t n) {
    uint64_t s[8] = { 0 };
    const uint64_t *x = (const uint64_t *)(const void *)p;
    for (size_t i = 0; i + 8 <= n / 8; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] += x[i + (size_t)k];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

/* The same chunk of every file in turn, as a comparison reads them. */
static void *work(void *arg) {
    uint64_t s = 0;
    (void)arg;
    for (;;) {
        const size_t c = __atomic_fetch_add(&next_chunk, 1, __ATOMIC_RELAXED);
        if (c >= n_chunks) break;
        for (int f = 0; f < n_files; f++) {
            const size_t at = c * CHUNK;
            if (at >= files[f].n) continue;
            s += sum(files[f].data + at, files[f].n - at < CHUNK ? files[f].n - at : CHUNK);
        }
    }
    __atomic_fetch_add(&total, s, __ATOMIC_RELAXED);
    return NULL;
}

int main(int argc, char **argv) {
    const int threads = argc > 2 ? atoi(argv[1]) : 0;
    pthread_t id[MAX_THREADS];
    struct timespec t0, t1;
    if (threads < 1 || threads > MAX_THREADS || argc - 2 > MAX_FILES) return 2;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (n_files = 0; n_files < argc - 2; n_files++) {
        struct stat st;
        const int fd = open(argv[n_files + 2], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) != 0) return 1;
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (p == MAP_FAILED) return 1;
        files[n_files] = (file){ p, (size_t)st.st_size };
        if (((size_t)st.st_size + CHUNK - 1) / CHUNK > n_chunks)
            n_chunks = ((size_t)st.st_size + CHUNK - 1) / CHUNK;
    }
    for (int i = 1; i < threads; i++)
        pthread_create(&id[i], NULL, work, NULL);
    work(NULL);
    for (int i = 1; i < threads; i++)
        pthread_join(id[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    printf("%.6f %llu\n", (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec),
           (unsigned long long)total);
    return 0;
}
