/* Operators expanded into simpler ones: a graph in ONNX text, run in fp64 with bounds. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/text/text.h"
#include "ops/lib/bound_nn.h"

enum { PROGRAM_OPSET = 17 };

struct pl_b_program {
    pl_model *model;
    pl_b_term *terms; /* by value id */
    pl_arena *scratch;
};

void pl_b_term_release(pl_b_term *t) {
    pl_tensor_unref(t->x);
    pl_tensor_unref(t->e);
    *t = (pl_b_term){ .native = PL_UNDEFINED };
}

static void forget(pl_b_program *p) {
    for (uint32_t i = 0; p->terms != NULL && i < p->model->n_values; i++)
        pl_b_term_release(&p->terms[i]);
}

void pl_b_program_free(pl_b_program *p) {
    if (p == NULL) return;
    if (p->model != NULL) forget(p);
    pl_model_free(p->model);
    pl_free(p->terms);
    pl_arena_free(p->scratch);
    pl_free(p);
}

pl_status pl_b_program_new(pl_bound *c, const char *text, pl_b_program **out) {
    pl_status st = PL_OK;
    pl_b_program *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(c->err, sizeof(*p));
    PL_TRY_GOTO(fail, st, pl_model_parse_graph(text, PROGRAM_OPSET, &p->model, c->err));
    PL_TRY_GOTO(fail, st, pl_ops_resolve(p->model, c->err));
    for (size_t i = 0; i < p->model->graph->n_nodes; i++) {
        pl_node *node = p->model->graph->nodes[i];
        if (strncmp(node->out[0]->name, "attrs_", 6) != 0) continue;
        node->attrs = c->node->attrs; /* outlives the program and is never written */
        node->n_attrs = c->node->n_attrs;
    }
    p->terms = pl_calloc((size_t)p->model->n_values + 1, sizeof(*p->terms));
    p->scratch = pl_arena_new();
    if (p->terms == NULL || p->scratch == NULL) {
        st = pl_fail_memory(c->err, p->model->n_values);
        goto fail;
    }
    *out = p;
    return PL_OK;
fail:
    pl_b_program_free(p);
    return st;
}

/* ---- one node ---- */

typedef struct step {
    pl_datum **in, **out;
    pl_tensor **e_in, **e_out;
    pl_dtype *in_native, *out_native;
} step;

static bool step_init(step *s, pl_arena *arena, const pl_node *node) {
    const size_t n_in = (size_t)node->n_in + 1, n_out = (size_t)node->n_out + 1;
    s->in = pl_arena_array(arena, n_in, sizeof(*s->in));
    s->e_in = pl_arena_array(arena, n_in, sizeof(*s->e_in));
    s->in_native = pl_arena_array(arena, n_in, sizeof(*s->in_native));
    s->out = pl_arena_array(arena, n_out, sizeof(*s->out));
    s->e_out = pl_arena_array(arena, n_out, sizeof(*s->e_out));
    s->out_native = pl_arena_array(arena, n_out, sizeof(*s->out_native));
    return s->in != NULL && s->e_in != NULL && s->in_native != NULL && s->out != NULL &&
           s->e_out != NULL && s->out_native != NULL;
}

/* Float constants in the text have the type of the operator. */
static pl_status load(const pl_b_program *p, const pl_value *value, pl_dtype own, step *s,
                      uint32_t i, pl_err *err) {
    const pl_b_term *t = &p->terms[value->id];
    pl_tensor *x = NULL;
    s->in_native[i] = t->native;
    s->e_in[i] = t->e;
    if (t->x != NULL) {
        x = pl_tensor_ref(t->x);
    } else if (value->init != NULL) {
        const bool is_float = pl_dtype_is_float(value->init->dtype);
        s->in_native[i] = is_float ? own : value->init->dtype;
        if (is_float) {
            PL_TRY(pl_tensor_cast(value->init, PL_F64, &x, err));
        } else {
            x = pl_tensor_ref(value->init);
        }
    } else {
        return PL_OK; /* an optional input that the caller left out */
    }
    return pl_datum_of_tensor_take(x, &s->in[i], err);
}

static bool never_exact(pl_bound *c, int i) {
    (void)c;
    (void)i;
    return false;
}

static pl_status bound_step(pl_bound *c, const pl_b_program *p, const pl_node *node, step *s) {
    pl_bound inner = *c;
    inner.node = node;
    inner.n_in = (int)node->n_in;
    inner.n_out = (int)node->n_out;
    inner.in = s->in;
    inner.out = s->out;
    inner.e_in = s->e_in;
    inner.e_out = s->e_out;
    inner.in_native = s->in_native;
    inner.out_native = s->out_native;
    inner.exact = never_exact;
    inner.run_body = NULL;
    inner.scratch = p->scratch;
    return pl_b_rule(&inner);
}

static pl_status run_node(pl_bound *c, pl_b_program *p, const pl_node *node, pl_dtype own) {
    step s;
    pl_status st = PL_OK;
    if (!step_init(&s, p->scratch, node)) return pl_fail_memory(c->err, node->n_in);
    for (uint32_t i = 0; i < node->n_in && st == PL_OK; i++) {
        if (node->in[i] != NULL) st = load(p, node->in[i], own, &s, i, c->err);
    }
    const pl_eval_setup setup = { .pool = c->pool, .scratch = p->scratch, .fp64 = true };
    if (st == PL_OK) st = pl_eval_node(node, s.in, s.out, &setup, c->err);
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_tensor *y =
            s.out[i] != NULL && s.out[i]->kind == PL_TYPE_TENSOR ? s.out[i]->tensor : NULL;
        if (y != NULL) s.out_native[i] = y->dtype == PL_F64 ? own : y->dtype;
    }
    if (st == PL_OK) st = bound_step(c, p, node, &s);
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (st == PL_OK && node->out[i] != NULL && s.out_native[i] != PL_UNDEFINED) {
            pl_b_term *t = &p->terms[node->out[i]->id];
            pl_b_term_release(t);
            *t = (pl_b_term){ pl_tensor_ref(s.out[i]->tensor), s.e_out[i], s.out_native[i] };
            s.e_out[i] = NULL;
        }
        pl_datum_unref(s.out[i]);
        pl_tensor_unref(s.e_out[i]);
    }
    for (uint32_t i = 0; i < node->n_in; i++)
        pl_datum_unref(s.in[i]);
    pl_arena_reset(p->scratch);
    return st;
}

static pl_dtype own_type(const pl_bound *c) {
    for (int i = 0; i < c->n_out; i++)
        if (pl_dtype_is_float(c->out_native[i])) return c->out_native[i];
    return c->n_out > 0 ? c->out_native[0] : PL_F32;
}

pl_status pl_b_program_run(pl_bound *c, pl_b_program *p, const pl_b_term *in, size_t n_in,
                           pl_b_term *out, size_t n_out) {
    const pl_graph *g = p->model->graph;
    pl_status st = PL_OK;
    if (n_in != g->n_inputs || n_out != g->n_outputs) {
        return pl_fail(c->err, PL_E_INTERNAL, "%s: its program has %zu inputs and %zu outputs",
                       c->node->op, g->n_inputs, g->n_outputs);
    }
    forget(p);
    for (size_t i = 0; i < n_in; i++) {
        if (in[i].x == NULL) continue;
        p->terms[g->inputs[i]->id] =
            (pl_b_term){ pl_tensor_ref(in[i].x), in[i].e == NULL ? NULL : pl_tensor_ref(in[i].e),
                         in[i].native };
    }
    for (size_t i = 0; i < g->n_nodes && st == PL_OK; i++)
        st = run_node(c, p, g->nodes[i], own_type(c));
    for (size_t i = 0; i < n_out && st == PL_OK; i++) {
        const pl_b_term *t = &p->terms[g->outputs[i]->id];
        out[i] = (pl_b_term){ t->x == NULL ? NULL : pl_tensor_ref(t->x),
                              t->e == NULL ? NULL : pl_tensor_ref(t->e), t->native };
    }
    forget(p);
    return st;
}

pl_status pl_b_term_of_input(pl_bound *c, int i, pl_b_term *out) {
    const pl_tensor *x = pl_b_in(c, i);
    *out = (pl_b_term){ .native = PL_UNDEFINED };
    if (x == NULL) return PL_OK;
    if (x->dtype == PL_F64) {
        out->x = pl_tensor_ref(x);
    } else {
        PL_TRY(pl_tensor_cast(x, PL_F64, &out->x, c->err));
    }
    out->e = c->e_in[i] == NULL ? NULL : pl_tensor_ref(c->e_in[i]);
    out->native = c->in_native[i];
    return PL_OK;
}

/* ---- a whole node ---- */

/* The number in a name such as i3 or o0; -1 when there is none. */
static int number_of(const pl_value *value, char letter) {
    int n = -1, end = 0;
    if (value->name[0] != letter) return -1;
    return sscanf(value->name + 1, "%d%n", &n, &end) == 1 && value->name[1 + end] == 0 ? n : -1;
}

pl_status pl_b_expand(pl_bound *c, const char *text) {
    pl_b_program *p = NULL;
    pl_status st = PL_OK;
    if (text == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_program_new(c, text, &p));
    const pl_graph *g = p->model->graph;
    pl_b_term *in = pl_arena_array(c->scratch, g->n_inputs + 1, sizeof(*in));
    pl_b_term *out = pl_arena_array(c->scratch, g->n_outputs + 1, sizeof(*out));
    if (in == NULL || out == NULL) {
        st = pl_fail_memory(c->err, g->n_inputs);
        goto done;
    }
    for (size_t i = 0; i < g->n_inputs; i++) {
        const int k = number_of(g->inputs[i], 'i');
        const pl_tensor *x = k < 0 ? NULL : pl_b_in(c, k);
        if (x == NULL) continue;
        in[i] =
            (pl_b_term){ pl_tensor_ref(x), c->e_in[k] == NULL ? NULL : pl_tensor_ref(c->e_in[k]),
                         c->in_native[k] };
    }
    PL_TRY_GOTO(done, st, pl_b_program_run(c, p, in, g->n_inputs, out, g->n_outputs));
    for (size_t i = 0; i < g->n_outputs && st == PL_OK; i++) {
        const int k = number_of(g->outputs[i], 'o');
        if (k < 0 || out[i].e == NULL || pl_b_out(c, k) == NULL) continue;
        st = pl_b_set_take(c, k, pl_tensor_ref(out[i].e));
    }
done:
    for (size_t i = 0; in != NULL && i < g->n_inputs; i++)
        pl_b_term_release(&in[i]);
    for (size_t i = 0; out != NULL && i < g->n_outputs; i++)
        pl_b_term_release(&out[i]);
    pl_b_program_free(p);
    return st;
}
