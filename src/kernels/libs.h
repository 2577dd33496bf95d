/* Kernel libraries, found at run time with dlopen and never linked: oneDNN 2.x (libdnnl.so.2) and
 * OpenBLAS (libopenblas.so.0). All of plumb works without them.
 *
 * PLUMB_KERNELS=plain in the environment switches them all off. Loading happens once, on first use,
 * and is thread-safe among callers; but it sets and restores environment variables that the
 * libraries read while they load, so a program should call pl_libs_load before it starts threads
 * that use getenv. */
#ifndef PL_LIBS_H
#define PL_LIBS_H

#include <stddef.h>

void pl_libs_load(void);

/* One line for reports: CPU, instruction set, each library with version, or why it is not used.
 * Returns the length that it wants (as snprintf); loads the libraries if need be. */
size_t pl_libs_describe(char *out, size_t n_bytes);

/* NULL when not used; "2.6.3", "0.3.21". */
const char *pl_libs_dnnl_version(void);
const char *pl_libs_openblas_version(void);

#endif
