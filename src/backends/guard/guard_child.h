/* The child's end: serves one backend and one program until its socket closes. */
#ifndef PL_GUARD_CHILD_H
#define PL_GUARD_CHILD_H

/* Returns the exit code of the child. */
int pl_guard_child_serve(int socket);

#endif
