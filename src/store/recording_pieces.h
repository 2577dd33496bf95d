/* A recording in pieces, one for each rank of a parallel run, that lie on several machines: each
 * process opens those in its reach and knows of the others.
 *
 * Every process describes the pieces that it sees (pl_pieces_look); somebody collects the
 * descriptions; from all of them every process makes the same recording. A record of a piece out
 * of reach is read through `fetch`. */
#ifndef PL_RECORDING_PIECES_H
#define PL_RECORDING_PIECES_H

#include "base/buf.h"
#include "store/recording.h"

typedef enum pl_pieces_kind {
    PL_PIECES_NONE, /* no such path, or an empty folder */
    PL_PIECES_SOME, /* a folder of pieces */
    PL_PIECES_OTHER /* anything else */
} pl_pieces_kind;

/* One piece. */
typedef struct pl_piece {
    const char *name;    /* of the file or folder */
    const char *records; /* as pl_pieces_look describes them */
    size_t n_bytes;
    unsigned char *owners; /* by process: 1 = in its reach */
} pl_piece;

/* The descriptions of the pieces in `path`, one behind the other. */
pl_status pl_pieces_look(const char *path, pl_pieces_kind *kind, pl_buf *out, pl_err *err);
/* The next one in data[*at..n), without owners; false at the end, or when it is damaged. */
bool pl_pieces_next(const char *data, size_t n, size_t *at, pl_piece *out);

typedef struct pl_piece_fetch {
    /* From process `owner`; NULL = no piece can be fetched. */
    pl_status (*read)(void *ctx, const char *key, int owner, pl_tensor **out, pl_err *err);
    void *ctx;
} pl_piece_fetch;

/* The pieces in the order of their names, as seen by process `own` of `n_processes`; copied. */
pl_status pl_recording_open_pieces(const char *path, const pl_piece *pieces, size_t n_pieces,
                                   int own, int n_processes, const pl_piece_fetch *fetch,
                                   pl_recording **out, pl_err *err);
/* Is everything that the record is made of in the reach of the process? True for a recording
 * without pieces out of reach. */
bool pl_recording_is_in_reach(const pl_recording *recording, const pl_record *record, int process);

#endif
