/* The content store: equal bytes once, checked reads, two writers, killed writers, garbage. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fresh_dir.h"
#include "store/store.h"
#include "store_kill.h"
#include "tensor_samples.h"
#include "write_over.h"

static pl_status gc_at(const char *path, bool dry_run, pl_store_gc_result *out, pl_err *err) {
    pl_dir *held = NULL;
    PL_TRY(pl_dir_open(path, &held, err));
    const pl_status st = pl_store_gc(held, dry_run, out, err);
    pl_dir_close(held);
    return st;
}

static pl_store *open_store(const char *name) {
    pl_store *s = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_store_open(in_dir(name), PL_STORE_WRITE, &s, &err) != PL_OK) fail_msg("%s", err.message);
    return s;
}

typedef struct tally {
    int n, n_bad;
    uint64_t n_bytes;
    char last[PL_BLOB_NAME_MAX];
} tally;

static pl_status count_one(void *ctx, const char *name, uint64_t n_bytes, const char *problem,
                           pl_err *err) {
    tally *t = ctx;
    (void)err;
    t->n++;
    t->n_bytes += n_bytes;
    t->n_bad += problem != NULL;
    snprintf(t->last, sizeof t->last, "%s", name);
    return PL_OK;
}

static tally verify(const char *path) {
    tally t = { 0 };
    pl_store *s = NULL;
    assert_int_equal(pl_store_open(path, PL_STORE_READ, &s, NULL), PL_OK);
    assert_int_equal(pl_store_each(s, true, count_one, &t, NULL), PL_OK);
    pl_store_close(s);
    return t;
}

static void blob_file(const char *store, const pl_blob *blob, char *out, size_t n) {
    char name[PL_BLOB_NAME_MAX];
    pl_blob_name(blob, name);
    snprintf(out, n, "%s/%s/blobs/%c/%s", dir, store, strrchr(name, '-')[1], name);
}

static void test_blob__names_round_trip(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "float",
        "float-4",
        "float-4-",
        "float-04-0123456789abcdef0123456789abcdef",
        "float-+4-0123456789abcdef0123456789abcdef",
        "flaot-4-0123456789abcdef0123456789abcdef",
        "float-4-0123456789ABCDEF0123456789abcdef",
        "float-4-0123456789abcdef0123456789abcde",
        "float-99999999999999999999-0123456789abcdef0123456789abcdef",
        "float-4-x-0123456789abcdef0123456789abcdef"
    };
    const pl_blob blob = { PL_BF16, UINT64_MAX, { 0x0123456789abcdefu, 0xfedcba9876543210u } };
    char name[PL_BLOB_NAME_MAX];
    pl_blob again;
    pl_blob_name(&blob, name);
    assert_string_equal(name, "bfloat16-18446744073709551615-fedcba98765432100123456789abcdef");
    assert_true(pl_blob_parse(name, &again) && pl_blob_equal(&blob, &again));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pl_blob_parse(bad[i], &again));
}

static void test_store__round_trips_every_dtype(void **state) {
    (void)state;
    pl_store *s = open_store("all");
    for (int committed = 0; committed < 2; committed++) { /* before the name is there, and after */
        for (int k = 1; k < PL_DTYPE_COUNT; k++) {
            for (int i = 0; i < N_SAMPLE_SHAPES; i++) {
                pl_tensor *t = sample_tensor((pl_dtype)k, &sample_shapes[i]), *got = NULL;
                pl_blob blob;
                pl_err err = PL_ERR_INIT;
                assert_int_equal(pl_store_put(s, t, &blob, NULL), PL_OK);
                assert_int_equal(blob.dtype, k);
                if (pl_store_get(s, &blob, t->rank, t->dims, &got, &err) != PL_OK)
                    fail_msg("%s", err.message);
                assert_true(pl_tensor_identical(t, got));
                pl_tensor_unref(got);
                pl_tensor_unref(t);
            }
        }
        assert_int_equal(pl_store_commit(s, NULL), PL_OK);
    }
    pl_store_close(s);
    assert_int_equal(verify(in_dir("all")).n_bad, 0);
}

static void test_store__keeps_equal_bytes_once(void **state) {
    (void)state;
    pl_blob a, b, c;
    pl_tensor *t = random_tensor(7, 1000), *u = NULL;
    const int64_t dims[2] = { 10, 100 }, strides[2] = { 1, 10 };
    for (int run = 0; run < 2; run++) {
        pl_store *s = open_store("once");
        assert_int_equal(pl_store_put(s, t, &a, NULL), PL_OK);
        assert_int_equal(pl_tensor_reshape(t, 2, dims, &u, NULL), PL_OK);
        assert_int_equal(pl_store_put(s, u, &b, NULL), PL_OK); /* another shape, the same bytes */
        assert_true(pl_blob_equal(&a, &b));
        pl_tensor_unref(u);
        assert_int_equal(pl_tensor_view(t, 2, dims, strides, 0, &u, NULL), PL_OK);
        assert_int_equal(pl_store_put(s, u, &c, NULL), PL_OK); /* transposed: other bytes */
        assert_false(pl_blob_equal(&a, &c));
        pl_tensor_unref(u);
        assert_int_equal(pl_store_commit(s, NULL), PL_OK);
        pl_store_close(s);
    }
    assert_int_equal(verify(in_dir("once")).n, 2);
    pl_tensor_unref(t);
}

static void test_store__tells_types_apart(void **state) {
    (void)state;
    const int64_t one = 1;
    const uint32_t bits = 0x3f800000;
    pl_store *s = open_store("types");
    pl_blob blobs[2];
    const pl_dtype dtypes[2] = { PL_F32, PL_I32 };
    for (int i = 0; i < 2; i++) {
        pl_tensor *t = NULL;
        assert_int_equal(pl_tensor_new(dtypes[i], 1, &one, &t, NULL), PL_OK);
        memcpy(t->data, &bits, 4);
        assert_int_equal(pl_store_put(s, t, &blobs[i], NULL), PL_OK);
        pl_tensor_unref(t);
    }
    assert_int_equal(pl_store_commit(s, NULL), PL_OK);
    assert_false(pl_blob_equal(&blobs[0], &blobs[1]));
    pl_store_close(s);
    assert_int_equal(verify(in_dir("types")).n, 2);
}

static void damage(const char *path, long at, int how) {
    if (how < 0) {
        assert_int_equal(truncate(path, at), 0);
        return;
    }
    const int fd = open(path, O_RDWR);
    unsigned char byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= (unsigned char)how;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void test_store__does_not_believe_damaged_blobs(void **state) {
    (void)state;
    pl_store *s = open_store("damaged");
    pl_tensor *t = random_tensor(1, 100), *u = random_tensor(2, 100), *got = NULL;
    pl_blob a, b;
    char path[600];
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_store_put(s, t, &a, NULL), PL_OK);
    assert_int_equal(pl_store_put(s, u, &b, NULL), PL_OK);
    assert_int_equal(pl_store_commit(s, NULL), PL_OK);
    blob_file("damaged", &a, path, sizeof path);
    damage(path, 399, 1); /* one bit */
    assert_int_equal(pl_store_get(s, &a, 1, t->dims, &got, &err), PL_E_FORMAT);
    assert_non_null(strstr(err.message, "damaged"));
    blob_file("damaged", &b, path, sizeof path);
    damage(path, 396, -1);
    assert_int_equal(pl_store_get(s, &b, 1, t->dims, &got, &err), PL_E_FORMAT);
    assert_int_equal(verify(in_dir("damaged")).n_bad, 2);
    /* A short one is seen by put, which heals it. */
    assert_false(pl_store_has(s, &b));
    assert_int_equal(pl_store_put(s, u, &b, NULL), PL_OK);
    assert_int_equal(pl_store_commit(s, NULL), PL_OK);
    assert_int_equal(pl_store_get(s, &b, 1, t->dims, &got, NULL), PL_OK);
    pl_tensor_unref(got);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pl_store_get(s, &b, 1, t->dims, &got, &err), PL_E_NOT_FOUND);
    const int64_t wrong = 99;
    assert_int_equal(pl_store_put(s, u, &b, NULL), PL_OK);
    assert_int_equal(pl_store_get(s, &b, 1, &wrong, &got, &err), PL_E_FORMAT);
    pl_tensor_unref(t);
    pl_tensor_unref(u);
    pl_store_close(s);
}

static void test_store__refuses_values_that_a_small_type_lacks(void **state) {
    (void)state;
    const int64_t n = 4;
    pl_store *s = open_store("small");
    pl_tensor *t = NULL, *got = NULL;
    pl_blob blob;
    assert_int_equal(pl_tensor_new(PL_U4, 1, &n, &t, NULL), PL_OK);
    memcpy(t->data, "\1\2\3\x77", 4); /* a hostile writer gave it the right hash */
    assert_int_equal(pl_store_put(s, t, &blob, NULL), PL_OK);
    assert_int_equal(pl_store_get(s, &blob, 1, &n, &got, NULL), PL_E_FORMAT);
    pl_tensor_unref(t);
    pl_store_close(s);
}

static void test_store__drops_what_was_not_committed(void **state) {
    (void)state;
    pl_store *s = open_store("dropped");
    pl_tensor *t = random_tensor(3, 10);
    pl_blob blob;
    pl_dir_list list;
    assert_int_equal(pl_store_put(s, t, &blob, NULL), PL_OK);
    assert_true(pl_store_has(s, &blob));
    pl_store_close(s);
    assert_int_equal(verify(in_dir("dropped")).n, 0);
    assert_int_equal(pl_dir_list_read(in_dir("dropped/tmp"), &list, NULL), PL_OK);
    assert_int_equal(list.n_names, 0);
    pl_dir_list_free(&list);
    pl_tensor_unref(t);
}

/* ---- indexes and garbage ---- */

static void test_store__gc_keeps_what_an_index_names(void **state) {
    (void)state;
    pl_store *s = open_store("gc");
    pl_store_entry entries[2] = { { .value = "a \"b\"", .rank = 1, .dims = { 64 } },
                                  { .value = "c", .rank = 2, .dims = { 8, 8 } } };
    pl_store_gc_result result;
    pl_store_index index;
    pl_err err = PL_ERR_INIT;
    pl_blob other;
    for (int i = 0; i < 3; i++) {
        pl_tensor *t = random_tensor((uint64_t)i, 64);
        assert_int_equal(pl_store_put(s, t, i < 2 ? &entries[i].blob : &other, NULL), PL_OK);
        pl_tensor_unref(t);
    }
    assert_int_equal(pl_store_index_write(s, "../evil", entries, 2, &err), PL_E_INVALID);
    assert_int_equal(pl_store_index_write(s, "run-1", entries, 2, &err), PL_OK);
    assert_int_equal(pl_store_index_read(s, "run-1", &index, &err), PL_OK);
    assert_int_equal(index.n_entries, 2);
    assert_string_equal(index.entries[0].value, "a \"b\"");
    assert_true(pl_blob_equal(&index.entries[1].blob, &entries[1].blob));
    assert_int_equal(index.entries[1].rank, 2);
    pl_store_index_release(&index);

    assert_int_equal(gc_at(in_dir("gc"), false, &result, &err), PL_E_IO); /* we write */
    assert_non_null(strstr(err.message, "in use"));
    pl_store_close(s);
    assert_int_equal(write_over(in_dir("gc/tmp/123-0123456789abcdef-7"), "x", 1, NULL), PL_OK);
    assert_int_equal(write_over(in_dir("gc/tmp/notes"), "x", 1, NULL), PL_OK); /* not ours */
    assert_int_equal(gc_at(in_dir("gc"), true, &result, &err), PL_OK);
    assert_int_equal(verify(in_dir("gc")).n, 3);
    assert_int_equal(gc_at(in_dir("gc"), false, &result, &err), PL_OK);
    assert_int_equal(result.n_kept, 2);
    assert_int_equal(result.n_removed, 1);
    assert_int_equal(result.bytes_removed, 256);
    assert_int_equal(result.n_temporaries, 1);
    assert_true(pl_path_exists(in_dir("gc/tmp/notes")));
    const tally left = verify(in_dir("gc"));
    assert_int_equal(left.n, 2);
    assert_int_equal(left.n_bad, 0);
}

static void test_store__gc_deletes_nothing_beside_a_bad_index(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[1]",
        "{\"plumb_index\":2,\"values\":[]}",
        "{\"plumb_index\":1}",
        "{\"plumb_index\":1,\"values\":[{\"value\":\"x\",\"blob\":\"float-4-0\",\"shape\":[]}]}",
        ("{\"plumb_index\":1,\"values\":[{\"value\":\"x\",\"blob\":"
         "\"float-4-0123456789abcdef0123456789abcdef\",\"shape\":[-1]}]}")
    };
    pl_store *s = open_store("badindex");
    pl_tensor *t = random_tensor(5, 10);
    pl_blob blob;
    assert_int_equal(pl_store_put(s, t, &blob, NULL), PL_OK);
    assert_int_equal(pl_store_commit(s, NULL), PL_OK);
    pl_store_close(s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pl_store_gc_result result;
        pl_err err = PL_ERR_INIT;
        const char *path = in_dir("badindex/index/x.json");
        assert_int_equal(write_over(path, bad[i], strlen(bad[i]), NULL), PL_OK);
        assert_int_not_equal(gc_at(in_dir("badindex"), false, &result, &err), PL_OK);
        assert_non_null(strstr(err.message, "x.json"));
        const tally found = verify(in_dir("badindex"));
        assert_int_equal(found.n, 2); /* the blob, and an index that is none */
        assert_int_equal(found.n_bad, 1);
    }
    pl_tensor_unref(t);
}

static void test_store__is_told_from_other_folders(void **state) {
    (void)state;
    pl_store *s = NULL;
    pl_err err = PL_ERR_INIT;
    pl_store_gc_result result;
    assert_int_equal(pl_store_open(in_dir("none"), PL_STORE_READ, &s, &err), PL_E_NOT_FOUND);
    assert_int_equal(pl_path_make_dirs(in_dir("other"), NULL), PL_OK);
    assert_int_equal(write_over(in_dir("other/thesis.tex"), "x", 1, NULL), PL_OK);
    assert_int_equal(pl_store_open(in_dir("other"), PL_STORE_READ, &s, &err), PL_E_FORMAT);
    assert_int_equal(pl_store_open(in_dir("other"), PL_STORE_WRITE, &s, &err), PL_E_EXISTS);
    assert_int_equal(gc_at(in_dir("other"), false, &result, &err), PL_E_FORMAT);
    assert_true(pl_path_exists(in_dir("other/thesis.tex")));
    pl_store_close(open_store("later"));
    assert_int_equal(write_over(in_dir("later/plumb-store"), "2\n", 2, NULL), PL_OK);
    assert_int_equal(pl_store_open(in_dir("later"), PL_STORE_WRITE, &s, &err), PL_E_UNSUPPORTED);
}

/* ---- trouble ---- */

static void test_store__says_when_it_cannot_write(void **state) {
    (void)state;
    pl_store *s = open_store("full");
    pl_tensor *t = random_tensor(9, 10000);
    pl_blob blob;
    pl_err err = PL_ERR_INIT;
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){ 1000, old.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small); /* as a full disk: writes end early */
    const pl_status st = pl_store_put(s, t, &blob, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(st, PL_E_IO);
    assert_non_null(strstr(err.message, "cannot write"));
    /* Nothing is lost, and the store goes on. */
    assert_int_equal(pl_store_put(s, t, &blob, &err), PL_OK);
    assert_int_equal(pl_store_commit(s, &err), PL_OK);
    pl_store_close(s);
    assert_int_equal(verify(in_dir("full")).n, 1);
    assert_int_equal(verify(in_dir("full")).n_bad, 0);
    s = NULL;
    assert_int_equal(pl_store_open("/proc/plumb-store", PL_STORE_WRITE, &s, &err), PL_E_IO);
    assert_int_equal(pl_store_open(in_dir("full"), PL_STORE_READ, &s, &err), PL_OK);
    assert_int_equal(pl_store_put(s, t, &blob, &err), PL_E_USAGE);
    assert_int_equal(pl_store_commit(s, &err), PL_E_USAGE);
    pl_store_close(s);
    pl_tensor_unref(t);
}

static void test_store__survives_every_failed_allocation(void **state) {
    (void)state;
    pl_tensor *t = random_tensor(11, 100);
    bool done = false;
    for (long n = 0; n < 500 && !done; n++) {
        pl_store *s = NULL;
        pl_blob blob;
        pl_err err = PL_ERR_INIT;
        pl_alloc_fail_after(n);
        pl_status st = pl_store_open(in_dir("alloc"), PL_STORE_WRITE, &s, &err);
        if (st == PL_OK) st = pl_store_put(s, t, &blob, &err);
        if (st == PL_OK) st = pl_store_commit(s, &err);
        pl_alloc_fail_after(-1);
        pl_store_close(s);
        done = st == PL_OK;
        if (!done) assert_int_equal(st, PL_E_MEMORY);
        if (pl_path_exists(in_dir("alloc/plumb-store")))
            assert_int_equal(verify(in_dir("alloc")).n_bad, 0);
    }
    assert_true(done);
    pl_tensor_unref(t);
}

/* Want of memory while a blob is checked says nothing of the blob. */
static void test_store__want_of_memory_is_no_damage(void **state) {
    (void)state;
    pl_tensor *t = random_tensor(12, 100);
    pl_store *s = NULL;
    pl_blob blob;
    size_t n_failed = 0;
    assert_int_equal(pl_store_open(in_dir("memory"), PL_STORE_WRITE, &s, NULL), PL_OK);
    assert_int_equal(pl_store_put(s, t, &blob, NULL), PL_OK);
    assert_int_equal(pl_store_commit(s, NULL), PL_OK);
    for (long n = 0; n < 100; n++) {
        tally found = { 0 };
        pl_alloc_fail_once(n);
        const pl_status st = pl_store_each(s, true, count_one, &found, NULL);
        pl_alloc_fail_once(-1);
        assert_int_equal(found.n_bad, 0);
        if (st != PL_OK) assert_int_equal(st, PL_E_MEMORY);
        n_failed += st != PL_OK;
    }
    assert_in_range(n_failed, 2, 99);
    pl_store_close(s);
    pl_tensor_unref(t);
}

/* ---- several writers ---- */

typedef struct job {
    const char *dir;
    uint64_t seed;
    int n;
} job;

/* Half of the tensors are common to all writers. */
static void write_many(void *ctx) {
    const job *j = ctx;
    pl_store *s = NULL;
    if (pl_store_open(j->dir, PL_STORE_WRITE, &s, NULL) != PL_OK) _exit(1);
    pl_store_entry *entries = calloc((size_t)j->n, sizeof *entries);
    for (int i = 0; i < j->n; i++) {
        pl_tensor *t = random_tensor(i % 2 == 0 ? (uint64_t)i : j->seed * 1000 + (uint64_t)i,
                                     1 + (i * 37) % 3000);
        entries[i] = (pl_store_entry){ .value = "v", .rank = 1, .dims = { t->dims[0] } };
        if (pl_store_put(s, t, &entries[i].blob, NULL) != PL_OK) _exit(2);
        if (i % 16 == 15 && pl_store_commit(s, NULL) != PL_OK) _exit(3);
        pl_tensor_unref(t);
    }
    char name[32];
    snprintf(name, sizeof name, "run-%d", (int)j->seed);
    if (pl_store_index_write(s, name, entries, (size_t)j->n, NULL) != PL_OK) _exit(4);
    free(entries);
    pl_store_close(s);
}

static void check_index(const char *path, const char *name) {
    pl_store *s = NULL;
    pl_store_index index;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_store_open(path, PL_STORE_READ, &s, NULL), PL_OK);
    if (pl_store_index_read(s, name, &index, &err) == PL_OK) {
        for (size_t i = 0; i < index.n_entries; i++) {
            const pl_store_entry *e = &index.entries[i];
            pl_tensor *t = NULL;
            if (pl_store_get(s, &e->blob, e->rank, e->dims, &t, &err) != PL_OK)
                fail_msg("%s", err.message);
            pl_tensor_unref(t);
        }
        pl_store_index_release(&index);
    } else {
        assert_int_equal(err.status, PL_E_NOT_FOUND);
    }
    pl_store_close(s);
}

static void test_store__bears_two_writing_processes(void **state) {
    (void)state;
    pid_t pids[2];
    const char *path = in_dir("two");
    for (int i = 0; i < 2; i++) {
        job j = { path, (uint64_t)i + 1, 200 };
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            write_many(&j);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    const tally t = verify(path);
    assert_int_equal(t.n, 300); /* 100 common, 100 each */
    assert_int_equal(t.n_bad, 0);
    check_index(path, "run-1");
    check_index(path, "run-2");
}

static void *put_some(void *ctx) {
    pl_store *s = ctx;
    for (int i = 0; i < 100; i++) {
        pl_tensor *t = random_tensor((uint64_t)i, 100);
        pl_blob blob;
        pl_tensor *got = NULL;
        if (pl_store_put(s, t, &blob, NULL) != PL_OK) return s;
        if (pl_store_get(s, &blob, 1, t->dims, &got, NULL) != PL_OK) return s;
        pl_tensor_unref(got);
        pl_tensor_unref(t);
    }
    return NULL;
}

static void test_store__bears_threads(void **state) {
    (void)state;
    pl_store *s = open_store("threads");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_some, s), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(pl_store_commit(s, NULL), PL_OK);
    pl_store_close(s);
    assert_int_equal(verify(in_dir("threads")).n, 100);
}

static void test_store__believes_nothing_of_a_killed_writer(void **state) {
    (void)state;
    const char *path = in_dir("killed");
    int n_done = 0;
    bool done = false;
    job whole = { in_dir("not-killed"), 1, 40 };
    const long n_calls = run_and_kill(write_many, &whole, -1, &done);
    if (n_calls < 0) {
        print_message("a child cannot be traced here\n");
        skip();
    }
    assert_true(done && n_calls > 80); /* a file each */
    for (int k = 0; k < n_kills(); k++) {
        job j = { path, (uint64_t)k + 1, 40 };
        /* The first one dies in any case; later ones have less to do, and may be done before. */
        run_and_kill(write_many, &j, (long)(pl_rng_at(5, 0, (uint64_t)k) % (uint64_t)n_calls),
                     &done);
        n_done += done;
        pl_store *s = NULL;
        char name[32];
        pl_store_gc_result result;
        /* The very first may have died before there was a store. */
        if (pl_store_open(path, PL_STORE_READ, &s, NULL) != PL_OK) continue;
        pl_store_close(s);
        assert_int_equal(verify(path).n_bad, 0);
        snprintf(name, sizeof name, "run-%d", k + 1);
        check_index(path, name);
        if (k % 10 == 9) assert_int_equal(gc_at(path, false, &result, NULL), PL_OK);
    }
    assert_true(n_done < n_kills());
    pl_store_gc_result result;
    assert_int_equal(gc_at(path, false, &result, NULL), PL_OK);
    assert_int_equal(verify(path).n_bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blob__names_round_trip),
        cmocka_unit_test(test_store__round_trips_every_dtype),
        cmocka_unit_test(test_store__keeps_equal_bytes_once),
        cmocka_unit_test(test_store__tells_types_apart),
        cmocka_unit_test(test_store__does_not_believe_damaged_blobs),
        cmocka_unit_test(test_store__refuses_values_that_a_small_type_lacks),
        cmocka_unit_test(test_store__drops_what_was_not_committed),
        cmocka_unit_test(test_store__gc_keeps_what_an_index_names),
        cmocka_unit_test(test_store__gc_deletes_nothing_beside_a_bad_index),
        cmocka_unit_test(test_store__is_told_from_other_folders),
        cmocka_unit_test(test_store__says_when_it_cannot_write),
        cmocka_unit_test(test_store__survives_every_failed_allocation),
        cmocka_unit_test(test_store__want_of_memory_is_no_damage),
        cmocka_unit_test(test_store__bears_two_writing_processes),
        cmocka_unit_test(test_store__bears_threads),
        cmocka_unit_test(test_store__believes_nothing_of_a_killed_writer),
    };
    return cmocka_run_group_tests_name("store", tests, set_up, tear_down);
}
