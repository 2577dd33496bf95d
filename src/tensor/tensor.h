/* Tensors: ref-counted, strided, immutable once published.
 *
 * A tensor is a view (dtype, dims, strides in elements) of a ref-counted storage; storage is heap
 * memory, a mapped file or borrowed memory. A new tensor is private to its creator, who may write
 * to it; once shared, it is read-only. Reference counts are thread-safe. Limits: rank at most
 * PL_RANK_MAX; a byte size that does not fit in 63 bits is PL_E_LIMIT. */
#ifndef PL_TENSOR_H
#define PL_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "base/status.h"
#include "tensor/dtype.h"

enum { PL_RANK_MAX = 16 };

typedef struct pl_storage pl_storage;

typedef struct pl_tensor {
    int refs; /* atomic */
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX];
    int64_t strides[PL_RANK_MAX]; /* in elements; 0 where broadcast */
    int64_t n_elements;
    void *data; /* first element: storage plus offset */
    pl_storage *storage;
} pl_tensor;

/* ---- life cycle ---- */
/* Uninitialised contents (strings: empty). */
pl_status pl_tensor_new(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                        pl_err *err);
/* The same for memory that is reused often: in large pages (base/alloc.h). */
pl_status pl_tensor_new_lasting(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                                pl_err *err);
pl_status pl_tensor_new_zero(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                             pl_err *err);
/* Every element is the same: large ones take no memory of their size. Not for strings. */
pl_status pl_tensor_new_filled(pl_dtype dtype, int rank, const int64_t *dims, const void *element,
                               pl_tensor **out, pl_err *err);
/* A contiguous tensor over bytes of a mapped file, which it keeps alive. The caller has checked
 * that data..data+n_elements*size lies inside the map. Not for strings or sub-byte types. */
pl_status pl_tensor_from_map(pl_dtype dtype, int rank, const int64_t *dims, pl_file_map *map,
                             const void *data, pl_tensor **out, pl_err *err);
/* Are the elements bytes of a mapped file? Then pl_tensor_forget gives the memory of their pages
 * back until they are read again (else it does nothing). */
bool pl_tensor_is_mapped(const pl_tensor *t);
void pl_tensor_forget(const pl_tensor *t);
/* A contiguous tensor over memory that outlives it; `release(ctx)` is called at the end (may be
 * NULL). */
pl_status pl_tensor_borrow(pl_dtype dtype, int rank, const int64_t *dims, const void *data,
                           void (*release)(void *), void *ctx, pl_tensor **out, pl_err *err);
/* Another shape of the same contiguous elements, sharing storage. */
pl_status pl_tensor_reshape(const pl_tensor *t, int rank, const int64_t *dims, pl_tensor **out,
                            pl_err *err);
/* Any strided view; the caller must ensure that it stays inside t. */
pl_status pl_tensor_view(const pl_tensor *t, int rank, const int64_t *dims, const int64_t *strides,
                         int64_t offset_elements, pl_tensor **out, pl_err *err);
/* t itself (one more reference) when contiguous, else a contiguous copy. */
pl_status pl_tensor_contiguous(const pl_tensor *t, pl_tensor **out, pl_err *err);
pl_status pl_tensor_copy(const pl_tensor *t, pl_tensor **out, pl_err *err); /* deep, contiguous */
/* The elements of any view in C order, n_elements * element size bytes; strings are not deep. */
void pl_tensor_copy_into(const pl_tensor *t, void *to);
/* Elementwise conversion with the rules of pl_store_*; strings only to strings. */
pl_status pl_tensor_cast(const pl_tensor *t, pl_dtype dtype, pl_tensor **out, pl_err *err);
pl_tensor *pl_tensor_ref(const pl_tensor *t); /* reference counts are mutable through const */
void pl_tensor_unref(pl_tensor *t);           /* NULL is fine */
bool pl_tensor_is_sole(
    const pl_tensor *t); /* no other reference to it or to a view of its memory */

/* Sets element i (in C order) of a private string tensor; the bytes are copied into its storage. */
pl_status pl_tensor_set_string(pl_tensor *t, int64_t i, const char *data, size_t n, pl_err *err);

/* ---- questions ---- */
bool pl_tensor_is_contiguous(const pl_tensor *t);
size_t pl_tensor_bytes(const pl_tensor *t); /* n_elements * element size */
bool pl_tensor_same_shape(const pl_tensor *a, const pl_tensor *b);
/* The file that the elements lie in, mapped; NULL = memory. */
const pl_file_map *pl_tensor_mapping(const pl_tensor *t);
/* Is every element of a large tensor the same? Only those of pl_tensor_new_filled are looked at. */
bool pl_tensor_is_filled(const pl_tensor *t);
/* Same dtype, shape and bytes (strings by content). Both contiguous. */
bool pl_tensor_identical(const pl_tensor *a, const pl_tensor *b);
/* One element of a contiguous numeric tensor. */
double pl_tensor_get_f64(const pl_tensor *t, int64_t i);
int64_t pl_tensor_get_i64(const pl_tensor *t, int64_t i);
double pl_tensor_max_abs(const pl_tensor *t); /* of the finite elements; 0 when there is none */
/* "float[1,3,224,224]" into a caller's buffer; always terminated. */
const char *pl_tensor_describe(const pl_tensor *t, char *out, size_t n_out);

/* Product of dims; false on a negative dim or overflow. */
bool pl_dims_product(int rank, const int64_t *dims, int64_t *out);
/* Of elements in C order. */
void pl_dims_strides(int rank, const int64_t *dims, int64_t *strides);
const char *pl_dims_describe(int rank, const int64_t *dims, char *out, size_t n_out);

#endif
