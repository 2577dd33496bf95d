/* plumb.h: version, status and text; what the files of src/flows/api share. */
#include "flows/api.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/door.h"
#include "base/file_fault.h"
#include "base/process.h"
#include "base/ranks/ranks.h"

/* The public codes are the internal ones; the tables must not drift apart. */
_Static_assert((int)PLUMB_INT2 == (int)PL_I2, "plumb.h and dtype.def differ");

const char *plumb_version(void) {
    return PLUMB_VERSION;
}

int plumb_version_number(void) {
    return PLUMB_VERSION_NUMBER;
}

const char *plumb_status_name(plumb_status status) {
    return (int)status < 0 || (int)status >= PL_STATUS_COUNT ? "" : pl_status_name(status) + 3;
}

int plumb_exit_code(plumb_status status) {
    return pl_status_exit_code(status);
}

int plumb_mpi_plain_tasks(void) {
    return pl_launcher_plain_tasks();
}

void plumb_abandon(void) {
    pl_process_abandon();
    pl_door_abandon();
}

void plumb_free(void *text) {
    pl_free(text);
}

double pl_api_seconds(void) {
    return 1e-9 * (double)pl_clock_ns();
}

plumb_status pl_api_return(pl_status status, const pl_err *from, plumb_error *to) {
    pl_err fault = PL_ERR_INIT;
    if (pl_file_fault_check(&fault) != PL_OK) { /* the result is invalid */
        status = PL_E_IO;
        from = &fault;
    }
    if (status != PL_OK && to != NULL) {
        to->status = status;
        snprintf(to->message, sizeof(to->message), "%s",
                 from->message[0] != '\0' ? from->message : pl_status_text(status));
    }
    return status;
}

pl_status pl_api_settle(pl_status status, pl_err *err) {
    pl_err fault = PL_ERR_INIT;
    if (pl_file_fault_check(&fault) == PL_OK) return status;
    if (err != NULL) *err = fault;
    return PL_E_IO;
}

pl_status pl_api_text_take(pl_buf *buf, char **text, pl_err *err) {
    *text = pl_buf_take(buf);
    if (*text != NULL) return PL_OK;
    pl_buf_release(buf);
    return pl_fail_memory(err, 1);
}

const char *pl_api_model_file(const plumb_model *m) {
    return m->edited || m->model->referring || m->model->path[0] == '\0' ? NULL : m->model->path;
}
