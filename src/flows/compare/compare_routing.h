/* Which choices of experts are the same in two recordings. */
#ifndef PL_COMPARE_ROUTING_H
#define PL_COMPARE_ROUTING_H

#include "flows/compare/compare_side.h"
#include "session/session.h"

/* Sets session->routing if a value holds one (session/routing.h). Texts are those of the points. */
pl_status pl_compare_routing(const pl_compare_side sides[2], pl_session *session, pl_err *err);

#endif
