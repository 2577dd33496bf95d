/* Polygraphy's JSON as a recording.
 *
 * RunResults is { "lst": [ [runner, [ { "outputs": { name: array } } … ]] … ] }, an input file is a
 * list of { name: array }. An array is { "array": BASE64 } with the bytes of an npy file, plain or
 * inside { "values": … } (LazyArray). Keys are the names; further iterations get #1, #2, …, further
 * runners stand under "RUNNER/". Nothing is decoded before it is read.
 * (polygraphy/json/serde.py, comparator/struct.py) */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "store/recording_int.h"
#include "tensor/file/npy.h"

bool pl_import_is_polygraphy(const void *data, size_t n_bytes) {
    const char *text = data;
    size_t i = 0;
    while (i < n_bytes && i < 64 && isspace((unsigned char)text[i]))
        i++;
    return i < n_bytes && (text[i] == '{' || text[i] == '[');
}

/* ---- base64 (RFC 4648), strictly ---- */

static int digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static pl_status decode(const char *text, size_t n, uint8_t *out, size_t *n_out, pl_err *err) {
    size_t at = 0;
    const size_t n_pad = n >= 2 && text[n - 2] == '=' ? 2 : n >= 1 && text[n - 1] == '=' ? 1 : 0;
    if (n % 4 != 0) return pl_fail(err, PL_E_FORMAT, "invalid base64 length %zu", n);
    for (size_t i = 0; i < n; i += 4) {
        const bool last = i + 4 == n;
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            const bool pad = last && k >= 4 - n_pad;
            const int d = pad ? (text[i + k] == '=' ? 0 : -1) : digit(text[i + k]);
            if (d < 0) return pl_fail(err, PL_E_FORMAT, "character %zu is not base64", i + k);
            bits = bits << 6 | (uint32_t)d;
        }
        for (size_t k = 0; k < 3 - (last ? n_pad : 0); k++)
            out[at++] = (uint8_t)(bits >> (16 - 8 * k));
    }
    *n_out = at;
    return PL_OK;
}

pl_status pl_import_base64(const pl_record_source *source, pl_tensor **out, pl_err *err) {
    size_t n = 0;
    uint8_t *bytes = pl_malloc(source->n_text / 4 * 3 + 3);
    if (bytes == NULL) return pl_fail_memory(err, source->n_text);
    pl_status st = decode(source->text, source->n_text, bytes, &n, err);
    if (st == PL_OK) st = pl_npy_read((pl_bytes){ bytes, n }, NULL, out, err);
    pl_free(bytes);
    return st;
}

/* ---- the document ---- */

static const pl_json_value *array_of(const pl_json_value *v) {
    const pl_json_value *values = pl_json_find(v, "values");
    const pl_json_value *array = pl_json_find(values != NULL ? values : v, "array");
    return array != NULL && array->kind == PL_JSON_STRING ? array : NULL;
}

static pl_status add_arrays(pl_recording *rec, const pl_json_value *object, const char *prefix,
                            unsigned flags, pl_err *err) {
    if (object == NULL || object->kind != PL_JSON_OBJECT)
        return pl_fail(err, PL_E_FORMAT, "expected an object of arrays");
    for (const pl_json_value *v = object->first; v != NULL; v = v->next) {
        const pl_json_value *array = array_of(v);
        if (v->kind == PL_JSON_STRING && strcmp(v->key, "polygraphy_class") == 0) continue;
        if (array == NULL || strlen(v->key) != v->n_key)
            return pl_fail(err, PL_E_FORMAT, "'%s' is not a Polygraphy array", v->key);
        const char *name = pl_arena_printf(rec->internal->arena, "%s%s", prefix, v->key);
        pl_record_source *source = pl_recording_source(rec, PL_SOURCE_BASE64);
        if (name == NULL || source == NULL) return pl_fail_memory(err, v->n_key);
        source->text = array->string;
        source->n_text = array->n_string;
        pl_record *r = pl_recording_add(rec, name, err);
        if (r == NULL) return PL_E_MEMORY;
        r->value = v->key;
        r->source = source;
        r->has_data = true;
        r->flags = flags;
    }
    return PL_OK;
}

static pl_status add_runner(pl_recording *rec, const pl_json_value *pair, bool is_first,
                            pl_err *err) {
    const pl_json_value *name = pair->kind == PL_JSON_ARRAY ? pair->first : NULL;
    const pl_json_value *runs = name == NULL ? NULL : name->next;
    if (runs == NULL || name->kind != PL_JSON_STRING || runs->kind != PL_JSON_ARRAY)
        return pl_fail(err, PL_E_FORMAT, "a runner is not [name, [results]]");
    const char *prefix = is_first ? "" : pl_arena_printf(rec->internal->arena, "%s/", name->string);
    if (prefix == NULL) return pl_fail_memory(err, name->n_string);
    for (const pl_json_value *run = runs->first; run != NULL; run = run->next) {
        const pl_status st =
            add_arrays(rec, pl_json_find(run, "outputs"), prefix, PL_RECORD_OUTPUT, err);
        if (st != PL_OK) return pl_err_wrap(err, st, "runner '%s'", name->string);
    }
    return PL_OK;
}

static pl_status read_document(pl_recording *rec, const pl_json_value *root, pl_err *err) {
    const pl_json_value *runners = pl_json_find(root, "lst");
    if (root->kind == PL_JSON_ARRAY) { /* inputs: one object for each iteration */
        for (const pl_json_value *v = root->first; v != NULL; v = v->next)
            PL_TRY(add_arrays(rec, v, "", PL_RECORD_INPUT, err));
        return PL_OK;
    }
    if (runners == NULL || runners->kind != PL_JSON_ARRAY)
        return pl_fail(err, PL_E_FORMAT, "JSON without 'lst': not the outputs of a run");
    for (const pl_json_value *v = runners->first; v != NULL; v = v->next)
        PL_TRY(add_runner(rec, v, v == runners->first, err));
    return PL_OK;
}

pl_status pl_import_polygraphy(pl_recording *rec, pl_err *err) {
    const pl_file_map *map = rec->internal->map;
    const pl_json_value *root = NULL;
    rec->format = "polygraphy";
    pl_status st =
        pl_json_read((const char *)map->data, map->n_bytes, rec->internal->arena, &root, err);
    if (st == PL_OK) st = read_document(rec, root, err);
    return st == PL_OK ? st : pl_err_wrap(err, st, "as Polygraphy JSON");
}
