/* Rules named in the rows of signal.c and defined in the files beside it. */
#ifndef PL_SIGNAL_RULES_H
#define PL_SIGNAL_RULES_H

#include "ops/op.h"

/* signal_grad.c */
pl_status pl_dft_grad(pl_grad *c);
pl_status pl_stft_grad(pl_grad *c);

#endif
