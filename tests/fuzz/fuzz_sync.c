/* Fuzz target: a whole comparison. The bytes are one recording, compared with itself: paired,
 * measured, traced, concluded, printed. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "blame/sync.h"
#include "metric/same.h"
#include "session/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_recording *rec = NULL;
    pl_session *session = NULL;
    pl_pairing pairing = { 0 };
    pl_file_map map = {
        data, size, NULL, 1, false, NULL
    }; /* lives here: its count never reaches 0 */
    if (pl_recording_open_map(&map, "fuzz", &rec, &err) != PL_OK) return 0;
    pl_sync_options options = { .judge = { .tol = (double)NAN, .metric = &pl_metrics[0] },
                                .pair = PL_PAIR_OPTIONS_INIT };
    options.judge.profile = (size & 1) != 0 ? PL_PROFILE_TORCH : PL_PROFILE_PLUMB;
    pl_same_options_init(&options.judge.same);
    const pl_sync_side side = { rec, NULL };
    if (pl_session_new(&session, &err) == PL_OK &&
        pl_sync_compare(&side, &side, &options, session, &pairing, &err) == PL_OK) {
        pl_buf out = PL_BUF_INIT;
        if (pl_sync_trace(&side, &side, &options, session, &err) == PL_OK &&
            pl_verdict_conclude(session, &(pl_claim){ .every_value = true }, &err) == PL_OK)
            pl_session_put_json(session, &out);
        pl_buf_release(&out);
        pl_pairing_release(&pairing);
    }
    pl_session_free(session);
    pl_recording_close(rec);
    return 0;
}
