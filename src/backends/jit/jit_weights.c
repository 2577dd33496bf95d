/* Packs weights before the first run. Small ones, and constants that are read unpacked, are put
 * together in large pages: with small pages the weights of a model need more TLB entries than there
 * are, and every run would miss. Weights of 2 MB or more have large pages of their own. */
#include <string.h>

#include "backends/jit/jit_int.h"
#include "base/alloc.h"

enum { ALIGN = 64, SMALL_BYTES = 2 << 20 };
/* Packed forms of weights may take a quarter of what the weights take, or this much. Beyond it
 * products pack pieces as they need them. The packed form of a weight in a mapped file takes the
 * place of its pages, unless something else reads them. */
static const size_t PACKED_BYTES = (size_t)128 << 20;

typedef struct weights {
    jit_plan *plan;
    bool *read;     /* by primitive: a constant that is read unpacked */
    int *users;     /* by primitive: readers of a constant */
    size_t *packed; /* by primitive: bytes of a call's packed operand that can be moved */
    size_t room;    /* for further packed forms */
} weights;

static void note_read(void *ctx, int at) {
    weights *w = ctx;
    if (w->plan->prims[at].kind == JIT_CONST) w->read[at] = true;
}

static void note_user(void *ctx, int at) {
    weights *w = ctx;
    w->users[at]++;
}

static void count_users(weights *w) {
    const jit_plan *plan = w->plan;
    for (size_t i = 0; i < plan->n_prims; i++) {
        const jit_prim *prim = &plan->prims[i];
        if (!prim->live || prim->folded_in) continue;
        if (prim->kind != JIT_CALL && prim->kind != JIT_BREAK)
            jit_each_read(plan, prim, note_user, w);
        for (int k = 0; (prim->kind == JIT_CALL || prim->kind == JIT_BREAK) && k < prim->n_args;
             k++)
            w->users[prim->args[k].prim]++;
    }
}

/* The weight of a call if its packed form can take the place of its pages. */
static const pl_tensor *replaceable(const weights *w, const jit_prim *call) {
    if (call->call == NULL || call->n_args < 2) return NULL;
    const jit_prim *b = &w->plan->prims[call->args[1].prim];
    if (b->kind != JIT_CONST || b->tensor == NULL || w->users[call->args[1].prim] != 1) return NULL;
    return pl_tensor_is_mapped(b->tensor) ? b->tensor : NULL;
}

static pl_status pack(jit_program *p, weights *w, pl_err *err) {
    jit_plan *plan = w->plan;
    for (size_t i = 0; i < plan->n_prims; i++) {
        jit_prim *prim = &plan->prims[i];
        if (!prim->live || prim->folded_in || prim->kind == JIT_BREAK) continue;
        if (prim->kind != JIT_CALL) {
            jit_each_read(plan, prim, note_read, w);
            continue;
        }
        const pl_tensor *mapped = replaceable(w, prim);
        size_t all = SIZE_MAX;
        PL_TRY(
            jit_call_prepare(p, plan, prim, mapped != NULL ? &all : &w->room, &w->packed[i], err));
        if (mapped != NULL && w->packed[i] > 0) pl_tensor_forget(mapped);
        for (int k = 0; k < prim->n_args; k++)
            if (k != 1 || w->packed[i] == 0) note_read(w, prim->args[k].prim);
        if (w->packed[i] >= SMALL_BYTES) w->packed[i] = 0;
    }
    return PL_OK;
}

static size_t const_bytes(const weights *w, size_t i) {
    const jit_prim *prim = &w->plan->prims[i];
    if (!w->read[i] || prim->slot < 0) return 0;
    const size_t n = (size_t)prim->n * pl_dtype_bytes(prim->dtype);
    return n >= SMALL_BYTES ? 0 : n; /* large ones stay where they are */
}

static size_t room_for_packed(const jit_plan *plan) {
    size_t total = 0;
    for (size_t i = 0; i < plan->n_prims; i++) {
        const jit_prim *prim = &plan->prims[i];
        if (prim->kind == JIT_CONST) total += (size_t)prim->n * pl_dtype_bytes(prim->dtype);
    }
    return total / 4 > PACKED_BYTES ? total / 4 : PACKED_BYTES;
}

static size_t padded(size_t n) {
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static pl_status place(weights *w, pl_err *err) {
    jit_plan *plan = w->plan;
    size_t total = 0;
    for (size_t i = 0; i < plan->n_prims; i++)
        total += padded(w->packed[i]) + padded(const_bytes(w, i));
    if (total == 0) return PL_OK;
    plan->weights = pl_large_alloc(total);
    if (plan->weights == NULL) return pl_fail_memory(err, total);
    char *at = plan->weights;
    for (size_t i = 0; i < plan->n_prims; i++) {
        const jit_prim *prim = &plan->prims[i];
        const size_t n = const_bytes(w, i);
        if (w->packed[i] > 0) jit_call_move(prim->call, at);
        at += padded(w->packed[i]);
        if (n == 0) continue;
        memcpy(at, prim->tensor->data, n);
        pl_tensor_forget(prim->tensor);
        plan->buffers[prim->slot] = at;
        at += padded(n);
    }
    return PL_OK;
}

pl_status jit_weights(jit_program *p, jit_plan *plan, pl_err *err) {
    weights w = { .plan = plan, .room = room_for_packed(plan) };
    pl_status st = PL_OK;
    w.read = pl_calloc(plan->n_prims + 1, sizeof(bool));
    w.packed = pl_calloc(plan->n_prims + 1, sizeof(size_t));
    w.users = pl_calloc(plan->n_prims + 1, sizeof(int));
    if (w.read == NULL || w.packed == NULL || w.users == NULL) {
        st = pl_fail_memory(err, plan->n_prims);
        goto done;
    }
    count_users(&w);
    PL_TRY_GOTO(done, st, pack(p, &w, err));
    st = place(&w, err);
done:
    pl_free(w.read);
    pl_free(w.packed);
    pl_free(w.users);
    return st;
}
