/* Checked arithmetic on sizes and dims. Sizes are checked before they are multiplied. */
#ifndef PL_SIZE_H
#define PL_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false on overflow and then leaves *out alone. */
static inline bool pl_size_mul(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool pl_size_add(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool pl_i64_mul(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool pl_i64_add(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline size_t pl_size_min(size_t a, size_t b) {
    return a < b ? a : b;
}
static inline int64_t pl_i64_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t pl_i64_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
