/* Attributes for kernels and rules: the node's own, else the row's default. pl_ops_resolve has
 * checked their types, so these cannot fail. */
#include <string.h>

#include "ops/op.h"

static const pl_attr *given(const pl_node *node, const char *name, pl_attr_type type) {
    const pl_attr *attr = pl_node_attr(node, name);
    return attr != NULL && attr->type == type ? attr : NULL;
}

static const pl_op_attr *declared(const pl_node *node, const char *name) {
    if (node->def == NULL || node->def->attrs == NULL) return NULL;
    for (const pl_op_attr *a = node->def->attrs; a->name != NULL; a++) {
        if (strcmp(a->name, name) == 0) return a;
    }
    return NULL;
}

bool pl_attr_has(const pl_node *node, const char *name) {
    return pl_node_attr(node, name) != NULL;
}

int64_t pl_attr_int(const pl_node *node, const char *name) {
    const pl_attr *attr = given(node, name, PL_ATTR_INT);
    if (attr != NULL) return attr->i;
    const pl_op_attr *row = declared(node, name);
    return row != NULL ? row->i : 0;
}

double pl_attr_float(const pl_node *node, const char *name) {
    const pl_attr *attr = given(node, name, PL_ATTR_FLOAT);
    if (attr != NULL) return (double)attr->f;
    const pl_op_attr *row = declared(node, name);
    return row != NULL ? (double)(float)row->f : 0; /* attributes are float32 in the file */
}

pl_string pl_attr_string(const pl_node *node, const char *name) {
    const pl_attr *attr = given(node, name, PL_ATTR_STRING);
    if (attr != NULL) return attr->s;
    const pl_op_attr *row = declared(node, name);
    if (row == NULL || row->s == NULL) return (pl_string){ "", 0 };
    return (pl_string){ row->s, strlen(row->s) };
}

bool pl_attr_string_is(const pl_node *node, const char *name, const char *expected) {
    const pl_string s = pl_attr_string(node, name);
    return s.n_bytes == strlen(expected) && memcmp(s.data, expected, s.n_bytes) == 0;
}

const int64_t *pl_attr_ints(const pl_node *node, const char *name, size_t *n) {
    const pl_attr *attr = given(node, name, PL_ATTR_INTS);
    *n = attr != NULL ? attr->n : 0;
    return attr != NULL ? attr->ints : NULL;
}

const float *pl_attr_floats(const pl_node *node, const char *name, size_t *n) {
    const pl_attr *attr = given(node, name, PL_ATTR_FLOATS);
    *n = attr != NULL ? attr->n : 0;
    return attr != NULL ? attr->floats : NULL;
}

const pl_string *pl_attr_strings(const pl_node *node, const char *name, size_t *n) {
    const pl_attr *attr = given(node, name, PL_ATTR_STRINGS);
    *n = attr != NULL ? attr->n : 0;
    return attr != NULL ? attr->strings : NULL;
}

pl_tensor *pl_attr_tensor(const pl_node *node, const char *name) {
    const pl_attr *attr = given(node, name, PL_ATTR_TENSOR);
    if (attr == NULL) attr = given(node, name, PL_ATTR_SPARSE_TENSOR);
    return attr != NULL ? attr->tensor : NULL;
}

pl_graph *pl_attr_graph(const pl_node *node, const char *name) {
    const pl_attr *attr = given(node, name, PL_ATTR_GRAPH);
    return attr != NULL ? attr->graph : NULL;
}
