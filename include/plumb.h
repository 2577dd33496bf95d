/* plumb: find the operation where a model goes wrong.
 *
 * The only public header. C and C++; link with -lplumb (pkg-config plumb).
 *
 * Failure: fallible functions return a plumb_status and fill *err (which may be NULL) with one line
 * that names the file, node and value, what was found and what was expected. Nothing is printed,
 * and no input makes the library exit or abort. Ownership: `const T *` is borrowed for the call; `T
 * **out` becomes the caller's, to be released with the function named beside it. Text results are
 * released with plumb_free. Threads: different models and tensors may be used from different
 * threads at once; one model is used by one thread at a time. Results never depend on the number of
 * threads. */
#ifndef PLUMB_H
#define PLUMB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PLUMB_API __attribute__((visibility("default")))
#else
#define PLUMB_API
#endif

/* ---- status ---- */

typedef enum plumb_status { /* the CLI's exit code stands beside */
                            PLUMB_OK = 0,
                            PLUMB_E_USAGE,       /* 2 */
                            PLUMB_E_FORMAT,      /* 2: malformed input */
                            PLUMB_E_INVALID,     /* 2: well-formed, but wrong */
                            PLUMB_E_UNSUPPORTED, /* 2: names what is not supported */
                            PLUMB_E_NOT_FOUND,   /* 2 */
                            PLUMB_E_EXISTS,      /* 2: never overwritten */
                            PLUMB_E_LIMIT,       /* 2 */
                            PLUMB_E_BACKEND,     /* 3 */
                            PLUMB_E_TIMEOUT,     /* 3 */
                            PLUMB_E_IO,          /* 4 */
                            PLUMB_E_MEMORY,      /* 4 */
                            PLUMB_E_INTERNAL     /* 4 */
} plumb_status;

typedef struct plumb_error {
    plumb_status status;
    char message[1024];
} plumb_error;

PLUMB_API const char *plumb_version(void);
PLUMB_API int plumb_exit_code(plumb_status status);
PLUMB_API void plumb_free(void *text); /* NULL is fine */

/* Long work reports here; `total` 0 = not known. Called from the calling thread. */
typedef struct plumb_progress {
    void (*update)(void *ctx, const char *phase, int64_t done, int64_t total);
    void *ctx;
} plumb_progress;

/* ---- tensors ---- */

/* Numbers of ONNX TensorProto.DataType. */
typedef enum plumb_dtype {
    PLUMB_FLOAT = 1,
    PLUMB_UINT8 = 2,
    PLUMB_INT8 = 3,
    PLUMB_UINT16 = 4,
    PLUMB_INT16 = 5,
    PLUMB_INT32 = 6,
    PLUMB_INT64 = 7,
    PLUMB_STRING = 8,
    PLUMB_BOOL = 9,
    PLUMB_FLOAT16 = 10,
    PLUMB_DOUBLE = 11,
    PLUMB_UINT32 = 12,
    PLUMB_UINT64 = 13,
    PLUMB_COMPLEX64 = 14,
    PLUMB_COMPLEX128 = 15,
    PLUMB_BFLOAT16 = 16,
    PLUMB_FLOAT8E4M3FN = 17,
    PLUMB_FLOAT8E4M3FNUZ = 18,
    PLUMB_FLOAT8E5M2 = 19,
    PLUMB_FLOAT8E5M2FNUZ = 20,
    PLUMB_UINT4 = 21, /* 4- and 2-bit types: one element to a byte in memory */
    PLUMB_INT4 = 22,
    PLUMB_FLOAT4E2M1 = 23,
    PLUMB_FLOAT8E8M0 = 24,
    PLUMB_UINT2 = 25,
    PLUMB_INT2 = 26
} plumb_dtype;

typedef struct plumb_tensor plumb_tensor; /* ref-counted, immutable */

/* Copies n bytes of dense little-endian data in C order; not for strings. */
PLUMB_API plumb_status plumb_tensor_new(plumb_dtype dtype, int rank, const int64_t *dims,
                                        const void *data, size_t n_bytes, plumb_tensor **out,
                                        plumb_error *err);
PLUMB_API void plumb_tensor_free(plumb_tensor *tensor); /* NULL is fine */
PLUMB_API plumb_dtype plumb_tensor_dtype(const plumb_tensor *tensor);
PLUMB_API int plumb_tensor_rank(const plumb_tensor *tensor);
PLUMB_API const int64_t *plumb_tensor_dims(const plumb_tensor *tensor); /* lives with it */
PLUMB_API const void *plumb_tensor_data(const plumb_tensor *tensor);    /* lives with it; dense */
PLUMB_API size_t plumb_tensor_bytes(const plumb_tensor *tensor);

/* ---- models ---- */

typedef struct plumb_model plumb_model;

/* An ONNX file, or text form when the name ends in .onnxtxt. */
PLUMB_API plumb_status plumb_model_open(const char *path, plumb_model **out, plumb_error *err);
PLUMB_API void plumb_model_close(plumb_model *model); /* NULL is fine */
PLUMB_API size_t plumb_model_inputs(const plumb_model *model);
PLUMB_API size_t plumb_model_outputs(const plumb_model *model);
PLUMB_API const char *plumb_model_input_name(const plumb_model *model, size_t i);
PLUMB_API const char *plumb_model_output_name(const plumb_model *model, size_t i);
/* Restricts the model to the part between values, or to one of its local functions, before anything
 * else is done with it. Lists are comma-separated names; NULL = the model's own. */
PLUMB_API plumb_status plumb_model_restrict(plumb_model *model, const char *function,
                                            const char *from, const char *to, plumb_error *err);

typedef enum plumb_format { PLUMB_TEXT, PLUMB_JSON } plumb_format;

typedef struct plumb_info_options {
    plumb_format format;
    const char *const *dims; /* "NAME=N", n_dims of them */
    size_t n_dims;
    int nodes; /* list every node with its shapes and origin */
} plumb_info_options;
/* What is in a model: inputs, outputs, ops, shapes, parameters, opsets, support. */
PLUMB_API plumb_status plumb_info(plumb_model *model, const plumb_info_options *options,
                                  char **text, plumb_error *err);

typedef struct plumb_transform_options {
    int eval;        /* training behaviour off: Dropout, BatchNormalization, … */
    const char *amp; /* "fp16" or "bf16": autocast, as PyTorch's lists say; NULL = none */
    int fp64;        /* every float becomes a double */
    plumb_format format;
} plumb_transform_options;
/* Changes the model itself and lists what was changed. */
PLUMB_API plumb_status plumb_model_transform(plumb_model *model,
                                             const plumb_transform_options *options, char **text,
                                             plumb_error *err);

typedef struct plumb_convert_options {
    int external;         /* weights beside the file */
    int64_t max_elements; /* in text form; 0 = no limit */
    const char *backward; /* "joint", "forward" or "backward": the graph with gradients, or a part
                             of it; NULL = the model itself */
    const char *const *dims; /* backward: "NAME=N", sizes of symbolic dims */
    size_t n_dims;
} plumb_convert_options;
/* Writes .onnx or .onnxtxt by the name; never over an existing file. */
PLUMB_API plumb_status plumb_convert(plumb_model *model, const char *out_path,
                                     const plumb_convert_options *options, plumb_error *err);

/* The operator table. */
PLUMB_API plumb_status plumb_ops(plumb_format format, const char *filter, char **text,
                                 plumb_error *err);

/* ---- running ---- */

typedef enum plumb_fill { PLUMB_FILL_RANDOM, PLUMB_FILL_ZEROS, PLUMB_FILL_ONES } plumb_fill;

typedef struct plumb_inputs { /* where inputs come from; all zero = generated with seed 0 */
    const char *const *files; /* "NAME=FILE": npy, npz, TensorProto, safetensors */
    size_t n_files;
    const char *const *sets; /* files or folders that hold several inputs by name or number */
    size_t n_sets;
    const char *const *dims; /* "NAME=N"; other unknown dims are 1 */
    size_t n_dims;
    const char *const *ranges; /* "NAME=LO:HI" */
    size_t n_ranges;
    plumb_fill fill;
    uint64_t seed;
} plumb_inputs;

typedef struct plumb_run_options {
    plumb_inputs inputs;
    const char *backend;   /* spec; NULL = eager. Others run behind plumb-guard */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    int fp64;              /* gold */
    int repeat;            /* runs for timing; 0 = 1 */
    const char *output;    /* folder, or FILE.npy|npz|pb|safetensors; NULL = nothing is written */
    const char *save_as;   /* in a folder: "npy" (default) or "pb" */
    plumb_format format;
    int profile; /* add the time of each node */
    const plumb_progress *progress;
} plumb_run_options;
/* Runs the model on a backend, writes its outputs, and describes them. */
PLUMB_API plumb_status plumb_run(plumb_model *model, const plumb_run_options *options, char **text,
                                 plumb_error *err);

/* The reproducibility test: does the backend compute what the reference computes? */
typedef enum plumb_check_mode {
    PLUMB_CHECK_NONE,     /* only run, transformed as asked */
    PLUMB_CHECK_ACCURACY, /* with an fp64 run as third opinion; outputs that are not floats are
                             ignored */
    PLUMB_CHECK_STRICT    /* those count as well; fp64 where it can be had */
} plumb_check_mode;
typedef struct plumb_check_options {
    plumb_run_options run; /* repeat: runs of the candidate; most of them must agree */
    plumb_check_mode mode;
    int eval;                    /* training behaviour off on both sides */
    const char *amp;             /* "fp16", "bf16": the candidate runs under autocast */
    int reference_amp;           /* and so does the reference */
    const char *reference;       /* a spec, a recording or a model file; NULL = eager */
    const char *reference_model; /* another model for the reference; NULL = none */
    int backward;                /* gradients of inputs and parameters, updated buffers */
    const char *loss_output;     /* the only output in the loss; NULL = every float one */
    int random_gradients;        /* random incoming gradients, from grad_seed */
    uint64_t grad_seed;
    const char *profile;        /* "plumb" (NULL) or "torch" */
    const char *same;           /* options of the torch profile, "tol=1e-4,…" */
    double tol;                 /* plumb: |a - r| <= tol (|r| + rms); 0 = by the fp64 run */
    const char *baseline;       /* accepted divergences: only new ones fail; NULL = none */
    const char *write_baseline; /* accept what diverges now; NULL = no */
    const char *format;         /* "text" (NULL), "json", "junit", "github", "md", "csv", "sarif" */
} plumb_check_options;
typedef struct plumb_check_result {
    int exit_code;   /* 0 agrees, 1 does not, 3 a backend failed */
    char status[32]; /* "ok", "pass", "fail_accuracy", "eager_two_runs_differ", "fail_to_run", … */
    char error[1024]; /* the AccuracyError, or what failed, with the next command; "" */
} plumb_check_result;
PLUMB_API plumb_status plumb_run_checked(plumb_model *model, const plumb_check_options *options,
                                         plumb_check_result *result, char **text, plumb_error *err);
/* plumb_run on tensors in memory: in[i] belongs to input i (NULL = its default). */
PLUMB_API plumb_status plumb_run_tensors(plumb_model *model, const plumb_run_options *options,
                                         const plumb_tensor *const *in, plumb_tensor **out,
                                         plumb_error *err);

/* ---- test folders ---- */

typedef struct plumb_test_options {
    double rtol, atol;     /* 1e-3, 1e-7 as ONNX's own runner */
    const char *filter;    /* only cases whose path holds it; NULL = all */
    const char *backend;   /* spec; NULL = eager. Others run behind plumb-guard */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int fp64, threads, verbose;
    plumb_format format;
    const plumb_progress *progress;
    /* Called for each case that failed, after all have run; may be NULL. */
    void (*failed)(void *ctx, const char *path, const char *reason);
    void *failed_ctx;
} plumb_test_options;
typedef struct plumb_test_counts {
    size_t passed, failed, skipped;
} plumb_test_counts;
/* Runs every ONNX test case below the folders. A failed case is counted, not an error. */
PLUMB_API plumb_status plumb_test(const char *const *dirs, size_t n_dirs,
                                  const plumb_test_options *options, plumb_test_counts *counts,
                                  char **text, plumb_error *err);

/* ---- metrics ---- */

/* psnr, mae, mse, max_abs, mean_rel, rmse, cosine, snr, max_ulp, mismatch. */
PLUMB_API size_t plumb_metric_count(void);
PLUMB_API const char *plumb_metric_name(size_t i); /* NULL beyond the last */

typedef enum plumb_pair_class { /* of two tensors, from best to worst */
                                PLUMB_PAIR_EXACT,
                                PLUMB_PAIR_FINITE,
                                PLUMB_PAIR_NONFINITE, /* NaN or Inf on one side only */
                                PLUMB_PAIR_STRUCTURAL /* shapes differ: nothing is measured */
} plumb_pair_class;
/* Every metric of a against the reference r; values[i] belongs to plumb_metric_name(i) and may be
 * infinite, never NaN. `values` may be NULL. */
PLUMB_API plumb_status plumb_measure(const plumb_tensor *a, const plumb_tensor *r, double *values,
                                     plumb_pair_class *pair_class, plumb_error *err);

/* PyTorch's same(ref, res, fp64_ref), with its names and quirks. */
typedef struct plumb_same_options {
    double tol;        /* 1e-3: both absolute and relative */
    int equal_nan;     /* 1 */
    int exact_dtype;   /* 1 */
    int ignore_non_fp; /* 0 */
    int cos_similarity;
    int use_larger_multiplier_for_smaller_tensor;
    int force_max_multiplier;
    int use_iou_for_bool;
    int relax_numpy_equality; /* taken, without effect: ONNX data has no NumPy scalars */
    double iou_threshold;     /* 0.99 */
} plumb_same_options;
typedef struct plumb_same_result {
    int same;         /* 1 yes, 0 no, -1 PyTorch would raise an exception */
    const char *rule; /* which rule decided; static */
    double ref_error; /* RMSE against fp64, where that rule was reached */
    double res_error;
    double multiplier;
    char why[256]; /* one line; "" when same */
} plumb_same_result;
PLUMB_API void plumb_same_options_init(plumb_same_options *options); /* the values noted above */
/* "tol=1e-4,equal_nan=0,…", over what is there. */
PLUMB_API plumb_status plumb_same_options_parse(const char *text, plumb_same_options *options,
                                                plumb_error *err);
/* fp64 may be NULL: ref stands in. options NULL = the defaults. A difference is not an error. */
PLUMB_API plumb_status plumb_same(const plumb_tensor *ref, const plumb_tensor *res,
                                  const plumb_tensor *fp64, const plumb_same_options *options,
                                  plumb_same_result *result, plumb_error *err);

/* ---- recordings and the store ---- */

/* An engine records itself in three calls: open, write each value under the name it has in the
 * model, close. Writing is thread-safe. The file is a safetensors file (docs/formats/recording.md);
 * it appears whole when it is closed, or not at all, and an existing one is never overwritten. */
typedef struct plumb_recorder plumb_recorder;
typedef struct plumb_recorder_options { /* NULL or 0 where unknown */
    const char *engine;                 /* "my-engine" */
    const char *engine_version;
    const char *model; /* the file that the engine runs; its path and hash are noted */
    const char *notes;
    int stats_only; /* hash, min, max, mean, counts; no tensors */
} plumb_recorder_options;
PLUMB_API plumb_status plumb_recorder_open(const char *path, const plumb_recorder_options *options,
                                           plumb_recorder **out, plumb_error *err);
/* Strides are in elements, NULL = dense in C order; `data` is the first element. Data is copied to
 * the file before the call returns. A name that comes again gets a call number: NAME#1, NAME#2, …
 * Not for strings. */
PLUMB_API plumb_status plumb_recorder_write(plumb_recorder *recorder, const char *name,
                                            plumb_dtype dtype, int rank, const int64_t *dims,
                                            const int64_t *strides, const void *data,
                                            plumb_error *err);
/* Gives the file its name; the recorder is freed either way. Fails when a write failed. */
PLUMB_API plumb_status plumb_recorder_close(plumb_recorder *recorder, plumb_error *err);
PLUMB_API void plumb_recorder_abandon(plumb_recorder *recorder); /* leaves no file; NULL is fine */

typedef struct plumb_record_options {
    plumb_inputs inputs;
    const char *backend;   /* spec; NULL = eager. Others run behind plumb-guard */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    int fp64;              /* gold */
    int stats_only;
    /* What is recorded: values that fit one of each list that is given. No list: everything. */
    const char *const *names; /* POSIX extended regular expressions, searched in the value's name */
    size_t n_names;
    const char *const *ops; /* operator types */
    size_t n_ops;
    const char *const *modules; /* modules, with all below them */
    size_t n_modules;
    const char *output; /* the recording */
    plumb_format format;
    const plumb_progress *progress;
} plumb_record_options;
/* Runs the model on a backend and records its inputs and every intermediate that the backend shows
 * without being disturbed by it. */
PLUMB_API plumb_status plumb_record(plumb_model *model, const plumb_record_options *options,
                                    char **text, plumb_error *err);

/* The content store, given by its own folder or its session's: what is in it; whether every blob is
 * what its name says (*n_bad counts those that are not; a recording may be given instead of a
 * store); removing what no index names. */
PLUMB_API plumb_status plumb_store_ls(const char *dir, plumb_format format, char **text,
                                      plumb_error *err);
PLUMB_API plumb_status plumb_store_verify(const char *path, plumb_format format, size_t *n_bad,
                                          char **text, plumb_error *err);
PLUMB_API plumb_status plumb_store_gc(const char *dir, int dry_run, plumb_format format,
                                      char **text, plumb_error *err);

/* ---- comparing ---- */

typedef struct plumb_compare_options {
    /* Of a model that is recorded on the fly; inputs that the other side holds are taken from it.
     */
    plumb_inputs inputs;
    const char *backend;    /* spec for a model; NULL = eager */
    const char *reference;  /* spec for B when both are models; NULL = eager */
    double timeout;         /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit;  /* bytes behind the guard; 0 = none */
    int threads;            /* of plumb's own pool; 0 = all */
    const char *profile;    /* "plumb" (NULL) or "torch" */
    const char *same;       /* options of the torch profile, "tol=1e-4,…" */
    int has_tol;            /* else by the precision of each pair */
    double tol;             /* |a - r| <= tol * (|r| + rms(r)) */
    const char *map;        /* file: who belongs to whom (docs/formats/map.md); NULL = none */
    const char *export_map; /* file to write what was paired to; NULL = none */
    int keep_views;         /* compare outputs of Reshape and the like, too */
    const char *limits;     /* file: colour limits (docs/formats/limits.md); NULL = none */
    const char *baseline;   /* file: accepted divergences (docs/formats/baseline.md); NULL = none */
    const char *write_baseline; /* file to write them to; what it accepts does not fail */
    const char *const *plugins; /* shared libraries with metrics */
    size_t n_plugins;
    const char *const *details; /* values to measure in detail: quantiles, top k, channels */
    size_t n_details;
    const char *metric; /* that colours and sorts; NULL = psnr */
    const char *sort;   /* "worst" (NULL) or "order" */
    const char *format; /* "text" (NULL), "json", "csv", "md", "junit", "github", "sarif", … */
    size_t limit;       /* rows of the table; 0 = all */
    int colour;         /* escape sequences in text */
    const char *output; /* session folder; NULL = none is written */
    int pack;           /* with all tensors in it */
    const plumb_progress *progress;
} plumb_compare_options;
/* Compares two recordings, or a model and a recording, or two models: pairs their values, measures
 * them, and tells where they diverge. *exit_code is 0 (agree) or 1 (diverged). Nothing paired is an
 * error (PLUMB_E_INVALID); so is a model that does not run. */
PLUMB_API plumb_status plumb_compare(const char *a, const char *b,
                                     const plumb_compare_options *options, int *exit_code,
                                     char **text, plumb_error *err);

/* ---- analysis ---- */

typedef struct plumb_analyze_options {
    plumb_inputs inputs;
    const char *backend;         /* spec of A, the run under test; NULL = eager */
    const char *reference;       /* B: a spec, a recording or a model file; NULL = eager */
    const char *reference_model; /* another model for B, run as `reference` says; NULL = none */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    const char *output;    /* the session folder; NULL = none is written */
    const char *save;      /* tensors in it: "all" (NULL), "suspects", "none" */
    const char *reuse;     /* an earlier session of the same model whose A is taken; NULL = run A */
    int skip_determinism, skip_gold;
    int skip_search;     /* no runs of parts of the model, for failures and for black boxes */
    const char *profile; /* "plumb" (NULL) or "torch" */
    const char *same;    /* options of the torch profile, "tol=1e-4,…" */
    double tol;          /* of outputs without a culprit, relative to their size; 0 = 1e-4 */
    const char *metric;  /* that colours and sorts; NULL = psnr */
    const char *format;  /* "text" (NULL), "json", "csv", "md", "junit", "github", "sarif", … */
    size_t limit;        /* rows of the table; 0 = all */
    int colour;          /* escape sequences in text */
    int bisect;          /* also: which level or pass of A's backend did it */
    const char *rollup;  /* after the table: "module", "op" or "dtype"; NULL = none */
    const char *amp;     /* "fp16" or "bf16": the model under autocast, on both sides; NULL = no */
    int advise;          /* also: which nodes to raise to float32 for the outputs to be near fp64 */
    const char *advise_out; /* file for the model with these raised; NULL = none */
    /* Files, NULL = none: which value of A is which of a recording or another model as B; accepted
     * divergences; where to write what diverges now, which then does not fail (docs/formats). */
    const char *map, *baseline, *write_baseline;
    const plumb_progress *progress;
} plumb_analyze_options;
/* The whole analysis: which operation is to blame. *exit_code is 0 (agree), 1 (diverged or
 * non-deterministic) or 3 (A or B failed); these are results, not errors. */
PLUMB_API plumb_status plumb_analyze(plumb_model *model, const plumb_analyze_options *options,
                                     int *exit_code, char **text, plumb_error *err);

/* ---- looking at a session ---- */

typedef struct plumb_report_options { /* all zero: HTML */
    const char
        *format; /* "html" (NULL), "text", "json", "csv", "md", "junit", "github", "sarif", … */
    const char *metric; /* that sorts; NULL = the session's */
    size_t limit;       /* rows of tables; 0 = all */
    uint64_t max_size;  /* bytes of the HTML file, which tensors are left out for; 0 = 16 MiB */
} plumb_report_options;
/* Writes a session (its folder) to a new file: as one offline HTML page, or in another format,
 * which without a path (NULL) becomes the text. */
PLUMB_API plumb_status plumb_report(const char *session, const char *path,
                                    const plumb_report_options *options, char **text,
                                    plumb_error *err);

/* The debugger in the browser: serves a session (its folder) or a model (for a comparison to be set
 * up; NULL: neither) on 127.0.0.1 until it is closed. The link holds a token without which nothing
 * is answered. Needs libmicrohttpd, at build time and now, else
 * PLUMB_E_UNSUPPORTED. */
typedef struct plumb_viewer plumb_viewer;
typedef struct plumb_viewer_options { /* all zero: a free port, no source files, no comparisons */
    int port;                         /* 0 = a free one */
    const char *source;  /* folder below which source files may be shown; NULL = none */
    const char *program; /* the plumb program, which runs comparisons; NULL = none are offered */
    const char *host;    /* IPv4 address to listen on instead of 127.0.0.1; NULL = only there */
} plumb_viewer_options;
PLUMB_API plumb_status plumb_viewer_open(const char *path, const plumb_viewer_options *options,
                                         plumb_viewer **out, plumb_error *err);
PLUMB_API const char *plumb_viewer_link(const plumb_viewer *viewer); /* lives with it */
PLUMB_API void plumb_viewer_close(plumb_viewer *viewer);             /* NULL is fine */

/* ---- minify and repro ---- */

/* How a model is run: what is done to it before anything else. A repro holds the model after that,
 * and says what it was. */
typedef struct plumb_context {
    int eval;                /* training behaviour off */
    const char *amp;         /* "fp16", "bf16": under autocast; NULL = not */
    int backward;            /* with gradients */
    const char *loss_output; /* backward: the only output in the loss; NULL = every float one */
    int random_gradients;    /* backward: incoming gradients by grad_seed instead of 1/numel */
    uint64_t grad_seed;
} plumb_context;

typedef struct plumb_minify_options {
    plumb_inputs inputs;
    plumb_context context;
    const char *backend;   /* spec of the run under test; NULL = eager */
    double timeout;        /* seconds of each compile, run or check; 0 = found from the first run */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    /* Questions that are worked on at the same time, in forks of this process; 0 = one for each
     * CPU, 1 = one at a time. The result is the same. A host with threads gets 1. */
    int jobs;
    /* The user's own oracle instead of a backend: a command for /bin/sh. {model} is the candidate,
     * {dir} a folder with model.onnx and test_data_set_0/. Any exit code but 0 says that it fails,
     * 125 that it cannot tell, 126 and 127 that it cannot be run. */
    const char *check;
    const char *fail_regex;  /* it fails when what it prints fits; NULL = by exit code */
    int fail_code;           /* it fails only with this exit code; -1 = as the original */
    const char *check_str;   /* must be in the error's text; NULL = a similar text */
    int accuracy;            /* outputs must also fail the predicate of plumb_run_checked */
    int strict;              /* the first culprit in the graph, also one that changes no output */
    const char *profile;     /* of that predicate, as in plumb_check_options; NULL = plumb */
    const char *same;        /* options of the torch profile; NULL = PyTorch's own */
    double tol;              /* 0 = by the fp64 run */
    const char *signature;   /* a repro.json whose signature is asked for; NULL = what it shows */
    size_t max_queries;      /* 0 = no limit */
    double max_time;         /* seconds; 0 = no limit */
    const char *output;      /* the repro folder, new; NULL = none is written */
    const char *checkpoints; /* folder for the best model after each step; NULL = none */
    int strip_weights, stable_output, zip, keep_other;
    const char *good;    /* folder for the nearest model that passes; NULL = none */
    const char *program; /* plumb, which checks the repro in a new process; NULL = the running
                            program when it is plumb, else the one in PATH */
    plumb_format format;
    void (*log)(void *ctx, const char *line); /* NULL = silent */
    void *log_ctx;
    const plumb_progress *progress;
    int trust; /* a command, program or library that the repro.json names may be run */
} plumb_minify_options;
/* The smallest model that fails in the same way, written as a repro and checked from its files in a
 * new process. A model that does not fail is PLUMB_E_INVALID. */
PLUMB_API plumb_status plumb_minify(plumb_model *model, const plumb_minify_options *options,
                                    char **text, plumb_error *err);
/* One question: does the model fail, with the signature of options->signature when it is given?
 * *fails is 1 or 0. */
PLUMB_API plumb_status plumb_minify_query(plumb_model *model, const plumb_minify_options *options,
                                          int *fails, char **text, plumb_error *err);

/* Repro levels: 0 off; 1 on error, a checkpoint; 2 on error, a checkpoint and the minify command; 3
 * always, before compiling and running, so that it survives a crash; 4 when the outputs are wrong.
 */
typedef struct plumb_repro_options {
    int level;             /* 1 to 4 */
    plumb_inputs inputs;   /* made again: they depend on their options only */
    const char *backend;   /* spec; NULL = eager */
    const char *debug_dir; /* NULL = plumb-debug */
    const char *name;      /* "forward", "backward": kept apart; NULL = none */
    const char *error;     /* what went wrong; NULL = nothing yet */
    int no_data;           /* shapes and types only; inputs are generated when it is run */
    double timeout;
    int threads;
    plumb_context context; /* done to the model that is written */
    /* The predicate that found it wrong, as in plumb_minify_options: minify and query ask by it. */
    int accuracy, strict;
    const char *profile, *same;
    double tol;
} plumb_repro_options;
/* Writes DEBUG_DIR/run_TIME-PID/checkpoints/NODES[-k]/ and copies it to ./repro; *text says where.
 */
PLUMB_API plumb_status plumb_repro_dump(const plumb_model *model,
                                        const plumb_repro_options *options, char **text,
                                        plumb_error *err);

/* What a repro.json says of the run. */
typedef struct plumb_repro_info {
    uint64_t seed;
    int threads; /* 0 = all */
    double timeout;
    int eval, backward; /* how the model was made: not to be done again */
    char amp[8];        /* "" = not under autocast */
} plumb_repro_info;
/* PLUMB_E_NOT_FOUND when the folder is no repro. */
PLUMB_API plumb_status plumb_repro_read(const char *folder, plumb_repro_info *out,
                                        plumb_error *err);

/* ---- backends ---- */

/* A backend compiles and runs models: eager, jit, ort, cmd, plugin. A spec names one with its
 * options: "ort:opt=all,threads=1", "eager:fp64", "cmd:./run.sh", "plugin:./libx.so". */

/* Which backends work here, and why the others do not. */
PLUMB_API plumb_status plumb_backends(plumb_format format, char **text, plumb_error *err);

/* What an edge of a model carries at run time: a tensor, a sequence or an optional. Ref-counted,
 * immutable. A backend handles it through plumb_host only. */
typedef struct plumb_datum plumb_datum;
typedef enum plumb_kind { PLUMB_TENSOR = 1, PLUMB_SEQUENCE = 2, PLUMB_OPTIONAL = 3 } plumb_kind;

typedef struct plumb_string {
    const char *data; /* need not end with a NUL */
    size_t n_bytes;
} plumb_string;

/* What plumb does for a backend, so that a plugin links with nothing. New members go to the end;
 * n_bytes tells which are there. */
typedef struct plumb_host {
    uint32_t abi; /* PLUMB_ABI */
    uint32_t n_bytes;
    plumb_kind (*kind)(const plumb_datum *d);
    const plumb_tensor *(*tensor)(const plumb_datum *d);        /* NULL when it is not a tensor */
    size_t (*count)(const plumb_datum *d);                      /* items; of an optional 0 or 1 */
    const plumb_datum *(*item)(const plumb_datum *d, size_t i); /* NULL past the end */
    plumb_dtype (*dtype)(const plumb_tensor *t);
    int (*rank)(const plumb_tensor *t);
    const int64_t *(*dims)(const plumb_tensor *t);
    const void *(*data)(const plumb_tensor *t); /* dense; strings: plumb_string elements */
    size_t (*bytes)(const plumb_tensor *t);
    /* The elements are copied; n_bytes must be exactly those of the shape. Strings: `data` is an
     * array of plumb_string. */
    plumb_status (*new_tensor)(plumb_dtype dtype, int rank, const int64_t *dims, const void *data,
                               size_t n_bytes, plumb_datum **out, plumb_error *err);
    plumb_status (*new_sequence)(plumb_dtype of, plumb_datum *const *items, size_t n_items,
                                 plumb_datum **out, plumb_error *err);
    plumb_status (*new_optional)(plumb_dtype of, plumb_datum *item, plumb_datum **out,
                                 plumb_error *err); /* item NULL: empty */
    plumb_datum *(*ref)(const plumb_datum *d);
    void (*unref)(plumb_datum *d); /* NULL is fine */
    /* Sets *err and returns status. */
    plumb_status (*fail)(plumb_error *err, plumb_status status, const char *format, ...);
} plumb_host;
PLUMB_API const plumb_host *plumb_host_get(void);

/* One "key=value" of a spec, checked against the backend's table. A flag has the value "". Lists
 * keep their '+'. The first item of a spec that takes a program or file has the key "". */
typedef struct plumb_option {
    const char *key, *value;
} plumb_option;

typedef struct plumb_option_def {
    const char *key;    /* "" = the program or file that the spec starts with */
    const char *values; /* "off|basic|all", "N" (a whole number), "TEXT", "X+Y"; NULL = a flag */
    const char *help;
} plumb_option_def;

/* A model to compile. All of it lives until the program is freed. */
typedef struct plumb_source {
    const void *onnx; /* its bytes; NULL when `graph` is given and the backend takes graphs */
    size_t n_onnx;
    const char *path; /* a file with the same model; external data lies beside it. NULL = none */
    const char *const *inputs; /* names, in order */
    size_t n_inputs;
    const char *const *outputs;
    size_t n_outputs;
    void *graph;   /* plumb's own form; only for backends that are part of plumb */
    uint64_t seed; /* of random operators that have none of their own */
    int threads;   /* wish of the user; 0 = all. An option of the spec wins */
    int any_shape; /* inputs may have other shapes than declared: test data has */
    int record;    /* recordings will follow: prepare them, and tell n_hooks */
} plumb_source;

/* One value that a backend shows while it records. */
typedef struct plumb_seen {
    const char *name; /* in the graph that the backend executes */
    const plumb_datum *datum;
    /* Values of the model that it carries, converted to the model's layout where the backend has
     * another one (its element type may still differ: float16 held in float32). NULL = `name`.
     * Not NULL and n_stands_for = 0: it is none of the model's. No two values shown in one
     * recording stand for the same one. */
    const char *const *stands_for;
    size_t n_stands_for;
} plumb_seen;

typedef struct plumb_hook {
    /* Called on the thread of run(); a status other than PLUMB_OK ends the run with it. */
    plumb_status (*value)(void *ctx, const plumb_seen *seen, plumb_error *err);
    void *ctx;
    const char *const *names; /* only these are wanted, by name or by stands_for; NULL = all */
    size_t n_names;
} plumb_hook;

/* How a recording went. */
typedef struct plumb_record_info {
    size_t n_values;    /* that the executed graph has, bodies of If, Loop, Scan included */
    size_t n_seen;      /* shown to the hook */
    size_t n_hidden;    /* not reachable: in bodies that did not run, or more than once */
    size_t n_disturbed; /* not shown, because looking at them changed the outputs */
    size_t n_runs;      /* of the backend that it took */
    int differs; /* the outputs were not those of the plain run, bit for bit: nothing shown */
} plumb_record_info;

typedef struct plumb_run_args {
    const plumb_datum *const *in; /* one per input; NULL = its default */
    size_t n_in;
    plumb_datum **out; /* one per output, all NULL at first; references become the caller's */
    size_t n_out;
    const plumb_hook *hook;          /* NULL = a plain run */
    size_t mode;                     /* with a hook: index into record_modes */
    const plumb_datum *const *plain; /* with a hook: outputs of a plain run on the same inputs; the
                                        backend shows nothing unless its own are bit-identical.
                                        NULL = unchecked */
    uint64_t memory_limit;           /* bytes of recorded values to hold at once; 0 = no limit */
    plumb_record_info *record;       /* with a hook: to be filled; never NULL then */
} plumb_run_args;

#define PLUMB_ABI 1u

enum {                        /* flags */
       PLUMB_TAKES_GRAPH = 1, /* reads plumb_source.graph when it is given */
       PLUMB_OTHER_TYPES = 2  /* element types may differ from the declared ones (fp64) */
};

/* The vtable. Slots marked (optional) may be NULL; the default stands beside. `self` is what open
 * gave, `program` what compile gave. One backend is used by one thread at a time. */
typedef struct plumb_backend {
    uint32_t abi;     /* PLUMB_ABI */
    uint32_t n_bytes; /* sizeof(plumb_backend) */
    uint32_t flags;
    const char *name;
    const char *summary;
    const plumb_option_def *options; /* (optional: no options) */
    size_t n_options;
    /* Loads what is needed. (optional: nothing to do, self is NULL) */
    plumb_status (*open)(const plumb_host *host, const plumb_option *options, size_t n_options,
                         void **self, plumb_error *err);
    void (*close)(void *self); /* (optional: nothing to release) */
    /* Of the runtime, "1.27.0"; lives with self. (optional: "") */
    const char *(*version)(void *self);
    /* 1 or 0; -1 = only compile can tell. (optional: -1) */
    int (*supports)(void *self, const char *domain, const char *op, int opset);
    /* *n_hooks: how many values a recording will show, 0 = not known. */
    plumb_status (*compile)(void *self, const plumb_source *source, void **program, size_t *n_hooks,
                            plumb_error *err);
    plumb_status (*run)(void *program, const plumb_run_args *args, plumb_error *err);
    /* Names of the ways to record, from most to least intrusive, ended by NULL; lives with self.
     * (optional: it cannot record) */
    const char *const *(*record_modes)(void *self);
    /* The graph that it executes, as ONNX bytes that live with the program; weights may be missing.
     * (optional: the model as given) */
    plumb_status (*executed)(void *program, const void **onnx, size_t *n_onnx, plumb_error *err);
    /* Waits until all work is done and tells its failure. (optional: run() has waited) */
    plumb_status (*synchronize)(void *program, plumb_error *err);
    void (*free)(void *program); /* releases a program */
    /* Names that the option "disable=NAME+NAME" takes, ended by NULL: passes and optimisers that a
     * search for the one to blame leaves out. (optional: it has none) */
    const char *const *passes;
    /* Values of the option "opt", from least to most optimised, ended by NULL. (optional: none) */
    const char *const *levels;
} plumb_backend;

/* A metric of a plugin: one number for two tensors of the same shape, a under test and r the
 * reference. It reads them through the host only. Called by one thread at a time, in plumb's own
 * process: unlike a backend, a metric that crashes takes plumb with it. */
typedef struct plumb_metric {
    uint32_t abi;     /* PLUMB_ABI */
    uint32_t n_bytes; /* sizeof(plumb_metric) */
    const char *name; /* letters, digits, '_'; not one of plumb's own */
    const char *summary;
    const char *unit; /* "" = none */
    int higher_is_better;
    /* Not defined for these tensors: NAN. */
    plumb_status (*value)(const plumb_host *host, const plumb_tensor *a, const plumb_tensor *r,
                          double *out, plumb_error *err);
} plumb_metric;

/* A plugin with metrics exports this function under the name "plumb_metrics_v1". It fills metrics[]
 * with up to n_max borrowed rows and returns how many it has. It may have backends, too. */
typedef size_t (*plumb_metrics_entry)(const plumb_host *host, const plumb_metric **metrics,
                                      size_t n_max);

/* Any opened backend with checkpoints around compile and run. The wrapper's backend has no open and
 * no close; its `self` is the wrapper. Both must be freed by the caller, the wrapper first. Forward
 * and backward graphs are wrapped apart and named. */
typedef struct plumb_wrapped plumb_wrapped;
typedef struct plumb_wrap_options {
    int level;             /* 0 to 4, as above */
    const char *spec;      /* for the repro: how plumb opens this backend; NULL = its name */
    const char *name;      /* "forward", "backward"; NULL = none */
    const char *debug_dir; /* NULL = plumb-debug */
    int no_data;
    void (*log)(void *ctx, const char *line); /* "Writing checkpoint with N nodes to PATH" */
    void *log_ctx;
} plumb_wrap_options;
PLUMB_API plumb_status plumb_wrap_backend(const plumb_backend *backend, void *self,
                                          const plumb_wrap_options *options, plumb_wrapped **out,
                                          plumb_error *err);
PLUMB_API const plumb_backend *plumb_wrapped_backend(const plumb_wrapped *wrapped);
PLUMB_API void plumb_wrapped_free(plumb_wrapped *wrapped); /* NULL is fine */

/* A plugin exports this function under the name "plumb_plugin_v1". It fills backends[] with up to
 * n_max borrowed vtables and returns how many it has. */
typedef size_t (*plumb_plugin_entry)(const plumb_host *host, const plumb_backend **backends,
                                     size_t n_max);

#ifdef __cplusplus
}
#endif

#endif
