/* A corpus in the server: its page links to the sessions of its items. */
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "view/server_int.h"

pl_status pl_server_show_item(pl_server *s, const char *key, pl_err *err) {
    const pl_corpus *c = s->corpus;
    const pl_corpus_case *found = NULL;
    for (size_t i = 0; i < c->n_cases; i++)
        if (strcmp(c->cases[i].key, key) == 0) found = &c->cases[i];
    if (found == NULL || !found->has_session)
        return pl_fail(err, PL_E_NOT_FOUND, "no session of item '%s'", key);
    pl_dir *dir = NULL;
    pl_buf inside = PL_BUF_INIT;
    pl_buf_printf(&inside, "items/%s/session", found->key);
    pl_status st = pl_buf_ok(&inside) ? pl_dir_open(c->folder, &dir, err) : pl_fail_memory(err, 1);
    /* No symbolic links on the path: the corpus may not be trusted. */
    if (st == PL_OK && pl_dir_look(dir, pl_buf_str(&inside), NULL) != PL_KIND_FOLDER)
        st = pl_fail(err, PL_E_NOT_FOUND, "'%s/%s' not found", c->folder, pl_buf_str(&inside));
    char *path = st == PL_OK ? pl_path_join(c->folder, pl_buf_str(&inside)) : NULL;
    if (st == PL_OK) st = path == NULL ? pl_fail_memory(err, 1) : pl_server_show(s, path, err);
    pl_free(path);
    pl_buf_release(&inside);
    pl_dir_close(dir);
    return st;
}
