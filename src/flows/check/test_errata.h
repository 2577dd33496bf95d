/* Errata of the ONNX test data: models that contradict their own data and were fixed upstream.
 *
 * A row names one model by the hash of its file and the attribute of the fixed one; plumb test
 * applies it, so that the case is judged as its authors intended, and reports it. */
#ifndef PL_TEST_ERRATA_H
#define PL_TEST_ERRATA_H

#include "base/status.h"
#include "graph/graph.h"

typedef struct pl_erratum {
    const char *name;       /* of the case: the last part of its path */
    const char *model_hash; /* XXH3-128 of model.onnx */
    uint32_t node;          /* of the main graph */
    const char *attr;       /* float attribute to set */
    float value;
    const char *text;   /* for users */
    const char *source; /* where it was fixed */
} pl_erratum;

/* The row for the model in this file; NULL when there is none. */
const pl_erratum *pl_erratum_find(const char *model_path);
/* Changes the model as the row says. PL_E_INTERNAL when the row does not fit it. */
pl_status pl_erratum_apply(const pl_erratum *erratum, pl_model *model, pl_err *err);

#endif
