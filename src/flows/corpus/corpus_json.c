#include "flows/corpus/corpus_json.h"

const char *pl_member_text(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->kind == PL_JSON_STRING ? v->string : "";
}

size_t pl_member_count(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->is_integer && v->integer > 0 ? (size_t)v->integer : 0;
}

bool pl_member_is(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->kind == PL_JSON_BOOL && v->boolean;
}

const pl_json_value *pl_member_list(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->kind == PL_JSON_ARRAY ? v : NULL;
}

pl_bug pl_bug_read(const pl_json_value *o) {
    const pl_json_value *b = pl_json_find(o, "bug");
    return (pl_bug){ .kind = pl_member_text(b, "kind"),
                     .op = pl_member_text(b, "op"),
                     .attrs = pl_member_text(b, "attrs"),
                     .dtypes = pl_member_text(b, "dtypes"),
                     .pass = pl_member_text(b, "pass"),
                     .message = pl_member_text(b, "message"),
                     .ops = pl_member_text(b, "ops"),
                     .edges = pl_member_text(b, "edges") };
}

void pl_bug_put(pl_json *j, const pl_bug *b) {
    pl_json_key(j, "bug");
    pl_json_object_begin(j);
    pl_json_put_string(j, "kind", b->kind);
    pl_json_put_string(j, "op", b->op);
    pl_json_put_string(j, "attrs", b->attrs);
    pl_json_put_string(j, "dtypes", b->dtypes);
    pl_json_put_string(j, "pass", b->pass);
    pl_json_put_string(j, "message", b->message == NULL ? "" : b->message);
    pl_json_put_string(j, "ops", b->ops);
    if (b->edges[0] != '\0') pl_json_put_string(j, "edges", b->edges);
    pl_json_object_end(j);
}
