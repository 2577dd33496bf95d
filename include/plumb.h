/* plumb: find the operation where a model goes wrong.
 *
 * The only public header. C and C++; link with -lplumb (pkg-config plumb).
 *
 * Failure: fallible functions return a plumb_status and fill *err (which may be NULL) with one line
 * that names the file, node and value, what was found and what was expected. Nothing is printed,
 * and no input makes the library exit or abort. A NULL argument that is not marked "may be NULL" is
 * PLUMB_E_USAGE. Accessors take NULL and an index out of range, and return 0, NULL or "".
 *
 * Ownership: `const T *` is borrowed for the call; `T **out` becomes the caller's, to be released
 * with the function named beside it, and is NULL after a failure. Text is released with plumb_free.
 * Strings and arrays that an accessor returns are valid as long as the handle.
 *
 * Results are handles (plumb_session, plumb_run_result, …). They do not refer to the model, the
 * options or the inputs; plumb_X_write writes them as text, JSON and other formats. Catalogues
 * (plumb_info, plumb_ops, plumb_backends, the store) are documents: text or JSON; models and
 * backends have accessors, too.
 *
 * Threads: any number of threads may use the library at once. One handle is used by one thread at a
 * time, unless its type says more. Numbers never depend on the number of threads.
 *
 * Growth: a struct that starts with `size` may get more fields at its end. Options are set up with
 * plumb_X_options_init, which sets the defaults of the command line; NULL options mean these.
 * Results that are structs are filled as far as `size` says: plumb_blame b = { sizeof(b) }. */
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

/* ---- version ---- */

#define PLUMB_VERSION_MAJOR 0
#define PLUMB_VERSION_MINOR 1
#define PLUMB_VERSION_PATCH 0
#define PLUMB_VERSION_NUMBER                                                                       \
    (PLUMB_VERSION_MAJOR * 10000 + PLUMB_VERSION_MINOR * 100 + PLUMB_VERSION_PATCH)
#define PLUMB_API_VERSION 1 /* of this header; the library's soversion */

PLUMB_API const char *plumb_version(void); /* "MAJOR.MINOR.PATCH" of the running library */
PLUMB_API int plumb_version_number(void);  /* its PLUMB_VERSION_NUMBER */

/* ---- status ---- */

typedef enum plumb_status { /* with the exit code of the command line */
                            PLUMB_OK = 0,
                            PLUMB_E_USAGE,       /* 2 */
                            PLUMB_E_FORMAT,      /* 2: malformed input */
                            PLUMB_E_INVALID,     /* 2: well-formed, but wrong */
                            PLUMB_E_UNSUPPORTED, /* 2: names what is not supported */
                            PLUMB_E_NOT_FOUND,   /* 2 */
                            PLUMB_E_EXISTS,      /* 2: existing files are never overwritten */
                            PLUMB_E_LIMIT,       /* 2 */
                            PLUMB_E_BACKEND,     /* 3 */
                            PLUMB_E_TIMEOUT,     /* 3 */
                            PLUMB_E_IO,          /* 4 */
                            PLUMB_E_MEMORY,      /* 4 */
                            PLUMB_E_INTERNAL,    /* 4 */
                            PLUMB_E_CANCELLED    /* 130: requested by plumb_progress.update */
} plumb_status;

typedef struct plumb_error {
    plumb_status status;
    char message[1024];
} plumb_error;

PLUMB_API const char *plumb_status_name(plumb_status status); /* "E_USAGE"; "" if unknown */
PLUMB_API int plumb_exit_code(plumb_status status);
PLUMB_API void plumb_free(void *text); /* NULL is fine */
/* Removes the unfinished files of this process and ends the programs that it waits for.
 * Async-signal-safe: for a handler of SIGINT or SIGTERM that ends the process; nothing else may be
 * called after it. */
PLUMB_API void plumb_abandon(void);
/* What the program plumb-guard does; returns its exit code. A static plumb, which is one file,
 * calls it when it was started by that name. */
PLUMB_API int plumb_guard_main(int argc, char **argv);

/* ---- options ---- */

typedef enum plumb_options_kind {
    PLUMB_OPTIONS_INPUTS,
    PLUMB_OPTIONS_CONTEXT,
    PLUMB_OPTIONS_INFO,
    PLUMB_OPTIONS_TRANSFORM,
    PLUMB_OPTIONS_CONVERT,
    PLUMB_OPTIONS_RUN,
    PLUMB_OPTIONS_CHECK,
    PLUMB_OPTIONS_TEST,
    PLUMB_OPTIONS_SAME,
    PLUMB_OPTIONS_RECORDER,
    PLUMB_OPTIONS_RECORD,
    PLUMB_OPTIONS_COMPARE,
    PLUMB_OPTIONS_ANALYZE,
    PLUMB_OPTIONS_WRITE,
    PLUMB_OPTIONS_REPORT,
    PLUMB_OPTIONS_VIEWER,
    PLUMB_OPTIONS_MINIFY,
    PLUMB_OPTIONS_REPRO,
    PLUMB_OPTIONS_WRAP,
    PLUMB_OPTIONS_STYLE,
    PLUMB_OPTIONS_CORPUS,
    PLUMB_OPTIONS_GENERATE
} plumb_options_kind;
/* Sets options->size to `size` and everything else to its default. Callers in C use the typed
 * functions below each struct: their `size` is that of the header they were compiled with. */
PLUMB_API plumb_status plumb_options_init(plumb_options_kind kind, void *options, size_t size);
#define PLUMB_OPTIONS_INIT(T, KIND)                                                                \
    static inline void T##_init(T *options) {                                                      \
        (void)plumb_options_init(KIND, options, sizeof(T));                                        \
    }

/* Progress of long calls; `total` 0 = not known, `phase` has no control characters. A non-zero
 * result cancels: the call soon ends with PLUMB_E_CANCELLED and leaves no partial files. Called on
 * the calling thread, also while waiting for a backend (about ten times a second). */
typedef struct plumb_progress {
    int (*update)(void *ctx, const char *phase, int64_t done, int64_t total);
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

/* Ref-counted, immutable. May be used by any number of threads. */
typedef struct plumb_tensor plumb_tensor;

typedef struct plumb_string {
    const char *data; /* need not end with a NUL */
    size_t n_bytes;
} plumb_string;

/* Copies n bytes of dense little-endian data in C order. Strings: `data` is an array of
 * plumb_string. */
PLUMB_API plumb_status plumb_tensor_new(plumb_dtype dtype, int rank, const int64_t *dims,
                                        const void *data, size_t n_bytes, plumb_tensor **out,
                                        plumb_error *err);
/* The same without a copy: `data` must not change until `release(ctx)` (may be NULL) is called, on
 * any thread, when the last reference is freed. Not called when this fails. Not for strings. */
PLUMB_API plumb_status plumb_tensor_wrap(plumb_dtype dtype, int rank, const int64_t *dims,
                                         const void *data, size_t n_bytes,
                                         void (*release)(void *ctx), void *ctx, plumb_tensor **out,
                                         plumb_error *err);
PLUMB_API plumb_tensor *plumb_tensor_ref(const plumb_tensor *tensor); /* free it, too */
PLUMB_API void plumb_tensor_free(plumb_tensor *tensor);               /* NULL is fine */
PLUMB_API plumb_dtype plumb_tensor_dtype(const plumb_tensor *tensor);
PLUMB_API int plumb_tensor_rank(const plumb_tensor *tensor);
PLUMB_API const int64_t *plumb_tensor_dims(const plumb_tensor *tensor);
PLUMB_API int64_t plumb_tensor_elements(const plumb_tensor *tensor);
/* Dense, in C order; of strings an array of plumb_string. */
PLUMB_API const void *plumb_tensor_data(const plumb_tensor *tensor);
PLUMB_API size_t plumb_tensor_bytes(const plumb_tensor *tensor);
PLUMB_API const char *plumb_dtype_name(plumb_dtype dtype); /* "float16"; "" for no type */
PLUMB_API size_t plumb_dtype_bytes(plumb_dtype dtype);     /* of one element in memory; 0 */

/* ---- models ---- */

/* Flows may lower operators of the model in place; what it computes does not change, except by
 * plumb_model_restrict, plumb_model_transform and plumb_analyze_options.amp. */
typedef struct plumb_model plumb_model;

/* An ONNX file, or text form when the name ends in .onnxtxt. */
PLUMB_API plumb_status plumb_model_open(const char *path, plumb_model **out, plumb_error *err);
/* From memory: a serialised ModelProto, or text form (which starts with '<'). The bytes are
 * borrowed only for the call. External data is read from files below `base_dir`; NULL: a model that
 * has some is an error. */
PLUMB_API plumb_status plumb_model_open_memory(const void *bytes, size_t n_bytes,
                                               const char *base_dir, plumb_model **out,
                                               plumb_error *err);
PLUMB_API void plumb_model_close(plumb_model *model); /* NULL is fine */
PLUMB_API size_t plumb_model_inputs(const plumb_model *model);
PLUMB_API size_t plumb_model_outputs(const plumb_model *model);
PLUMB_API size_t plumb_model_nodes(const plumb_model *model);
PLUMB_API const char *plumb_model_input_name(const plumb_model *model, size_t i);
PLUMB_API const char *plumb_model_output_name(const plumb_model *model, size_t i);
/* 0 when it is unknown or not a tensor. */
PLUMB_API plumb_dtype plumb_model_input_dtype(const plumb_model *model, size_t i);
PLUMB_API plumb_dtype plumb_model_output_dtype(const plumb_model *model, size_t i);
/* Number of dims, -1 when unknown. Stores up to n_dims of them in dims (may be NULL when n_dims is
 * 0); -1 = a symbolic or unknown dim. */
PLUMB_API int plumb_model_input_dims(const plumb_model *model, size_t i, int64_t *dims,
                                     size_t n_dims);
PLUMB_API int plumb_model_output_dims(const plumb_model *model, size_t i, int64_t *dims,
                                      size_t n_dims);
typedef struct plumb_node { /* of the main graph; no string is NULL */
    size_t size;
    const char *name, *op, *domain; /* domain "" is ai.onnx */
    size_t n_inputs, n_outputs;
} plumb_node;
PLUMB_API int plumb_model_node(const plumb_model *model, size_t i, plumb_node *out);
/* Names of a node's values; "" = left out, NULL beyond the last. */
PLUMB_API const char *plumb_model_node_input(const plumb_model *model, size_t node, size_t i);
PLUMB_API const char *plumb_model_node_output(const plumb_model *model, size_t node, size_t i);
/* The serialised ModelProto with all weights in it; release with plumb_free. */
PLUMB_API plumb_status plumb_model_bytes(const plumb_model *model, void **bytes, size_t *n_bytes,
                                         plumb_error *err);
/* Restricts the model to the part between values, or to one of its local functions, before anything
 * else is done with it. Lists are comma-separated names; NULL = the model's own. */
PLUMB_API plumb_status plumb_model_restrict(plumb_model *model, const char *function,
                                            const char *from, const char *to, plumb_error *err);

typedef enum plumb_format { PLUMB_TEXT, PLUMB_JSON } plumb_format;

typedef struct plumb_info_options {
    size_t size;
    plumb_format format;
    const char *const *dims; /* "NAME=N", n_dims of them */
    size_t n_dims;
    int nodes; /* list every node with its shapes and origin */
} plumb_info_options;
PLUMB_OPTIONS_INIT(plumb_info_options, PLUMB_OPTIONS_INFO)
/* Contents of a model: inputs, outputs, ops, shapes, parameters, opsets, support. */
PLUMB_API plumb_status plumb_info(plumb_model *model, const plumb_info_options *options,
                                  char **text, plumb_error *err);
/* Contents of a file of tensors without a graph: GGUF with its metadata, or any recording. */
PLUMB_API plumb_status plumb_info_tensors(const char *path, plumb_format format, char **text,
                                          plumb_error *err);

typedef struct plumb_transform_options {
    size_t size;
    int eval;        /* training behaviour off: Dropout, BatchNormalization, … */
    const char *amp; /* "fp16" or "bf16": autocast by PyTorch's lists; NULL = none */
    int fp64;        /* every float becomes a double */
    plumb_format format;
} plumb_transform_options;
PLUMB_OPTIONS_INIT(plumb_transform_options, PLUMB_OPTIONS_TRANSFORM)
/* Changes the model itself; *text (may be NULL) lists what was changed. */
PLUMB_API plumb_status plumb_model_transform(plumb_model *model,
                                             const plumb_transform_options *options, char **text,
                                             plumb_error *err);

typedef struct plumb_convert_options {
    size_t size;
    int external;         /* weights beside the file */
    int64_t max_elements; /* in text form; 0 = no limit */
    const char *backward; /* "joint", "forward" or "backward": the graph with gradients, or a part
                             of it; NULL = the model itself */
    const char *const *dims; /* backward: "NAME=N", sizes of symbolic dims */
    size_t n_dims;
} plumb_convert_options;
PLUMB_OPTIONS_INIT(plumb_convert_options, PLUMB_OPTIONS_CONVERT)
/* Writes .onnx or .onnxtxt, by the name; never overwrites a file. */
PLUMB_API plumb_status plumb_convert(plumb_model *model, const char *out_path,
                                     const plumb_convert_options *options, plumb_error *err);

/* The operator table; filter may be NULL. */
PLUMB_API plumb_status plumb_ops(plumb_format format, const char *filter, char **text,
                                 plumb_error *err);

/* ---- results as text ---- */

/* Text only: strings before and after highlighted words (a terminal program passes escape
 * sequences), and how to see the rows that `limit` omits. Any may be NULL = nothing. */
typedef struct plumb_style {
    size_t size;
    const char *agree, *diverged;     /* the first line */
    const char *green, *yellow, *red; /* the letter of a value */
    const char *reset;                /* after each of them */
    const char *more;                 /* "--limit 0 shows all" */
} plumb_style;
PLUMB_OPTIONS_INIT(plumb_style, PLUMB_OPTIONS_STYLE)

/* How a result is written; fields that do not apply are ignored. */
typedef struct plumb_write_options {
    size_t size;
    const char *format; /* "text" (NULL), "json"; sessions and checks also "csv", "md", "junit",
                           "github", "sarif", "model-explorer" */
    const char *metric; /* sessions: for colours and sorting; NULL = the session's */
    const char *sort;   /* sessions: "worst" (NULL) or "order" */
    size_t limit;       /* sessions: rows of the table; 0 = all */
    const plumb_style *style; /* sessions, text; NULL = plain */
    const char *rollup;       /* sessions, text: add a table by "module", "op" or "dtype"; NULL */
    int verbose;              /* test reports: list cases that pass, too */
} plumb_write_options;
PLUMB_OPTIONS_INIT(plumb_write_options, PLUMB_OPTIONS_WRITE)
/* Checks format, sort and roll-up, before a long call. */
PLUMB_API plumb_status plumb_write_check(const plumb_write_options *options, plumb_error *err);

/* ---- running ---- */

typedef enum plumb_fill { PLUMB_FILL_RANDOM, PLUMB_FILL_ZEROS, PLUMB_FILL_ONES } plumb_fill;

typedef struct plumb_input {
    const char *name; /* of the model's input */
    const plumb_tensor *tensor;
} plumb_input;

/* Where inputs come from; others are generated. NULL instead = generated, seed 0. */
typedef struct plumb_inputs {
    size_t size;
    const char *const *files; /* "NAME=FILE": npy, npz, TensorProto, safetensors */
    size_t n_files;
    const char *const *sets; /* files or folders that hold several inputs by name or number. Several
                                sets are several samples, for plumb_analyze */
    size_t n_sets;
    const char *const *dims; /* "NAME=N"; other unknown dims are 1 */
    size_t n_dims;
    const char *const *ranges; /* "NAME=LO:HI" */
    size_t n_ranges;
    plumb_fill fill;
    uint64_t seed;
    /* Tensors: n_samples times n_tensors of them, sample by sample. They take precedence over
     * files. More than one sample: for plumb_analyze, and not together with several sets. */
    const plumb_input *tensors;
    size_t n_tensors; /* of one sample */
    size_t n_samples; /* 0 = 1 */
} plumb_inputs;
PLUMB_OPTIONS_INIT(plumb_inputs, PLUMB_OPTIONS_INPUTS)

/* Processes behind plumb-guard run in a sandbox if the kernel supports it (Landlock and seccomp):
 * they can read the system's libraries, their own and the model's folder, write to one private
 * folder, and open no connections. A backend that starts the user's own program (cmd) is not
 * confined unless required. */
enum {
    PLUMB_SANDBOX_ON = 0, /* if the kernel supports it and the backend allows it */
    PLUMB_SANDBOX_OFF = 1,
    PLUMB_SANDBOX_REQUIRE = 2 /* or fail */
};

typedef struct plumb_run_options {
    size_t size;
    const plumb_inputs *inputs; /* may be NULL */
    const char *backend;        /* spec; NULL = eager. Others run behind plumb-guard */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    int fp64;              /* run in fp64 (gold) */
    int repeat;            /* runs for timing; 1 */
    const char *output;    /* folder, or FILE.npy|npz|pb|safetensors; NULL = nothing is written */
    const char *save_as;   /* in a folder: "npy" (default) or "pb" */
    int profile;           /* also take the time of each node */
    const plumb_progress *progress; /* may be NULL */
    int sandbox;                    /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
} plumb_run_options;
PLUMB_OPTIONS_INIT(plumb_run_options, PLUMB_OPTIONS_RUN)

/* The outputs of a run and its times. Read by any number of threads. */
typedef struct plumb_run_result plumb_run_result;
/* Runs the model on a backend and writes its outputs when asked to. */
PLUMB_API plumb_status plumb_run(plumb_model *model, const plumb_run_options *options,
                                 plumb_run_result **out, plumb_error *err);
PLUMB_API void plumb_run_result_free(plumb_run_result *result); /* NULL is fine */
PLUMB_API size_t plumb_run_result_outputs(const plumb_run_result *result);
PLUMB_API const char *plumb_run_result_name(const plumb_run_result *result, size_t i);
/* Valid as long as the result (plumb_tensor_ref keeps it); NULL for a sequence or an optional. */
PLUMB_API const plumb_tensor *plumb_run_result_tensor(const plumb_run_result *result, size_t i);
PLUMB_API const plumb_tensor *plumb_run_result_find(const plumb_run_result *result,
                                                    const char *name);
/* Where it was written to; "". */
PLUMB_API const char *plumb_run_result_file(const plumb_run_result *result, size_t i);
typedef struct plumb_run_times {
    size_t size;
    double load, first, best, median; /* seconds */
    size_t n_runs;
} plumb_run_times;
PLUMB_API int plumb_run_result_times(const plumb_run_result *result, plumb_run_times *out);
typedef struct plumb_node_time { /* with options.profile */
    size_t size;
    const char *value, *op;
    double seconds; /* in the last run */
} plumb_node_time;
PLUMB_API size_t plumb_run_result_nodes(const plumb_run_result *result);
PLUMB_API int plumb_run_result_node(const plumb_run_result *result, size_t i, plumb_node_time *out);
PLUMB_API plumb_status plumb_run_result_write(const plumb_run_result *result,
                                              const plumb_write_options *options, char **text,
                                              plumb_error *err);

/* The reproducibility test: does the backend compute what the reference computes? */
typedef enum plumb_check_mode {
    PLUMB_CHECK_NONE,     /* only run, transformed as asked */
    PLUMB_CHECK_ACCURACY, /* with an fp64 run to decide; outputs that are not floats are ignored */
    PLUMB_CHECK_STRICT    /* those count, too; fp64 if available */
} plumb_check_mode;

/* What is done to a model before it runs. */
typedef struct plumb_context {
    size_t size;
    int eval;                /* training behaviour off */
    const char *amp;         /* "fp16", "bf16": under autocast; NULL = not */
    int backward;            /* with gradients of inputs and parameters, and updated buffers */
    const char *loss_output; /* backward: the only output in the loss; NULL = every float one */
    int random_gradients;    /* backward: incoming gradients by grad_seed instead of 1/numel */
    uint64_t grad_seed;
} plumb_context;
PLUMB_OPTIONS_INIT(plumb_context, PLUMB_OPTIONS_CONTEXT)

typedef struct plumb_check_options {
    size_t size;
    const plumb_run_options *run; /* may be NULL. repeat: runs of the candidate; most of them must
                                     agree. fp64 and profile are not for checks */
    plumb_check_mode mode;        /* ACCURACY */
    const plumb_context *context; /* may be NULL. Of the candidate; the reference has no autocast */
    int reference_amp;            /* unless this is set */
    const char *reference;        /* a spec, a recording or a model file; NULL = eager */
    const char *reference_model;  /* another model for the reference; NULL = none */
    const char *profile;          /* "plumb" (NULL) or "torch" */
    const char *same;             /* options of the torch profile, "tol=1e-4,…" */
    double tol;                   /* plumb: |a - r| <= tol (|r| + rms); 0 = by the fp64 run */
    const char *baseline;         /* accepted divergences: only new ones fail; NULL = none */
    const char *write_baseline;   /* accept what diverges now; NULL = no */
} plumb_check_options;
PLUMB_OPTIONS_INIT(plumb_check_options, PLUMB_OPTIONS_CHECK)

/* Read by any number of threads. */
typedef struct plumb_check_result plumb_check_result;
/* If it does not agree, or a backend fails, that is a result. */
PLUMB_API plumb_status plumb_check(plumb_model *model, const plumb_check_options *options,
                                   plumb_check_result **out, plumb_error *err);
PLUMB_API void plumb_check_result_free(plumb_check_result *result);           /* NULL is fine */
PLUMB_API int plumb_check_result_exit_code(const plumb_check_result *result); /* 0, 1 or 3 */
/* "ok", "pass", "fail_accuracy", "eager_two_runs_differ", "fail_to_run", … */
PLUMB_API const char *plumb_check_result_status(const plumb_check_result *result);
/* The AccuracyError, or what failed, with the next command; "". */
PLUMB_API const char *plumb_check_result_error(const plumb_check_result *result);
typedef struct plumb_check_output {
    size_t size;
    const char *name;
    const char *kind; /* "output", "gradient", … */
    int same, ignored, accepted;
    const char *rule, *reason;              /* which rule decided, and why; "" */
    double error, reference_error, allowed; /* RMSE against fp64 and its limit; NAN = not known */
    const plumb_tensor *tensor;             /* of the candidate; NULL = none */
} plumb_check_output;
PLUMB_API size_t plumb_check_result_outputs(const plumb_check_result *result);
PLUMB_API int plumb_check_result_output(const plumb_check_result *result, size_t i,
                                        plumb_check_output *out);
PLUMB_API plumb_status plumb_check_result_write(const plumb_check_result *result,
                                                const plumb_write_options *options, char **text,
                                                plumb_error *err);

/* ---- test folders ---- */

typedef struct plumb_test_options {
    size_t size;
    double rtol, atol;     /* 1e-3, 1e-7 as ONNX's own runner */
    const char *filter;    /* only cases whose path contains it; NULL = all */
    const char *backend;   /* spec; NULL = eager. Others run behind plumb-guard */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int fp64, threads;
    const plumb_progress *progress; /* may be NULL */
    int sandbox;                    /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
} plumb_test_options;
PLUMB_OPTIONS_INIT(plumb_test_options, PLUMB_OPTIONS_TEST)

/* Read by any number of threads. */
typedef struct plumb_test_report plumb_test_report;
/* Runs every ONNX test case below the folders. A failed case is counted, not an error. */
PLUMB_API plumb_status plumb_test(const char *const *dirs, size_t n_dirs,
                                  const plumb_test_options *options, plumb_test_report **out,
                                  plumb_error *err);
PLUMB_API void plumb_test_report_free(plumb_test_report *report); /* NULL is fine */
PLUMB_API size_t plumb_test_report_passed(const plumb_test_report *report);
PLUMB_API size_t plumb_test_report_failed(const plumb_test_report *report);
PLUMB_API size_t plumb_test_report_skipped(const plumb_test_report *report);
typedef struct plumb_test_case {
    size_t size;
    const char *path;
    const char *status; /* "pass", "fail", "skip" */
    const char *reason; /* "" */
    double seconds;
} plumb_test_case;
PLUMB_API size_t plumb_test_report_cases(const plumb_test_report *report);
PLUMB_API int plumb_test_report_case(const plumb_test_report *report, size_t i,
                                     plumb_test_case *out);
PLUMB_API plumb_status plumb_test_report_write(const plumb_test_report *report,
                                               const plumb_write_options *options, char **text,
                                               plumb_error *err);

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

/* Metrics of logits: kl, kl_reverse, nll, nll_reference, top_k, flip, margin, drift. */
PLUMB_API size_t plumb_logit_metric_count(void);
PLUMB_API const char *plumb_logit_metric_name(size_t i); /* NULL beyond the last */
/* The mean of each over the rows of a against the reference r: floats of one shape, the vocabulary
 * on the last axis. tokens: the actual next token of each row; NULL = the reference's choices.
 * values[i] belongs to plumb_logit_metric_name(i) and may be infinite, never NaN. */
PLUMB_API plumb_status plumb_measure_logits(const plumb_tensor *a, const plumb_tensor *r,
                                            const int64_t *tokens, size_t n_tokens, double *values,
                                            plumb_error *err);

/* PyTorch's same(ref, res, fp64_ref), with its names and quirks. */
typedef struct plumb_same_options {
    size_t size;
    double tol;        /* 1e-3: both absolute and relative */
    int equal_nan;     /* 1 */
    int exact_dtype;   /* 1 */
    int ignore_non_fp; /* 0 */
    int cos_similarity;
    int use_larger_multiplier_for_smaller_tensor;
    int force_max_multiplier;
    int use_iou_for_bool;
    int relax_numpy_equality; /* accepted, without effect: ONNX data has no NumPy scalars */
    double iou_threshold;     /* 0.99 */
} plumb_same_options;
PLUMB_OPTIONS_INIT(plumb_same_options, PLUMB_OPTIONS_SAME)
typedef struct plumb_same_result {
    size_t size;
    int same;         /* 1 yes, 0 no, -1 PyTorch would raise an exception */
    const char *rule; /* which rule decided; static */
    double ref_error; /* RMSE against fp64, where that rule was reached */
    double res_error;
    double multiplier;
    char why[256]; /* one line; "" when same */
} plumb_same_result;
/* Overrides options by "tol=1e-4,equal_nan=0,…". */
PLUMB_API plumb_status plumb_same_options_parse(const char *text, plumb_same_options *options,
                                                plumb_error *err);
/* fp64 may be NULL: then ref is used. options NULL = the defaults. A difference is not an error. */
PLUMB_API plumb_status plumb_same(const plumb_tensor *ref, const plumb_tensor *res,
                                  const plumb_tensor *fp64, const plumb_same_options *options,
                                  plumb_same_result *result, plumb_error *err);

/* ---- recordings and the store ---- */

/* An engine records itself in three calls: open, write each value under the name it has in the
 * model, close. Writing is thread-safe. The file is a safetensors file (docs/formats/recording.md);
 * it appears complete when it is closed, or not at all, and an existing one is never
 * overwritten. */
typedef struct plumb_recorder plumb_recorder;
typedef struct plumb_recorder_options { /* NULL or 0 where unknown */
    size_t size;
    const char *engine; /* "my-engine" */
    const char *engine_version;
    const char *model; /* the file that the engine runs; its path and hash are recorded */
    const char *notes;
    int stats_only; /* hash, min, max, mean, counts; no tensors */
} plumb_recorder_options;
PLUMB_OPTIONS_INIT(plumb_recorder_options, PLUMB_OPTIONS_RECORDER)
PLUMB_API plumb_status plumb_recorder_open(const char *path, const plumb_recorder_options *options,
                                           plumb_recorder **out, plumb_error *err);
/* Strides are in elements, NULL = dense in C order; `data` is the first element. Data is copied to
 * the file before the call returns. A repeated name gets a call number: NAME#1, NAME#2, … Not for
 * strings. */
PLUMB_API plumb_status plumb_recorder_write(plumb_recorder *recorder, const char *name,
                                            plumb_dtype dtype, int rank, const int64_t *dims,
                                            const int64_t *strides, const void *data,
                                            plumb_error *err);
/* Gives the file its name; frees the recorder in any case. Fails if a write failed. */
PLUMB_API plumb_status plumb_recorder_close(plumb_recorder *recorder, plumb_error *err);
PLUMB_API void plumb_recorder_abandon(plumb_recorder *recorder); /* leaves no file; NULL is fine */

typedef struct plumb_record_options {
    size_t size;
    const plumb_inputs *inputs; /* may be NULL */
    const char *backend;        /* spec; NULL = eager. Others run behind plumb-guard */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    int fp64;              /* run in fp64 (gold) */
    int stats_only;
    /* What to record: values that match one entry of each given list. No list: everything. */
    const char *const *names; /* POSIX extended regular expressions, searched in the value's name */
    size_t n_names;
    const char *const *ops; /* operator types */
    size_t n_ops;
    const char *const *modules; /* modules, including everything inside them */
    size_t n_modules;
    const char *output;             /* the recording; required */
    const plumb_progress *progress; /* may be NULL */
    int sandbox;                    /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
} plumb_record_options;
PLUMB_OPTIONS_INIT(plumb_record_options, PLUMB_OPTIONS_RECORD)

/* Read by any number of threads. */
typedef struct plumb_record_result plumb_record_result;
/* Runs the model on a backend and records its inputs and every intermediate value that can be
 * recorded without changing the outputs. */
PLUMB_API plumb_status plumb_record(plumb_model *model, const plumb_record_options *options,
                                    plumb_record_result **out, plumb_error *err);
PLUMB_API void plumb_record_result_free(plumb_record_result *result); /* NULL is fine */
PLUMB_API const char *plumb_record_result_path(const plumb_record_result *result);
PLUMB_API size_t plumb_record_result_values(const plumb_record_result *result);
PLUMB_API uint64_t plumb_record_result_bytes(const plumb_record_result *result);
PLUMB_API double plumb_record_result_seconds(const plumb_record_result *result);
PLUMB_API int plumb_record_result_observer_effect(const plumb_record_result *result);
PLUMB_API size_t plumb_record_result_notes(const plumb_record_result *result);
PLUMB_API const char *plumb_record_result_note(const plumb_record_result *result, size_t i);
PLUMB_API plumb_status plumb_record_result_write(const plumb_record_result *result,
                                                 const plumb_write_options *options, char **text,
                                                 plumb_error *err);

/* A recording opened for reading: plumb's own, any safetensors or npz file, a folder of npy files,
 * Polygraphy's JSON, an ONNX test data set. Read by any number of threads. */
typedef struct plumb_recording plumb_recording;
typedef struct plumb_recorded {
    size_t size;
    const char *name;               /* unique in the recording: "y", "y#1" */
    const char *value;              /* in the model */
    const char *node, *op, *module; /* "" where unknown */
    int64_t call;                   /* how often the value was computed before */
    plumb_dtype dtype;              /* 0 = known only after reading */
    int rank;
    const int64_t *dims;
    int is_input, is_output;
    int has_data; /* else only statistics were recorded */
} plumb_recorded;
PLUMB_API plumb_status plumb_recording_open(const char *path, plumb_recording **out,
                                            plumb_error *err);
PLUMB_API void
plumb_recording_close(plumb_recording *recording); /* its tensors stay; NULL is fine */
PLUMB_API const char *plumb_recording_format(const plumb_recording *recording); /* "plumb", "npz" */
PLUMB_API size_t plumb_recording_count(const plumb_recording *recording);
PLUMB_API int plumb_recording_get(const plumb_recording *recording, size_t i, plumb_recorded *out);
/* In place if the file allows: mapped, read on access. */
PLUMB_API plumb_status plumb_recording_read(const plumb_recording *recording, const char *name,
                                            plumb_tensor **out, plumb_error *err);

/* The content store, given by its own folder or that of its session: list its contents; verify that
 * every blob matches its name (*n_bad counts those that do not; also works for a recording); remove
 * what no index names. */
PLUMB_API plumb_status plumb_store_ls(const char *dir, plumb_format format, char **text,
                                      plumb_error *err);
PLUMB_API plumb_status plumb_store_verify(const char *path, plumb_format format, size_t *n_bad,
                                          char **text, plumb_error *err);
PLUMB_API plumb_status plumb_store_gc(const char *dir, int dry_run, plumb_format format,
                                      char **text, plumb_error *err);

/* ---- comparing ---- */

/* The result of an analysis or comparison. Any number of threads may read it and call
 * plumb_session_tensor. */
typedef struct plumb_session plumb_session;

typedef struct plumb_compare_options {
    size_t size;
    /* For a model that is recorded on the fly; inputs recorded on the other side are used. */
    const plumb_inputs *inputs; /* may be NULL */
    const char *backend;        /* spec for a model; NULL = eager */
    const char *reference;      /* spec for B when both are models; NULL = eager */
    double timeout;         /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit;  /* bytes behind the guard; 0 = none */
    int threads;            /* of plumb's own pool; 0 = all */
    const char *profile;    /* "plumb" (NULL) or "torch" */
    const char *same;       /* options of the torch profile, "tol=1e-4,…" */
    int has_tol;            /* else by the precision of each pair */
    double tol;             /* |a - r| <= tol * (|r| + rms(r)) */
    const char *map;        /* file: pairs of values (docs/formats/map.md); NULL = none */
    const char *export_map; /* file to write the pairs to; NULL = none */
    int keep_views;         /* compare outputs of Reshape and the like, too */
    const char *limits;     /* file: colour limits (docs/formats/limits.md); NULL = none */
    const char *baseline;   /* file: accepted divergences (docs/formats/baseline.md); NULL = none */
    const char *write_baseline; /* file to write them to; what it accepts does not fail */
    const char *const *plugins; /* shared libraries with metrics */
    size_t n_plugins;
    const char *const *details; /* values to measure in detail: quantiles, top k, channels */
    size_t n_details;
    const char *metric;             /* for colours and sorting; NULL = psnr */
    const char *output;             /* session folder; NULL = none is written */
    int pack;                       /* with all tensors and weights in it */
    const plumb_progress *progress; /* may be NULL */
    int strict_pairs;               /* no likely pairs */
    int sandbox;                    /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
    int mpi; /* when an MPI launcher started this process as one of several ranks: share the values.
                Ranks other than 0 get no session (*out is NULL) */
    int stable_output;   /* a session without dates, times and memory: equal runs, equal bytes */
    const char *weights; /* GGUF file that the engine of the recording ran; NULL = none. The model
                            runs on its weights, where they are its own but for their rounding */
} plumb_compare_options;
/* The number of tasks that srun started without MPI, when this process is one of several; else 0.
 * Each would do the whole work. */
PLUMB_API int plumb_mpi_plain_tasks(void);
PLUMB_OPTIONS_INIT(plumb_compare_options, PLUMB_OPTIONS_COMPARE)
/* Compares two recordings, or a model and a recording, or two models, all by path: pairs their
 * values, measures them, and finds where they diverge. Nothing paired is an error
 * (PLUMB_E_INVALID); so is a model that does not run. */
PLUMB_API plumb_status plumb_compare(const char *a, const char *b,
                                     const plumb_compare_options *options, plumb_session **out,
                                     plumb_error *err);

/* "did you mean": the name closest to `word`, ignoring case; NULL when none is close. */
PLUMB_API const char *plumb_nearest(const char *word, const char *const *names, size_t n_names);

/* ---- analysis ---- */

typedef struct plumb_analyze_options {
    size_t size;
    const plumb_inputs *inputs;  /* may be NULL */
    const char *backend;         /* spec of A, the run under test; NULL = eager */
    const char *reference;       /* B: a spec, a recording or a model file; NULL = eager */
    const char *reference_model; /* another model for B, run as `reference` says; NULL = none */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    const char *output;    /* the session folder; NULL = none is written, and no tensor is kept */
    const char *save;      /* tensors in it: "all", "suspects", "none"; NULL = all below 2 GB */
    const char *reuse;     /* an earlier session of the same model to take A from; NULL = run A */
    int skip_determinism, skip_gold;
    int skip_search;     /* no runs of parts of the model, for failures and for black boxes */
    const char *profile; /* "plumb" (NULL) or "torch" */
    const char *same;    /* options of the torch profile, "tol=1e-4,…" */
    double tol;          /* of outputs without a culprit, relative to their size; 0 = 1e-4 */
    const char *metric;  /* for colours and sorting; NULL = psnr */
    int bisect;          /* also find the level or pass of A's backend that causes it */
    const char *amp;     /* "fp16" or "bf16": the model under autocast, on both sides; NULL = no */
    int advise;          /* also find the nodes to raise to float32 for outputs close to fp64 */
    const char *advise_out; /* file for the mixed-precision model; NULL = none */
    /* Files, NULL = none: pairs of values, if B is a recording or another model; accepted
     * divergences; where to write current divergences, which then do not fail (docs/formats). */
    const char *map, *baseline, *write_baseline;
    const plumb_progress *progress; /* may be NULL */
    int sandbox;                    /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
    const char *advise_metric;      /* metric to choose layers by: "top1"; NULL = `metric` */
    const char *precision_profile;  /* what A's arithmetic may do (docs/blame.md); NULL = by A */
    int pack; /* the session holds the weights of large models, too, not just where they are */
} plumb_analyze_options;
PLUMB_OPTIONS_INIT(plumb_analyze_options, PLUMB_OPTIONS_ANALYZE)
/* The whole analysis: which operation is to blame. If A or B fails, that is a result, not an
 * error. */
PLUMB_API plumb_status plumb_analyze(plumb_model *model, const plumb_analyze_options *options,
                                     plumb_session **out, plumb_error *err);

/* ---- generating: many steps with state ---- */

/* A model whose outputs are fed back (KV cache, RNN state) is run over steps on both sides. Rules
 * choose what each input gets by its name; plumb_generate_explain shows them. */
typedef struct plumb_generate_options {
    size_t size;
    /* May be NULL. For inputs without a rule; several sets or samples: one for each step. */
    const plumb_inputs *inputs;
    const char *backend;         /* spec of A, the run under test; NULL = eager */
    const char *reference;       /* B: a spec or a model file; NULL = eager */
    const char *reference_model; /* another model for B, run as `reference` says; NULL = none */
    double timeout;        /* seconds for compiling and for each run behind the guard; 0 = none */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    int64_t steps;         /* after the prompt; 16 */
    const int64_t *prompt; /* token ids; NULL = 4 that depend on the seed */
    size_t n_prompt;
    int64_t chunk;     /* tokens of the prompt in one step; 0 = all of them */
    const char *force; /* who chooses the next token: "reference" (NULL), "a", or "none": each side
                          for itself until they choose differently */
    const int64_t *forced; /* tokens that follow the prompt instead; NULL = as `force` says */
    size_t n_forced;
    const char *cache;         /* "shared" (NULL): both sides get A's state; "own": each its own */
    const char *const *states; /* "OUTPUT:INPUT", at most one '*' on each side; before rules */
    size_t n_states;
    const char *const *feeds; /* "INPUT=RULE"; overrides the rule by name */
    size_t n_feeds;
    const char *logits; /* name of that output; NULL = found by rule */
    int skip_analysis;  /* logits and state only: nothing is recorded */
    const char *output; /* folder for a session of each analysed step; NULL = none is written */
    const char *save;   /* tensors in them, as in plumb_analyze_options */
    int64_t save_step;  /* A's feed of this step goes to output/feed-STEP; -1 = none */
    /* Instead of a reference: rules that A itself must satisfy, "all" or some of "prefill",
     * "chunks", "batch", "padding", "cache", "left-padding", comma-separated; NULL = none. */
    const char *self_test;
    const plumb_progress *progress; /* may be NULL */
    int sandbox;                    /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
    /* How the side that chooses does it: "greedy" (NULL), or "temperature=T,top-k=K,top-p=P,seed=S"
     * or a part of it. A token depends on the logits, the rule and its position only. */
    const char *sample;
} plumb_generate_options;
PLUMB_OPTIONS_INIT(plumb_generate_options, PLUMB_OPTIONS_GENERATE)

/* Read by any number of threads. */
typedef struct plumb_generation plumb_generation;
/* Finds the first step, layer and operation that goes wrong. If they differ, or a backend fails,
 * that is a result. */
PLUMB_API plumb_status plumb_generate(plumb_model *model, const plumb_generate_options *options,
                                      plumb_generation **out, plumb_error *err);
/* What each input gets, by which rule, and which outputs are fed back; runs nothing. */
PLUMB_API plumb_status plumb_generate_explain(plumb_model *model,
                                              const plumb_generate_options *options,
                                              plumb_format format, char **text, plumb_error *err);
/* Token ids from a text, "1,2,3" or "[1, 2]", or from a text file of that name; release with
 * plumb_free. */
PLUMB_API plumb_status plumb_ids_read(const char *text, int64_t **ids, size_t *n_ids,
                                      plumb_error *err);
PLUMB_API void plumb_generation_free(plumb_generation *generation); /* NULL is fine */
typedef struct plumb_generation_summary {                           /* no string is NULL */
    size_t size;
    int exit_code;       /* 0 agree, 1 diverged, 2 inconclusive, 3 A or B failed */
    const char *verdict; /* "agree", "diverged", "nondeterministic", "failed", "inconclusive" */
    const char *reason;
    size_t n_steps, n_analyses, n_tests;
    int64_t first_divergent_step;         /* -1 = none */
    int64_t first_flip;                   /* first step whose choices differ; -1 */
    size_t n_flips, n_ties;               /* ties: flips that rounding explains */
    const char *node, *op, *value, *kind; /* to blame; "" = none */
    int64_t layer;                        /* by its name; -1 = not known */
    const char *carried_by; /* "computation": that step; "state": an earlier one; "both": the step
                               is wrong and so is the state that it leaves; "" */
    double perplexity, perplexity_reference; /* of the tokens fed; NAN = no logits */
} plumb_generation_summary;
PLUMB_API int plumb_generation_get(const plumb_generation *generation,
                                   plumb_generation_summary *out);
typedef struct plumb_step {
    size_t size;
    int64_t past, n_tokens;     /* tokens before it and in it */
    int64_t token;              /* fed next; -1 = none */
    int64_t choice_a, choice_b; /* most likely tokens; -1 = no logits */
    int flip, tie;              /* the choices differ; rounding explains it */
    int divergent;              /* 1 yes, 0 no, -1 not analysed */
    double error;               /* rms of the logits' difference, relative */
    double state_error;         /* of the worst state; NAN = no state */
    const char *state;          /* the worst state; "" */
    const double *logits;       /* by plumb_logit_metric_name; NULL = no logits */
    size_t analysis;            /* of plumb_generation_session; PLUMB_NONE = not analysed */
} plumb_step;
PLUMB_API size_t plumb_generation_steps(const plumb_generation *generation);
PLUMB_API int plumb_generation_step(const plumb_generation *generation, size_t i, plumb_step *out);
/* The analysis of one step (may be NULL); lives with the generation. */
PLUMB_API size_t plumb_generation_analyses(const plumb_generation *generation);
PLUMB_API const plumb_session *plumb_generation_session(const plumb_generation *generation,
                                                        size_t i, int64_t *step);
typedef struct plumb_self_test { /* no string is NULL */
    size_t size;
    const char *name;
    const char *status; /* "pass", "fail", "skip" */
    const char *reason;
    double error, bound;           /* relative rms; NAN = not known */
    const char *node, *op, *value; /* where the rule is broken; "" */
} plumb_self_test;
PLUMB_API size_t plumb_generation_tests(const plumb_generation *generation);
PLUMB_API int plumb_generation_test(const plumb_generation *generation, size_t i,
                                    plumb_self_test *out);
PLUMB_API plumb_status plumb_generation_write(const plumb_generation *generation,
                                              const plumb_write_options *options, char **text,
                                              plumb_error *err);

/* ---- looking at a session ---- */

/* An earlier session: its folder, or a session.json alone (then without tensors). */
PLUMB_API plumb_status plumb_session_open(const char *path, plumb_session **out, plumb_error *err);
PLUMB_API void plumb_session_free(plumb_session *session); /* NULL is fine */

typedef struct plumb_session_summary { /* no string is NULL */
    size_t size;
    int exit_code;       /* 0 agree, 1 diverged or non-deterministic, 3 A or B failed */
    const char *verdict; /* "agree", "diverged", "nondeterministic", "failed" */
    const char *reason;
    const char *folder;  /* "" = not written */
    const char *created; /* UTC, "2026-08-22T10:00:00Z"; "" */
    const char *model_path, *model_hash;
    size_t n_nodes; /* of the model */
    const char *metric, *profile;
    double tol;                   /* NAN = by precision */
    const char *first_divergence; /* value; "" = none */
    int observer_effect;
    const char *observer_note;
    size_t n_points, n_blame, n_outputs, n_notes, n_timing;
    size_t n_replayed, n_unreplayed; /* coverage */
    double single_node_share;        /* NAN = not known */
    size_t n_samples;                /* of inputs; at least 1 */
    size_t n_failing, n_smallest;    /* of plumb_session_failing and _smallest */
    const char *bisect_level, *bisect_pass, *bisect_reason; /* "" = not asked for */
    int64_t peak_memory;                                    /* bytes */
    const char *lines; /* "NONDETERMINISTIC A at y (hash)\n…", as PyTorch's analyze prints them */
    const char *at_fault; /* "runtime", "model" (it does not compute what was recorded), "both",
                             "none" */
} plumb_session_summary;
PLUMB_API int plumb_session_get(const plumb_session *session, plumb_session_summary *out);
PLUMB_API const char *plumb_session_verdict(const plumb_session *session);
PLUMB_API const char *plumb_session_reason(const plumb_session *session);
PLUMB_API int plumb_session_exit_code(const plumb_session *session);

typedef struct plumb_side_info { /* no string is NULL */
    size_t size;
    const char *backend, *spec, *version, *path, *hash;
    const char *failure;           /* "" = none */
    int signal;                    /* that ended it; 0 = none */
    const char *device;            /* device it computed on; "" = the CPU */
    const char *precision_profile; /* by which its arithmetic was judged; "" */
} plumb_side_info;
PLUMB_API int plumb_session_side(const plumb_session *session, char side, /* 'a' or 'b' */
                                 plumb_side_info *out);

typedef struct plumb_sync_point { /* in the order of the model; no string is NULL */
    size_t size;
    const char *value, *node, *op, *module, *source; /* in the model under test; "" unknown */
    const char *counterpart;                         /* in B; "" = none */
    const char *paired_by, *relation, *layout;
    double confidence;
    int is_input, is_output;
    int metadata_match;
    const char *metadata_reason;            /* "" when it matches */
    const char *pair_class;                 /* "exact", "finite", "nonfinite", "structural"; "" */
    double propagated, local, amplified, q; /* NAN = not known */
    const char *excuse;
    const char *similarity; /* "green", "yellow", "red"; "" */
    const char *verdict;    /* "same", "within", "culprit", "inherited", "amplified",
                               "nondeterministic", "mismatch", "unpaired", "unverified" */
    const char *reason;
    const char *precision;        /* effective precision, "fp16" */
    int64_t sample;               /* the worst one */
    int accepted;                 /* by a baseline */
    plumb_dtype dtype_a, dtype_b; /* 0 = no tensor on that side */
    int rank_a, rank_b;
    const int64_t *dims_a, *dims_b;
    int has_a, has_b; /* available from plumb_session_tensor */
} plumb_sync_point;
PLUMB_API size_t plumb_session_points(const plumb_session *session);
PLUMB_API int plumb_session_point(const plumb_session *session, size_t i, plumb_sync_point *out);
#define PLUMB_NONE ((size_t)-1)
/* The index of the sync point of a value; PLUMB_NONE. */
PLUMB_API size_t plumb_session_find(const plumb_session *session, const char *value);
/* The index of the sync point of output k. */
PLUMB_API size_t plumb_session_output(const plumb_session *session, size_t k);
/* A metric of sync point i by name, metrics of plugins included; NAN = none. */
PLUMB_API double plumb_session_metric(const plumb_session *session, size_t i, const char *name);
/* Number of sync points with this verdict. */
PLUMB_API size_t plumb_session_count(const plumb_session *session, const char *verdict);

typedef struct plumb_blame { /* by score, the largest first; no string is NULL */
    size_t size;
    const char *node, *op, *value, *module, *source;
    const char *kind, *where; /* "offset 0.25", "channel 3 of axis 1" */
    double q, effect, score;  /* NAN = not known */
    const char *reason;
    const char *const *members; /* values of the nodes of the group, when it is one */
    size_t n_members;
    const int64_t *samples; /* with several: those in which it is to blame, the worst first */
    size_t n_samples;
} plumb_blame;
PLUMB_API size_t plumb_session_blames(const plumb_session *session);
PLUMB_API int plumb_session_blame(const plumb_session *session, size_t i, plumb_blame *out);

PLUMB_API const char *plumb_session_note(const plumb_session *session, size_t i);
/* The name of phase i, and how long it took (seconds may be NULL). */
PLUMB_API const char *plumb_session_timing(const plumb_session *session, size_t i, double *seconds);
/* Samples that did not agree; the fewest of them that show every culprit. */
PLUMB_API int64_t plumb_session_failing(const plumb_session *session, size_t i);
PLUMB_API int64_t plumb_session_smallest(const plumb_session *session, size_t i);

/* The tensor of a value on one side ("a", "b", "gold"), of the sample its sync point is about. From
 * the session's folder or from the recording that it names, mapped if possible. PLUMB_E_NOT_FOUND
 * when it was not kept; gold is kept for culprits. */
PLUMB_API plumb_status plumb_session_tensor(const plumb_session *session, const char *value,
                                            const char *side, plumb_tensor **out, plumb_error *err);
PLUMB_API plumb_status plumb_session_write(const plumb_session *session,
                                           const plumb_write_options *options, char **text,
                                           plumb_error *err);

/* The same model on several backends, each analysed against the same reference on the same inputs;
 * options->backend is not used. out[] receives n sessions, NULL where there is none; the caller
 * frees them, also after a failure. With options->output the sessions are OUTPUT/1, OUTPUT/2, … and
 * their table is OUTPUT/many.json (docs/formats/many.md). */
PLUMB_API plumb_status plumb_analyze_many(plumb_model *model, const plumb_analyze_options *options,
                                          const char *const *backends, size_t n,
                                          plumb_session **out, plumb_error *err);
/* The worst: 3 if one failed, else 1 if one diverged, else 2 if one is inconclusive. */
PLUMB_API int plumb_sessions_exit_code(const plumb_session *const *sessions, size_t n);
/* Sessions of one model as one table, a column for each: text, json or md. Reports backends that
 * agree with each other but not with the reference, if their tensors were kept. */
PLUMB_API plumb_status plumb_sessions_write(const plumb_session *const *sessions, size_t n,
                                            const plumb_write_options *options, char **text,
                                            plumb_error *err);

typedef struct plumb_report_options {
    size_t size;
    const char *format; /* "html" (NULL), or one of plumb_write_options */
    const char *metric; /* for sorting; NULL = the session's */
    size_t limit;       /* rows of tables; 0 = all */
    uint64_t max_size;  /* bytes of the HTML file, which tensors are left out for; 0 = 16 MiB */
} plumb_report_options;
PLUMB_OPTIONS_INIT(plumb_report_options, PLUMB_OPTIONS_REPORT)
/* Writes a session (its folder) to a new file: as one offline HTML page, or in another format,
 * which without a path (NULL) becomes the text. */
PLUMB_API plumb_status plumb_report(const char *session, const char *path,
                                    const plumb_report_options *options, char **text,
                                    plumb_error *err);

/* The debugger in the browser: serves a session (its folder) or a model (for a comparison to be set
 * up; NULL: neither) on 127.0.0.1 until it is closed. Every request needs the token in the link.
 * Needs libmicrohttpd at build time and at run time, else PLUMB_E_UNSUPPORTED. */
typedef struct plumb_viewer plumb_viewer;
typedef struct plumb_viewer_options {
    size_t size;
    int port;            /* 0 = a free one */
    const char *source;  /* folder below which source files may be shown; NULL = none */
    const char *program; /* the plumb program, which runs comparisons; NULL = none are offered */
    const char *host;    /* IPv4 address to listen on instead of 127.0.0.1; NULL = only there */
    int insecure_host;   /* nonzero: `host` may be beyond this machine, without encryption */
    int trust;           /* nonzero: the page may run compilers and runtimes without confirmation */
    const char *files;   /* folder that the page may browse, besides that of `path` */
} plumb_viewer_options;
PLUMB_OPTIONS_INIT(plumb_viewer_options, PLUMB_OPTIONS_VIEWER)
PLUMB_API plumb_status plumb_viewer_open(const char *path, const plumb_viewer_options *options,
                                         plumb_viewer **out, plumb_error *err);
PLUMB_API const char *plumb_viewer_link(const plumb_viewer *viewer); /* valid until close */
PLUMB_API void plumb_viewer_close(plumb_viewer *viewer);             /* NULL is fine */

/* ---- minify and repro ---- */

typedef struct plumb_minify_options {
    size_t size;
    const plumb_inputs *inputs;   /* may be NULL */
    const plumb_context *context; /* may be NULL. The repro contains the model after that */
    const char *backend;          /* spec of the run under test; NULL = eager */
    double timeout;        /* seconds of each compile, run or check; 0 = found from the first run */
    uint64_t memory_limit; /* bytes behind the guard; 0 = none */
    int threads;           /* of plumb's own pool; 0 = all */
    /* Queries that run at the same time, in forks of this process; 0 = one for each CPU, 1 = one at
     * a time. The result is the same. A host with threads gets 1. */
    int jobs;
    /* The user's own oracle instead of a backend: a command for /bin/sh. {model} is the candidate,
     * {dir} a folder with model.onnx and test_data_set_0/. A non-zero exit code means that the
     * model fails, 125 that it cannot be tested, 126 and 127 that the command cannot run. */
    const char *check;
    const char *fail_regex;  /* it fails if its output matches; NULL = by exit code */
    int fail_code;           /* it fails only with this exit code; -1 = as the original */
    const char *check_str;   /* must be in the error message; NULL = a similar message */
    int accuracy;            /* outputs must also fail the predicate of plumb_check */
    int strict;              /* the first culprit in the graph, even if it changes no output */
    const char *profile;     /* of that predicate, as in plumb_check_options; NULL = plumb */
    const char *same;        /* options of the torch profile; NULL = PyTorch's own */
    double tol;              /* 0 = by the fp64 run */
    const char *signature;   /* repro.json with the signature to find; NULL = the model's */
    size_t max_queries;      /* 0 = no limit */
    double max_time;         /* seconds; 0 = no limit */
    const char *output;      /* the repro folder, new; NULL = none is written */
    const char *checkpoints; /* folder for the best model after each step; NULL = none */
    int strip_weights, stable_output, zip, keep_other;
    const char *good;    /* folder for the last candidate that passed; NULL = none */
    const char *program; /* plumb, which checks the repro in a new process; NULL = the running
                            program when it is plumb, else the one in PATH */
    void (*log)(void *ctx, const char *line); /* NULL = silent */
    void *log_ctx;
    const plumb_progress *progress; /* may be NULL */
    int trust;   /* a command, program or library that the repro.json names may be run */
    int sandbox; /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
    int bisect;  /* also find the level or pass of the backend that causes it; added to the repro */
    int pack;    /* weights above 256 MB are in the repro, too, not just where they are */
} plumb_minify_options;
PLUMB_OPTIONS_INIT(plumb_minify_options, PLUMB_OPTIONS_MINIFY)

/* The result of minifying. Read by any number of threads. */
typedef struct plumb_repro plumb_repro;
/* Finds the smallest model that fails the same way, writes it as a repro and verifies it in a new
 * process. A model that does not fail is PLUMB_E_INVALID. */
PLUMB_API plumb_status plumb_minify(plumb_model *model, const plumb_minify_options *options,
                                    plumb_repro **out, plumb_error *err);
/* One query: does the model fail, with the signature of options->signature if given? */
PLUMB_API plumb_status plumb_minify_query(plumb_model *model, const plumb_minify_options *options,
                                          plumb_repro **out, plumb_error *err);
PLUMB_API void plumb_repro_free(plumb_repro *repro); /* NULL is fine */
typedef struct plumb_repro_summary {                 /* no string is NULL */
    size_t size;
    int fails;                /* of a query; 1 after plumb_minify */
    const char *signature;    /* the failure as text; "" = none */
    const char *folder;       /* "" = not written */
    int verified;             /* it fails in a new process, from its files */
    int one_minimal;          /* no single node can be removed */
    size_t n_queries, n_runs; /* distinct candidates; runs of them */
    double seconds;
    size_t nodes_before, nodes_after, inputs_after;
    int64_t elements_after;                                 /* of inputs and weights */
    size_t n_others;                                        /* other failures found on the way */
    const char *bisect_level, *bisect_pass, *bisect_reason; /* "" = not asked for */
} plumb_repro_summary;
PLUMB_API int plumb_repro_get(const plumb_repro *repro, plumb_repro_summary *out);
/* Another failure found on the way, as text, and how often (may be NULL). */
PLUMB_API const char *plumb_repro_other(const plumb_repro *repro, size_t i, size_t *n_seen);
PLUMB_API plumb_status plumb_repro_write(const plumb_repro *repro,
                                         const plumb_write_options *options, char **text,
                                         plumb_error *err);

/* Repro levels: 0 off; 1 on error, a checkpoint; 2 on error, a checkpoint and the minify command; 3
 * always, before compiling and running, so that a crash does not lose it; 4 when the outputs are
 * wrong. */
typedef struct plumb_repro_options {
    size_t size;
    int level;                  /* 1 to 4; 2 */
    const plumb_inputs *inputs; /* may be NULL. Generated again from their options */
    const char *backend;        /* spec; NULL = eager */
    const char *debug_dir;      /* NULL = plumb-debug */
    const char *name;           /* "forward", "backward": separate folders; NULL = none */
    const char *error;          /* what went wrong; NULL = nothing yet */
    int no_data;                /* shapes and types only; inputs are generated when it is run */
    double timeout;
    int threads;
    const plumb_context *context; /* may be NULL. Applied to the model that is written */
    /* The predicate that found it wrong, as in plumb_minify_options; used by minify and query. */
    int accuracy, strict;
    const char *profile, *same;
    double tol;
} plumb_repro_options;
PLUMB_OPTIONS_INIT(plumb_repro_options, PLUMB_OPTIONS_REPRO)
/* Writes DEBUG_DIR/run_TIME-PID/checkpoints/NODES[-k]/ and copies it to ./repro; *text says where.
 */
PLUMB_API plumb_status plumb_repro_dump(const plumb_model *model,
                                        const plumb_repro_options *options, char **text,
                                        plumb_error *err);

/* Contents of a repro.json about the run. */
typedef struct plumb_repro_info {
    size_t size;
    uint64_t seed;
    int threads; /* 0 = all */
    double timeout;
    int eval, backward; /* already done to the model: do not repeat */
    char amp[8];        /* "" = not under autocast */
} plumb_repro_info;
/* PLUMB_E_NOT_FOUND when the folder is not a repro. */
PLUMB_API plumb_status plumb_repro_read(const char *folder, plumb_repro_info *out,
                                        plumb_error *err);

/* A line for each fault injected by the spec (jit:inject=KIND@OP:N) that has no node in the model;
 * "" when there is none. */
PLUMB_API plumb_status plumb_faults_missed(const plumb_model *model, const char *backend,
                                           char **text, plumb_error *err);

/* ---- many models ---- */

/* Many models on many backends. An item is one model on one backend with one set of inputs; each
 * runs in a separate process (`program`) and is journalled when done, so that a killed run can be
 * resumed. Failures with the same cause are grouped. */
typedef struct plumb_corpus_options {
    size_t size;
    const char *const *backends; /* specs; at least one */
    size_t n_backends;
    const char *reference; /* spec; NULL = eager */
    const uint64_t *seeds; /* of generated inputs; none = 0 */
    size_t n_seeds;
    const char *output;         /* folder; required, except to merge one folder in place */
    const char *shard;          /* "I/N", I from 1: only this part of the items; NULL = all */
    int jobs;                   /* items at a time; 0 = one for each CPU */
    double timeout;             /* seconds for one step of an item; 600; 0 = none */
    uint64_t memory_limit;      /* bytes for an item's process and for the backend's; 0 = none */
    size_t max_queries;         /* for minifying one item; 200; 0 = do not minify */
    int max_deaths;             /* skip an item that was running in so many crashes; 2; 0 = never */
    int resume;                 /* continue an unfinished output */
    const char *baseline;       /* known groups: an earlier output, its corpus.json, or a file of
                                   write_baseline; NULL = none */
    const char *write_baseline; /* file for the groups of this run; NULL = none */
    const char *program;        /* plumb; NULL = the running program when it is plumb, else the
                                   one in PATH */
    const plumb_progress *progress; /* may be NULL */
    int sandbox;                    /* PLUMB_SANDBOX_ON, _OFF or _REQUIRE */
    int mpi; /* when an MPI launcher started this process as one of several ranks: share the items.
                Ranks other than 0 get no corpus (*out is NULL) */
} plumb_corpus_options;
PLUMB_OPTIONS_INIT(plumb_corpus_options, PLUMB_OPTIONS_CORPUS)

/* Read by any number of threads. */
typedef struct plumb_corpus plumb_corpus;
/* `list` is a file with one model per line, a folder or a model (docs/howto/corpus.md). */
PLUMB_API plumb_status plumb_corpus_run(const char *list, const plumb_corpus_options *options,
                                        plumb_corpus **out, plumb_error *err);
/* What would be run, and an estimate of the time. */
PLUMB_API plumb_status plumb_corpus_plan(const char *list, const plumb_corpus_options *options,
                                         plumb_format format, char **text, plumb_error *err);
/* Merges the outputs of shards into options->output, a new folder; NULL with one folder: in
 * place. */
PLUMB_API plumb_status plumb_corpus_merge(const char *const *folders, size_t n_folders,
                                          const plumb_corpus_options *options, plumb_corpus **out,
                                          plumb_error *err);
/* Opens a finished output. */
PLUMB_API plumb_status plumb_corpus_open(const char *folder, plumb_corpus **out, plumb_error *err);
PLUMB_API void plumb_corpus_free(plumb_corpus *corpus); /* NULL is fine */

typedef struct plumb_corpus_summary { /* no string is NULL */
    size_t size;
    const char *folder;
    int exit_code; /* 0 nothing new is wrong, 1 something is, 2 nothing could be judged, 4 plumb's
                      own trouble */
    int finished;  /* 0: a shard, to be merged with the others */
    size_t n_models, n_backends, n_cases, n_groups;
    size_t n_agree, n_diverged, n_nondeterministic, n_failed, n_timeout, n_skipped, n_trouble,
        n_died, n_missing;
} plumb_corpus_summary;
PLUMB_API int plumb_corpus_get(const plumb_corpus *corpus, plumb_corpus_summary *out);
typedef struct plumb_corpus_case { /* by model, data, seed and backend; no string is NULL */
    size_t size;
    const char *key; /* its folder is FOLDER/items/KEY */
    const char *model, *backend;
    const char *data; /* "" = generated inputs */
    uint64_t seed;
    const char *status; /* "agree", "diverged", "nondeterministic", "failed", "timeout", "skipped",
                           "trouble", "died", "missing" */
    const char *reason;
    const char *group; /* id; "" = none */
    int has_session, has_repro;
} plumb_corpus_case;
PLUMB_API int plumb_corpus_get_case(const plumb_corpus *corpus, size_t i, plumb_corpus_case *out);
typedef struct plumb_corpus_group { /* the largest first; no string is NULL */
    size_t size;
    const char *id, *name;
    const char *state; /* "new", "known"; "" = no baseline */
    size_t n_cases, n_models;
    size_t n_confirmed;   /* cases on whose backend the smallest repro fails, too */
    const char *smallest; /* key of the case with the smallest repro; "" */
    size_t repro_nodes;
    const char *first_bad, *last_good; /* versions of the runtime; "" = not known */
} plumb_corpus_group;
PLUMB_API int plumb_corpus_get_group(const plumb_corpus *corpus, size_t i, plumb_corpus_group *out);
/* Formats: text, json, junit, sarif, html. */
PLUMB_API plumb_status plumb_corpus_write(const plumb_corpus *corpus,
                                          const plumb_write_options *options, char **text,
                                          plumb_error *err);
/* What changed; *worse (may be NULL): something is wrong that was not before. */
PLUMB_API plumb_status plumb_corpus_diff(const plumb_corpus *before, const plumb_corpus *now,
                                         plumb_format format, int *worse, char **text,
                                         plumb_error *err);
/* For `program`: handles one request of plumb_corpus_run in this process. */
PLUMB_API plumb_status plumb_corpus_worker(const char *request, char **text, plumb_error *err);

/* ---- backends ---- */

/* A backend compiles and runs models: eager, jit, ort, cmd, plugin. A spec names one with its
 * options: "ort:opt=all,threads=1", "eager:fp64", "cmd:./run.sh", "plugin:./libx.so". */

/* Which backends work here, and why the others do not. */
PLUMB_API plumb_status plumb_backends(plumb_format format, char **text, plumb_error *err);
/* The same as a handle. Any number of threads may read it. */
typedef struct plumb_backend_list plumb_backend_list;
typedef struct plumb_backend_info { /* no string is NULL */
    size_t size;
    const char *name, *summary;
    int available;
    const char *version; /* "" = not known */
    const char *reason;  /* why it is not available, or what its spec needs; "" */
    const char *cpu;     /* CPU features of its process that change results; "" = not known */
    const char *sandbox; /* "on", "not needed", or "none: " and why */
} plumb_backend_info;
PLUMB_API plumb_status plumb_backend_list_new(plumb_backend_list **out, plumb_error *err);
PLUMB_API void plumb_backend_list_free(plumb_backend_list *list); /* NULL is fine */
PLUMB_API size_t plumb_backend_list_count(const plumb_backend_list *list);
PLUMB_API int plumb_backend_list_get(const plumb_backend_list *list, size_t i,
                                     plumb_backend_info *out);

/* Data of a value at run time: a tensor, a sequence or an optional. Ref-counted, immutable. A
 * backend handles it through plumb_host only. */
typedef struct plumb_datum plumb_datum;
typedef enum plumb_kind { PLUMB_TENSOR = 1, PLUMB_SEQUENCE = 2, PLUMB_OPTIONAL = 3 } plumb_kind;

/* Functions that plumb provides to a backend, so that a plugin need not link with it. New members
 * are added at the end; n_bytes tells which exist. */
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

/* A model to compile. Everything is valid until the program is freed. */
typedef struct plumb_source {
    const void *onnx; /* its bytes; NULL when `graph` is given and the backend takes graphs */
    size_t n_onnx;
    const char *path; /* a file with the same model; external data is beside it. NULL = none */
    const char *const *inputs; /* names, in order */
    size_t n_inputs;
    const char *const *outputs;
    size_t n_outputs;
    void *graph;   /* plumb's own form; only for backends that are part of plumb */
    uint64_t seed; /* for random operators without a seed of their own */
    int threads;   /* the user's setting; 0 = all. An option of the spec takes precedence */
    int any_shape; /* input shapes may differ from those declared (test data) */
    int record;    /* recordings will follow: prepare for them, and set n_hooks */
} plumb_source;

/* A value that a backend exposes while it records. */
typedef struct plumb_seen {
    const char *name; /* in the graph that the backend executes */
    const plumb_datum *datum;
    /* Values of the model that it corresponds to, in the model's layout (the element type may
     * differ: float16 stored as float32). NULL = `name`. Not NULL and n_stands_for = 0: it is not a
     * value of the model. Within one recording, no two values may correspond to the same one. */
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
    size_t n_hidden;    /* not recordable: in bodies that did not run, or ran more than once */
    size_t n_disturbed; /* not shown, because recording them changed the outputs */
    size_t n_runs;      /* runs of the backend that it took */
    int differs;        /* the outputs were not bit-identical to the plain run: nothing was shown */
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
                                        NULL, here or for an output = unchecked */
    uint64_t memory_limit;           /* bytes of recorded values in memory at once; 0 = no limit */
    plumb_record_info *record;       /* with a hook: to be filled; then never NULL */
} plumb_run_args;

#define PLUMB_ABI 1u

enum {                        /* flags */
       PLUMB_TAKES_GRAPH = 1, /* reads plumb_source.graph when it is given */
       PLUMB_OTHER_TYPES = 2, /* element types may differ from the declared ones (fp64) */
       PLUMB_IN_PROCESS = 4,  /* plumb's own code: it runs without the guard. Not for plugins */
       PLUMB_USES_CACHE =
           8, /* starts a compiler and keeps code in plumb's cache. Not for plugins */
       PLUMB_UNCONFINED = 16, /* starts the user's own program: no sandbox unless it is required.
                                 Not for plugins */
       PLUMB_STAYS_OPEN = 32, /* slow to start: one guarded process compiles program after program,
                                 as long as it answers. Not for plugins */
       PLUMB_FOREIGN_CODE = 64, /* runs a program or library that its spec names. Not for plugins */
       PLUMB_STARTS_BROWSER = 128 /* starts the user's browser. Not for plugins */
};

/* The vtable. Slots marked (optional) may be NULL, with the default given. `self` comes from open,
 * `program` from compile. One backend is used by one thread at a time. */
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
    /* Version of the runtime, "1.27.0"; valid as long as self. (optional: "") */
    const char *(*version)(void *self);
    /* 1 or 0; -1 = known only by compiling. (optional: -1) */
    int (*supports)(void *self, const char *domain, const char *op, int opset);
    /* n_hooks: number of values that a recording will show, 0 = not known. */
    plumb_status (*compile)(void *self, const plumb_source *source, void **program, size_t *n_hooks,
                            plumb_error *err);
    plumb_status (*run)(void *program, const plumb_run_args *args, plumb_error *err);
    /* Names of the recording modes, from most to least intrusive, ended by NULL; valid as long as
     * self. (optional: it cannot record) */
    const char *const *(*record_modes)(void *self);
    /* The graph that it executes, as ONNX bytes, valid as long as the program; weights may be
     * missing. (optional: the model as given) */
    plumb_status (*executed)(void *program, const void **onnx, size_t *n_onnx, plumb_error *err);
    /* Waits until all work is done and returns its status. It is called after each run() that
     * succeeded, while the arguments of that run are still valid, and may make the outputs and
     * call the hook. (optional: run() has waited) */
    plumb_status (*synchronize)(void *program, plumb_error *err);
    void (*free)(void *program); /* releases a program */
    /* Names for the option "disable=NAME+NAME", ended by NULL: passes that bisection can disable.
     * (optional: none) */
    const char *const *passes;
    /* Values of the option "opt", from least to most optimised, ended by NULL. (optional: none) */
    const char *const *levels;
    /* ---- since 0.2.0; n_bytes tells whether they are there ---- */
    /* The device that it computes on, "SwiftShader (software) of /usr/lib/chromium"; valid as long
     * as self. (optional: "", the CPU) */
    const char *(*device)(void *self);
    /* Which node runs where, for a backend that uses several devices: one line "PLACE\tOP\tNODE\n"
     * per node of the executed graph; valid as long as the program. (optional: it is one place) */
    plumb_status (*placement)(void *program, const char **text, plumb_error *err);
    /* Options of a spec that select a device, "providers=WebGPU", ended by NULL: `plumb backends`
     * tries each. (optional: none) */
    const char *const *devices;
} plumb_backend;

/* A metric of a plugin: one number for two tensors of the same shape, a under test and r the
 * reference. It reads them only through the host. Called by one thread at a time, in plumb's own
 * process: unlike for a backend, a crash ends plumb. */
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
 * with up to n_max borrowed rows and returns how many it has. It may also have backends. */
typedef size_t (*plumb_metrics_entry)(const plumb_host *host, const plumb_metric **metrics,
                                      size_t n_max);

/* Wraps an open backend with checkpoints around compile and run. The wrapper's backend has no open
 * and no close; its `self` is the wrapper. The caller frees both, the wrapper first. Forward and
 * backward graphs are wrapped separately and named. */
typedef struct plumb_wrapped plumb_wrapped;
typedef struct plumb_wrap_options {
    size_t size;
    int level;             /* 0 to 4, as above */
    const char *spec;      /* for the repro: how plumb opens this backend; NULL = its name */
    const char *name;      /* "forward", "backward"; NULL = none */
    const char *debug_dir; /* NULL = plumb-debug */
    int no_data;
    void (*log)(void *ctx, const char *line); /* "Writing checkpoint with N nodes to PATH" */
    void *log_ctx;
} plumb_wrap_options;
PLUMB_OPTIONS_INIT(plumb_wrap_options, PLUMB_OPTIONS_WRAP)
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
