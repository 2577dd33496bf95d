/* A folder of SGLang's dumper (sglang/srt/debug_utils/dumper.py): one .pt file for each tensor,
 * whose name is "KEY=VALUE" joined by "___": step (older: forward_pass_id), rank, dump_index, name,
 * recompute_status, and what the caller adds ("layer_id=3"). The file holds { "value": tensor,
 * "meta": … }, or in older versions the tensor itself.
 *
 * A value is "rank0/layer_id=3/NAME": the rank where there are several, then the caller's own tags,
 * then the name. Repeated values get #1, #2, …, in the order of steps. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "store/recording_int.h"

typedef struct dumped {
    const char *file, *name, *tags; /* tags: the caller's, each followed by a slash */
    long step, rank, index;
} dumped;

static bool is_tag(const char *s, size_t n, const char *key, const char **value, size_t *n_value) {
    const size_t n_key = strlen(key);
    if (n <= n_key || strncmp(s, key, n_key) != 0 || s[n_key] != '=') return false;
    *value = s + n_key + 1;
    *n_value = n - n_key - 1;
    return true;
}

static long number_of(const char *value) {
    const long n = strtol(value, NULL, 10);
    return n < 0 ? 0 : n;
}

/* "tp_rank=1" and its like (DUMPER_INCLUDE_PARALLEL_RANK_IN_FILENAME): `rank` has them all. */
static bool is_part_of_rank(const char *s, size_t n) {
    static const char *const keys[] = { "pp_rank", "tp_rank", "cp_rank", "ep_rank", "etp_rank" };
    const char *value = NULL;
    size_t n_value = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (is_tag(s, n, keys[i], &value, &n_value)) return true;
    return false;
}

/* One KEY=VALUE of a file's name. */
static void take_tag(dumped *d, pl_arena *arena, const char *s, size_t n, pl_buf *tags) {
    const char *value = NULL;
    size_t n_value = 0;
    if (is_tag(s, n, "name", &value, &n_value)) {
        d->name = pl_arena_strndup(arena, value, n_value);
    } else if (is_tag(s, n, "step", &value, &n_value) ||
               is_tag(s, n, "forward_pass_id", &value, &n_value)) {
        d->step = number_of(value);
    } else if (is_tag(s, n, "rank", &value, &n_value)) {
        d->rank = number_of(value);
    } else if (is_tag(s, n, "dump_index", &value, &n_value)) {
        d->index = number_of(value);
    } else if (!is_tag(s, n, "recompute_status", &value, &n_value) && !is_part_of_rank(s, n)) {
        pl_buf_append(tags, s, n);
        pl_buf_putc(tags, '/');
    }
}

static bool read_name(const char *file, pl_arena *arena, dumped *out) {
    const size_t n = strlen(file);
    pl_buf tags = PL_BUF_INIT;
    *out = (dumped){ .file = file };
    if (n < 3 || strcmp(file + n - 3, ".pt") != 0) return false;
    const char *s = file, *end = file + n - 3;
    while (s < end) {
        const char *next = strstr(s, "___");
        if (next == NULL || next > end) next = end;
        take_tag(out, arena, s, (size_t)(next - s), &tags);
        s = next + (next < end ? 3 : 0);
    }
    out->tags = pl_arena_strdup(arena, pl_buf_str(&tags));
    const bool good = pl_buf_ok(&tags) && out->tags != NULL && out->name != NULL;
    pl_buf_release(&tags);
    return good;
}

bool pl_import_is_sglang(const pl_dir_list *names) {
    for (size_t i = 0; i < names->n_names; i++) {
        const char *s = names->names[i];
        if (pl_path_has_suffix(s, ".pt") && strstr(s, "dump_index=") != NULL &&
            strstr(s, "___") != NULL && strstr(s, "name=") != NULL)
            return true;
    }
    return false;
}

static int by_time(const void *a, const void *b) {
    const dumped *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->index != y->index) return x->index < y->index ? -1 : 1;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : strcmp(x->file, y->file);
}

static pl_status add_file(pl_recording *rec, const dumped *d, bool ranks, pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    pl_recording *nested = NULL;
    PL_TRY(pl_import_nested(rec, d->file, &nested, err));
    const char *rank = ranks ? pl_arena_printf(arena, "rank%ld/", d->rank) : "";
    if (rank == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < nested->n_records; i++) {
        const pl_record *r = &nested->records[i];
        const bool is_value = strcmp(r->key, "value") == 0 || strncmp(r->key, "value.", 6) == 0;
        if (!is_value && nested->n_records > 1) continue; /* meta */
        const char *part = is_value ? r->key + 5 : "";
        const char *key = pl_arena_printf(arena, "%s%s%s%s", rank, d->tags, d->name, part);
        PL_TRY(pl_import_nested_record(rec, key, nested, r, err));
    }
    return PL_OK;
}

pl_status pl_import_sglang(pl_recording *rec, const pl_dir_list *names, pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    dumped *all = pl_arena_array(arena, names->n_names, sizeof *all);
    size_t n = 0;
    bool ranks = false;
    rec->format = "sglang";
    if (all == NULL) return pl_fail_memory(err, names->n_names);
    for (size_t i = 0; i < names->n_names; i++) {
        const char *file = pl_arena_strdup(arena, names->names[i]);
        if (file == NULL) return pl_fail_memory(err, 1);
        if (!read_name(file, arena, &all[n])) continue;
        ranks = ranks || (n > 0 && all[n].rank != all[0].rank);
        n++;
    }
    if (n > 0) qsort(all, n, sizeof *all, by_time);
    for (size_t i = 0; i < n; i++)
        PL_TRY(add_file(rec, &all[i], ranks, err));
    return PL_OK;
}
