/* Two names of one file or folder. */
#ifndef PL_SAME_FILE_H
#define PL_SAME_FILE_H

#include <stdbool.h>

/* False when one of them is not there. */
bool pl_same_file(const char *a, const char *b);

#endif
