/* The recurrence of LinearAttention for one element type. op_linear_attention.c includes it twice,
 * with T the element, E its unaligned form, EXP its exponential and S(name) the name with the
 * type's suffix. */
#ifdef T

/* state[d, :] *= exp(decay of d) */
static void S(forget)(const linear_job *j, int64_t head, int64_t at, E *state) {
    const int64_t dk = j->key_size, dv = j->value_size;
    const E *decay = (const E *)j->decay + at * j->decay_cols + head * j->decay_cols / j->kv_heads;
    const bool per_key = j->decay_cols != j->kv_heads;
    for (int64_t d = 0; d < dk; d++) {
        const T keep = EXP(decay[per_key ? d : 0]);
        for (int64_t m = 0; m < dv; m++)
            state[d * dv + m] *= keep;
    }
}

/* v = beta * (v - state' k): only what the state does not know yet is written. */
static void S(correct)(const linear_job *j, int64_t head, int64_t at, const E *key, const E *state,
                       E *v) {
    const int64_t dk = j->key_size, dv = j->value_size;
    const E *gate = j->erase == NULL ? NULL : (const E *)j->erase + (at * j->kv_heads + head) * dk;
    const T beta = ((const E *)j->beta)[at * j->beta_cols + (j->beta_cols == 1 ? 0 : head)];
    for (int64_t d = 0; d < dk; d++) {
        const T k = gate == NULL ? key[d] : gate[d] * key[d];
        for (int64_t m = 0; m < dv; m++)
            v[m] -= state[d * dv + m] * k;
    }
    for (int64_t m = 0; m < dv; m++)
        v[m] *= beta;
}

static void S(read)(const linear_job *j, int64_t head, int64_t at, const E *state) {
    const int64_t dk = j->key_size, dv = j->value_size, group = j->q_heads / j->kv_heads;
    for (int64_t h = head * group; h < (head + 1) * group; h++) {
        const E *q = (const E *)j->query + (at * j->q_heads + h) * dk;
        E *y = (E *)j->y + (at * j->q_heads + h) * dv;
        for (int64_t m = 0; m < dv; m++)
            y[m] = 0;
        for (int64_t d = 0; d < dk; d++) {
            for (int64_t m = 0; m < dv; m++)
                y[m] += q[d] * state[d * dv + m];
        }
        for (int64_t m = 0; m < dv; m++)
            y[m] *= (T)j->scale;
    }
}

/* One head of keys through all steps; `v` has room for value_size. */
static void S(run_head)(const linear_job *j, int64_t b, int64_t head, E *v) {
    const int64_t dk = j->key_size, dv = j->value_size;
    E *state = (E *)j->state + (b * j->kv_heads + head) * dk * dv;
    for (int64_t t = 0; t < j->len; t++) {
        const int64_t at = b * j->len + t;
        const E *key = (const E *)j->key + (at * j->kv_heads + head) * dk;
        const E *value = (const E *)j->value + (at * j->kv_heads + head) * dv;
        memcpy(v, value, (size_t)dv * sizeof(T));
        if (j->decay != NULL) S(forget)(j, head, at, state);
        if (j->beta != NULL) S(correct)(j, head, at, key, state, v);
        for (int64_t d = 0; d < dk; d++) {
            for (int64_t m = 0; m < dv; m++)
                state[d * dv + m] += key[d] * v[m];
        }
        S(read)(j, head, at, state);
    }
}

#undef T
#undef E
#undef EXP
#undef S
#endif
