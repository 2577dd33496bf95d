/* Time of the own convolution (weights packed) beside oneDNN 2.x, as an eager interpreter would
 * call it: NCHW in and out, reorders counted ("dnnl"), and without reorders ("dnnl fmt"). One
 * thread, or argv[1]. Compile with libdnnl-dev and link -ldnnl: this program is not part of plumb.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/conv/conv.h"
#include "kernels/cpu.h"

extern void omp_set_num_threads(int n);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct lib {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} lib;
typedef struct prim {
    dnnl_primitive_t conv, in, out;
    dnnl_memory_t x, w, b, y, xf, yf;
    const char *name;
} prim;

static dnnl_memory_t memory(lib *l, const dnnl_memory_desc_t *md, void *p) {
    dnnl_memory_t m;
    dnnl_memory_create(&m, md, l->engine, p);
    return m;
}
static void run2(lib *l, dnnl_primitive_t p, dnnl_memory_t a, dnnl_memory_t b) {
    dnnl_exec_arg_t args[2] = { { DNNL_ARG_FROM, a }, { DNNL_ARG_TO, b } };
    dnnl_primitive_execute(p, l->stream, 2, args);
}
static dnnl_primitive_t reorder(lib *l, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b) {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t p;
    dnnl_reorder_primitive_desc_create(&pd, a, l->engine, b, l->engine, NULL);
    dnnl_primitive_create(&p, pd);
    return p;
}
static prim prim_new(lib *l, const pl_conv_shape *s, float *x, float *w, float *b, float *y) {
    prim r = { 0 };
    const int64_t g = s->groups;
    const dnnl_dims_t dx = { s->batch, s->c_in, s->in[0], s->in[1] };
    const dnnl_dims_t dy = { s->batch, s->c_out, s->out[0], s->out[1] };
    const dnnl_dims_t dw = { s->c_out, s->c_in, s->kernel[0], s->kernel[1] };
    const dnnl_dims_t dg = { g, s->c_out / g, s->c_in / g, s->kernel[0], s->kernel[1] };
    const dnnl_dims_t db = { s->c_out };
    const dnnl_dims_t stride = { s->stride[0], s->stride[1] },
                      pad = { s->pad_begin[0], s->pad_begin[1] };
    dnnl_dims_t end;
    for (int i = 0; i < 2; i++)
        end[i] = (s->out[i] - 1) * s->stride[i] + s->kernel[i] - s->in[i] - s->pad_begin[i];
    dnnl_memory_desc_t mx, my, mw, mb, ax, ay, aw;
    dnnl_memory_desc_init_by_tag(&mx, 4, dx, dnnl_f32, dnnl_nchw);
    dnnl_memory_desc_init_by_tag(&my, 4, dy, dnnl_f32, dnnl_nchw);
    dnnl_memory_desc_init_by_tag(&mb, 1, db, dnnl_f32, dnnl_x);
    dnnl_memory_desc_init_by_tag(&mw, g > 1 ? 5 : 4, g > 1 ? dg : dw, dnnl_f32,
                                 g > 1 ? dnnl_goihw : dnnl_oihw);
    dnnl_memory_desc_init_by_tag(&ax, 4, dx, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&ay, 4, dy, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&aw, g > 1 ? 5 : 4, g > 1 ? dg : dw, dnnl_f32,
                                 dnnl_format_tag_any);
    dnnl_convolution_desc_t cd;
    dnnl_primitive_desc_t pd;
    if (dnnl_convolution_forward_desc_init(&cd, dnnl_forward_inference, dnnl_convolution_auto, &ax,
                                           &aw, &mb, &ay, stride, pad, end) ||
        dnnl_primitive_desc_create(&pd, &cd, NULL, l->engine, NULL))
        exit(1);
    dnnl_primitive_create(&r.conv, pd);
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &r.name);
    const dnnl_memory_desc_t *fx = dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t *fy = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    const dnnl_memory_desc_t *fw = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    r.x = memory(l, &mx, x);
    r.y = memory(l, &my, y);
    r.b = memory(l, &mb, b);
    r.w = memory(l, fw, DNNL_MEMORY_ALLOCATE);
    r.xf = memory(l, fx, DNNL_MEMORY_ALLOCATE);
    r.yf = memory(l, fy, DNNL_MEMORY_ALLOCATE);
    run2(l, reorder(l, &mw, fw), memory(l, &mw, w), r.w);
    if (!dnnl_memory_desc_equal(&mx, fx)) r.in = reorder(l, &mx, fx);
    if (!dnnl_memory_desc_equal(&my, fy)) r.out = reorder(l, fy, &my);
    return r;
}
static void prim_run(lib *l, prim *p, int with_reorders) {
    if (with_reorders && p->in) run2(l, p->in, p->x, p->xf);
    dnnl_exec_arg_t args[4] = { { DNNL_ARG_SRC, p->in ? p->xf : p->x },
                                { DNNL_ARG_WEIGHTS, p->w },
                                { DNNL_ARG_BIAS, p->b },
                                { DNNL_ARG_DST, p->out ? p->yf : p->y } };
    dnnl_primitive_execute(p->conv, l->stream, 4, args);
    if (with_reorders && p->out) run2(l, p->out, p->yf, p->y);
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    pl_pool *pool = threads > 1 ? pl_pool_new(threads) : NULL;
    lib l;
    omp_set_num_threads(threads);
    dnnl_engine_create(&l.engine, dnnl_cpu, 0);
    dnnl_stream_create(&l.stream, l.engine, dnnl_stream_default_flags);
    /* ci, co, groups, in, kernel, stride, pad, how many in the model (resnet18 | mobilenet_v3_s,
     * efficientnet_b0) */
    static const int shapes[][9] = {
        { 3, 64, 1, 224, 7, 2, 3, 1, 0 },       { 64, 64, 1, 56, 3, 1, 1, 4, 0 },
        { 64, 128, 1, 56, 3, 2, 1, 1, 0 },      { 128, 128, 1, 28, 3, 1, 1, 3, 0 },
        { 64, 128, 1, 56, 1, 2, 0, 1, 0 },      { 128, 256, 1, 28, 3, 2, 1, 1, 0 },
        { 256, 256, 1, 14, 3, 1, 1, 3, 0 },     { 128, 256, 1, 28, 1, 2, 0, 1, 0 },
        { 256, 512, 1, 14, 3, 2, 1, 1, 0 },     { 512, 512, 1, 7, 3, 1, 1, 3, 0 },
        { 256, 512, 1, 14, 1, 2, 0, 1, 0 },     { 3, 16, 1, 224, 3, 2, 1, 1, 1 },
        { 16, 16, 16, 112, 3, 2, 1, 1, 1 },     { 16, 72, 1, 56, 1, 1, 0, 1, 1 },
        { 72, 72, 72, 56, 3, 2, 1, 1, 1 },      { 72, 24, 1, 28, 1, 1, 0, 1, 1 },
        { 24, 88, 1, 28, 1, 1, 0, 1, 1 },       { 96, 96, 96, 28, 5, 2, 2, 1, 1 },
        { 96, 40, 1, 14, 1, 1, 0, 1, 1 },       { 40, 240, 1, 14, 1, 1, 0, 2, 1 },
        { 240, 240, 240, 14, 5, 1, 2, 2, 1 },   { 240, 40, 1, 14, 1, 1, 0, 2, 1 },
        { 288, 288, 288, 14, 5, 2, 2, 1, 1 },   { 96, 576, 1, 7, 1, 1, 0, 3, 1 },
        { 576, 576, 576, 7, 5, 1, 2, 2, 1 },    { 576, 96, 1, 7, 1, 1, 0, 3, 1 },
        { 32, 32, 32, 112, 3, 1, 1, 1, 2 },     { 32, 16, 1, 112, 1, 1, 0, 1, 2 },
        { 16, 96, 1, 112, 1, 1, 0, 1, 2 },      { 96, 96, 96, 112, 3, 2, 1, 1, 2 },
        { 24, 144, 1, 56, 1, 1, 0, 2, 2 },      { 144, 144, 144, 56, 3, 1, 1, 1, 2 },
        { 144, 24, 1, 56, 1, 1, 0, 1, 2 },      { 240, 240, 240, 28, 5, 1, 2, 1, 2 },
        { 672, 112, 1, 14, 1, 1, 0, 3, 2 },     { 672, 672, 672, 14, 5, 1, 2, 2, 2 },
        { 1152, 1152, 1152, 7, 5, 1, 2, 3, 2 }, { 1152, 192, 1, 7, 1, 1, 0, 3, 2 },
        { 320, 1280, 1, 7, 1, 1, 0, 1, 2 },
    };
    double total[3][3] = { { 0 } };
    printf("%s, cpu %s, %d threads\n%-30s %9s %9s %9s  GF/s own, ratio own/dnnl\n", pl_cpu_name(),
           pl_isa_name(pl_cpu_isa()), threads, "ci co g in k s (times)", "own us", "dnnl us",
           "dnnl fmt");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int *q = shapes[i];
        const int64_t out = (q[3] + 2 * q[6] - q[4]) / q[5] + 1;
        const pl_conv_shape s = { 2,
                                  1,
                                  q[0],
                                  q[1],
                                  q[2],
                                  { q[3], q[3] },
                                  { out, out },
                                  { q[4], q[4] },
                                  { q[5], q[5] },
                                  { 1, 1 },
                                  { q[6], q[6] } };
        const size_t nx = (size_t)(q[0] * q[3] * q[3]),
                     nw = (size_t)(q[1] * q[0] / q[2] * q[4] * q[4]);
        const size_t ny = (size_t)q[1] * (size_t)(out * out);
        float *x = aligned_alloc(64, nx * 4 / 64 * 64 + 64),
              *w = aligned_alloc(64, nw * 4 / 64 * 64 + 64);
        float *b = calloc((size_t)q[1], 4), *y = aligned_alloc(64, ny * 4 / 64 * 64 + 64);
        float *y2 = aligned_alloc(64, ny * 4 / 64 * 64 + 64);
        for (size_t j = 0; j < nx; j++)
            x[j] = (float)(j * 7919 % 1000) / 500 - 1;
        for (size_t j = 0; j < nw; j++)
            w[j] = (float)(j * 104729 % 1000) / 500 - 1;
        prim p = prim_new(&l, &s, x, w, b, y2);
        pl_conv_state *st = NULL;
        double best[3] = { 1e9, 1e9, 1e9 };
        for (int r = 0; r < 15; r++)
            for (int v = 0; v < 3; v++) {
                double t0 = 0;
                for (int k = -1; k < 4; k++) {
                    if (k == 0) t0 = now();
                    if (v == 0) pl_conv_f32(pool, &s, x, w, b, y, &st, NULL);
                    if (v > 0) prim_run(&l, &p, v == 1);
                }
                const double t = (now() - t0) / 4;
                if (t < best[v]) best[v] = t;
            }
        double worst = 0, top = 0;
        prim_run(&l, &p, 1);
        for (size_t j = 0; j < ny; j++) {
            const double d = (double)y[j] - (double)y2[j], a = y2[j] < 0 ? -y2[j] : y2[j];
            if (d > worst || -d > worst) worst = d > 0 ? d : -d;
            if (a > top) top = a;
        }
        char name[64];
        snprintf(name, sizeof name, "%d %d g%d %d k%d s%d (%d)", q[0], q[1], q[2], q[3], q[4], q[5],
                 q[7]);
        printf("%-30s %9.1f %9.1f %9.1f  %6.1f  %.2f  %s  err %.0e\n", name, best[0] * 1e6,
               best[1] * 1e6, best[2] * 1e6, 2e-9 * (double)(nw * (size_t)(out * out)) / best[0],
               best[0] / best[1], p.name, worst / top);
        for (int v = 0; v < 3; v++)
            total[q[8]][v] += best[v] * q[7] * 1e3;
        pl_conv_state_free(st);
    }
    for (int m = 0; m < 3; m++)
        printf("sum %d: own %.2f ms, dnnl with reorders %.2f, without %.2f\n", m, total[m][0],
               total[m][1], total[m][2]);
    pl_pool_free(pool);
    return 0;
}
