/* Rules named in the rows of rnn.c and defined in the files beside it. */
#ifndef PL_RNN_RULES_H
#define PL_RNN_RULES_H

#include "ops/op.h"

/* rnn_grad.c */
pl_status pl_gru_grad(pl_grad *c);
pl_status pl_lstm_grad(pl_grad *c);
pl_status pl_rnn_grad(pl_grad *c);

#endif
