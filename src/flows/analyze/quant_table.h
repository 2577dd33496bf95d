/* The table of a quantised model's layers (session/quant.h). */
#ifndef PL_QUANT_TABLE_H
#define PL_QUANT_TABLE_H

#include "flows/analyze/mixed.h"
#include "session/quant.h"

/* Fills of[0].session->quant; nothing for a model that is not quantised. why: from
 * pl_mixed_open. */
pl_status pl_quant_table(pl_mixed *m, const char *why, pl_err *err);
/* Limit for the error of outputs relative to their size: by effective precision, or the user's. */
double pl_quant_limit(const pl_analysis *x);

#endif
