/* Pairing by names that were changed for a file system or for C: "_0_Conv_output_0" for
 * "/0/Conv_output_0". Letters and digits must agree in order; anything may be between them. Only if
 * the spelling is unique on each side. */
#include <string.h>

#include "base/alloc.h"
#include "pair/pair_int.h"

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 128;
}

static uint64_t spelling(const char *name) {
    uint64_t h = 0;
    bool gap = false;
    for (; *name != '\0'; name++) {
        if (!is_letter(*name)) {
            gap = h != 0;
            continue;
        }
        if (gap) h = pl_pair_mix(h, '_');
        h = pl_pair_mix(h, (unsigned char)*name);
        gap = false;
    }
    return h;
}

pl_status pl_pair_by_spelling(pl_pair_state *s, pl_err *err) {
    pl_pair_keys keys;
    pl_status st = PL_OK;
    if (s->names_lie) return PL_OK;
    PL_TRY(pl_pair_keys_init(&keys, s->side[0]->n_items + s->side[1]->n_items, err));
    for (int side = 0; side < PL_PAIR_SIDES; side++)
        for (uint32_t i = 0; i < s->side[side]->n_items; i++)
            if (!s->side[side]->items[i].unmapped)
                pl_pair_keys_add(&keys, side, spelling(s->side[side]->items[i].name), i);
    for (uint32_t a = 0; a < s->side[0]->n_items && st == PL_OK; a++) {
        const uint64_t key = spelling(s->side[0]->items[a].name);
        const struct pl_pair_key *k = pl_pair_keys_find(&keys, key);
        if (key == 0 || k->n[0] != 1 || k->n[1] != 1 || k->last[0] != a) continue;
        const uint32_t b = k->last[1];
        if (!pl_pair_is_open(s, 0, a) || !pl_pair_is_open(s, 1, b)) continue;
        if (!pl_pair_fits(&s->side[0]->items[a], &s->side[1]->items[b])) continue;
        st = pl_pair_add(s, a, b, PL_PAIR_SPELLING, 0.9, "same name, different spelling", err);
    }
    pl_pair_keys_release(&keys);
    return st;
}
