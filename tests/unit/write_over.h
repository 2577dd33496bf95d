/* A test's file under a name that may be taken: plumb itself replaces nothing. */
#ifndef PL_TEST_WRITE_OVER_H
#define PL_TEST_WRITE_OVER_H

#include <unistd.h>

#include "base/file.h"

static inline pl_status write_over(const char *path, const void *data, size_t n_bytes,
                                   pl_err *err) {
    (void)unlink(path);
    return pl_file_write(path, data, n_bytes, err);
}

#endif
