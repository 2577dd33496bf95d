/* The result of an analysis or comparison: sync points, blame, and how the runs went.
 *
 * One struct for analyze and compare; session_json.c writes it as the JSON of
 * docs/formats/session.md (which is also session.json of the folder), session_read.c reads it back
 * for view and report, and session_print.h shows it. Strings and lists are in the session's arena;
 * strings are never NULL unless stated (pl_session_new and pl_sync_point_init set ""). Unknown
 * numbers are NAN, null in the JSON. */
#ifndef PL_SESSION_H
#define PL_SESSION_H

#include "backends/placement.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "metric/metrics.h"
#include "session/facts.h"
#include "tensor/datum.h"
#include "tensor/tensor.h"

/* X(NAME, "name", letter): of one sync point; the letter is shown beside the colour. */
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

typedef enum pl_outcome { /* verdict on the whole session */
                          PL_OUTCOME_AGREE,
                          PL_OUTCOME_DIVERGED,
                          PL_OUTCOME_NONDETERMINISTIC,
                          PL_OUTCOME_FAILED,
                          PL_OUTCOME_INCONCLUSIVE, /* not enough was compared */
                          PL_OUTCOME_COUNT
} pl_outcome;
const char *pl_outcome_name(pl_outcome o); /* "agree", … */
int pl_outcome_exit_code(pl_outcome o);    /* 0, 1, 1, 3, 2 */

typedef struct pl_side { /* one side's metadata tuple */
    bool present;
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    int64_t offset;
    bool has_hash, has_probe;
    pl_hash128 hash;
    pl_hash128 probe; /* hash of blocks (store/blob.h), if the recording has no hashes */
    unsigned flags;   /* PL_RECORD_* */
    const char *blob; /* name in the session's store; NULL = not kept there */
    const char *key;  /* key in the recording that the session refers to; NULL = none */
} pl_side;
/* Copies dtype and shape from a tensor, not its hash. Does nothing for NULL and containers. */
void pl_side_describe(pl_side *side, const pl_datum *d);

typedef struct pl_sync_point {
    const char *value, *node, *op, *module, *source; /* in MODEL; "" unknown */
    const char *counterpart;                         /* in B; "" = none */
    const char *counterpart_op;                      /* as B's recording names it; "" unknown */
    const char *paired_by, *relation, *layout;       /* "" where it does not apply */
    double confidence;
    bool is_input, is_output;
    bool metadata_match;
    const char *metadata_reason; /* "" when it matches */
    pl_side a, b;
    pl_pair_class pair_class; /* when pl_sync_point_has_class */
    bool measured;            /* acc is set */
    pl_accumulators acc;
    const double *user_metrics;             /* one per session->user_metrics, NAN = none; or NULL */
    pl_precision precision;                 /* effective: what it went through, not only its type */
    pl_metric_limits limits;                /* that gave the colour; pl_sync_point_limits_of */
    const char *limits_from;                /* "fp32", "limits.json row 2"; "" */
    double propagated, local, amplified, q; /* NAN = not known */
    const char *excuse;                     /* "" */
    pl_colour colour;
    pl_value_facts facts; /* facts behind the verdict; not read back */
    pl_verdict verdict;
    const char *reason;  /* one line, "" */
    int64_t sample;      /* worst sample when there are several; else 0 */
    int64_t n_undefined; /* elements that operators leave undefined, which were not compared */
    bool accepted;       /* by a baseline */
    bool fails;          /* an output beyond its bound, independent of blame */
    bool overflowed;     /* fails because both sides are NaN or Inf where fp64 is finite */
    bool model_wrong;    /* the recording, which is the truth, differs from the model here first */
    const struct pl_detail *detail;  /* on demand (detail.h), not read back; or NULL */
    const struct pl_value *replayed; /* only during analyze: its value in the replayed model */
} pl_sync_point;

typedef struct pl_blame_entry {
    const char *node, *op, *value;
    const char *const *members; /* values of the nodes of the group, when it is one */
    size_t n_members;
    const char *kind, *where; /* "offset 0.25", "channel 3 of axis 1" */
    double q, effect, score;
    const char *reason, *module, *source;
    const int64_t *samples; /* with several samples: those it is to blame in, worst first */
    size_t n_samples;
    bool in_model; /* the fault is in the model, and the runtime does what the model says */
} pl_blame_entry;

typedef struct pl_side_info { /* "a", "b" of the JSON */
    const char *backend, *spec, *version, *path, *hash;
    const char *failure; /* "" = none */
    int signal;
    const char *sandbox; /* "on", "on, with cgroup", or why not; "" = unknown */
    const char *cpu;     /* CPU features that change results, "x86-64 fma avx2"; "" = unknown */
    const char *device;  /* device it computes on; "" = the CPU */
    const char *precision_profile; /* of A: its precision profile (ops/arithmetic.h); "" */
    pl_placement placement;        /* which node ran where; empty = one place, or unknown */
} pl_side_info;

typedef struct pl_left_over { /* a value of B without a counterpart in A */
    const char *value, *op, *reason;
    bool expected; /* folded, fused, a view: harmless */
    bool is_output;
} pl_left_over;

typedef struct pl_user_metric { /* from a plugin */
    const char *name, *unit;
    pl_direction direction;
} pl_user_metric;

typedef struct pl_timing_entry {
    const char *phase;
    double seconds;
} pl_timing_entry;

/* What the verdict is based on (counted by verdict.h). */
typedef struct pl_coverage {
    size_t n_outputs, n_outputs_compared; /* of the model */
    size_t n_verified;                    /* computed values that were compared or replayed */
    size_t n_unverified, n_unpaired;
    size_t n_inputs; /* that were compared */
} pl_coverage;

typedef struct pl_lost_call { /* lost_calls.h; texts are "" where not applicable */
    const char *status, *op, *module, *file, *source;
    int64_t line;
    const char *const *affects; /* the nearest values of the graph that are affected */
    size_t n_affects;
} pl_lost_call;

typedef struct pl_session {
    pl_arena *arena;
    pl_outcome outcome;
    const char *reason;   /* one line */
    const char *at_fault; /* "runtime", "model", "both", "none" */
    pl_lost_call *lost;   /* calls that the exporter lost */
    size_t n_lost;
    pl_coverage coverage;
    const char *created; /* UTC, "2026-08-22T10:00:00Z" */
    const char *metric;  /* used for colours and sorting, "psnr" */
    const char *profile; /* "plumb", "torch" */
    double tol;          /* of the profile; NAN = by precision */
    const char *model_path, *model_hash;
    const char *inputs_hash; /* of what A ran on; "" = unknown */
    size_t model_nodes;
    size_t n_samples;               /* of inputs; 0 = one */
    const int64_t *failing_samples; /* indices of samples that did not agree */
    size_t n_failing_samples;
    const int64_t *cover; /* the fewest samples that show every culprit */
    size_t n_cover;
    pl_side_info a, b;
    bool observer_effect;
    const char *observer_note;
    const char *bisect_level, *bisect_pass, *bisect_reason; /* bisection; NULL = not asked for */
    struct pl_advice *advice; /* precision advice (advice.h); NULL = not asked for */
    double quant_limit; /* B is the float model of a quantised A: how far outputs may be off, of
                           their size; NAN = it is not. Not read back */
    struct pl_quantisation *quant; /* of a quantised model (quant.h); NULL = it is not one */
    struct pl_routing *routing;    /* chosen experts (routing.h); NULL = none are chosen */
    pl_sync_point *points;         /* in the order of the model */
    size_t n_points;
    bool starved; /* an input of the model has no elements. Not written */
    pl_left_over *left_b;
    size_t n_left_b;
    const pl_user_metric *user_metrics;
    size_t n_user_metrics;
    const char *first_divergence; /* value, or NULL */
    pl_blame_entry *blame;        /* by score, largest first */
    size_t n_blame;
    size_t n_replayed, n_unreplayed; /* coverage */
    double single_node_share;
    const char *const *notes; /* warnings: constant inputs, fallbacks, what was not seen */
    size_t n_notes;
    pl_timing_entry *timing;
    size_t n_timing;
    int64_t peak_rss;  /* bytes */
    const char *lines; /* "NONDETERMINISTIC A at y (hash)", as PyTorch's analyze prints them; "" */
} pl_session;

/* The session is allocated in its own arena. */
pl_status pl_session_new(pl_session **out, pl_err *err);
void pl_session_free(pl_session *session); /* NULL is fine */
/* Shares nothing with `from` or the data it was made from (session_copy.c). */
pl_status pl_session_copy(const pl_session *from, pl_session **out, pl_err *err);
pl_status pl_session_copy_quant(const pl_session *from, pl_session *to, pl_err *err); /* alone */
void pl_sync_point_init(pl_sync_point *p); /* "" and NAN everywhere */
bool pl_sync_point_has_class(const pl_sync_point *p);
/* Failed and not accepted: makes a comparison diverge. */
bool pl_sync_point_is_bad(const pl_sync_point *p);
/* Larger is worse: 4 structural, 3 non-finite, 2 finite, 1 unpaired or unverified, 0 exact; the
 * metric decides within a rank. */
int pl_sync_point_rank(const pl_sync_point *p);
/* Value of a metric by name, the session's user metrics included; NAN when there is none. */
double pl_sync_point_metric(const pl_session *session, const pl_sync_point *p, const char *name);

/* The metric whose limits gave the colour: the session's, or max_abs where the reference is 0. */
const char *pl_sync_point_limits_of(const pl_session *session, const pl_sync_point *p);

/* ---- as JSON (docs/formats/session.md) ---- */
void pl_session_put_json(const pl_session *session, pl_buf *out);
/* Parts of it, for the page: one side under `key`, the list under "blame". */
void pl_session_put_side(pl_json *j, const char *key, const pl_side_info *i);
void pl_session_put_blame(pl_json *j, const pl_session *s);
void pl_session_put_left_over(pl_json *j, const pl_session *s);
void pl_session_put_notes(pl_json *j, const pl_session *s);
void pl_session_put_coverage(pl_json *j, const pl_session *s);
/* Checks everything; metrics are computed again from the accumulators. `name` is used in
 * messages. */
pl_status pl_session_read(const char *text, size_t n, const char *name, pl_session **out,
                          pl_err *err);
/* PATH/session.json, or a file. */
pl_status pl_session_open(const char *path, pl_session **out, pl_err *err);

#endif
