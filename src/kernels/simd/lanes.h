/* Sums in 32 fixed lanes of doubles: element i goes to lane i mod 32, and lanes are added pairwise
 * at the end. So the order is the same for every vector width. */
#ifndef PL_LANES_H
#define PL_LANES_H

#include "kernels/simd/simd.h"

enum { PL_LANES = 32, PL_LANE_VECTORS = PL_LANES / PL_VD };

typedef struct pl_lanes {
    pl_vd v[PL_LANE_VECTORS];
} pl_lanes;

static inline double pl_lanes_sum(const pl_lanes *acc) {
    double lane[PL_LANES];
    memcpy(lane, acc->v, sizeof lane);
    for (int half = PL_LANES / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* Runs `body` for each vector `v` of doubles; `j` is its index among the lanes. The tail is padded
 * with zeros. */
#define PL_LANES_OF(x, n, type, load, body)                                                        \
    {                                                                                              \
        size_t i_ = 0;                                                                             \
        for (; i_ + PL_LANES <= (n); i_ += PL_LANES)                                               \
            for (int j = 0; j < PL_LANE_VECTORS; j++) {                                            \
                const pl_vd v = load((x) + i_ + j * PL_VD);                                        \
                body                                                                               \
            }                                                                                      \
        if (i_ < (n)) {                                                                            \
            type tail_[PL_LANES] = { 0 };                                                          \
            memcpy(tail_, (x) + i_, ((n)-i_) * sizeof(type));                                      \
            for (int j = 0; j < PL_LANE_VECTORS; j++) {                                            \
                const pl_vd v = load(tail_ + j * PL_VD);                                           \
                body                                                                               \
            }                                                                                      \
        }                                                                                          \
    }
#define PL_LANES_F32(x, n, body) PL_LANES_OF(x, n, float, pl_vd_load_f32, body)
#define PL_LANES_F64(x, n, body) PL_LANES_OF(x, n, double, pl_vd_load, body)

#endif
