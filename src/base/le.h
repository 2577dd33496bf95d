/* Little-endian numbers at any address: the byte order of every format that plumb reads or writes.
 */
#ifndef PL_LE_H
#define PL_LE_H

#include <stdint.h>

static inline uint32_t pl_le16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t pl_le32(const uint8_t *p) {
    return pl_le16(p) | pl_le16(p + 2) << 16;
}
static inline uint64_t pl_le64(const uint8_t *p) {
    return pl_le32(p) | (uint64_t)pl_le32(p + 4) << 32;
}
static inline void pl_le64_put(uint8_t *p, uint64_t value) {
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

#endif
