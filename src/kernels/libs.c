/* Says which kernels serve. */
#include "kernels/libs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu.h"

static pthread_once_t plain_once = PTHREAD_ONCE_INIT;
static bool plain; /* written once under plain_once, read-only afterwards */

static void plain_read(void) {
    const char *wish = getenv("PLUMB_KERNELS");
    plain = wish != NULL && strcmp(wish, "plain") == 0;
}

bool pl_libs_plain(void) {
    pthread_once(&plain_once, plain_read);
    return plain;
}

size_t pl_libs_describe(char *out, size_t n_bytes) {
    const int n = snprintf(out, n_bytes, "%s kernels, %s, %s", pl_libs_plain() ? "plain" : "own",
                           pl_isa_name(pl_cpu_isa()), pl_cpu_name());
    return n < 0 ? 0 : (size_t)n;
}
