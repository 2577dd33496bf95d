/* Writing JSON. Sticky like pl_buf: check pl_buf_ok once at the end. Commas and indentation are
 * placed by the writer; strings are escaped and invalid UTF-8 is replaced by U+FFFD; non-finite
 * numbers become the strings "inf", "-inf", "nan"; doubles round-trip (%.17g, shortest first). */
#ifndef PL_JSON_H
#define PL_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { PL_JSON_DEPTH_MAX = 64 };

typedef struct pl_json {
    pl_buf *buf;
    int depth;
    bool pretty;
    bool has_items[PL_JSON_DEPTH_MAX];
    bool after_key;
} pl_json;

void pl_json_init(pl_json *json, pl_buf *buf, bool pretty);
void pl_json_object_begin(pl_json *json);
void pl_json_object_end(pl_json *json);
void pl_json_array_begin(pl_json *json);
void pl_json_array_end(pl_json *json);
void pl_json_key(pl_json *json, const char *key);
void pl_json_string(pl_json *json, const char *s); /* NULL writes null */
void pl_json_string_n(pl_json *json, const char *s, size_t n);
void pl_json_int(pl_json *json, int64_t value);
void pl_json_ints(pl_json *json, const int64_t *values, size_t n); /* an array */
void pl_json_double(pl_json *json, double value);
void pl_json_bool(pl_json *json, bool value);
void pl_json_null(pl_json *json);
/* key and value at once */
void pl_json_put_string(pl_json *json, const char *key, const char *s);
void pl_json_put_int(pl_json *json, const char *key, int64_t value);
void pl_json_put_ints(pl_json *json, const char *key, const int64_t *values, size_t n);
void pl_json_put_double(pl_json *json, const char *key, double value);
void pl_json_put_known(pl_json *json, const char *key, double value); /* NAN writes null */
void pl_json_put_bool(pl_json *json, const char *key, bool value);

#endif
