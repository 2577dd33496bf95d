/* Inside src/backends: sessions of ONNX Runtime, shared by ort.c (the vtable) and ort_record.c. */
#ifndef PL_ORT_INT_H
#define PL_ORT_INT_H

#include "backends/backend.h"
#include "backends/ort/ort_device.h"
#include "backends/ort/ort_map.h"
#include "backends/ort/ort_value.h"
#include "onnx/onnx.h"

typedef struct pl_ort {
    pl_ort_env env;
    int level;   /* optimisation level: 0, 1, 2, 99 */
    int threads; /* -1: use source->threads */
    bool deterministic;
    char *disable;        /* names of optimisers, separated by ';'; NULL = none */
    char *providers;      /* separated by '+'; NULL = CPU */
    pl_ort_device device; /* for the provider WebGPU; text "" = not requested */
    bool device_failed;   /* to start */
    bool weights_apart;   /* save weights of the optimised graph in a file of their own */
    bool weights_half;    /* save half weights of the optimised graph as they are */
} pl_ort;

typedef struct pl_ort_session_args {
    const void *onnx;
    size_t n_onnx;
    const char *path;    /* load this file instead; NULL = the bytes */
    const char *folder;  /* folder of external data when bytes are loaded; NULL = unknown */
    const char *save_to; /* where ORT writes the optimised model; NULL = nowhere */
    const char
        *weights; /* name of a file beside save_to for its weights; NULL = within the model */
    const char
        *skip; /* passes to disable beside those of the options, separated by ';'; NULL = none */
    bool unpacked; /* the session is not run: kernels do not prepare weights */
    int level;
    int threads;
    bool idle;           /* threads sleep between operators instead of spinning */
    const char *profile; /* where ORT writes its profile (a prefix); NULL = nowhere */
} pl_ort_session_args;

typedef struct pl_ort_program {
    pl_ort *ort;
    plumb_source source; /* names and bytes are borrowed */
    int threads;
    void *session;
    bool *optional;    /* per output: declared optional(...) */
    bool tensors_only; /* every output is a tensor, and none of strings */
    /* ort_bind.c: a run that was submitted and not waited for */
    void *binding;
    const plumb_run_args *pending;
    char *folder;
    /* ort_place.c: "PROVIDER\tOP\tNODE\n", and the inputs of the last plain run, which the profiled
     * run needs */
    pl_buf places;
    pl_datum **last_in;
    /* ort_record.c: the optimised graph that ORT saved, and a session that shows its values */
    pl_file_map *saved;
    char *saved_folder; /* its weights are there; NULL = within it */
    pl_model *graph;
    pl_buf split;  /* the same with Relu split off (ort_split.h); empty = nothing split */
    bool no_split; /* splitting changed the outputs or failed to load */
    bool within;   /* ORT cannot load its graph with weights apart: they are within it */
    bool widens;   /* half weights are saved as they are (ort_widen.h) */
    pl_datum **ahead, **ahead_in; /* outputs of a plain run made ahead, and its inputs */
    pl_onnx_refer refer;          /* where graphs made of the optimised one have their weights */
    pl_buf whole;                 /* `graph` with its weights, when asked for */
    void *watch_session;
    pl_ort_watch *watched; /* values to show, in order of execution; names live in the models */
    size_t n_watched, n_hidden;
    bool has_bodies;
    pl_model *original; /* the model as given */
    pl_ort_map *map;    /* from graph to original */
} pl_ort_program;

pl_status pl_ort_session_new(const pl_ort *ort, const pl_ort_session_args *args, void **out,
                             pl_err *err);
/* Runs a session on the inputs of `args`; values[] receives n OrtValues, to be released. */
pl_status pl_ort_session_run(const pl_ort_program *p, void *session, const plumb_run_args *args,
                             const char *const *names, size_t n_names, void **values, pl_err *err);
void pl_ort_values_release(const pl_ort_program *p, void **values, size_t n_values);
/* Copies the model's outputs, the first values of a run, into out[]. */
pl_status pl_ort_outputs_read(const pl_ort_program *p, void *const *values, pl_datum **out,
                              pl_err *err);

/* The session of the model as given. It is closed where there is memory for one only. */
pl_status pl_ort_open_plain(pl_ort_program *p, pl_err *err);
void pl_ort_close_plain(pl_ort_program *p);

/* ort_record.c */
pl_status pl_ort_record_compile(pl_ort_program *p, pl_ort_session_args *args, pl_err *err);
pl_status pl_ort_record_prepare(pl_ort_program *p, pl_err *err);
pl_status pl_ort_record(pl_ort_program *p, const plumb_run_args *args, pl_err *err);
void pl_ort_record_close(pl_ort_program *p); /* the session that shows values */
void pl_ort_record_release(pl_ort_program *p);
pl_status pl_ort_record_executed(pl_ort_program *p, pl_bytes *out,
                                 pl_err *err); /* self-contained */
extern const char *const pl_ort_record_modes[];

/* ort_bind.c: a plain run on a device in two steps. */
bool pl_ort_bind_wanted(const pl_ort_program *p);
pl_status pl_ort_bind_submit(pl_ort_program *p, const plumb_run_args *args, pl_err *err);
pl_status pl_ort_bind_wait(pl_ort_program *p, pl_err *err); /* no-op if nothing was submitted */
void pl_ort_bind_release(pl_ort_program *p);

/* ort_place.c: which node runs on which provider, in the form of plumb_backend.placement. */
pl_status pl_ort_places_keep(pl_ort_program *p, const plumb_run_args *args, pl_err *err);
pl_status pl_ort_places_read(pl_ort_program *p, pl_err *err);
void pl_ort_places_release(pl_ort_program *p);
/* The lines of a profile that ONNX Runtime wrote. */
pl_status pl_ort_places_parse(const char *text, size_t n, pl_buf *out, pl_err *err);

extern const char *const pl_ort_passes[]; /* ort_passes.c */

#endif
