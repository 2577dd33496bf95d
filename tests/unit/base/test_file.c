/* Mapped reads and atomic writes. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/door.h"
#include "fresh_dir.h"
#include "write_over.h"

static void assert_content(const char *path, const void *data, size_t n_bytes) {
    pl_file_map *map = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_file_map_open(path, &map, &err) != PL_OK) fail_msg("%s", err.message);
    assert_int_equal(map->n_bytes, n_bytes);
    assert_non_null(map->data);
    if (n_bytes > 0) assert_memory_equal(map->data, data, n_bytes);
    pl_file_map_unref(map);
}

static void test_file__reads_back_what_was_written(void **state) {
    (void)state;
    assert_int_equal(pl_file_write(in_dir("a"), "hello", 5, NULL), PL_OK);
    assert_content(in_dir("a"), "hello", 5);
    assert_int_equal(pl_file_write(in_dir("b"), NULL, 0, NULL), PL_OK);
    assert_content(in_dir("b"), "", 0);
    assert_int_equal(n_names(), 2); /* no temporary stays */
}

static void test_file_map__is_mapped_and_counted(void **state) {
    (void)state;
    pl_file_map *map = NULL;
    assert_int_equal(pl_file_write(in_dir("a"), "hello", 5, NULL), PL_OK);
    assert_int_equal(pl_file_map_open(in_dir("a"), &map, NULL), PL_OK);
    assert_false(map->heap);
    assert_string_equal(map->path, in_dir("a"));
    assert_ptr_equal(pl_file_map_ref(map), map);
    pl_file_map_unref(map);
    assert_memory_equal(map->data, "hello", 5); /* still there */
    assert_int_equal(write_over(in_dir("a"), "other", 5, NULL), PL_OK);
    assert_memory_equal(map->data, "hello", 5); /* a rename leaves the old file to its readers */
    pl_file_map_unref(map);
    pl_file_map_unref(NULL);
}

/* Only where the page table can be read: else "untouched" is never claimed, and nothing is lost. */
static void test_file_map__knows_whether_it_was_written_to(void **state) {
    (void)state;
    enum { N = 3 << 20 };
    char *zeros = calloc(1, N);
    assert_non_null(zeros);
    if (access("/proc/self/pagemap", R_OK) != 0) {
        assert_false(pl_file_map_untouched(zeros, N));
        free(zeros);
        print_message("no /proc/self/pagemap here\n");
        skip();
    }
    memset(zeros, 1, N);
    assert_int_equal(pl_file_write(in_dir("a"), zeros, N, NULL), PL_OK);
    const int fd = open(in_dir("a"), O_RDONLY);
    char *data = mmap(NULL, N, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_true(data != MAP_FAILED);
    assert_true(pl_file_map_untouched(data, N));
    for (size_t i = 0; i < N; i += 512)
        assert_int_equal(data[i], 1);
    assert_true(pl_file_map_untouched(data, N));
    assert_true(pl_file_map_untouched(data + 5, 0));
    for (size_t at = 7; at < N; at += N - 8) { /* in its first and in its last page */
        *(volatile char *)(data + at) = 1;     /* the same byte: the page is a copy all the same */
        assert_false(pl_file_map_untouched(data, N));
        assert_false(pl_file_map_untouched(data + at, 1));
        assert_true(pl_file_map_untouched(data + N / 2, N / 4));
        madvise(data, N, MADV_DONTNEED); /* the file's again */
        assert_true(pl_file_map_untouched(data, N));
    }
    assert_false(pl_file_map_untouched(zeros, N));
    munmap(data, N);
    close(fd);
    free(zeros);
}

static long resident_pages(void) {
    long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &total, &resident) != 2) resident = -1;
    if (f != NULL) fclose(f);
    return resident;
}

static uint64_t sum_of(const pl_file_map *map) {
    uint64_t sum = 0;
    for (size_t i = 0; i < map->n_bytes; i++)
        sum += map->data[i] * (i % 251 + 1);
    return sum;
}

static void test_file_map__forgets_pages_but_not_bytes(void **state) {
    (void)state;
    enum { N = (16 << 20) + 5 };
    uint8_t *bytes = malloc(N);
    assert_non_null(bytes);
    for (size_t i = 0; i < N; i++)
        bytes[i] = (uint8_t)(i * 7 >> 3);
    assert_int_equal(pl_file_write(in_dir("many"), bytes, N, NULL), PL_OK);
    free(bytes);
    pl_file_map *map = NULL;
    assert_int_equal(pl_file_map_open(in_dir("many"), &map, NULL), PL_OK);
    const uint64_t sum = sum_of(map);
    const long before = resident_pages(), page = sysconf(_SC_PAGESIZE);
    pl_file_map_forget(map, map->data + 100, 200); /* no whole page */
    pl_file_map_forget(map, map->data + 1, N - 2);
    const long after = resident_pages();
    if (before >= 0) assert_true(before - after > N / 2 / page);
    assert_int_equal(sum_of(map), sum);
    pl_file_map_forget(map, map->data + N, 0);
    assert_int_equal(sum_of(map), sum);
    pl_file_map_unref(map);
}

static void test_file_map__names_what_it_refuses(void **state) {
    (void)state;
    pl_file_map *map = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_file_map_open(in_dir("none"), &map, &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "none"));
    assert_int_equal(pl_file_map_open(dir, &map, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, dir));
    assert_int_equal(pl_file_map_open("", &map, &err), PL_E_NOT_FOUND);
    assert_null(map);
}

static void *feed_pipe(void *path) {
    FILE *f = fopen(path, "w");
    for (int i = 0; f != NULL && i < 50000; i++)
        fprintf(f, "%09d\n", i);
    if (f != NULL) fclose(f);
    return NULL;
}

static void test_file_map__reads_pipes_and_devices(void **state) {
    (void)state;
    pthread_t thread;
    pl_file_map *map = NULL;
    char *path = in_dir("fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, feed_pipe, path), 0);
    assert_int_equal(pl_file_map_open(path, &map, NULL), PL_OK);
    pthread_join(thread, NULL);
    assert_true(map->heap);
    assert_int_equal(map->n_bytes, 500000);
    assert_memory_equal(map->data + 499990, "000049999\n", 10);
    pl_file_map_unref(map);
    assert_content("/dev/null", "", 0);
    assert_int_equal(pl_file_map_open("/proc/self/status", &map, NULL), PL_OK);
    assert_true(map->n_bytes > 0); /* although its size says 0 */
    pl_file_map_unref(map);
}

static void test_file_writer__buffers_small_and_passes_big(void **state) {
    (void)state;
    enum { BIG = 3 << 20 };
    char *all = pl_malloc(2 * BIG + 300000);
    char *big = pl_malloc(BIG);
    size_t n = 0;
    pl_file_writer *w = NULL;
    assert_non_null(all);
    assert_non_null(big);
    for (int i = 0; i < BIG; i++)
        big[i] = (char)(i * 31 >> 3);
    assert_int_equal(pl_file_writer_open(in_dir("a"), &w, NULL), PL_OK);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(pl_file_writer_append(w, big + i, 3, NULL), PL_OK);
        memcpy(all + n, big + i, 3);
        n += 3;
        if (i != 10 && i != 77777) continue;
        assert_int_equal(pl_file_writer_append(w, big, BIG, NULL), PL_OK);
        memcpy(all + n, big, BIG);
        n += BIG;
    }
    assert_int_equal(pl_file_writer_append(w, NULL, 0, NULL), PL_OK);
    assert_true(pl_file_writer_offset(w) == n);
    assert_false(pl_path_exists(in_dir("a"))); /* not before the commit */
    assert_int_equal(pl_file_writer_commit_take(w, NULL), PL_OK);
    assert_content(in_dir("a"), all, n);
    pl_free(all);
    pl_free(big);
}

static void test_file_writer_abort__leaves_what_was_there(void **state) {
    (void)state;
    pl_file_writer *w = NULL;
    pl_dir *held = NULL;
    assert_int_equal(pl_file_write(in_dir("a"), "old", 3, NULL), PL_OK);
    assert_int_equal(pl_file_writer_open(in_dir("a"), &w, NULL), PL_E_EXISTS);
    assert_int_equal(pl_dir_open(dir, &held, NULL), PL_OK);
    assert_int_equal(pl_file_writer_open_in(held, "a", &w, NULL), PL_OK); /* plumb's own */
    assert_int_equal(pl_file_writer_append(w, "new", 3, NULL), PL_OK);
    assert_int_equal(n_names(), 2);
    pl_file_writer_abort_take(w);
    pl_file_writer_abort_take(NULL);
    pl_dir_close(held);
    assert_int_equal(n_names(), 1);
    assert_content(in_dir("a"), "old", 3);
}

static void test_file_writer__two_at_once_do_not_meet(void **state) {
    (void)state;
    pl_file_writer *a = NULL, *b = NULL;
    assert_int_equal(pl_file_writer_open(in_dir("x"), &a, NULL), PL_OK);
    assert_int_equal(pl_file_writer_open(in_dir("x"), &b, NULL), PL_OK);
    assert_int_equal(pl_file_writer_append(a, "aa", 2, NULL), PL_OK);
    assert_int_equal(pl_file_writer_append(b, "b", 1, NULL), PL_OK);
    assert_int_equal(pl_file_writer_commit_take(a, NULL), PL_OK);
    assert_content(in_dir("x"), "aa", 2);
    assert_int_equal(pl_file_writer_commit_take(b, NULL), PL_E_EXISTS);
    assert_content(in_dir("x"), "aa", 2); /* the first has it */
    assert_int_equal(n_names(), 1);
}

static void test_file_writer__reports_a_full_disk_and_cleans_up(void **state) {
    (void)state;
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1000000;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    pl_file_writer *w = NULL;
    pl_err err = PL_ERR_INIT;
    char *big = pl_calloc(1, 3 << 20);
    assert_int_equal(pl_file_writer_open(in_dir("a"), &w, NULL), PL_OK);
    setrlimit(RLIMIT_FSIZE, &small);
    const pl_status first = pl_file_writer_append(w, big, 3 << 20, &err);
    const pl_status second = pl_file_writer_append(w, "x", 1, NULL);
    const pl_status last = pl_file_writer_commit_take(w, NULL);
    const pl_status whole = pl_file_write(in_dir("a"), big, 3 << 20, NULL);
    /* small enough for the buffer: fails in the commit */
    const pl_status late = pl_file_write(in_dir("a"), big, 1040000, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, old);
    pl_free(big);
    assert_int_equal(first, PL_E_IO);
    assert_non_null(strstr(err.message, "/a'"));
    assert_int_equal(second, PL_E_IO);
    assert_int_equal(last, PL_E_IO);
    assert_int_equal(whole, PL_E_IO);
    assert_int_equal(late, PL_E_IO);
    assert_int_equal(n_names(), 0);
}

static void test_file_writer__writes_devices_in_place(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(pl_file_write("/dev/null", "x", 1, NULL), PL_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode)); /* not replaced by a file */
    assert_int_equal(pl_file_write("/dev/full", "x", 1, NULL), PL_E_IO);
}

static void test_file_writer__refuses_what_is_no_file(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_file_write(dir, "x", 1, &err), PL_E_INVALID);
    assert_int_equal(pl_file_write(in_dir("no/such"), "x", 1, &err), PL_E_IO);
    assert_non_null(strstr(err.message, "no/such"));
    assert_int_equal(pl_file_write("", "x", 1, &err), PL_E_INVALID);
    assert_int_equal(pl_file_write("/tmp/", "x", 1, &err), PL_E_INVALID);
}

static void test_file_writer__replaces_nothing_and_follows_no_link(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(pl_file_write(in_dir("real"), "1", 1, NULL), PL_OK);
    assert_int_equal(symlink("real", in_dir("link")), 0);
    assert_int_equal(symlink("nowhere", in_dir("dangling")), 0);
    assert_int_equal(pl_file_write(in_dir("real"), "22", 2, NULL), PL_E_EXISTS);
    assert_int_equal(pl_file_write(in_dir("link"), "22", 2, NULL), PL_E_EXISTS);
    assert_int_equal(pl_file_write(in_dir("dangling"), "22", 2, NULL), PL_E_EXISTS);
    assert_content(in_dir("real"), "1", 1);
    assert_int_equal(lstat(in_dir("nowhere"), &info), -1);
    assert_int_equal(n_names(), 3);
}

static void test_file_writer__takes_the_longest_names(void **state) {
    (void)state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    assert_int_equal(pl_file_write(in_dir(name), "x", 1, NULL), PL_OK);
    assert_content(in_dir(name), "x", 1);
}

static void test_file__survives_each_failing_allocation(void **state) {
    (void)state;
    int failures = 0;
    for (long n = 0;; n++) {
        pl_file_map *map = NULL;
        (void)unlink(in_dir("a"));
        pl_alloc_fail_after(n);
        pl_status st = pl_file_write(in_dir("a"), "hello", 5, NULL);
        if (st == PL_OK) st = pl_file_map_open(in_dir("a"), &map, NULL);
        if (st == PL_OK) {
            pl_file_map_unref(map);
            map = NULL;
            st = pl_file_map_open("/proc/self/status", &map, NULL);
        }
        pl_alloc_fail_after(-1);
        assert_int_equal(n_names(), pl_path_exists(in_dir("a")) ? 1 : 0);
        pl_file_map_unref(map);
        if (st == PL_OK) break;
        assert_int_equal(st, PL_E_MEMORY);
        failures++;
    }
    assert_in_range(failures, 6, 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file__reads_back_what_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_map__is_mapped_and_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_map__knows_whether_it_was_written_to, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_map__forgets_pages_but_not_bytes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_map__names_what_it_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_map__reads_pipes_and_devices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer__buffers_small_and_passes_big, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer_abort__leaves_what_was_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer__two_at_once_do_not_meet, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer__reports_a_full_disk_and_cleans_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer__writes_devices_in_place, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer__refuses_what_is_no_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer__replaces_nothing_and_follows_no_link,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_writer__takes_the_longest_names, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_file__survives_each_failing_allocation, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
