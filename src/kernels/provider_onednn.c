/* oneDNN 2.x as a provider: f32 products (dnnl_sgemm), integer products, f32 convolutions.
 *
 * The library is opened by its soname, which guarantees the C interface of 2.x, so no header is
 * needed. Its types are declared here: handles are pointers, statuses and kinds are ints, and
 * descriptors, whose fields we never access, are buffers several times the size of those in 2.6
 * (696 and 5976 bytes).
 *
 * A convolution is split by channels, depending on its shape; each part runs on one thread. Weights
 * in the library's layout are kept in the state; inputs and outputs are reordered. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/cpu.h"
#include "kernels/provider.h"

typedef struct dnnl_md {
    _Alignas(16) char bytes[2048];
} dnnl_md;
typedef struct dnnl_op {
    _Alignas(16) char bytes[16384];
} dnnl_op;
typedef struct dnnl_arg {
    int arg;
    void *memory;
} dnnl_arg;
typedef struct dnnl_version_info {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} dnnl_version_info;

/* Constants of dnnl_types.h and dnnl_config.h, 2.x. */
enum {
    SUCCESS = 0,
    OUT_OF_MEMORY = 1,
    F32 = 3,
    ANY = 1,      /* format tag */
    CPU = 1,      /* engine */
    IN_ORDER = 1, /* stream */
    FORWARD_INFERENCE = 96,
    DIRECT = 1, /* convolution */
    QUERY_SRC = 129,
    QUERY_WEIGHTS = 131,
    QUERY_DST = 133,
    QUERY_SCRATCHPAD = 136,
    SCRATCHPAD_USER = 1,
    ARG_SRC = 1,
    ARG_DST = 17,
    ARG_WEIGHTS = 33,
    ARG_BIAS = 41,
    ARG_SCRATCHPAD = 80,
    RUNTIME_SEQUENTIAL = 1,
    RUNTIME_OMP = 2,
    ISA_SSE41 = 0x1,
    ISA_AVX2 = 0x7,
    ISA_AVX512_VNNI = 0x67,
    ISA_AVX512_BF16 = 0xe7,
};

static pthread_once_t lib_once = PTHREAD_ONCE_INIT;
/* Written once under lib_once, read-only afterwards. */
static struct {
    const dnnl_version_info *(*version)(void);
    int (*set_max_cpu_isa)(int isa);
    int (*effective_isa)(void);
    int (*sgemm)(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                 const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                 int64_t ldc);
    int (*gemm_u8s8)(char trans_a, char trans_b, char offset_c, int64_t m, int64_t n, int64_t k,
                     float alpha, const uint8_t *a, int64_t lda, uint8_t a_zero, const int8_t *b,
                     int64_t ldb, int8_t b_zero, float beta, int32_t *c, int64_t ldc,
                     const int32_t *c_offset);
    int (*gemm_s8s8)(char trans_a, char trans_b, char offset_c, int64_t m, int64_t n, int64_t k,
                     float alpha, const int8_t *a, int64_t lda, int8_t a_zero, const int8_t *b,
                     int64_t ldb, int8_t b_zero, float beta, int32_t *c, int64_t ldc,
                     const int32_t *c_offset);
    int (*engine_create)(void **engine, int kind, size_t index);
    int (*stream_create)(void **stream, void *engine, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*attr_create)(void **attr);
    int (*attr_set_scratchpad)(void *attr, int mode);
    int (*md_by_strides)(dnnl_md *md, int n_dims, const int64_t *dims, int type,
                         const int64_t *strides);
    int (*md_by_tag)(dnnl_md *md, int n_dims, const int64_t *dims, int type, int tag);
    int (*md_equal)(const void *a, const void *b);
    size_t (*md_size)(const void *md);
    int (*conv_desc)(dnnl_op *op, int propagation, int algorithm, const dnnl_md *src,
                     const dnnl_md *weights, const dnnl_md *bias, const dnnl_md *dst,
                     const int64_t *strides, const int64_t *dilations, const int64_t *pad_begin,
                     const int64_t *pad_end);
    int (*pd_create)(void **pd, const dnnl_op *op, void *attr, void *engine, void *hint);
    int (*pd_destroy)(void *pd);
    const void *(*pd_md)(void *pd, int what, int index);
    int (*reorder_pd_create)(void **pd, const void *from, void *from_engine, const void *to,
                             void *to_engine, void *attr);
    int (*primitive_create)(void **primitive, void *pd);
    int (*primitive_execute)(void *primitive, void *stream, int n_args, const dnnl_arg *args);
    int (*primitive_destroy)(void *primitive);
    int (*memory_create)(void **memory, const void *md, void *engine, void *data);
    int (*memory_destroy)(void *memory);
    void (*omp_threads)(int n); /* NULL: the library has no threads */
    void *engine, *attr;
    bool exact_i8;
    char text[64];
    pl_status status;
    pl_err err;
} lib;

/* ---- loading ---- */

/* A virtual machine may report AMX but not allow it, and the library would crash in tilezero. AMX
 * does not make f32 faster, so it is disabled. PLUMB_CPU is honoured, too. */
static int isa_wanted(void) {
    switch (pl_cpu_isa()) {
    case PL_ISA_AVX512: return ISA_AVX512_BF16;
    case PL_ISA_AVX2: return ISA_AVX2;
    case PL_ISA_BASE:
    case PL_ISA_NEON:
    case PL_ISA_COUNT: break;
    }
    return ISA_SSE41;
}

static const pl_symbol symbols[] = {
    { "dnnl_version", &lib.version },
    { "dnnl_set_max_cpu_isa", &lib.set_max_cpu_isa },
    { "dnnl_get_effective_cpu_isa", &lib.effective_isa },
    { "dnnl_sgemm", &lib.sgemm },
    { "dnnl_gemm_u8s8s32", &lib.gemm_u8s8 },
    { "dnnl_gemm_s8s8s32", &lib.gemm_s8s8 },
    { "dnnl_engine_create", &lib.engine_create },
    { "dnnl_stream_create", &lib.stream_create },
    { "dnnl_stream_destroy", &lib.stream_destroy },
    { "dnnl_primitive_attr_create", &lib.attr_create },
    { "dnnl_primitive_attr_set_scratchpad_mode", &lib.attr_set_scratchpad },
    { "dnnl_memory_desc_init_by_strides", &lib.md_by_strides },
    { "dnnl_memory_desc_init_by_tag", &lib.md_by_tag },
    { "dnnl_memory_desc_equal", &lib.md_equal },
    { "dnnl_memory_desc_get_size", &lib.md_size },
    { "dnnl_dilated_convolution_forward_desc_init", &lib.conv_desc },
    { "dnnl_primitive_desc_create", &lib.pd_create },
    { "dnnl_primitive_desc_destroy", &lib.pd_destroy },
    { "dnnl_primitive_desc_query_md", &lib.pd_md },
    { "dnnl_reorder_primitive_desc_create", &lib.reorder_pd_create },
    { "dnnl_primitive_create", &lib.primitive_create },
    { "dnnl_primitive_execute", &lib.primitive_execute },
    { "dnnl_primitive_destroy", &lib.primitive_destroy },
    { "dnnl_memory_create", &lib.memory_create },
    { "dnnl_memory_destroy", &lib.memory_destroy },
};
static pl_library library = PL_LIBRARY("oneDNN", "libdnnl2", symbols, "libdnnl.so.2");

static pl_status lib_start(pl_err *err) {
    if (pl_library_open(&library, err) != PL_OK) return PL_E_NOT_FOUND;
    const char *missing = NULL;
    const dnnl_version_info *v = lib.version();
    if (v->major != 2)
        return pl_fail(err, PL_E_NOT_FOUND, "oneDNN is %d.%d, expected 2.x", v->major, v->minor);
    const pl_symbol threads = { "omp_set_num_threads", &lib.omp_threads };
    if (v->cpu_runtime == RUNTIME_OMP) missing = pl_symbols_load(library.handle, &threads, 1);
    if (missing != NULL || (v->cpu_runtime != RUNTIME_OMP && v->cpu_runtime != RUNTIME_SEQUENTIAL))
        return pl_fail(err, PL_E_NOT_FOUND,
                       "oneDNN uses a threading runtime (%u) that cannot be limited to one thread",
                       v->cpu_runtime);
    (void)lib.set_max_cpu_isa(isa_wanted()); /* may fail after a first use: harmless */
    if (lib.engine_create(&lib.engine, CPU, 0) != SUCCESS ||
        lib.attr_create(&lib.attr) != SUCCESS ||
        lib.attr_set_scratchpad(lib.attr, SCRATCHPAD_USER) != SUCCESS)
        return pl_fail(err, PL_E_NOT_FOUND, "oneDNN has no CPU engine");
    const int isa = lib.effective_isa();
    lib.exact_i8 = (isa & ISA_AVX512_VNNI) == ISA_AVX512_VNNI;
    snprintf(lib.text, sizeof lib.text, "oneDNN %d.%d.%d isa 0x%x", v->major, v->minor, v->patch,
             (unsigned)isa);
    return PL_OK;
}

static void lib_open(void) {
    lib.status = lib_start(&lib.err);
}

static pl_status onednn_open(pl_err *err) {
    pthread_once(&lib_once, lib_open);
    return lib.status == PL_OK ? PL_OK : pl_fail(err, lib.status, "%s", lib.err.message);
}
static const char *onednn_version(void) {
    return lib.text;
}

/* Per calling thread, because OpenMP stores the number per thread. */
static void one_thread(void) {
    if (lib.omp_threads != NULL) lib.omp_threads(1);
}

/* ---- products ---- */

static char trans(bool yes) {
    return yes ? 'T' : 'N';
}

static pl_status of_dnnl(int status) {
    return status == SUCCESS ? PL_OK : status == OUT_OF_MEMORY ? PL_E_MEMORY : PL_E_UNSUPPORTED;
}

static pl_status onednn_gemm_f32(const pl_product *p, float alpha, const float *a, const float *b,
                                 float beta, float *c) {
    one_thread();
    return of_dnnl(lib.sgemm(trans(p->trans_a), trans(p->trans_b), p->m, p->n, p->k, alpha, a,
                             p->lda, b, p->ldb, beta, c, p->ldc));
}

/* Without VNNI the library adds pairs in 16 bits, which saturates; our own kernels are exact. It
 * also requires a signed B and one zero point per matrix. */
static pl_status onednn_gemm_i8(const pl_product_i8 *p, bool *served, pl_err *err) {
    const pl_gemm_shape *s = p->shape;
    const bool one_zero = p->a_zero.step == 0 && p->b_zero.step == 0;
    if (!lib.exact_i8 || !p->b_signed || !one_zero || s->m == 0 || s->n == 0 || s->k == 0)
        return PL_OK;
    if ((uintptr_t)p->c % sizeof(int32_t) != 0) return PL_OK;
    one_thread();
    for (int64_t q = 0; q < s->batch; q++) {
        const uint8_t *a = p->a, *b = p->b;
        const int32_t za = p->a_zero.value == NULL ? 0 : p->a_zero.value[q * p->a_zero.stride];
        const int32_t zb = p->b_zero.value == NULL ? 0 : p->b_zero.value[q * p->b_zero.stride];
        const int32_t none = 0;
        int32_t *c = (int32_t *)(void *)p->c + q * s->stride_c;
        a += s->offsets_a != NULL ? s->offsets_a[q] : q * s->stride_a;
        b += s->offsets_b != NULL ? s->offsets_b[q] : q * s->stride_b;
        const int r =
            p->a_signed ? lib.gemm_s8s8(trans(s->trans_a), trans(s->trans_b), 'F', s->m, s->n, s->k,
                                        1, (const int8_t *)a, s->lda, (int8_t)za, (const int8_t *)b,
                                        s->ldb, (int8_t)zb, 0, c, s->ldc, &none)
                        : lib.gemm_u8s8(trans(s->trans_a), trans(s->trans_b), 'F', s->m, s->n, s->k,
                                        1, a, s->lda, (uint8_t)za, (const int8_t *)b, s->ldb,
                                        (int8_t)zb, 0, c, s->ldc, &none);
        if (r == OUT_OF_MEMORY) return pl_fail_memory(err, 0);
        if (r != SUCCESS) return PL_OK;
    }
    *served = true;
    return PL_OK;
}

/* ---- convolutions ---- */

enum { PARTS_MAX = 4, PART_CHANNELS = 16 };

/* A convolution of one batch item and one part of the channels. */
typedef struct conv_lib {
    pl_conv_geo geo;
    const pl_f32 *w;
    bool has_bias;
    int64_t parts, co, groups;       /* parts; output channels and groups of one part */
    int64_t n_src, n_dst;            /* elements of a part, dense */
    dnnl_md src, dst, weights, bias; /* dense */
    void *pd, *primitive;
    void *in_pd, *in, *out_pd, *out; /* reorders; NULL: the layout is dense already */
    char *packed;                    /* weights, part by part */
    size_t src_bytes, dst_bytes, weight_bytes;
} conv_lib;

static void conv_lib_free(void *kept) {
    conv_lib *l = kept;
    if (l == NULL) return;
    void *primitives[] = { l->primitive, l->in, l->out }, *pds[] = { l->pd, l->in_pd, l->out_pd };
    for (int i = 0; i < 3; i++) {
        if (primitives[i] != NULL) lib.primitive_destroy(primitives[i]);
        if (pds[i] != NULL) lib.pd_destroy(pds[i]);
    }
    pl_free(l->packed);
    pl_free(l);
}

/* Parts of equal size, each a multiple of the library's blocks; depends only on the shape. */
static int64_t parts_of(const pl_conv_geo *g) {
    const double flops = 2.0 * (double)(g->groups * g->co * g->ci * g->n_taps) * (double)g->n_out;
    const int64_t total = g->groups == 1 ? g->co : g->groups;
    const int64_t unit = g->groups == 1 || g->ci == 1 ? PART_CHANNELS : 1;
    int64_t parts = flops < 4e6 ? 1 : PARTS_MAX;
    while (parts > 1 && total % (parts * unit) != 0)
        parts /= 2;
    return parts;
}

/* If padding or dilation is far larger than the input, the library's code generator runs for
 * minutes. */
static bool conv_fits(const pl_conv_shape *s, const pl_conv_geo *g) {
    for (int i = 0; i < s->n_spatial; i++)
        if (s->in[i] < 1 || s->pad_begin[i] < 0) return false;
    return g->ci > 0 && pl_conv_stage_of(g).fits;
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Arguments of a primitive; the list ends where the data is NULL. The scratchpad comes last. */
typedef struct operand {
    int arg;
    const void *md;
    void *data;
} operand;

static int execute(void *pd, void *primitive, const operand *operands, int n) {
    dnnl_arg args[6] = { { 0 } };
    void *stream = NULL, *scratch = NULL;
    const void *scratch_md = lib.pd_md(pd, QUERY_SCRATCHPAD, 0);
    const size_t scratch_bytes = scratch_md == NULL ? 0 : lib.md_size(scratch_md);
    int st = lib.stream_create(&stream, lib.engine, IN_ORDER), n_args = 0;
    for (; st == SUCCESS && n_args < n; n_args++) {
        args[n_args].arg = operands[n_args].arg;
        st = lib.memory_create(&args[n_args].memory, operands[n_args].md, lib.engine,
                               operands[n_args].data);
    }
    if (st == SUCCESS && scratch_bytes > 0) {
        scratch = pl_aligned_alloc(4096, round_up(scratch_bytes));
        st = scratch == NULL ? OUT_OF_MEMORY : SUCCESS;
        args[n_args].arg = ARG_SCRATCHPAD;
        if (st == SUCCESS)
            st = lib.memory_create(&args[n_args].memory, scratch_md, lib.engine, scratch);
        n_args++;
    }
    if (st == SUCCESS) st = lib.primitive_execute(primitive, stream, n_args, args);
    for (int i = 0; i < n_args; i++)
        if (args[i].memory != NULL) lib.memory_destroy(args[i].memory);
    if (stream != NULL) lib.stream_destroy(stream);
    pl_free(scratch);
    return st;
}

static int reorder_new(const void *from, const void *to, void **pd, void **primitive) {
    if (lib.md_equal(from, to)) return SUCCESS;
    const int st = lib.reorder_pd_create(pd, from, lib.engine, to, lib.engine, lib.attr);
    return st != SUCCESS ? st : lib.primitive_create(primitive, *pd);
}

/* Weights of every part in the library's layout. */
static int weights_pack(conv_lib *l, const float *w) {
    const void *md = lib.pd_md(l->pd, QUERY_WEIGHTS, 0);
    const int64_t n = l->groups * l->co * l->geo.ci * l->geo.n_taps;
    void *pd = NULL, *primitive = NULL;
    l->weight_bytes = round_up(lib.md_size(md));
    l->packed = pl_large_alloc(l->weight_bytes * (size_t)l->parts);
    if (l->packed == NULL) return OUT_OF_MEMORY;
    int st = reorder_new(&l->weights, md, &pd, &primitive);
    for (int64_t i = 0; i < l->parts && st == SUCCESS; i++) {
        char *to = l->packed + (size_t)i * l->weight_bytes;
        const operand operands[] = { { ARG_SRC, &l->weights, (void *)(uintptr_t)(w + i * n) },
                                     { ARG_DST, md, to } };
        if (primitive == NULL)
            memcpy(to, w + i * n, (size_t)n * sizeof(float));
        else
            st = execute(pd, primitive, operands, 2);
    }
    if (primitive != NULL) lib.primitive_destroy(primitive);
    if (pd != NULL) lib.pd_destroy(pd);
    return st;
}

typedef struct conv_dims {
    /* dnnl_dims_t */
    int64_t x[12], y[12], w[12], b[12], stride[12], dilation[12], begin[12], end[12];
    int n, n_w;
} conv_dims;

static conv_dims dims_of(const conv_lib *l, const pl_conv_shape *s) {
    conv_dims d = { .n = s->n_spatial + 2, .n_w = s->n_spatial + 2 + (l->geo.groups > 1) };
    const int64_t channels = l->groups * l->co;
    int at = 0;
    d.x[0] = d.y[0] = 1;
    d.x[1] = l->groups * l->geo.ci;
    d.y[1] = d.b[0] = channels;
    if (l->geo.groups > 1) d.w[at++] = l->groups;
    d.w[at++] = l->co;
    d.w[at++] = l->geo.ci;
    for (int i = 0; i < s->n_spatial; i++) {
        d.x[2 + i] = s->in[i];
        d.y[2 + i] = s->out[i];
        d.w[at + i] = s->kernel[i];
        d.stride[i] = s->stride[i];
        d.dilation[i] = s->dilation[i] - 1; /* 0 = none */
        d.begin[i] = s->pad_begin[i];
        d.end[i] = (s->out[i] - 1) * s->stride[i] + (s->kernel[i] - 1) * s->dilation[i] + 1 -
                   s->in[i] - s->pad_begin[i];
    }
    return d;
}

static int conv_describe(conv_lib *l, const conv_dims *d) {
    dnnl_md src, dst, weights;
    dnnl_op op;
    int st = lib.md_by_strides(&l->src, d->n, d->x, F32, NULL);
    if (st == SUCCESS) st = lib.md_by_strides(&l->dst, d->n, d->y, F32, NULL);
    if (st == SUCCESS) st = lib.md_by_strides(&l->weights, d->n_w, d->w, F32, NULL);
    if (st == SUCCESS) st = lib.md_by_strides(&l->bias, 1, d->b, F32, NULL);
    if (st == SUCCESS) st = lib.md_by_tag(&src, d->n, d->x, F32, ANY);
    if (st == SUCCESS) st = lib.md_by_tag(&dst, d->n, d->y, F32, ANY);
    if (st == SUCCESS) st = lib.md_by_tag(&weights, d->n_w, d->w, F32, ANY);
    if (st == SUCCESS)
        st = lib.conv_desc(&op, FORWARD_INFERENCE, DIRECT, &src, &weights,
                           l->has_bias ? &l->bias : NULL, &dst, d->stride, d->dilation, d->begin,
                           d->end);
    if (st == SUCCESS) st = lib.pd_create(&l->pd, &op, lib.attr, lib.engine, NULL);
    if (st == SUCCESS) st = lib.primitive_create(&l->primitive, l->pd);
    return st;
}

static int conv_lib_new(const pl_conv_shape *shape, const pl_conv_geo *g, const float *aligned_w,
                        conv_lib *l) {
    l->parts = parts_of(g);
    l->groups = g->groups == 1 ? 1 : g->groups / l->parts;
    l->co = g->groups == 1 ? g->co / l->parts : g->co;
    l->n_src = l->groups * g->ci * g->n_in;
    l->n_dst = l->groups * l->co * g->n_out;
    const conv_dims d = dims_of(l, shape);
    one_thread();
    int st = conv_describe(l, &d);
    if (st != SUCCESS) return st;
    const void *src = lib.pd_md(l->pd, QUERY_SRC, 0), *dst = lib.pd_md(l->pd, QUERY_DST, 0);
    l->src_bytes = round_up(lib.md_size(src));
    l->dst_bytes = round_up(lib.md_size(dst));
    st = reorder_new(&l->src, src, &l->in_pd, &l->in);
    if (st == SUCCESS) st = reorder_new(dst, &l->dst, &l->out_pd, &l->out);
    return st != SUCCESS ? st : weights_pack(l, aligned_w);
}

typedef struct conv_run {
    const conv_lib *l;
    const float *x, *bias;
    float *y;
    char *reordered; /* inputs in the library's layout */
    atomic_int status;
} conv_run;

/* Without groups all parts of an item share one input, else each part has its own. */
static int64_t inputs_per_item(const conv_lib *l) {
    return l->geo.groups == 1 ? 1 : l->parts;
}

static void input_range(void *ctx, int64_t begin, int64_t end) {
    conv_run *r = ctx;
    const conv_lib *l = r->l;
    one_thread();
    for (int64_t i = begin; i < end; i++) {
        const operand operands[] = { { ARG_SRC, &l->src, (void *)(uintptr_t)(r->x + i * l->n_src) },
                                     { ARG_DST, lib.pd_md(l->pd, QUERY_SRC, 0),
                                       r->reordered + (size_t)i * l->src_bytes } };
        const int st = execute(l->in_pd, l->in, operands, 2);
        if (st != SUCCESS) atomic_store(&r->status, st);
    }
}

static int part_run(const conv_run *r, int64_t item, int64_t part) {
    const conv_lib *l = r->l;
    const int64_t input = item * inputs_per_item(l) + (l->geo.groups == 1 ? 0 : part);
    float *y = r->y + (item * l->parts + part) * l->n_dst;
    float *to = y;
    if (l->out != NULL && (to = pl_aligned_alloc(64, l->dst_bytes)) == NULL) return OUT_OF_MEMORY;
    const void *src = l->in != NULL ? (const void *)(r->reordered + (size_t)input * l->src_bytes)
                                    : (const void *)(r->x + input * l->n_src);
    const void *dst = lib.pd_md(l->pd, QUERY_DST, 0);
    const float *bias = r->bias == NULL ? NULL : r->bias + part * l->groups * l->co;
    const operand operands[] = {
        { ARG_SRC, lib.pd_md(l->pd, QUERY_SRC, 0), (void *)(uintptr_t)src },
        { ARG_WEIGHTS, lib.pd_md(l->pd, QUERY_WEIGHTS, 0),
          l->packed + (size_t)part * l->weight_bytes },
        { ARG_DST, dst, to },
        { ARG_BIAS, &l->bias, (void *)(uintptr_t)bias },
    };
    int st = execute(l->pd, l->primitive, operands, l->has_bias ? 4 : 3);
    const operand back[] = { { ARG_SRC, dst, to }, { ARG_DST, &l->dst, y } };
    if (l->out != NULL) {
        if (st == SUCCESS) st = execute(l->out_pd, l->out, back, 2);
        pl_free(to);
    }
    return st;
}

static void part_range(void *ctx, int64_t begin, int64_t end) {
    conv_run *r = ctx;
    one_thread();
    for (int64_t i = begin; i < end; i++) {
        const int st = part_run(r, i / r->l->parts, i % r->l->parts);
        if (st != SUCCESS) atomic_store(&r->status, st);
    }
}

static int run_all(pl_pool *pool, conv_run *r) {
    const conv_lib *l = r->l;
    const int64_t batch = l->geo.batch, inputs = batch * inputs_per_item(l);
    atomic_init(&r->status, SUCCESS);
    if (l->in != NULL) {
        r->reordered = pl_aligned_alloc(64, l->src_bytes * (size_t)inputs);
        if (r->reordered == NULL) return OUT_OF_MEMORY;
        pl_pool_for(pool, inputs, 1, input_range, r);
    }
    if (atomic_load(&r->status) == SUCCESS) pl_pool_for(pool, batch * l->parts, 1, part_range, r);
    pl_free(r->reordered);
    return atomic_load(&r->status);
}

/* p itself, or a copy in *copy if it is misaligned. */
static const float *aligned(const pl_f32 *p, int64_t n, float **copy) {
    if ((uintptr_t)p % sizeof(float) == 0) return (const float *)(const void *)p;
    *copy = pl_aligned_alloc(64, round_up((size_t)n * sizeof(float)));
    if (*copy != NULL) memcpy(*copy, p, (size_t)n * sizeof(float));
    return *copy;
}

static int ensure(const pl_conv_shape *shape, const pl_conv_geo *g, const pl_f32 *w, bool has_bias,
                  pl_conv_state **slot) {
    conv_lib *l = *slot == NULL ? NULL : (*slot)->library;
    if (l != NULL && l->w == w && l->has_bias == has_bias && memcmp(&l->geo, g, sizeof *g) == 0)
        return SUCCESS;
    pl_conv_state_free(*slot);
    *slot = NULL;
    pl_conv_state *st = pl_calloc(1, sizeof *st);
    float *copy = NULL;
    const float *from = aligned(w, g->groups * g->co * g->ci * g->n_taps, &copy);
    l = pl_calloc(1, sizeof *l);
    int r = OUT_OF_MEMORY;
    if (st != NULL && l != NULL && from != NULL) {
        *l = (conv_lib){ .geo = *g, .w = w, .has_bias = has_bias };
        r = conv_lib_new(shape, g, from, l);
    }
    pl_free(copy);
    if (r != SUCCESS) {
        conv_lib_free(l);
        pl_free(st);
        return r;
    }
    st->library = l;
    st->library_free = conv_lib_free;
    *slot = st;
    return SUCCESS;
}

static bool is_kept(const pl_conv_state *st, const pl_f32 *w) {
    const conv_lib *l = st == NULL ? NULL : st->library;
    return l != NULL && l->w == w;
}

static pl_status onednn_conv_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                                 const pl_f32 *w, const pl_f32 *bias, pl_f32 *y,
                                 pl_conv_state **state, bool *served, pl_err *err) {
    pl_conv_geo g;
    pl_conv_state *own = NULL;
    float *copies[3] = { NULL };
    PL_TRY(pl_conv_geo_of(shape, &g, err));
    if (!conv_fits(shape, &g)) return PL_OK;
    /* The library skips padding, but ours is zeros: 0 times Inf must be NaN. */
    if (!is_kept(state == NULL ? NULL : *state, w) &&
        !pl_conv_is_finite_f32(w, g.groups * g.co * g.ci * g.n_taps))
        return PL_OK;
    const int64_t n_y = g.batch * g.groups * g.co * g.n_out;
    pl_conv_state **slot = state != NULL ? state : &own;
    int st = ensure(shape, &g, w, bias != NULL, slot);
    if (st == SUCCESS) {
        conv_run r = { .l = (*slot)->library };
        r.x = aligned(x, g.batch * g.groups * g.ci * g.n_in, &copies[0]);
        r.bias = bias == NULL ? NULL : aligned(bias, g.groups * g.co, &copies[1]);
        r.y = (float *)(uintptr_t)aligned(y, n_y, &copies[2]);
        st = r.x == NULL || r.y == NULL || (bias != NULL && r.bias == NULL) ? OUT_OF_MEMORY
                                                                            : run_all(pool, &r);
    }
    if (st == SUCCESS && copies[2] != NULL) memcpy(y, copies[2], (size_t)n_y * sizeof(float));
    for (int i = 0; i < 3; i++)
        pl_free(copies[i]);
    pl_conv_state_free(own);
    *served = st == SUCCESS;
    return st == OUT_OF_MEMORY ? pl_fail_memory(err, 0) : PL_OK;
}

const pl_provider pl_provider_onednn = {
    .name = "onednn",
    .serves = "products in f32, u8 x s8 and s8 x s8 (with VNNI), convolutions in f32",
    .open = onednn_open,
    .version = onednn_version,
    .gemm_f32 = onednn_gemm_f32,
    .gemm_i8 = onednn_gemm_i8,
    .conv_f32 = onednn_conv_f32,
};
