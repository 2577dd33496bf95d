/* Opening a shared library and finding its functions. */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

const char *pl_symbols_load(void *handle, const pl_symbol *symbols, size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (found == NULL) return symbols[i].name;
        memcpy(symbols[i].slot, &found, sizeof found);
    }
    return NULL;
}

pl_status pl_libraries_check(pl_err *err) {
#ifdef PL_STATIC
    return pl_fail(err, PL_E_UNSUPPORTED,
                   "this plumb is one static file and opens no libraries; the plumb that make "
                   "builds does");
#else
    (void)err;
    return PL_OK;
#endif
}

static pl_status load(pl_library *library, pl_err *err) {
    PL_TRY(pl_libraries_check(err));
    const size_t n_sonames = sizeof library->sonames / sizeof *library->sonames;
    void *handle = NULL;
    for (size_t i = 0; i < n_sonames && library->sonames[i] != NULL && handle == NULL; i++)
        handle = dlopen(library->sonames[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "%s not found (%s; on Debian: apt-get install %s): %s", library->name,
                       library->sonames[0], library->package, dlerror());
    const char *missing = pl_symbols_load(handle, library->symbols, library->n_symbols);
    if (missing != NULL) {
        dlclose(handle);
        return pl_fail(err, PL_E_UNSUPPORTED, "%s (%s; Debian package %s) has no symbol %s",
                       library->name, library->sonames[0], library->package, missing);
    }
    library->handle = handle;
    return PL_OK;
}

pl_status pl_library_open(pl_library *library, pl_err *err) {
    pthread_mutex_lock(&library->mutex);
    const pl_status st = library->handle != NULL ? PL_OK : load(library, err);
    pthread_mutex_unlock(&library->mutex);
    return st;
}
