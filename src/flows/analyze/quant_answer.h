/* The table of layers for the commands that do not analyse: compare, run --accuracy. */
#ifndef PL_QUANT_ANSWER_H
#define PL_QUANT_ANSWER_H

#include "flows/api.h"
#include "session/session.h"

typedef struct pl_quant_question {
    const char *model;  /* file; only files have a table */
    const char *floats; /* file of its float model */
    const plumb_inputs *inputs;
    const char *metric; /* NULL = psnr */
    int threads;
    double tol; /* 0 = by effective precision */
} pl_quant_question;

/* Adds the cost of quantisation to session->quant. Does nothing if the model is not quantised,
 * `floats` is, or a model cannot be run: the table is optional. */
pl_status pl_quant_answer(const pl_quant_question *q, pl_session *session, pl_err *err);

#endif
