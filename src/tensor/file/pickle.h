/* Python's pickle (protocols 2 to 5) as a tree of values. Nothing is executed: a call becomes a
 * value (PL_PICKLE_CALL) that names the function.
 *
 * The tree may share values and, like Python objects, contain itself: code that walks it must limit
 * its steps. Strings point into the stream. Everything is in the arena. */
#ifndef PL_PICKLE_H
#define PL_PICKLE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/wire.h"

typedef enum pl_pickle_kind {
    PL_PICKLE_NONE,
    PL_PICKLE_BOOL,
    PL_PICKLE_INT,
    PL_PICKLE_FLOAT,
    PL_PICKLE_TEXT, /* str and bytes */
    PL_PICKLE_TUPLE,
    PL_PICKLE_LIST, /* and sets */
    PL_PICKLE_DICT, /* items: key, value, key, value … */
    PL_PICKLE_GLOBAL,
    PL_PICKLE_CALL,
    PL_PICKLE_PERSISTENT /* args: the identity that the stream gives */
} pl_pickle_kind;

typedef struct pl_pickle_value {
    pl_pickle_kind kind;
    bool is_dict;                                  /* CALL: items are keys and values */
    int64_t integer;                               /* INT, BOOL */
    double number;                                 /* FLOAT */
    pl_bytes text;                                 /* TEXT; GLOBAL: "module.name" */
    struct pl_pickle_value **items;                /* TUPLE, LIST, DICT, CALL */
    size_t n_items, capacity;                      /* */
    const struct pl_pickle_value *callable, *args; /* CALL; PERSISTENT: args */
    const struct pl_pickle_value *state;           /* CALL: what BUILD gives it; NULL */
} pl_pickle_value;

enum { PL_PICKLE_BYTES_MAX = 16 << 20 }; /* a value may take a hundred times its bytes */

/* PL_E_FORMAT for a damaged stream, PL_E_UNSUPPORTED for an opcode that no torch writes, and for
 * integers beyond 64 bits. */
pl_status pl_pickle_read(pl_bytes stream, pl_arena *arena, const pl_pickle_value **out,
                         pl_err *err);

#endif
