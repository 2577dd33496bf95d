/* Private to src/onnx: the state of a reader. */
#ifndef PL_ONNX_INT_H
#define PL_ONNX_INT_H

#include "base/door.h"
#include "base/size.h"
#include "graph/graph.h"
#include "onnx/onnx_fields.h"

enum {
    PL_ONNX_NODES_MAX = 10 * 1000 * 1000, /* after inlining: a chain of functions can grow as 2^n */
    /* Limit for all sparse tensors of a file together, when dense: this many bytes, or this many
     * times the file. Two bytes can declare a tensor of 2^28 elements. */
    PL_ONNX_DENSE_MIN = 256 << 20,
    PL_ONNX_DENSE_TIMES = 64,
};

typedef struct pl_onnx_reader {
    pl_model *model;
    pl_file_map *map;    /* NULL: weights are copied */
    const char *folder;  /* folder of external data; NULL: none allowed */
    pl_dir *dir;         /* the same, opened; NULL: opened when needed */
    pl_strmap external;  /* location -> pl_file_map */
    pl_strmap functions; /* domain, name, overload, NUL-separated -> pl_function */
    bool looking;        /* absent weights of references are zeros */
    size_t n_nodes;
    size_t n_bytes, inlined_bytes; /* bytes of the file; bytes of names made by inlining */
    size_t dense_bytes;            /* total size of sparse tensors when dense */
} pl_onnx_reader;

/* Scope for looking up names. A graph's frame sees its own values and its parent's; the frame of an
 * inlined function sees only the function's names, which map to values of the caller's graph. */
typedef struct pl_onnx_frame {
    struct pl_onnx_frame *parent;
    pl_graph *graph;        /* where new nodes and values go */
    pl_strmap *names;       /* function frame: name -> pl_value; NULL for a graph's frame */
    pl_strmap *defined;     /* function frame: its inputs and the outputs of its nodes */
    const char *prefix;     /* function frame: prefix for names of inner values and nodes */
    const char *function;   /* path of functions, NULL outside */
    const pl_opset *opsets; /* function frame: its imports */
    size_t n_opsets;
    pl_strmap *attrs;     /* function frame: name -> pl_attr of the call, or the default */
    const pl_prop *props; /* function frame: metadata of the call, for nodes without their own */
    size_t n_props;
    int depth; /* nesting of bodies and calls */
} pl_onnx_frame;

typedef struct pl_bytes_list {
    const pl_bytes *items;
    size_t n;
} pl_bytes_list;

/* onnx_read.c */
pl_status pl_onnx_read_graph(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes_list spans,
                             pl_err *err);
/* The nodes in field `field` of the spans: all outputs first, then the nodes. */
pl_status pl_onnx_read_nodes(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes_list spans,
                             uint32_t field, pl_err *err);
pl_status pl_onnx_read_opset(pl_model *model, pl_bytes bytes, pl_opset *out, pl_err *err);

/* onnx_refer.c: locations that name a file by its hash. */
bool pl_onnx_is_reference(const char *location);
pl_status pl_onnx_open_reference(const pl_onnx_reader *r, const char *location, pl_file_map **out,
                                 pl_err *err);
pl_status pl_onnx_absent_tensor(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                                pl_err *err);
void pl_onnx_drop_references(pl_model *model); /* from its metadata; sets model->referring */
void pl_onnx_put_model_prop(pl_buf *out, const char *key, const char *value); /* onnx_write.c */

/* onnx_value.c */
typedef struct pl_onnx_value_info {
    pl_bytes name, doc;
    const pl_type *type;
    pl_bytes spelt; /* type bytes from the file, when it has denotations */
} pl_onnx_value_info;
pl_status pl_onnx_read_value_info(pl_model *model, pl_bytes bytes, pl_onnx_value_info *out,
                                  pl_err *err);
/* Sets the declared type of a value that has none yet. */
void pl_onnx_declare(pl_value *value, const pl_onnx_value_info *info);
pl_bytes pl_onnx_tensor_doc(pl_bytes tensor); /* doc_string of a TensorProto */
/* Fields to be written back unchanged. Releases the buffer. */
pl_status pl_onnx_keep(pl_model *model, pl_buf *fields, pl_bytes *out, pl_err *err);

/* onnx_function.c */
/* *out is NULL when there is no such function. */
pl_status pl_onnx_find_function(pl_onnx_reader *r, const char *domain, pl_bytes name,
                                pl_bytes overload, const pl_function **out, pl_err *err);
/* Fills *out (which must not move) and registers it with the reader. */
pl_status pl_onnx_add_function(pl_onnx_reader *r, pl_bytes bytes, pl_function *out, pl_err *err);

/* onnx_attr.c */
/* *found is false when the attribute only refers to one that the call does not give. */
pl_status pl_onnx_read_attr(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes bytes, pl_attr *out,
                            bool *found, pl_err *err);
pl_status pl_onnx_read_tensor(pl_onnx_reader *r, pl_bytes bytes, const char **name, pl_tensor **out,
                              pl_err *err);
pl_status pl_onnx_read_sparse(pl_onnx_reader *r, pl_bytes bytes, const char **name, pl_tensor **out,
                              pl_err *err);

static inline const char *pl_bytes_chars(pl_bytes b) {
    return (const char *)b.data;
}
/* A field that must be a message, bytes or string. */
static inline bool pl_field_is_bytes(const pl_wire_field *f) {
    return f->type == 2;
}

#endif
