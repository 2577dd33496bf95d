/* Whether two names refer to the same file or folder. */
#ifndef PL_SAME_FILE_H
#define PL_SAME_FILE_H

#include <stdbool.h>

/* False if one of them does not exist. */
bool pl_same_file(const char *a, const char *b);

#endif
