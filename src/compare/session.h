/* What an analysis or a comparison found: the sync points, the blame, and how the runs went.
 *
 * One struct for analyze and compare; session_json.c writes it as the JSON of DESIGN 2 (which is
 * also session.json of the folder) and reads it back for view and report. Strings and lists live in
 * the session's arena. Numbers that are not known are NAN and are left out of the JSON. */
#ifndef PL_SESSION_H
#define PL_SESSION_H

#include "base/arena.h"
#include "base/hash.h"
#include "metric/metrics.h"
#include "tensor/tensor.h"

/* X(NAME, "name", letter): of one sync point; the letter stands beside the colour. */
#define PL_VERDICT_MAP(X)                                                                          \
    X(SAME, "same", '=')                                                                           \
    X(WITHIN, "within", '.')                                                                       \
    X(CULPRIT, "culprit", 'C')                                                                     \
    X(INHERITED, "inherited", 'i')                                                                 \
    X(AMPLIFIED, "amplified", 'a')                                                                 \
    X(NONDETERMINISTIC, "nondeterministic", 'N')                                                   \
    X(MISMATCH, "mismatch", 'M')                                                                   \
    X(UNPAIRED, "unpaired", '-')                                                                   \
    X(UNVERIFIED, "unverified", '?')
typedef enum pl_verdict {
#define X(NAME, text, letter) PL_VERDICT_##NAME,
    PL_VERDICT_MAP(X)
#undef X
        PL_VERDICT_COUNT
} pl_verdict;
const char *pl_verdict_name(pl_verdict v);
char pl_verdict_letter(pl_verdict v);

typedef enum pl_outcome { /* of the whole */
                          PL_OUTCOME_AGREE,
                          PL_OUTCOME_DIVERGED,
                          PL_OUTCOME_NONDETERMINISTIC,
                          PL_OUTCOME_FAILED
} pl_outcome;
const char *pl_outcome_name(pl_outcome o); /* "agree", … */
int pl_outcome_exit_code(pl_outcome o);    /* 0, 1, 1, 3 */

typedef struct pl_side { /* one side's metadata tuple */
    bool present;
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    int64_t offset;
    bool has_hash;
    pl_hash128 hash;
    unsigned flags;   /* PL_RECORD_* */
    const char *blob; /* name in the session's store; NULL = not kept there */
    const char *key;  /* key in the recording that the session refers to; NULL = none */
} pl_side;

typedef struct pl_sync_point {
    const char *value, *node, *op, *module, *source; /* in MODEL; "" unknown */
    const char *counterpart;                         /* in B; "" = none */
    const char *paired_by, *relation, *layout;       /* "" where it does not apply */
    double confidence;
    bool is_input, is_output;
    bool metadata_match;
    const char *metadata_reason; /* "" when it matches */
    pl_side a, b;
    pl_pair_class pair_class;
    bool measured; /* acc is filled */
    pl_accumulators acc;
    pl_precision precision;
    double propagated, local, amplified, q; /* NAN = not known */
    const char *excuse;                     /* "" */
    pl_colour colour;
    pl_verdict verdict;
    const char *reason; /* one line, "" */
    int64_t sample;     /* worst sample when there are several; else 0 */
    bool accepted;      /* by a baseline */
} pl_sync_point;

typedef struct pl_blame_entry {
    const char *node, *op, *value;
    const char *const *members; /* values of the nodes of the group, when it is one */
    size_t n_members;
    const char *kind, *where; /* "offset 0.25", "channel 3 of axis 1" */
    double q, effect, score;
    const char *reason, *module, *source;
} pl_blame_entry;

typedef struct pl_side_info { /* "a", "b" of the JSON */
    const char *backend, *spec, *version, *path, *hash;
    const char *failure; /* "" = none */
    int signal;
} pl_side_info;

typedef struct pl_timing_entry {
    const char *phase;
    double seconds;
} pl_timing_entry;

typedef struct pl_session {
    pl_arena *arena;
    pl_outcome outcome;
    const char *reason; /* one line */
    const char *model_path, *model_hash;
    size_t model_nodes;
    pl_side_info a, b;
    bool observer_effect;
    const char *observer_note;
    pl_sync_point *points; /* in the order of the model */
    size_t n_points;
    const char *first_divergence; /* value, or NULL */
    pl_blame_entry *blame;        /* by score, largest first */
    size_t n_blame;
    size_t n_replayed, n_unreplayed; /* coverage */
    double single_node_share;
    const char *const *notes; /* warnings: constant inputs, fallbacks, what was not seen */
    size_t n_notes;
    pl_timing_entry *timing;
    size_t n_timing;
    int64_t peak_rss;
} pl_session;

#endif
