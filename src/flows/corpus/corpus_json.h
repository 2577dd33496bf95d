/* Shared by journals, items.json and corpus.json. */
#ifndef PL_CORPUS_JSON_H
#define PL_CORPUS_JSON_H

#include "base/json.h"
#include "base/json_read.h"
#include "flows/corpus/corpus_result.h"

const char *pl_member_text(const pl_json_value *object, const char *key); /* "" when absent */
size_t pl_member_count(const pl_json_value *object, const char *key);     /* 0 */
bool pl_member_is(const pl_json_value *object, const char *key);          /* false */
const pl_json_value *pl_member_list(const pl_json_value *object, const char *key); /* NULL */

pl_bug pl_bug_read(const pl_json_value *object); /* its member "bug" */
void pl_bug_put(pl_json *json, const pl_bug *bug);

/* The other ids of a group, in and out. */
void pl_corpus_put_also(pl_json *j, const pl_corpus_group *group);
pl_status pl_corpus_read_also(const pl_json_value *v, pl_arena *arena, pl_corpus_group *out,
                              pl_err *err);

#endif
