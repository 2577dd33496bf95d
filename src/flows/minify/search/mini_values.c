/* Recorded data by name, kept in a spool and shared by states. */
#include "flows/minify/search/mini_values.h"

#include "base/alloc.h"
#include "base/strmap.h"
#include "store/spool.h"

enum { SPOOL_MEMORY = 256 << 20 };

struct pl_mini_values {
    int refs;
    pl_spool *spool;
    pl_strmap by_name; /* -> id + 1 */
    pl_arena *arena;
};

pl_status pl_mini_values_new(pl_mini_values **out, pl_err *err) {
    pl_mini_values *v = pl_calloc(1, sizeof(*v));
    if (v == NULL) return pl_fail_memory(err, sizeof(*v));
    v->refs = 1;
    v->arena = pl_arena_new();
    const pl_status st = v->arena == NULL ? pl_fail_memory(err, 1)
                                          : pl_spool_new(SPOOL_MEMORY, NULL, &v->spool, err);
    if (st != PL_OK) {
        pl_mini_values_unref(v);
        return st;
    }
    *out = v;
    return PL_OK;
}

pl_mini_values *pl_mini_values_ref(pl_mini_values *v) {
    if (v != NULL) v->refs++;
    return v;
}

void pl_mini_values_unref(pl_mini_values *v) {
    if (v == NULL || --v->refs > 0) return;
    pl_spool_free(v->spool);
    pl_strmap_release(&v->by_name);
    pl_arena_free(v->arena);
    pl_free(v);
}

pl_status pl_mini_values_put(pl_mini_values *v, const char *name, const pl_datum *d, pl_err *err) {
    size_t id = 0;
    PL_TRY(pl_spool_put(v->spool, d, &id, err));
    const char *key = pl_arena_strdup(v->arena, name);
    if (key == NULL || pl_strmap_put(&v->by_name, key, (void *)(uintptr_t)(id + 1)) != 0) {
        return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

bool pl_mini_values_has(const pl_mini_values *v, const char *name) {
    return v != NULL && pl_strmap_get(&v->by_name, name) != NULL;
}

pl_status pl_mini_values_get(const pl_mini_values *v, const char *name, pl_datum **out,
                             pl_err *err) {
    const uintptr_t id = v == NULL ? 0 : (uintptr_t)pl_strmap_get(&v->by_name, name);
    *out = NULL;
    return id == 0 ? PL_OK : pl_spool_get(v->spool, id - 1, out, err);
}
