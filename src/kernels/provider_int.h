/* Inside src/kernels: what the providers that open a library share. */
#ifndef PL_PROVIDER_INT_H
#define PL_PROVIDER_INT_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef struct pl_symbol {
    const char *name;
    void *slot; /* of a function pointer; POSIX gives it the size of void * */
} pl_symbol;

/* Fills the slots; the name of the first that is missing, or NULL. */
static inline const char *pl_symbols_load(void *handle, const pl_symbol *symbols, size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (found == NULL) return symbols[i].name;
        memcpy(symbols[i].slot, &found, sizeof found);
    }
    return NULL;
}

#endif
