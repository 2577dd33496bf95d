/* Fuzz target: the parcels that a guarded child sends, which are a stranger's word. What is read is
 * written and read again. */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "backends/guard/guard_parcel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_parcel parcel = { NULL, 0 }, again = { NULL, 0 };
    int fd = -1, copy = -1;
    if (size == 0 || pl_parcel_write_bytes(data, size, &fd, &err) != PL_OK) return 0;
    if (pl_parcel_read(fd, false, &parcel, &err) == PL_OK) {
        if (pl_parcel_write(parcel.items, parcel.n_items, &copy, &err) == PL_OK &&
            (pl_parcel_read(copy, true, &again, &err) != PL_OK || again.n_items != parcel.n_items))
            __builtin_trap();
        pl_parcel_release(&again);
    }
    pl_parcel_release(&parcel);
    if (copy >= 0) close(copy);
    close(fd);
    return 0;
}
