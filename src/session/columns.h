/* The columns of a sync point as a table (columns.def), and their use in each product. */
#ifndef PL_COLUMNS_H
#define PL_COLUMNS_H

#include "session/session.h"

typedef enum pl_column_kind {
    PL_COLUMN_TEXT,
    PL_COLUMN_NUMBER,
    PL_COLUMN_INTEGER,
    PL_COLUMN_FLAG,
    PL_COLUMN_NAME,
    PL_COLUMN_OWN
} pl_column_kind;

typedef enum pl_column_use { /* of a column in a product */
                             PL_COLUMN_IS_NO,
                             PL_COLUMN_IS_YES,
                             PL_COLUMN_IS_OWN,
                             PL_COLUMN_IS_LAST
} pl_column_use;

typedef enum pl_column_id {
#define PL_COLUMN(name, KIND, field, JSON, CSV, PAGE, meaning) PL_AT_##name,
#include "session/columns.def"
#undef PL_COLUMN
    PL_N_COLUMNS
} pl_column_id;

typedef struct pl_column {
    const char *name;
    pl_column_kind kind;
    pl_column_use json, csv, page;
    size_t offset; /* of the field in pl_sync_point */
} pl_column;
extern const pl_column pl_columns[PL_N_COLUMNS];

/* Text of a TEXT or NAME column; NULL = it has none. */
const char *pl_column_text(const pl_column *column, const pl_sync_point *p);
double pl_column_number(const pl_column *column, const pl_sync_point *p); /* NUMBER */
int64_t pl_column_integer(const pl_column *column, const pl_sync_point *p);
bool pl_column_flag(const pl_column *column, const pl_sync_point *p);
/* The field itself, to set it or to copy what it points to. */
void *pl_column_field(const pl_column *column, pl_sync_point *p);
/* Sets a NAME column; false when there is no such name. */
bool pl_column_set_name(const pl_column *column, pl_sync_point *p, const char *name);

#endif
