/* Shared libraries that are opened when they are first needed, and then kept.
 *
 * A file that calls one includes its header, so that the compiler knows the types, and lists the
 * functions in a macro CALLS(X). It calls lib.NAME(...) once pl_library_open has succeeded:
 *
 *     static struct { CALLS(PL_SLOT) } lib;
 *     static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };
 *     static pl_library library = PL_LIBRARY("libpng", "libpng16-16", symbols, PL_SONAME_PNG);
 */
#ifndef PL_LIBRARY_H
#define PL_LIBRARY_H

#include <pthread.h>
#include <stddef.h>

#include "base/status.h"

typedef struct pl_symbol {
    const char *name;
    void *slot; /* of a function pointer; POSIX gives it the size of void * */
} pl_symbol;

#define PL_SLOT(function) __typeof__(&(function)) function;
#define PL_SLOT_SYMBOL(function) { #function, &lib.function },

typedef struct pl_library {
    const char *name;
    const char *sonames[2]; /* tried in this order; a soname guarantees the header's interface */
    const char *package;    /* Debian package that contains it */
    const pl_symbol *symbols;
    size_t n_symbols;
    pthread_mutex_t mutex;
    void *handle; /* NULL until opened; never closed */
} pl_library;

/* (name, package, symbols, one soname or two) */
#define PL_LIBRARY(title, debian, table, ...)                                                      \
    {                                                                                              \
        .name = (title), .sonames = { __VA_ARGS__ }, .package = (debian), .symbols = (table),      \
        .n_symbols = sizeof(table) / sizeof *(table), .mutex = PTHREAD_MUTEX_INITIALIZER           \
    }

/* Opens it and fills the slots, once; later calls cost a lock. Thread-safe. PL_E_UNSUPPORTED: the
 * library was not found or lacks a function; the message says how to install it, and the next call
 * tries again. */
pl_status pl_library_open(pl_library *library, pl_err *err);
/* PL_E_UNSUPPORTED in a static build (make static), whose dlopen opens nothing. */
pl_status pl_libraries_check(pl_err *err);
/* Fills the slots from an open library; returns the name of the first missing one, or NULL. */
const char *pl_symbols_load(void *handle, const pl_symbol *symbols, size_t n);

#endif
