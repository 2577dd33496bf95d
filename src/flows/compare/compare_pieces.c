#include "flows/compare/compare_pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "store/recording_pieces.h"

/* Of a tensor, in one message. */
enum { CHUNK_BYTES = 16 << 20 };
enum { SAY_READ = 'r', SAY_END = 'e' };

typedef struct link { /* what a recording is given to fetch with */
    struct pl_pieces *pieces;
    int side;
} link;

struct pl_pieces {
    pl_ranks *ranks;
    const pl_progress *progress;
    pl_recording *of[2]; /* the caller's; NULL = not in pieces */
    link links[2];
};

/* ---- one message of each rank ---- */

typedef struct seen { /* by one rank; followed by the descriptions of both sides */
    uint64_t status;
    uint64_t kind[2], n_bytes[2];
    char message[PL_ERR_MESSAGE_MAX];
} seen;

static void look(const char *const paths[2], pl_status st, const pl_err *why, pl_buf *out) {
    pl_buf text[2] = { PL_BUF_INIT, PL_BUF_INIT };
    pl_err err = PL_ERR_INIT;
    seen own;
    memset(&own, 0, sizeof own);
    for (int i = 0; i < 2 && st == PL_OK; i++) {
        pl_pieces_kind kind = PL_PIECES_NONE;
        st = pl_pieces_look(paths[i], &kind, &text[i], &err);
        own.kind[i] = (uint64_t)kind;
        own.n_bytes[i] = text[i].n_bytes;
        why = &err;
    }
    own.status = (uint64_t)st;
    if (st != PL_OK) {
        snprintf(own.message, sizeof own.message, "%s", why->message);
        own.n_bytes[0] = own.n_bytes[1] = 0;
    }
    pl_buf_append(out, &own, sizeof own);
    for (int i = 0; i < 2; i++) {
        if (st == PL_OK) pl_buf_append(out, pl_buf_str(&text[i]), text[i].n_bytes);
        pl_buf_release(&text[i]);
    }
}

/* Of a message that was received; false when it is damaged. */
static bool read_seen(const pl_buf *message, seen *out, const char *text[2]) {
    if (message->n_bytes < sizeof *out) return false;
    memcpy(out, message->data, sizeof *out);
    size_t left = message->n_bytes - sizeof *out;
    text[0] = message->data + sizeof *out;
    for (int i = 0; i < 2; i++) {
        if (out->n_bytes[i] > left) return false;
        left -= out->n_bytes[i];
    }
    text[1] = text[0] + out->n_bytes[0];
    return left == 0;
}

/* ---- rank 0: who sees what? ---- */

typedef struct collection { /* of one side */
    const char *path;
    pl_piece *pieces;
    size_t n, capacity;
    int n_other, first_other; /* ranks that see something else under this path */
    bool scattered;
} collection;

static pl_status add_piece(collection *c, const pl_piece *p, int rank, int n_ranks, pl_err *err) {
    for (size_t i = 0; i < c->n; i++) {
        pl_piece *known = &c->pieces[i];
        if (strcmp(known->name, p->name) != 0) continue;
        known->owners[rank] = 1;
        if (known->n_bytes == p->n_bytes && memcmp(known->records, p->records, p->n_bytes) == 0)
            return PL_OK;
        return pl_fail(err, PL_E_INVALID, "%s/%s: rank %d sees another file than the ranks before",
                       c->path, p->name, rank);
    }
    if (!PL_ARRAY_ROOM(c->pieces, c->n, &c->capacity)) return pl_fail_memory(err, c->n);
    c->pieces[c->n] = *p;
    c->pieces[c->n].owners = pl_calloc((size_t)n_ranks, 1);
    if (c->pieces[c->n].owners == NULL) return pl_fail_memory(err, (size_t)n_ranks);
    c->pieces[c->n++].owners[rank] = 1;
    return PL_OK;
}

static pl_status take_seen(collection sides[2], int rank, int n_ranks, const pl_buf *message,
                           pl_err *err) {
    const char *text[2];
    seen s;
    if (!read_seen(message, &s, text))
        return pl_fail(err, PL_E_INTERNAL, "rank %d sent a damaged message", rank);
    if (s.status != PL_OK) {
        const pl_status st = s.status < PL_STATUS_COUNT ? (pl_status)s.status : PL_E_INTERNAL;
        s.message[sizeof s.message - 1] = '\0';
        return rank == 0 ? pl_fail(err, st, "%s", s.message)
                         : pl_fail(err, st, "rank %d: %s", rank, s.message);
    }
    for (int i = 0; i < 2; i++) {
        pl_piece p;
        size_t at = 0;
        if (s.kind[i] == PL_PIECES_OTHER && sides[i].n_other++ == 0) sides[i].first_other = rank;
        while (pl_pieces_next(text[i], (size_t)s.n_bytes[i], &at, &p))
            PL_TRY(add_piece(&sides[i], &p, rank, n_ranks, err));
    }
    return PL_OK;
}

/* Pieces that every rank sees need no help. */
static pl_status conclude(collection *c, int n_ranks, pl_err *err) {
    for (size_t i = 0; i < c->n; i++)
        c->scattered = c->scattered || memchr(c->pieces[i].owners, 0, (size_t)n_ranks) != NULL;
    if (c->n == 0 || c->n_other == 0) return PL_OK;
    return pl_fail(err, PL_E_INVALID,
                   "'%s' is a folder of pieces on some ranks, but rank %d sees something else",
                   c->path, c->first_other);
}

/* Everybody's message, rank 0's own first. The messages stay, as pieces point into them. */
static pl_status collect(pl_pieces *p, pl_buf *messages, collection sides[2], pl_err *err) {
    const int n = pl_ranks_size(p->ranks);
    pl_err first = PL_ERR_INIT;
    pl_status st = PL_OK;
    for (int i = 1; i < n; i++) {
        pl_buf message = PL_BUF_INIT;
        int from = 0;
        pl_status got = pl_ranks_wait(p->ranks, p->progress, &from, &message, err);
        if (got == PL_OK && (from < 1 || from >= n)) got = PL_E_INTERNAL;
        if (got != PL_OK) {
            pl_buf_release(&message);
            return got; /* nobody can be told */
        }
        pl_buf_release(&messages[from]);
        messages[from] = message;
    }
    for (int i = 0; i < n && st == PL_OK; i++)
        st = take_seen(sides, i, n, &messages[i], &first);
    for (int i = 0; i < 2 && st == PL_OK; i++)
        st = conclude(&sides[i], n, &first);
    if (st != PL_OK && err != NULL) *err = first;
    return st;
}

/* ---- rank 0's answer: for each side the number of pieces, then the pieces with their owners ----
 */

static void put_answer(const collection sides[2], int n_ranks, pl_status st, pl_buf *out) {
    const uint64_t status = (uint64_t)st;
    pl_buf_append(out, &status, sizeof status);
    for (int i = 0; i < 2 && st == PL_OK; i++) {
        const uint64_t n = sides[i].scattered ? sides[i].n : 0;
        pl_buf_append(out, &n, sizeof n);
        for (size_t k = 0; k < n; k++) {
            const pl_piece *p = &sides[i].pieces[k];
            const uint64_t length = p->n_bytes;
            pl_buf_append(out, p->owners, (size_t)n_ranks);
            pl_buf_append(out, p->name, strlen(p->name) + 1);
            pl_buf_append(out, &length, sizeof length);
            pl_buf_append(out, p->records, p->n_bytes);
        }
    }
}

static pl_status fetch(void *ctx, const char *key, int owner, pl_tensor **out, pl_err *err);

static pl_status open_side(pl_pieces *p, int side, const char *path, const pl_buf *answer,
                           size_t *at, pl_compare_side *out, pl_err *err) {
    const int n_ranks = pl_ranks_size(p->ranks);
    const pl_piece_fetch how = { fetch, &p->links[side] };
    uint64_t n = 0;
    bool ok = answer->n_bytes - *at >= sizeof n;
    if (ok) memcpy(&n, answer->data + *at, sizeof n);
    *at += sizeof n;
    if (ok && n == 0) return PL_OK;
    pl_piece *pieces = ok && n < answer->n_bytes ? pl_calloc((size_t)n, sizeof *pieces) : NULL;
    if (pieces == NULL) return pl_fail_memory(err, (size_t)n);
    for (uint64_t i = 0; i < n && ok; i++) {
        char *owners = answer->data + *at;
        *at += (size_t)n_ranks;
        ok = pl_pieces_next(answer->data, answer->n_bytes, at, &pieces[i]);
        pieces[i].owners = (unsigned char *)owners;
    }
    const pl_status st =
        ok ? pl_recording_open_pieces(path, pieces, (size_t)n, pl_ranks_rank(p->ranks), n_ranks,
                                      &how, &out->recording, err)
           : pl_fail(err, PL_E_INTERNAL, "rank 0 sent a damaged message");
    pl_free(pieces);
    if (st != PL_OK) return st;
    out->path = path;
    p->of[side] = out->recording;
    return PL_OK;
}

static pl_status take_answer(pl_pieces *p, const char *const paths[2], const pl_buf *answer,
                             pl_compare_side sides[2], pl_err *err) {
    uint64_t status = PL_E_INTERNAL;
    size_t at = sizeof status;
    if (answer->n_bytes >= sizeof status) memcpy(&status, answer->data, sizeof status);
    if (status != PL_OK) return pl_fail(err, PL_E_INVALID, "another rank failed");
    for (int i = 0; i < 2; i++)
        PL_TRY(open_side(p, i, paths[i], answer, &at, &sides[i], err));
    return PL_OK;
}

static pl_status lead(pl_pieces *p, const char *const paths[2], pl_buf *own, pl_buf *answer,
                      pl_err *err) {
    const int n = pl_ranks_size(p->ranks);
    collection of[2] = { { .path = paths[0] }, { .path = paths[1] } };
    pl_buf *messages = pl_calloc((size_t)n, sizeof *messages);
    if (messages == NULL) return pl_fail_memory(err, (size_t)n);
    for (int i = 0; i < n; i++)
        messages[i] = (pl_buf)PL_BUF_INIT;
    pl_buf_append(&messages[0], pl_buf_str(own), own->n_bytes);
    const pl_status st = collect(p, messages, of, err);
    put_answer(of, n, st, answer);
    for (int i = 1; i < n; i++)
        (void)pl_ranks_send(p->ranks, i, answer, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < of[i].n; k++)
            pl_free(of[i].pieces[k].owners);
        pl_free(of[i].pieces);
    }
    for (int i = 0; i < n; i++)
        pl_buf_release(&messages[i]);
    pl_free(messages);
    return st;
}

pl_status pl_pieces_open(pl_ranks *ranks, const char *const paths[2], pl_compare_side sides[2],
                         const pl_progress *progress, pl_status st, const pl_err *why,
                         pl_pieces **out, pl_err *err) {
    pl_buf own = PL_BUF_INIT, answer = PL_BUF_INIT;
    pl_pieces *p = pl_calloc(1, sizeof *p);
    int from = 0;
    *out = NULL;
    if (p == NULL) return pl_fail_memory(err, sizeof *p);
    *p = (pl_pieces){ .ranks = ranks, .progress = progress, .links = { { p, 0 }, { p, 1 } } };
    look(paths, st, why, &own);
    if (pl_ranks_rank(ranks) == 0) {
        st = lead(p, paths, &own, &answer, err);
    } else {
        st = pl_ranks_send(ranks, 0, &own, progress, err);
        if (st == PL_OK) st = pl_ranks_wait(ranks, progress, &from, &answer, err);
    }
    if (st == PL_OK) st = take_answer(p, paths, &answer, sides, err);
    pl_buf_release(&own);
    pl_buf_release(&answer);
    if (st == PL_OK) {
        *out = p;
    } else {
        pl_free(p);
    }
    return st;
}

/* ---- tensors of others ---- */

typedef struct parcel { /* the answer, followed by chunks of the elements */
    uint64_t status, dtype, rank, n_bytes;
    int64_t dims[PL_RANK_MAX];
    char message[PL_ERR_MESSAGE_MAX];
} parcel;

static pl_status receive(pl_pieces *p, pl_buf *message, pl_err *err) {
    int from = 0;
    return pl_ranks_wait(p->ranks, p->progress, &from, message, err);
}

/* Called by rank 0, when the others serve. */
static pl_status fetch(void *ctx, const char *key, int owner, pl_tensor **out, pl_err *err) {
    const link *at_side = ctx;
    pl_pieces *p = at_side->pieces;
    pl_buf message = PL_BUF_INIT;
    pl_tensor *t = NULL;
    parcel head;
    size_t at = 0;
    if (pl_ranks_rank(p->ranks) != 0)
        return pl_fail(err, PL_E_INTERNAL, "'%s' lies out of reach", key);
    pl_buf_putc(&message, SAY_READ);
    pl_buf_putc(&message, (char)('0' + at_side->side));
    pl_buf_append(&message, key, strlen(key) + 1);
    pl_status st = pl_ranks_send(p->ranks, owner, &message, p->progress, err);
    if (st == PL_OK) st = receive(p, &message, err);
    if (st == PL_OK && message.n_bytes != sizeof head)
        st = pl_fail(err, PL_E_INTERNAL, "rank %d sent a damaged message", owner);
    if (st == PL_OK) {
        memcpy(&head, message.data, sizeof head);
        if (head.status != PL_OK)
            st =
                pl_fail(err, head.status < PL_STATUS_COUNT ? (pl_status)head.status : PL_E_INTERNAL,
                        "rank %d: %.300s", owner, head.message);
    }
    if (st == PL_OK) st = pl_tensor_new((pl_dtype)head.dtype, (int)head.rank, head.dims, &t, err);
    if (st == PL_OK && pl_tensor_bytes(t) != head.n_bytes)
        st = pl_fail(err, PL_E_INTERNAL, "rank %d sent a damaged message", owner);
    while (st == PL_OK && at < head.n_bytes) {
        st = receive(p, &message, err);
        if (st == PL_OK && (message.n_bytes == 0 || message.n_bytes > head.n_bytes - at))
            st = pl_fail(err, PL_E_INTERNAL, "rank %d sent a damaged message", owner);
        if (st == PL_OK) memcpy((char *)t->data + at, message.data, message.n_bytes);
        at += message.n_bytes;
    }
    pl_buf_release(&message);
    if (st == PL_OK) {
        *out = t;
    } else {
        pl_tensor_unref(t);
    }
    return st;
}

static pl_status read_own(const pl_pieces *p, int side, const char *key, pl_tensor **out,
                          pl_err *err) {
    const pl_recording *rec = side == 0 || side == 1 ? p->of[side] : NULL;
    const pl_record *r = rec == NULL ? NULL : pl_recording_find(rec, key);
    pl_tensor *t = NULL;
    if (r == NULL || !pl_recording_is_in_reach(rec, r, pl_ranks_rank(p->ranks)))
        return pl_fail(err, PL_E_NOT_FOUND, "'%s' not found", key);
    PL_TRY(pl_recording_read(rec, r, &t, err));
    if (t->dtype == PL_STRING) {
        pl_tensor_unref(t);
        return pl_fail(err, PL_E_UNSUPPORTED, "'%s': strings do not travel", key);
    }
    const pl_status st = pl_tensor_contiguous(t, out, err);
    pl_tensor_unref(t);
    return st;
}

static pl_status send_tensor(pl_pieces *p, int side, const char *key, pl_err *err) {
    pl_tensor *t = NULL;
    pl_buf message = PL_BUF_INIT;
    parcel head;
    pl_err why = PL_ERR_INIT;
    memset(&head, 0, sizeof head);
    head.status = (uint64_t)read_own(p, side, key, &t, &why);
    snprintf(head.message, sizeof head.message, "%s", why.message);
    if (t != NULL) {
        head.dtype = (uint64_t)t->dtype;
        head.rank = (uint64_t)t->rank;
        head.n_bytes = pl_tensor_bytes(t);
        memcpy(head.dims, t->dims, sizeof head.dims);
    }
    pl_buf_append(&message, &head, sizeof head);
    pl_status st = pl_ranks_send(p->ranks, 0, &message, p->progress, err);
    for (size_t at = 0; st == PL_OK && at < head.n_bytes;) {
        const size_t n = head.n_bytes - at < CHUNK_BYTES ? head.n_bytes - at : CHUNK_BYTES;
        pl_buf_reset(&message);
        pl_buf_append(&message, (const char *)t->data + at, n);
        st = pl_ranks_send(p->ranks, 0, &message, p->progress, err);
        at += n;
    }
    pl_buf_release(&message);
    pl_tensor_unref(t);
    return st;
}

static void serve(pl_pieces *p) {
    pl_buf message = PL_BUF_INIT;
    int from = 0;
    while (pl_ranks_wait(p->ranks, p->progress, &from, &message, NULL) == PL_OK) {
        if (message.n_bytes < 3 || message.data[0] != SAY_READ ||
            message.data[message.n_bytes - 1] != '\0')
            break;
        if (send_tensor(p, message.data[1] - '0', message.data + 2, NULL) != PL_OK) break;
    }
    pl_buf_release(&message);
}

void pl_pieces_end(pl_pieces *p) {
    pl_buf message = PL_BUF_INIT;
    if (p == NULL || (p->of[0] == NULL && p->of[1] == NULL)) return;
    if (pl_ranks_rank(p->ranks) != 0) {
        serve(p);
        return;
    }
    pl_buf_putc(&message, SAY_END);
    for (int i = 1; i < pl_ranks_size(p->ranks); i++)
        (void)pl_ranks_send(p->ranks, i, &message, NULL, NULL);
    pl_buf_release(&message);
}

void pl_pieces_free(pl_pieces *p) {
    pl_free(p);
}
