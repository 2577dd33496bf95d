/* Token ids from a text or a text file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/size.h"
#include "flows/api/options.h"

static const char BETWEEN[] = " \t\r\n,[]";

/* A word that could be the name of a file: not digits only. */
static pl_status refuse(const char *text, const char *path, pl_err *err) {
    const int n = (int)pl_size_min(strcspn(text, BETWEEN), 40);
    if (path != NULL)
        return pl_fail(err, PL_E_USAGE, "%s: '%.*s' is not a token id", path, n, text);
    if (strspn(text, "0123456789-") == 0)
        return pl_fail(err, PL_E_USAGE, "'%.*s' is not a token id, and no such file exists", n,
                       text);
    return pl_fail(err, PL_E_USAGE, "'%.*s' is not a token id", n, text);
}

/* `text` ends with a NUL; it is of the file `path`, or that is NULL. */
static pl_status parse(const char *text, const char *path, int64_t **out, size_t *n_out,
                       pl_err *err) {
    size_t capacity = 0;
    while (*(text += strspn(text, BETWEEN)) != '\0') {
        char *end = NULL;
        errno = 0;
        const long long value = strtoll(text, &end, 10);
        if (end == text || errno != 0 || (*end != '\0' && strchr(BETWEEN, *end) == NULL))
            return refuse(text, path, err);
        if (*n_out == capacity) {
            capacity = capacity == 0 ? 64 : 2 * capacity;
            int64_t *grown = pl_realloc_array(*out, capacity, sizeof(*grown));
            if (grown == NULL) return pl_fail_memory(err, capacity);
            *out = grown;
        }
        (*out)[(*n_out)++] = value;
        text = end;
    }
    return *n_out > 0 ? PL_OK : pl_fail(err, PL_E_USAGE, "no token ids");
}

static pl_status parse_file(const char *path, int64_t **out, size_t *n_out, pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_file_map_open(path, &map, err));
    char *text = pl_strndup((const char *)map->data, map->n_bytes);
    pl_status st = text == NULL ? pl_fail_memory(err, map->n_bytes) : PL_OK;
    if (st == PL_OK && strlen(text) != map->n_bytes)
        st = pl_fail(err, PL_E_FORMAT, "%s is not a text of token ids", path);
    if (st == PL_OK) st = parse(text, path, out, n_out, err);
    pl_free(text);
    pl_file_map_unref(map);
    return st;
}

plumb_status plumb_ids_read(const char *text, int64_t **ids, size_t *n_ids, plumb_error *err) {
    int64_t *found = NULL;
    size_t n = 0;
    PL_REQUIRE(ids);
    PL_REQUIRE(n_ids);
    *ids = NULL;
    *n_ids = 0;
    PL_REQUIRE(text);
    const pl_status st = pl_path_exists(text) ? parse_file(text, &found, &n, err)
                                              : parse(text, NULL, &found, &n, err);
    if (st != PL_OK) {
        pl_free(found);
        return st;
    }
    *ids = found;
    *n_ids = n;
    return PLUMB_OK;
}
