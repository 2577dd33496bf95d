/* The table of columns.def, and the fields of a sync point by column. */
#include "session/columns.h"

#include <stddef.h>
#include <string.h>

const pl_column pl_columns[PL_N_COLUMNS] = {
#define PL_COLUMN(name, KIND, field, JSON, CSV, PAGE, meaning)                                     \
    [PL_AT_##name] = { #name,                                                                      \
                       PL_COLUMN_##KIND,                                                           \
                       PL_COLUMN_IS_##JSON,                                                        \
                       PL_COLUMN_IS_##CSV,                                                         \
                       PL_COLUMN_IS_##PAGE,                                                        \
                       offsetof(pl_sync_point, field) },
#include "session/columns.def"
#undef PL_COLUMN
};

/* Compile-time check that the type of a row's field matches its kind. */
#define IS_TEXT(x) _Generic((x), const char * : 1, default : 0)
#define IS_NUMBER(x) _Generic((x), double : 1, default : 0)
#define IS_INTEGER(x) _Generic((x), int64_t : 1, default : 0)
#define IS_FLAG(x) _Generic((x), bool : 1, default : 0)
#define IS_NAME(x) 1
#define IS_OWN(x) 1
#define PL_COLUMN(name, KIND, field, JSON, CSV, PAGE, meaning)                                     \
    _Static_assert(IS_##KIND(((pl_sync_point *)0)->field), #name " is not of its kind");
#include "session/columns.def"
#undef PL_COLUMN

static const void *at(const pl_column *c, const pl_sync_point *p) {
    return (const char *)p + c->offset;
}

void *pl_column_field(const pl_column *c, pl_sync_point *p) {
    return (char *)p + c->offset;
}

/* ---- names ---- */

static const char *class_name(const pl_sync_point *p) {
    return pl_sync_point_has_class(p) ? pl_pair_class_name(p->pair_class) : NULL;
}
static const char *precision_name(const pl_sync_point *p) {
    return p->measured ? pl_precision_name(p->precision) : NULL;
}
static const char *colour_name(const pl_sync_point *p) {
    return p->colour == PL_NO_COLOUR ? NULL : pl_colour_name(p->colour);
}
static const char *verdict_name(const pl_sync_point *p) {
    return pl_verdict_name(p->verdict);
}

static const char *class_at(int i) {
    return pl_pair_class_name((pl_pair_class)i);
}
static const char *precision_at(int i) {
    return pl_precision_name((pl_precision)i);
}
static const char *colour_at(int i) {
    return pl_colour_name((pl_colour)i);
}
static const char *verdict_at(int i) {
    return pl_verdict_name((pl_verdict)i);
}

static void set_class(pl_sync_point *p, int i) {
    p->pair_class = (pl_pair_class)i;
}
static void set_precision(pl_sync_point *p, int i) {
    p->precision = (pl_precision)i;
}
static void set_colour(pl_sync_point *p, int i) {
    p->colour = (pl_colour)i;
}
static void set_verdict(pl_sync_point *p, int i) {
    p->verdict = (pl_verdict)i; /* as decided when the session was made */
}

typedef struct names {
    const char *(*get)(const pl_sync_point *p); /* NULL = none */
    const char *(*at)(int i);
    int n;
    void (*set)(pl_sync_point *p, int i);
} names;

static const names *names_of(const pl_column *c) {
    static const names rows[PL_N_COLUMNS] = {
        [PL_AT_class] = { class_name, class_at, PL_PAIR_CLASS_COUNT, set_class },
        [PL_AT_precision] = { precision_name, precision_at, PL_PRECISION_COUNT, set_precision },
        [PL_AT_similarity] = { colour_name, colour_at, PL_NO_COLOUR, set_colour },
        [PL_AT_verdict] = { verdict_name, verdict_at, PL_VERDICT_COUNT, set_verdict },
    };
    return &rows[c - pl_columns];
}

bool pl_column_set_name(const pl_column *c, pl_sync_point *p, const char *name) {
    const names *row = names_of(c);
    for (int i = 0; i < row->n; i++) {
        if (strcmp(row->at(i), name) != 0) continue;
        row->set(p, i);
        return true;
    }
    return false;
}

/* ---- values ---- */

const char *pl_column_text(const pl_column *c, const pl_sync_point *p) {
    if (c->kind == PL_COLUMN_NAME) return names_of(c)->get(p);
    return *(const char *const *)at(c, p);
}

double pl_column_number(const pl_column *c, const pl_sync_point *p) {
    return *(const double *)at(c, p);
}

int64_t pl_column_integer(const pl_column *c, const pl_sync_point *p) {
    return *(const int64_t *)at(c, p);
}

bool pl_column_flag(const pl_column *c, const pl_sync_point *p) {
    return *(const bool *)at(c, p);
}
