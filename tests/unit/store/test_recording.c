/* Recordings: every type and shape there and back, checked by a reader that is not plumb's;
 * threads, kills, full disks; hostile files. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "fresh_dir.h"
#include "store/blob.h"
#include "store/recording.h"
#include "store_kill.h"
#include "strict_safetensors.h"
#include "tensor_samples.h"
#include "write_over.h"

static pl_recorder *open_recorder(const char *path, const pl_recorder_options *options) {
    pl_recorder *r = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_recorder_open(path, options, &r, &err) != PL_OK) fail_msg("%s", err.message);
    return r;
}

static void put(pl_recorder *r, const char *name, const pl_tensor *t) {
    pl_err err = PL_ERR_INIT;
    if (pl_recorder_put(r, &(pl_record_info){ .value = name }, t, &err) != PL_OK)
        fail_msg("%s", err.message);
}

static void commit(pl_recorder *r) {
    pl_err err = PL_ERR_INIT;
    if (pl_recorder_commit_take(r, &err) != PL_OK) fail_msg("%s", err.message);
}

static pl_recording *open_recording(const char *path) {
    pl_recording *rec = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_recording_open(path, &rec, &err) != PL_OK) fail_msg("%s", err.message);
    return rec;
}

static pl_tensor *get(const pl_recording *rec, const char *key) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    const pl_record *r = pl_recording_find(rec, key);
    assert_non_null(r);
    if (pl_recording_read(rec, r, &t, &err) != PL_OK) fail_msg("%s", err.message);
    return t;
}

static void check_strictly(const char *path, strict_file *f) {
    const char *problem = strict_open(path, f);
    if (problem != NULL) fail_msg("%s: %s", path, problem);
}

static int64_t count_packed(const strict_file *f) {
    int64_t n = 0;
    for (int i = 0; i < f->n_metadata; i++)
        n += strncmp(f->metadata[i][0], "plumb.dtype.", 12) == 0;
    return n;
}

/* ---- there and back ---- */

static void test_recording__round_trips_every_dtype(void **state) {
    (void)state;
    for (int named = 0; named < 2; named++) {
        const char *path = in_dir(named ? "named.safetensors" : "all.safetensors");
        pl_tensor *tensors[PL_DTYPE_COUNT][N_SAMPLE_SHAPES];
        char name[80];
        pl_recorder *r = open_recorder(path, &(pl_recorder_options){ .named_temporary = named });
        for (int k = 1; k < PL_DTYPE_COUNT; k++) {
            for (int i = 0; i < N_SAMPLE_SHAPES; i++) {
                tensors[k][i] = sample_tensor((pl_dtype)k, &sample_shapes[i]);
                snprintf(name, sizeof name, "%s/\"%d\"\n", pl_dtype_name((pl_dtype)k), i);
                put(r, name, tensors[k][i]);
            }
        }
        assert_false(pl_path_exists(path)); /* not before the commit */
        commit(r);
        pl_recording *rec = open_recording(path);
        assert_string_equal(rec->format, "plumb");
        assert_int_equal(rec->n_records, (PL_DTYPE_COUNT - 1) * N_SAMPLE_SHAPES);
        assert_int_equal(pl_recording_check(rec, NULL), PL_OK);
        strict_file f;
        check_strictly(path, &f);
        for (int k = 1; k < PL_DTYPE_COUNT; k++) {
            for (int i = 0; i < N_SAMPLE_SHAPES; i++) {
                snprintf(name, sizeof name, "%s/\"%d\"\n", pl_dtype_name((pl_dtype)k), i);
                pl_tensor *t = get(rec, name);
                const strict_tensor *s = strict_find(&f, name);
                assert_true(pl_tensor_identical(t, tensors[k][i]));
                assert_non_null(s);
                if (k != PL_STRING && t->n_elements > 0)
                    assert_memory_equal(f.bytes + f.data_start + s->begin, t->data,
                                        pl_tensor_bytes(t));
                pl_tensor_unref(t);
                pl_tensor_unref(tensors[k][i]);
            }
        }
        /* 10 types that the format lacks; strings are no such type for it. */
        assert_int_equal(count_packed(&f), 10 * N_SAMPLE_SHAPES);
        assert_string_equal(strict_meta(&f, "plumb.dtype.int4/\"4\"\n"), "int4");
        strict_close(&f);
        pl_recording_close(rec);
    }
    assert_int_equal(n_names(), 2); /* no temporary is left */
}

static void test_recording__keeps_what_it_is_told(void **state) {
    (void)state;
    const char *path = in_dir("told.safetensors");
    pl_recorder *r = open_recorder(path, NULL);
    int64_t ranges[] = { 0, 1, 4, 6 };
    const pl_ranges padding = { .at = ranges, .n = 2 };
    const pl_record_info info = { .value = "y",
                                  .node = "n1",
                                  .op = "Relu",
                                  .module = "net.relu",
                                  .graph = "loop/body",
                                  .call = 3,
                                  .flags = PL_RECORD_OUTPUT | PL_RECORD_INPUT,
                                  .left_out = &padding };
    pl_tensor *t = random_tensor(1, 6), *v = NULL, *b = NULL;
    const int64_t dims[2] = { 3, 2 }, strides[2] = { 1, 3 }, zeros[2] = { 0, 1 };
    assert_int_equal(pl_tensor_view(t, 2, dims, strides, 0, &v, NULL), PL_OK);
    assert_int_equal(pl_tensor_view(t, 2, dims, zeros, 0, &b, NULL), PL_OK);
    assert_int_equal(pl_recorder_put(r, &info, v, NULL), PL_OK);
    put(r, "b", b);
    assert_int_equal(pl_recorder_set_provenance(r, "{\"seed\":1}", NULL), PL_OK);
    assert_int_equal(pl_recorder_set_provenance(r, "{\"seed\":2}", NULL), PL_OK);
    assert_int_equal(pl_recorder_set_graph(r, "{\"nodes\":[]}", NULL), PL_OK);
    assert_int_equal(pl_recorder_count(r), 2);
    assert_int_equal(pl_recorder_bytes(r), 48);
    commit(r);
    pl_recording *rec = open_recording(path);
    const pl_record *y = pl_recording_find(rec, "y#3");
    assert_non_null(y);
    assert_string_equal(y->value, "y");
    assert_string_equal(y->node, "n1");
    assert_string_equal(y->op, "Relu");
    assert_string_equal(y->module, "net.relu");
    assert_string_equal(y->graph, "loop/body");
    assert_int_equal(y->call, 3);
    assert_int_equal(y->flags, PL_RECORD_INPUT | PL_RECORD_OUTPUT | PL_RECORD_STRIDED);
    assert_true(y->strides[0] == 1 && y->strides[1] == 3 && y->offset == 0);
    assert_true(y->has_hash && y->has_data && !y->has_stats);
    assert_int_equal(y->left_out.n, 2);
    assert_memory_equal(y->left_out.at, ranges, sizeof ranges);
    assert_int_equal(pl_recording_find(rec, "b")->left_out.n, 0);
    assert_int_equal(pl_recording_find(rec, "b")->flags, PL_RECORD_STRIDED | PL_RECORD_BROADCAST);
    assert_string_equal(rec->provenance, "{\"seed\":2}");
    assert_string_equal(rec->graph, "{\"nodes\":[]}");
    pl_tensor *got = get(rec, "y#3");
    for (int i = 0; i < 6; i++) /* dense now: element [i/2][i%2] was at i/2 + 3*(i%2) */
        assert_true(((pl_f32 *)got->data)[i] == ((pl_f32 *)t->data)[i / 2 + 3 * (i % 2)]);
    pl_hash128 hash = pl_hash128_of(got->data, 24);
    assert_true(hash.low == y->hash.low && hash.high == y->hash.high);
    pl_tensor_unref(got);
    pl_recording_close(rec);
    pl_tensor_unref(t);
    pl_tensor_unref(v);
    pl_tensor_unref(b);
}

static void test_recording__gives_every_name_a_key(void **state) {
    (void)state;
    static const char *const names[] = { "x", "x",   "x#1",          "x", "\xff\xfe",
                                         "",  "x#1", "__metadata__", "",  "__metadata__" };
    static const char *const keys[] = {
        "x", "x#1",   "x#1#1",          "x#2", "\xEF\xBF\xBD\xEF\xBF\xBD",
        "",  "x#1#2", "__metadata__#1", "#1",  "__metadata__#2"
    };
    const char *path = in_dir("keys.safetensors");
    pl_recorder *r = open_recorder(path, NULL);
    for (int i = 0; i < 10; i++) {
        pl_tensor *t = random_tensor((uint64_t)i, 3);
        put(r, names[i], t);
        pl_tensor_unref(t);
    }
    commit(r);
    pl_recording *rec = open_recording(path);
    strict_file f;
    check_strictly(path, &f);
    for (int i = 0; i < 10; i++) {
        pl_tensor *t = random_tensor((uint64_t)i, 3), *got = get(rec, keys[i]);
        assert_true(pl_tensor_identical(t, got));
        assert_non_null(strict_find(&f, keys[i]));
        pl_tensor_unref(t);
        pl_tensor_unref(got);
    }
    assert_int_equal(pl_recording_find(rec, "x#2")->call, 2);
    strict_close(&f);
    pl_recording_close(rec);
}

static void test_recording__holds_sequences_and_optionals(void **state) {
    (void)state;
    const char *path = in_dir("seq.safetensors");
    pl_datum *items[2], *inner = NULL, *outer = NULL, *empty = NULL, *got = NULL;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            pl_datum_of_tensor_take(random_tensor((uint64_t)i, 2 + i), &items[i], NULL), PL_OK);
    assert_int_equal(pl_datum_new_sequence(PL_TYPE_TENSOR, PL_F32, items, 2, &inner, NULL), PL_OK);
    assert_int_equal(pl_datum_new_optional(PL_TYPE_SEQUENCE, PL_F32, inner, &outer, NULL), PL_OK);
    assert_int_equal(pl_datum_new_sequence(PL_TYPE_TENSOR, PL_I64, NULL, 0, &empty, NULL), PL_OK);
    pl_recorder *r = open_recorder(path, NULL);
    assert_int_equal(pl_recorder_put_datum(r, &(pl_record_info){ .value = "o" }, outer, NULL),
                     PL_OK);
    assert_int_equal(pl_recorder_put_datum(r, &(pl_record_info){ .value = "e" }, empty, NULL),
                     PL_OK);
    commit(r);
    pl_recording *rec = open_recording(path);
    assert_int_equal(rec->n_records, 5);
    assert_non_null(pl_recording_find(rec, "o[0][1]"));
    assert_int_equal(pl_recording_read_datum(rec, pl_recording_find(rec, "o"), &got, NULL), PL_OK);
    assert_int_equal(got->kind, PL_TYPE_OPTIONAL);
    assert_int_equal(got->items[0]->kind, PL_TYPE_SEQUENCE);
    assert_int_equal(got->items[0]->n_items, 2);
    assert_true(pl_tensor_identical(got->items[0]->items[1]->tensor, items[1]->tensor));
    pl_datum_unref(got);
    assert_int_equal(pl_recording_read_datum(rec, pl_recording_find(rec, "e"), &got, NULL), PL_OK);
    assert_int_equal(got->n_items, 0);
    assert_int_equal(got->elem_dtype, PL_I64);
    pl_datum_unref(got);
    pl_recording_close(rec);
    strict_file f;
    check_strictly(path, &f);
    assert_int_equal(f.n_tensors, 2);
    strict_close(&f);
    pl_datum_unref(items[0]);
    pl_datum_unref(items[1]);
    pl_datum_unref(inner);
    pl_datum_unref(outer);
    pl_datum_unref(empty);
}

static void test_recording__keeps_statistics_alone(void **state) {
    (void)state;
    const char *path = in_dir("stats.safetensors");
    const float values[6] = { 1, -3, 0, NAN, INFINITY, 5 };
    const int64_t n = 6;
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_borrow(PL_F32, 1, &n, values, NULL, NULL, &t, NULL), PL_OK);
    pl_recorder *r = open_recorder(path, &(pl_recorder_options){ .stats_only = true });
    put(r, "x", t);
    commit(r);
    pl_recording *rec = open_recording(path);
    const pl_record *x = pl_recording_find(rec, "x");
    pl_tensor *none = NULL;
    assert_true(x->has_stats && !x->has_data && x->has_hash);
    assert_int_equal(x->stats.n_elements, 6);
    assert_int_equal(x->stats.n_nan, 1);
    assert_int_equal(x->stats.n_inf, 1);
    assert_int_equal(x->stats.n_zero, 1);
    assert_true(x->stats.min == -3 && x->stats.max == 5 && x->stats.mean == 0.75);
    assert_int_equal(pl_recording_read(rec, x, &none, NULL), PL_E_NOT_FOUND);
    pl_hash128 hash = pl_hash128_of(values, sizeof values);
    assert_true(hash.low == x->hash.low && hash.high == x->hash.high);
    pl_recording_close(rec);
    strict_file f;
    check_strictly(path, &f);
    assert_int_equal(f.n_tensors, 0);
    strict_close(&f);
    pl_tensor_unref(t);
}

/* The header is larger than the room left for it; the data is large enough to stay where it is. */
static void test_recording__finds_room_for_its_header(void **state) {
    (void)state;
    pl_tensor *big = random_tensor(1, 9 << 20), *odd = random_tensor(2, 1001);
    const size_t reserves[2] = { 64, 0 };
    for (int i = 0; i < 2; i++) {
        const char *path = in_dir(i == 0 ? "small.safetensors" : "large.safetensors");
        pl_recorder *r =
            open_recorder(path, &(pl_recorder_options){ .reserve_bytes = reserves[i] });
        put(r, "odd", odd);
        put(r, "big", big);
        commit(r);
        pl_recording *rec = open_recording(path);
        assert_int_equal(pl_recording_check(rec, NULL), PL_OK);
        pl_tensor *got = get(rec, "big");
        assert_true(pl_tensor_identical(got, big));
        pl_tensor_unref(got);
        pl_recording_close(rec);
        strict_file f;
        check_strictly(path, &f);
        assert_int_equal(f.data_start >= 4 << 20, i == 1);
        strict_close(&f);
        assert_int_equal(unlink(path), 0);
    }
    pl_tensor_unref(big);
    pl_tensor_unref(odd);
}

static void *put_some(void *ctx) {
    for (int i = 0; i < 200; i++) {
        pl_tensor *t = random_tensor((uint64_t)i, 1 + i * 3);
        char name[32];
        snprintf(name, sizeof name, "v%d", i);
        if (pl_recorder_put(ctx, &(pl_record_info){ .value = name }, t, NULL) != PL_OK) return ctx;
        pl_tensor_unref(t);
    }
    return NULL;
}

static void test_recording__bears_threads(void **state) {
    (void)state;
    const char *path = in_dir("threads.safetensors");
    pl_recorder *r = open_recorder(path, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_some, r), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    commit(r);
    pl_recording *rec = open_recording(path);
    assert_int_equal(rec->n_records, 800);
    assert_int_equal(pl_recording_check(rec, NULL), PL_OK);
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "v%d#3", i);
        pl_tensor *t = random_tensor((uint64_t)i, 1 + i * 3), *got = get(rec, name);
        assert_true(pl_tensor_identical(t, got));
        pl_tensor_unref(t);
        pl_tensor_unref(got);
    }
    pl_recording_close(rec);
    strict_file f;
    check_strictly(path, &f);
    strict_close(&f);
}

/* ---- trouble ---- */

static void test_recording__overwrites_nothing(void **state) {
    (void)state;
    const char *path = in_dir("mine.safetensors");
    pl_recorder *r = NULL, *s = NULL;
    pl_err err = PL_ERR_INIT;
    for (int named = 0; named < 2; named++) {
        unlink(path);
        const pl_recorder_options options = { .named_temporary = named };
        r = open_recorder(path, &options);
        s = open_recorder(path, &options);
        commit(r);
        assert_int_equal(pl_recorder_commit_take(s, &err), PL_E_EXISTS);
        assert_int_equal(pl_recorder_open(path, &options, &r, &err), PL_E_EXISTS);
        pl_recording_close(open_recording(path));
    }
    assert_int_equal(pl_recorder_open(in_dir("no/such/dir/x"), NULL, &r, &err), PL_E_IO);
    assert_int_equal(pl_recorder_open(dir, NULL, &r, &err), PL_E_EXISTS);
    pl_recorder_abort_take(open_recorder(in_dir("aborted"), NULL));
    assert_false(pl_path_exists(in_dir("aborted")));
}

static void test_recording__says_when_the_disk_is_full(void **state) {
    (void)state;
    const size_t before = n_names();
    pl_tensor *t = random_tensor(1, 4096);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){ 5 << 20, old.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    for (int named = 0; named < 2; named++) {
        pl_recorder *r = open_recorder(in_dir("full.safetensors"),
                                       &(pl_recorder_options){ .named_temporary = named });
        pl_err err = PL_ERR_INIT;
        pl_status st = PL_OK;
        setrlimit(RLIMIT_FSIZE, &small);
        for (int i = 0; i < 1000 && st == PL_OK; i++)
            st = pl_recorder_put(r, &(pl_record_info){ .value = "x" }, t, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(st, PL_E_IO);
        assert_non_null(strstr(err.message, "full.safetensors"));
        assert_int_equal(pl_recorder_put(r, &(pl_record_info){ .value = "x" }, t, &err), PL_E_IO);
        assert_int_equal(pl_recorder_commit_take(r, &err), PL_E_IO);
        assert_non_null(strstr(err.message, "earlier write"));
        assert_false(pl_path_exists(in_dir("full.safetensors")));
    }
    assert_int_equal(n_names(), before);
    pl_tensor_unref(t);
}

static void test_recording__survives_every_failed_allocation(void **state) {
    (void)state;
    pl_tensor *t = random_tensor(1, 5);
    const char *path = in_dir("alloc.safetensors");
    bool done = false;
    for (long n = 0; n < 1000 && !done; n++) {
        pl_recorder *r = NULL;
        pl_recording *rec = NULL;
        pl_tensor *got = NULL;
        pl_alloc_fail_after(n);
        pl_status st = pl_recorder_open(path, NULL, &r, NULL);
        for (int i = 0; i < 3 && st == PL_OK; i++)
            st = pl_recorder_put(r, &(pl_record_info){ .value = "x" }, t, NULL);
        if (st == PL_OK) {
            st = pl_recorder_commit_take(r, NULL);
        } else {
            pl_recorder_abort_take(r);
        }
        if (st == PL_OK) st = pl_recording_open(path, &rec, NULL);
        if (st == PL_OK) st = pl_recording_read(rec, &rec->records[0], &got, NULL);
        pl_tensor_unref(got);
        pl_recording_close(rec);
        pl_alloc_fail_after(-1);
        done = st == PL_OK;
        if (!done) assert_int_equal(st, PL_E_MEMORY);
        if (pl_path_exists(path)) assert_int_equal(unlink(path), 0);
    }
    assert_true(done);
    pl_tensor_unref(t);
}

static void record_much(void *ctx) {
    pl_recorder *r = NULL;
    if (pl_recorder_open(ctx, NULL, &r, NULL) != PL_OK) _exit(1);
    for (int i = 0; i < 200; i++) {
        pl_tensor *t = random_tensor((uint64_t)i, 500 + i);
        if (pl_recorder_put(r, &(pl_record_info){ .value = "v" }, t, NULL) != PL_OK) _exit(2);
        pl_tensor_unref(t);
    }
    if (pl_recorder_commit_take(r, NULL) != PL_OK) _exit(3);
}

static void test_recording__is_whole_or_absent_after_a_kill(void **state) {
    (void)state;
    static char path[400];
    snprintf(path, sizeof path, "%s", in_dir("killed.safetensors"));
    const size_t before = n_names();
    bool done = false;
    const long n_calls = run_and_kill(record_much, path, -1, &done);
    if (n_calls < 0) {
        print_message("a child cannot be traced here\n");
        skip();
    }
    assert_true(done && unlink(path) == 0);
    int n_done = 0;
    for (int k = 0; k <= n_kills(); k++) { /* the last one is killed when all is done */
        const long at =
            k == n_kills() ? n_calls : (long)(pl_rng_at(6, 0, (uint64_t)k) % (uint64_t)n_calls);
        run_and_kill(record_much, path, at, &done);
        n_done += done; /* the heap's own calls differ from run to run: near the end it may be */
        if (!pl_path_exists(path)) {
            assert_false(done);
            assert_int_equal(n_names(), before); /* nothing at all is left */
            continue;
        }
        pl_recording *rec = open_recording(path);
        assert_int_equal(rec->n_records, 200);
        assert_int_equal(pl_recording_check(rec, NULL), PL_OK);
        pl_recording_close(rec);
        assert_int_equal(unlink(path), 0);
    }
    assert_true(n_done <= 1 + n_kills() / 4);
}

/* ---- files of others ---- */

static pl_status open_text(const char *header, size_t n_data, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_recording *rec = NULL;
    const size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        pl_buf_putc(&buf, (char)(uint8_t)((uint64_t)n >> (8 * i)));
    pl_buf_append(&buf, header, n);
    for (size_t i = 0; i < n_data; i++)
        pl_buf_putc(&buf, (char)i);
    assert_int_equal(write_over(in_dir("text"), buf.data, buf.n_bytes, NULL), PL_OK);
    pl_buf_release(&buf);
    pl_status st = pl_recording_open(in_dir("text"), &rec, err);
    for (size_t i = 0; st == PL_OK && i < rec->n_records; i++) {
        pl_datum *d = NULL;
        const pl_status read = pl_recording_read_datum(rec, &rec->records[i], &d, err);
        pl_datum_unref(d);
        if (read != PL_OK) st = read;
    }
    pl_recording_close(rec);
    return st;
}

#define X4 "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define META(values)                                                                               \
    "{\"__metadata__\":{\"plumb.recording\":\"1\",\"plumb.values\":\"" values "\"}," X4 "}"
#define TUPLE(rest) META("[{\\\"key\\\":\\\"x\\\"," rest "}]")

static void test_recording__accepts_plain_safetensors(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(open_text("{" X4 "}", 4, &err), PL_OK);
    assert_int_equal(open_text("{\"__metadata__\":{\"format\":\"pt\"}," X4 "}", 4, &err), PL_OK);
    assert_int_equal(open_text("{}", 0, &err), PL_OK);
    /* A header of 123 bytes: the file begins with '{', as JSON does. */
    char text[200] = "{" X4 "}";
    memset(text + strlen(text), ' ', 123 - strlen(text));
    text[123] = '\0';
    assert_int_equal(open_text(text, 4, &err), PL_OK);
    /* Tuples that say enough, and one less than there are tensors. */
    assert_int_equal(open_text(TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1]"), 4, &err),
                     PL_OK);
    assert_int_equal(open_text(META("[]"), 4, &err), PL_OK);
}

static void test_recording__refuses_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *header, *says;
    } cases[] = {
        { "{\"__metadata__\":{\"plumb.recording\":\"2\"}," X4 "}", "version" },
        { META("{}"), "array" },
        { META("[1]"), "key" },
        { META("[{\\\"value\\\":\\\"x\\\"}]"), "key" },
        { META("["), "plumb.values" },
        { TUPLE("\\\"dtype\\\":\\\"int32\\\",\\\"shape\\\":[1]"), "the tensor is" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[2]"), "the tensor is" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[-1]"), "invalid" },
        { TUPLE("\\\"dtype\\\":\\\"flot\\\",\\\"shape\\\":[1]"), "flot" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"hash\\\":\\\"12\\\""), "hash" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"strides\\\":[1,1]"), "strides" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"flags\\\":1"), "flags" },
        { TUPLE("\\\"kind\\\":\\\"map\\\""), "kind" },
        { TUPLE("\\\"kind\\\":\\\"sequence\\\""), "items" },
        { TUPLE("\\\"kind\\\":\\\"optional\\\",\\\"items\\\":[\\\"x\\\",\\\"x\\\"]"), "optional" },
        { TUPLE("\\\"kind\\\":\\\"sequence\\\",\\\"items\\\":[\\\"x\\\"]"),
          "x" }, /* holds itself */
        { TUPLE("\\\"kind\\\":\\\"sequence\\\",\\\"items\\\":[\\\"z\\\"]"), "missing" },
        { META("[{\\\"key\\\":\\\"z\\\",\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1]}]"),
          "neither" },
        { META("[{\\\"key\\\":\\\"x\\\",\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1]},"
               "{\\\"key\\\":\\\"x\\\",\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1]}]"),
          "duplicate" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"stats\\\":{}"), "stats" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"left_out\\\":1"), "left_out" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"left_out\\\":[0]"), "left_out" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"left_out\\\":[0,2]"),
          "left_out" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"left_out\\\":[1,0]"),
          "left_out" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"left_out\\\":[0,0]"),
          "left_out" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"left_out\\\":[-1,1]"),
          "left_out" },
        { TUPLE("\\\"dtype\\\":\\\"float\\\",\\\"shape\\\":[1],\\\"left_out\\\":[0,1,0,1]"),
          "left_out" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pl_err err = PL_ERR_INIT;
        assert_int_not_equal(open_text(cases[i].header, 4, &err), PL_OK);
        if (strstr(err.message, cases[i].says) == NULL) fail_msg("case %zu: %s", i, err.message);
    }
}

static void test_recording__refuses_strings_that_end_badly(void **state) {
    (void)state;
    static const char tuple[] = "{\"__metadata__\":{\"plumb.recording\":\"1\",\"plumb.values\":\""
                                "[{\\\"key\\\":\\\"x\\\",\\\"dtype\\\":\\\"string\\\","
                                "\\\"shape\\\":[%d]}]\"},\"x\":{\"dtype\":\"U8\",\"shape\":[12],"
                                "\"data_offsets\":[0,12]}}";
    for (int n = 0; n < 4; n++) { /* bytes 0, 1, 2 … as lengths: far beyond the data */
        char text[400];
        pl_err err = PL_ERR_INIT;
        snprintf(text, sizeof text, tuple, n);
        assert_int_equal(open_text(text, 12, &err), PL_E_FORMAT);
    }
}

static void test_recording__sees_damage(void **state) {
    (void)state;
    const char *path = in_dir("damage.safetensors");
    pl_tensor *t = random_tensor(3, 10);
    pl_recorder *r = open_recorder(path, NULL);
    put(r, "x", t);
    commit(r);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, -1, SEEK_END);
    fputc(((const unsigned char *)t->data)[39] ^ 1, f);
    fclose(f);
    pl_recording *rec = open_recording(path);
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_recording_check(rec, &err), PL_E_FORMAT);
    assert_non_null(strstr(err.message, "'x' is damaged"));
    pl_recording_close(rec);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(pl_recording_open(path, &rec, &err), PL_E_FORMAT);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(pl_recording_open(path, &rec, &err), PL_E_FORMAT);
    pl_tensor_unref(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording__round_trips_every_dtype),
        cmocka_unit_test(test_recording__keeps_what_it_is_told),
        cmocka_unit_test(test_recording__gives_every_name_a_key),
        cmocka_unit_test(test_recording__holds_sequences_and_optionals),
        cmocka_unit_test(test_recording__keeps_statistics_alone),
        cmocka_unit_test(test_recording__finds_room_for_its_header),
        cmocka_unit_test(test_recording__bears_threads),
        cmocka_unit_test(test_recording__overwrites_nothing),
        cmocka_unit_test(test_recording__says_when_the_disk_is_full),
        cmocka_unit_test(test_recording__survives_every_failed_allocation),
        cmocka_unit_test(test_recording__is_whole_or_absent_after_a_kill),
        cmocka_unit_test(test_recording__accepts_plain_safetensors),
        cmocka_unit_test(test_recording__refuses_what_is_wrong),
        cmocka_unit_test(test_recording__refuses_strings_that_end_badly),
        cmocka_unit_test(test_recording__sees_damage),
    };
    return cmocka_run_group_tests_name("recording", tests, set_up, tear_down);
}
