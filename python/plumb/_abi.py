"""The C API as ctypes sees it. Written by tools/make-ctypes from include/plumb.h: do not edit."""
# mypy: disable-error-code="misc"
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32,
                    c_uint64, c_void_p)
from typing import Any, Dict, List, Tuple

PLUMB_VERSION_MAJOR = 0
PLUMB_VERSION_MINOR = 1
PLUMB_VERSION_PATCH = 0
PLUMB_API_VERSION = 1
PLUMB_ABI = 1
PLUMB_OK = 0
PLUMB_E_USAGE = 1
PLUMB_E_FORMAT = 2
PLUMB_E_INVALID = 3
PLUMB_E_UNSUPPORTED = 4
PLUMB_E_NOT_FOUND = 5
PLUMB_E_EXISTS = 6
PLUMB_E_LIMIT = 7
PLUMB_E_BACKEND = 8
PLUMB_E_TIMEOUT = 9
PLUMB_E_IO = 10
PLUMB_E_MEMORY = 11
PLUMB_E_INTERNAL = 12
PLUMB_E_CANCELLED = 13
PLUMB_OPTIONS_INPUTS = 0
PLUMB_OPTIONS_CONTEXT = 1
PLUMB_OPTIONS_INFO = 2
PLUMB_OPTIONS_TRANSFORM = 3
PLUMB_OPTIONS_CONVERT = 4
PLUMB_OPTIONS_RUN = 5
PLUMB_OPTIONS_CHECK = 6
PLUMB_OPTIONS_TEST = 7
PLUMB_OPTIONS_SAME = 8
PLUMB_OPTIONS_RECORDER = 9
PLUMB_OPTIONS_RECORD = 10
PLUMB_OPTIONS_COMPARE = 11
PLUMB_OPTIONS_ANALYZE = 12
PLUMB_OPTIONS_WRITE = 13
PLUMB_OPTIONS_REPORT = 14
PLUMB_OPTIONS_VIEWER = 15
PLUMB_OPTIONS_MINIFY = 16
PLUMB_OPTIONS_REPRO = 17
PLUMB_OPTIONS_WRAP = 18
PLUMB_OPTIONS_STYLE = 19
PLUMB_OPTIONS_CORPUS = 20
PLUMB_OPTIONS_GENERATE = 21
PLUMB_FLOAT = 1
PLUMB_UINT8 = 2
PLUMB_INT8 = 3
PLUMB_UINT16 = 4
PLUMB_INT16 = 5
PLUMB_INT32 = 6
PLUMB_INT64 = 7
PLUMB_STRING = 8
PLUMB_BOOL = 9
PLUMB_FLOAT16 = 10
PLUMB_DOUBLE = 11
PLUMB_UINT32 = 12
PLUMB_UINT64 = 13
PLUMB_COMPLEX64 = 14
PLUMB_COMPLEX128 = 15
PLUMB_BFLOAT16 = 16
PLUMB_FLOAT8E4M3FN = 17
PLUMB_FLOAT8E4M3FNUZ = 18
PLUMB_FLOAT8E5M2 = 19
PLUMB_FLOAT8E5M2FNUZ = 20
PLUMB_UINT4 = 21
PLUMB_INT4 = 22
PLUMB_FLOAT4E2M1 = 23
PLUMB_FLOAT8E8M0 = 24
PLUMB_UINT2 = 25
PLUMB_INT2 = 26
PLUMB_TEXT = 0
PLUMB_JSON = 1
PLUMB_FILL_RANDOM = 0
PLUMB_FILL_ZEROS = 1
PLUMB_FILL_ONES = 2
PLUMB_SANDBOX_ON = 0
PLUMB_SANDBOX_OFF = 1
PLUMB_SANDBOX_REQUIRE = 2
PLUMB_CHECK_NONE = 0
PLUMB_CHECK_ACCURACY = 1
PLUMB_CHECK_STRICT = 2
PLUMB_PAIR_EXACT = 0
PLUMB_PAIR_FINITE = 1
PLUMB_PAIR_NONFINITE = 2
PLUMB_PAIR_STRUCTURAL = 3
PLUMB_TENSOR = 1
PLUMB_SEQUENCE = 2
PLUMB_OPTIONAL = 3
PLUMB_TAKES_GRAPH = 1
PLUMB_OTHER_TYPES = 2
PLUMB_IN_PROCESS = 4
PLUMB_USES_CACHE = 8
PLUMB_UNCONFINED = 16
PLUMB_STAYS_OPEN = 32
PLUMB_FOREIGN_CODE = 64
PLUMB_STARTS_BROWSER = 128


class plumb_error(Structure):
    pass


class plumb_progress(Structure):
    pass


class plumb_string(Structure):
    pass


class plumb_node(Structure):
    pass


class plumb_info_options(Structure):
    pass


class plumb_transform_options(Structure):
    pass


class plumb_convert_options(Structure):
    pass


class plumb_style(Structure):
    pass


class plumb_write_options(Structure):
    pass


class plumb_input(Structure):
    pass


class plumb_inputs(Structure):
    pass


class plumb_run_options(Structure):
    pass


class plumb_run_times(Structure):
    pass


class plumb_node_time(Structure):
    pass


class plumb_context(Structure):
    pass


class plumb_check_options(Structure):
    pass


class plumb_check_output(Structure):
    pass


class plumb_test_options(Structure):
    pass


class plumb_test_case(Structure):
    pass


class plumb_same_options(Structure):
    pass


class plumb_same_result(Structure):
    pass


class plumb_recorder_options(Structure):
    pass


class plumb_record_options(Structure):
    pass


class plumb_recorded(Structure):
    pass


class plumb_compare_options(Structure):
    pass


class plumb_analyze_options(Structure):
    pass


class plumb_generate_options(Structure):
    pass


class plumb_generation_summary(Structure):
    pass


class plumb_step(Structure):
    pass


class plumb_self_test(Structure):
    pass


class plumb_session_summary(Structure):
    pass


class plumb_side_info(Structure):
    pass


class plumb_sync_point(Structure):
    pass


class plumb_blame(Structure):
    pass


class plumb_report_options(Structure):
    pass


class plumb_viewer_options(Structure):
    pass


class plumb_minify_options(Structure):
    pass


class plumb_repro_summary(Structure):
    pass


class plumb_repro_options(Structure):
    pass


class plumb_repro_info(Structure):
    pass


class plumb_corpus_options(Structure):
    pass


class plumb_corpus_summary(Structure):
    pass


class plumb_corpus_case(Structure):
    pass


class plumb_corpus_group(Structure):
    pass


class plumb_backend_info(Structure):
    pass


class plumb_host(Structure):
    pass


class plumb_option(Structure):
    pass


class plumb_option_def(Structure):
    pass


class plumb_source(Structure):
    pass


class plumb_seen(Structure):
    pass


class plumb_hook(Structure):
    pass


class plumb_record_info(Structure):
    pass


class plumb_run_args(Structure):
    pass


class plumb_backend(Structure):
    pass


class plumb_metric(Structure):
    pass


class plumb_wrap_options(Structure):
    pass


plumb_metrics_entry = CFUNCTYPE(c_size_t, POINTER(plumb_host), POINTER(POINTER(plumb_metric)), c_size_t)

plumb_plugin_entry = CFUNCTYPE(c_size_t, POINTER(plumb_host), POINTER(POINTER(plumb_backend)), c_size_t)

plumb_error._fields_ = [("status", c_int), ("message", c_char * 1024)]
plumb_progress._fields_ = [("update", CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, c_int64)), ("ctx", c_void_p)]
plumb_string._fields_ = [("data", c_char_p), ("n_bytes", c_size_t)]
plumb_node._fields_ = [
    ("size", c_size_t), ("name", c_char_p), ("op", c_char_p), ("domain", c_char_p), ("n_inputs", c_size_t),
    ("n_outputs", c_size_t)]
plumb_info_options._fields_ = [
    ("size", c_size_t), ("format", c_int), ("dims", POINTER(c_char_p)), ("n_dims", c_size_t), ("nodes", c_int)]
plumb_transform_options._fields_ = [
    ("size", c_size_t), ("eval", c_int), ("amp", c_char_p), ("fp64", c_int), ("format", c_int)]
plumb_convert_options._fields_ = [
    ("size", c_size_t), ("external", c_int), ("max_elements", c_int64), ("backward", c_char_p),
    ("dims", POINTER(c_char_p)), ("n_dims", c_size_t)]
plumb_style._fields_ = [
    ("size", c_size_t), ("agree", c_char_p), ("diverged", c_char_p), ("green", c_char_p), ("yellow", c_char_p),
    ("red", c_char_p), ("reset", c_char_p), ("more", c_char_p)]
plumb_write_options._fields_ = [
    ("size", c_size_t), ("format", c_char_p), ("metric", c_char_p), ("sort", c_char_p), ("limit", c_size_t),
    ("style", POINTER(plumb_style)), ("rollup", c_char_p), ("verbose", c_int)]
plumb_input._fields_ = [("name", c_char_p), ("tensor", c_void_p)]
plumb_inputs._fields_ = [
    ("size", c_size_t), ("files", POINTER(c_char_p)), ("n_files", c_size_t), ("sets", POINTER(c_char_p)),
    ("n_sets", c_size_t), ("dims", POINTER(c_char_p)), ("n_dims", c_size_t), ("ranges", POINTER(c_char_p)),
    ("n_ranges", c_size_t), ("fill", c_int), ("seed", c_uint64), ("tensors", POINTER(plumb_input)),
    ("n_tensors", c_size_t), ("n_samples", c_size_t)]
plumb_run_options._fields_ = [
    ("size", c_size_t), ("inputs", POINTER(plumb_inputs)), ("backend", c_char_p), ("timeout", c_double),
    ("memory_limit", c_uint64), ("threads", c_int), ("fp64", c_int), ("repeat", c_int), ("output", c_char_p),
    ("save_as", c_char_p), ("profile", c_int), ("progress", POINTER(plumb_progress)), ("sandbox", c_int)]
plumb_run_times._fields_ = [
    ("size", c_size_t), ("load", c_double), ("first", c_double), ("best", c_double), ("median", c_double),
    ("n_runs", c_size_t)]
plumb_node_time._fields_ = [("size", c_size_t), ("value", c_char_p), ("op", c_char_p), ("seconds", c_double)]
plumb_context._fields_ = [
    ("size", c_size_t), ("eval", c_int), ("amp", c_char_p), ("backward", c_int), ("loss_output", c_char_p),
    ("random_gradients", c_int), ("grad_seed", c_uint64)]
plumb_check_options._fields_ = [
    ("size", c_size_t), ("run", POINTER(plumb_run_options)), ("mode", c_int), ("context", POINTER(plumb_context)),
    ("reference_amp", c_int), ("reference", c_char_p), ("reference_model", c_char_p), ("profile", c_char_p),
    ("same", c_char_p), ("tol", c_double), ("baseline", c_char_p), ("write_baseline", c_char_p)]
plumb_check_output._fields_ = [
    ("size", c_size_t), ("name", c_char_p), ("kind", c_char_p), ("same", c_int), ("ignored", c_int),
    ("accepted", c_int), ("rule", c_char_p), ("reason", c_char_p), ("error", c_double), ("reference_error", c_double),
    ("allowed", c_double), ("tensor", c_void_p)]
plumb_test_options._fields_ = [
    ("size", c_size_t), ("rtol", c_double), ("atol", c_double), ("filter", c_char_p), ("backend", c_char_p),
    ("timeout", c_double), ("memory_limit", c_uint64), ("fp64", c_int), ("threads", c_int),
    ("progress", POINTER(plumb_progress)), ("sandbox", c_int)]
plumb_test_case._fields_ = [
    ("size", c_size_t), ("path", c_char_p), ("status", c_char_p), ("reason", c_char_p), ("seconds", c_double)]
plumb_same_options._fields_ = [
    ("size", c_size_t), ("tol", c_double), ("equal_nan", c_int), ("exact_dtype", c_int), ("ignore_non_fp", c_int),
    ("cos_similarity", c_int), ("use_larger_multiplier_for_smaller_tensor", c_int), ("force_max_multiplier", c_int),
    ("use_iou_for_bool", c_int), ("relax_numpy_equality", c_int), ("iou_threshold", c_double)]
plumb_same_result._fields_ = [
    ("size", c_size_t), ("same", c_int), ("rule", c_char_p), ("ref_error", c_double), ("res_error", c_double),
    ("multiplier", c_double), ("why", c_char * 256)]
plumb_recorder_options._fields_ = [
    ("size", c_size_t), ("engine", c_char_p), ("engine_version", c_char_p), ("model", c_char_p), ("notes", c_char_p),
    ("stats_only", c_int)]
plumb_record_options._fields_ = [
    ("size", c_size_t), ("inputs", POINTER(plumb_inputs)), ("backend", c_char_p), ("timeout", c_double),
    ("memory_limit", c_uint64), ("threads", c_int), ("fp64", c_int), ("stats_only", c_int),
    ("names", POINTER(c_char_p)), ("n_names", c_size_t), ("ops", POINTER(c_char_p)), ("n_ops", c_size_t),
    ("modules", POINTER(c_char_p)), ("n_modules", c_size_t), ("output", c_char_p),
    ("progress", POINTER(plumb_progress)), ("sandbox", c_int)]
plumb_recorded._fields_ = [
    ("size", c_size_t), ("name", c_char_p), ("value", c_char_p), ("node", c_char_p), ("op", c_char_p),
    ("module", c_char_p), ("call", c_int64), ("dtype", c_int), ("rank", c_int), ("dims", POINTER(c_int64)),
    ("is_input", c_int), ("is_output", c_int), ("has_data", c_int)]
plumb_compare_options._fields_ = [
    ("size", c_size_t), ("inputs", POINTER(plumb_inputs)), ("backend", c_char_p), ("reference", c_char_p),
    ("timeout", c_double), ("memory_limit", c_uint64), ("threads", c_int), ("profile", c_char_p), ("same", c_char_p),
    ("has_tol", c_int), ("tol", c_double), ("map", c_char_p), ("export_map", c_char_p), ("keep_views", c_int),
    ("limits", c_char_p), ("baseline", c_char_p), ("write_baseline", c_char_p), ("plugins", POINTER(c_char_p)),
    ("n_plugins", c_size_t), ("details", POINTER(c_char_p)), ("n_details", c_size_t), ("metric", c_char_p),
    ("output", c_char_p), ("pack", c_int), ("progress", POINTER(plumb_progress)), ("strict_pairs", c_int),
    ("sandbox", c_int), ("mpi", c_int), ("stable_output", c_int), ("weights", c_char_p)]
plumb_analyze_options._fields_ = [
    ("size", c_size_t), ("inputs", POINTER(plumb_inputs)), ("backend", c_char_p), ("reference", c_char_p),
    ("reference_model", c_char_p), ("timeout", c_double), ("memory_limit", c_uint64), ("threads", c_int),
    ("output", c_char_p), ("save", c_char_p), ("reuse", c_char_p), ("skip_determinism", c_int), ("skip_gold", c_int),
    ("skip_search", c_int), ("profile", c_char_p), ("same", c_char_p), ("tol", c_double), ("metric", c_char_p),
    ("bisect", c_int), ("amp", c_char_p), ("advise", c_int), ("advise_out", c_char_p), ("map", c_char_p),
    ("baseline", c_char_p), ("write_baseline", c_char_p), ("progress", POINTER(plumb_progress)), ("sandbox", c_int),
    ("advise_metric", c_char_p), ("precision_profile", c_char_p), ("pack", c_int)]
plumb_generate_options._fields_ = [
    ("size", c_size_t), ("inputs", POINTER(plumb_inputs)), ("backend", c_char_p), ("reference", c_char_p),
    ("reference_model", c_char_p), ("timeout", c_double), ("memory_limit", c_uint64), ("threads", c_int),
    ("steps", c_int64), ("prompt", POINTER(c_int64)), ("n_prompt", c_size_t), ("chunk", c_int64), ("force", c_char_p),
    ("forced", POINTER(c_int64)), ("n_forced", c_size_t), ("cache", c_char_p), ("states", POINTER(c_char_p)),
    ("n_states", c_size_t), ("feeds", POINTER(c_char_p)), ("n_feeds", c_size_t), ("logits", c_char_p),
    ("skip_analysis", c_int), ("output", c_char_p), ("save", c_char_p), ("save_step", c_int64),
    ("self_test", c_char_p), ("progress", POINTER(plumb_progress)), ("sandbox", c_int), ("sample", c_char_p)]
plumb_generation_summary._fields_ = [
    ("size", c_size_t), ("exit_code", c_int), ("verdict", c_char_p), ("reason", c_char_p), ("n_steps", c_size_t),
    ("n_analyses", c_size_t), ("n_tests", c_size_t), ("first_divergent_step", c_int64), ("first_flip", c_int64),
    ("n_flips", c_size_t), ("n_ties", c_size_t), ("node", c_char_p), ("op", c_char_p), ("value", c_char_p),
    ("kind", c_char_p), ("layer", c_int64), ("carried_by", c_char_p), ("perplexity", c_double),
    ("perplexity_reference", c_double)]
plumb_step._fields_ = [
    ("size", c_size_t), ("past", c_int64), ("n_tokens", c_int64), ("token", c_int64), ("choice_a", c_int64),
    ("choice_b", c_int64), ("flip", c_int), ("tie", c_int), ("divergent", c_int), ("error", c_double),
    ("state_error", c_double), ("state", c_char_p), ("logits", POINTER(c_double)), ("analysis", c_size_t)]
plumb_self_test._fields_ = [
    ("size", c_size_t), ("name", c_char_p), ("status", c_char_p), ("reason", c_char_p), ("error", c_double),
    ("bound", c_double), ("node", c_char_p), ("op", c_char_p), ("value", c_char_p)]
plumb_session_summary._fields_ = [
    ("size", c_size_t), ("exit_code", c_int), ("verdict", c_char_p), ("reason", c_char_p), ("folder", c_char_p),
    ("created", c_char_p), ("model_path", c_char_p), ("model_hash", c_char_p), ("n_nodes", c_size_t),
    ("metric", c_char_p), ("profile", c_char_p), ("tol", c_double), ("first_divergence", c_char_p),
    ("observer_effect", c_int), ("observer_note", c_char_p), ("n_points", c_size_t), ("n_blame", c_size_t),
    ("n_outputs", c_size_t), ("n_notes", c_size_t), ("n_timing", c_size_t), ("n_replayed", c_size_t),
    ("n_unreplayed", c_size_t), ("single_node_share", c_double), ("n_samples", c_size_t), ("n_failing", c_size_t),
    ("n_smallest", c_size_t), ("bisect_level", c_char_p), ("bisect_pass", c_char_p), ("bisect_reason", c_char_p),
    ("peak_memory", c_int64), ("lines", c_char_p), ("at_fault", c_char_p)]
plumb_side_info._fields_ = [
    ("size", c_size_t), ("backend", c_char_p), ("spec", c_char_p), ("version", c_char_p), ("path", c_char_p),
    ("hash", c_char_p), ("failure", c_char_p), ("signal", c_int), ("device", c_char_p), ("precision_profile", c_char_p)]
plumb_sync_point._fields_ = [
    ("size", c_size_t), ("value", c_char_p), ("node", c_char_p), ("op", c_char_p), ("module", c_char_p),
    ("source", c_char_p), ("counterpart", c_char_p), ("paired_by", c_char_p), ("relation", c_char_p),
    ("layout", c_char_p), ("confidence", c_double), ("is_input", c_int), ("is_output", c_int),
    ("metadata_match", c_int), ("metadata_reason", c_char_p), ("pair_class", c_char_p), ("propagated", c_double),
    ("local", c_double), ("amplified", c_double), ("q", c_double), ("excuse", c_char_p), ("similarity", c_char_p),
    ("verdict", c_char_p), ("reason", c_char_p), ("precision", c_char_p), ("sample", c_int64), ("accepted", c_int),
    ("dtype_a", c_int), ("dtype_b", c_int), ("rank_a", c_int), ("rank_b", c_int), ("dims_a", POINTER(c_int64)),
    ("dims_b", POINTER(c_int64)), ("has_a", c_int), ("has_b", c_int)]
plumb_blame._fields_ = [
    ("size", c_size_t), ("node", c_char_p), ("op", c_char_p), ("value", c_char_p), ("module", c_char_p),
    ("source", c_char_p), ("kind", c_char_p), ("where", c_char_p), ("q", c_double), ("effect", c_double),
    ("score", c_double), ("reason", c_char_p), ("members", POINTER(c_char_p)), ("n_members", c_size_t),
    ("samples", POINTER(c_int64)), ("n_samples", c_size_t)]
plumb_report_options._fields_ = [
    ("size", c_size_t), ("format", c_char_p), ("metric", c_char_p), ("limit", c_size_t), ("max_size", c_uint64)]
plumb_viewer_options._fields_ = [
    ("size", c_size_t), ("port", c_int), ("source", c_char_p), ("program", c_char_p), ("host", c_char_p),
    ("insecure_host", c_int), ("trust", c_int), ("files", c_char_p)]
plumb_minify_options._fields_ = [
    ("size", c_size_t), ("inputs", POINTER(plumb_inputs)), ("context", POINTER(plumb_context)), ("backend", c_char_p),
    ("timeout", c_double), ("memory_limit", c_uint64), ("threads", c_int), ("jobs", c_int), ("check", c_char_p),
    ("fail_regex", c_char_p), ("fail_code", c_int), ("check_str", c_char_p), ("accuracy", c_int), ("strict", c_int),
    ("profile", c_char_p), ("same", c_char_p), ("tol", c_double), ("signature", c_char_p), ("max_queries", c_size_t),
    ("max_time", c_double), ("output", c_char_p), ("checkpoints", c_char_p), ("strip_weights", c_int),
    ("stable_output", c_int), ("zip", c_int), ("keep_other", c_int), ("good", c_char_p), ("program", c_char_p),
    ("log", CFUNCTYPE(None, c_void_p, c_char_p)), ("log_ctx", c_void_p), ("progress", POINTER(plumb_progress)),
    ("trust", c_int), ("sandbox", c_int), ("bisect", c_int), ("pack", c_int)]
plumb_repro_summary._fields_ = [
    ("size", c_size_t), ("fails", c_int), ("signature", c_char_p), ("folder", c_char_p), ("verified", c_int),
    ("one_minimal", c_int), ("n_queries", c_size_t), ("n_runs", c_size_t), ("seconds", c_double),
    ("nodes_before", c_size_t), ("nodes_after", c_size_t), ("inputs_after", c_size_t), ("elements_after", c_int64),
    ("n_others", c_size_t), ("bisect_level", c_char_p), ("bisect_pass", c_char_p), ("bisect_reason", c_char_p)]
plumb_repro_options._fields_ = [
    ("size", c_size_t), ("level", c_int), ("inputs", POINTER(plumb_inputs)), ("backend", c_char_p),
    ("debug_dir", c_char_p), ("name", c_char_p), ("error", c_char_p), ("no_data", c_int), ("timeout", c_double),
    ("threads", c_int), ("context", POINTER(plumb_context)), ("accuracy", c_int), ("strict", c_int),
    ("profile", c_char_p), ("same", c_char_p), ("tol", c_double)]
plumb_repro_info._fields_ = [
    ("size", c_size_t), ("seed", c_uint64), ("threads", c_int), ("timeout", c_double), ("eval", c_int),
    ("backward", c_int), ("amp", c_char * 8)]
plumb_corpus_options._fields_ = [
    ("size", c_size_t), ("backends", POINTER(c_char_p)), ("n_backends", c_size_t), ("reference", c_char_p),
    ("seeds", POINTER(c_uint64)), ("n_seeds", c_size_t), ("output", c_char_p), ("shard", c_char_p), ("jobs", c_int),
    ("timeout", c_double), ("memory_limit", c_uint64), ("max_queries", c_size_t), ("max_deaths", c_int),
    ("resume", c_int), ("baseline", c_char_p), ("write_baseline", c_char_p), ("program", c_char_p),
    ("progress", POINTER(plumb_progress)), ("sandbox", c_int), ("mpi", c_int)]
plumb_corpus_summary._fields_ = [
    ("size", c_size_t), ("folder", c_char_p), ("exit_code", c_int), ("finished", c_int), ("n_models", c_size_t),
    ("n_backends", c_size_t), ("n_cases", c_size_t), ("n_groups", c_size_t), ("n_agree", c_size_t),
    ("n_diverged", c_size_t), ("n_nondeterministic", c_size_t), ("n_failed", c_size_t), ("n_timeout", c_size_t),
    ("n_skipped", c_size_t), ("n_trouble", c_size_t), ("n_died", c_size_t), ("n_missing", c_size_t)]
plumb_corpus_case._fields_ = [
    ("size", c_size_t), ("key", c_char_p), ("model", c_char_p), ("backend", c_char_p), ("data", c_char_p),
    ("seed", c_uint64), ("status", c_char_p), ("reason", c_char_p), ("group", c_char_p), ("has_session", c_int),
    ("has_repro", c_int)]
plumb_corpus_group._fields_ = [
    ("size", c_size_t), ("id", c_char_p), ("name", c_char_p), ("state", c_char_p), ("n_cases", c_size_t),
    ("n_models", c_size_t), ("n_confirmed", c_size_t), ("smallest", c_char_p), ("repro_nodes", c_size_t),
    ("first_bad", c_char_p), ("last_good", c_char_p)]
plumb_backend_info._fields_ = [
    ("size", c_size_t), ("name", c_char_p), ("summary", c_char_p), ("available", c_int), ("version", c_char_p),
    ("reason", c_char_p), ("cpu", c_char_p), ("sandbox", c_char_p)]
plumb_host._fields_ = [
    ("abi", c_uint32), ("n_bytes", c_uint32), ("kind", CFUNCTYPE(c_int, c_void_p)),
    ("tensor", CFUNCTYPE(c_void_p, c_void_p)), ("count", CFUNCTYPE(c_size_t, c_void_p)),
    ("item", CFUNCTYPE(c_void_p, c_void_p, c_size_t)), ("dtype", CFUNCTYPE(c_int, c_void_p)),
    ("rank", CFUNCTYPE(c_int, c_void_p)), ("dims", CFUNCTYPE(POINTER(c_int64), c_void_p)),
    ("data", CFUNCTYPE(c_void_p, c_void_p)), ("bytes", CFUNCTYPE(c_size_t, c_void_p)),
    ("new_tensor", CFUNCTYPE(c_int, c_int, c_int, POINTER(c_int64), c_void_p, c_size_t, POINTER(c_void_p), POINTER(plumb_error))),
    ("new_sequence", CFUNCTYPE(c_int, c_int, POINTER(c_void_p), c_size_t, POINTER(c_void_p), POINTER(plumb_error))),
    ("new_optional", CFUNCTYPE(c_int, c_int, c_void_p, POINTER(c_void_p), POINTER(plumb_error))),
    ("ref", CFUNCTYPE(c_void_p, c_void_p)), ("unref", CFUNCTYPE(None, c_void_p)),
    ("fail", CFUNCTYPE(c_int, POINTER(plumb_error), c_int, c_char_p))]
plumb_option._fields_ = [("key", c_char_p), ("value", c_char_p)]
plumb_option_def._fields_ = [("key", c_char_p), ("values", c_char_p), ("help", c_char_p)]
plumb_source._fields_ = [
    ("onnx", c_void_p), ("n_onnx", c_size_t), ("path", c_char_p), ("inputs", POINTER(c_char_p)),
    ("n_inputs", c_size_t), ("outputs", POINTER(c_char_p)), ("n_outputs", c_size_t), ("graph", c_void_p),
    ("seed", c_uint64), ("threads", c_int), ("any_shape", c_int), ("record", c_int)]
plumb_seen._fields_ = [
    ("name", c_char_p), ("datum", c_void_p), ("stands_for", POINTER(c_char_p)), ("n_stands_for", c_size_t)]
plumb_hook._fields_ = [
    ("value", CFUNCTYPE(c_int, c_void_p, POINTER(plumb_seen), POINTER(plumb_error))), ("ctx", c_void_p),
    ("names", POINTER(c_char_p)), ("n_names", c_size_t)]
plumb_record_info._fields_ = [
    ("n_values", c_size_t), ("n_seen", c_size_t), ("n_hidden", c_size_t), ("n_disturbed", c_size_t),
    ("n_runs", c_size_t), ("differs", c_int)]
plumb_run_args._fields_ = [
    ("in", POINTER(c_void_p)), ("n_in", c_size_t), ("out", POINTER(c_void_p)), ("n_out", c_size_t),
    ("hook", POINTER(plumb_hook)), ("mode", c_size_t), ("plain", POINTER(c_void_p)), ("memory_limit", c_uint64),
    ("record", POINTER(plumb_record_info))]
plumb_backend._fields_ = [
    ("abi", c_uint32), ("n_bytes", c_uint32), ("flags", c_uint32), ("name", c_char_p), ("summary", c_char_p),
    ("options", POINTER(plumb_option_def)), ("n_options", c_size_t),
    ("open", CFUNCTYPE(c_int, POINTER(plumb_host), POINTER(plumb_option), c_size_t, POINTER(c_void_p), POINTER(plumb_error))),
    ("close", CFUNCTYPE(None, c_void_p)), ("version", CFUNCTYPE(c_char_p, c_void_p)),
    ("supports", CFUNCTYPE(c_int, c_void_p, c_char_p, c_char_p, c_int)),
    ("compile", CFUNCTYPE(c_int, c_void_p, POINTER(plumb_source), POINTER(c_void_p), POINTER(c_size_t), POINTER(plumb_error))),
    ("run", CFUNCTYPE(c_int, c_void_p, POINTER(plumb_run_args), POINTER(plumb_error))),
    ("record_modes", CFUNCTYPE(POINTER(c_char_p), c_void_p)),
    ("executed", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_size_t), POINTER(plumb_error))),
    ("synchronize", CFUNCTYPE(c_int, c_void_p, POINTER(plumb_error))), ("free", CFUNCTYPE(None, c_void_p)),
    ("passes", POINTER(c_char_p)), ("levels", POINTER(c_char_p)), ("device", CFUNCTYPE(c_char_p, c_void_p)),
    ("placement", CFUNCTYPE(c_int, c_void_p, POINTER(c_char_p), POINTER(plumb_error))), ("devices", POINTER(c_char_p))]
plumb_metric._fields_ = [
    ("abi", c_uint32), ("n_bytes", c_uint32), ("name", c_char_p), ("summary", c_char_p), ("unit", c_char_p),
    ("higher_is_better", c_int),
    ("value", CFUNCTYPE(c_int, POINTER(plumb_host), c_void_p, c_void_p, POINTER(c_double), POINTER(plumb_error)))]
plumb_wrap_options._fields_ = [
    ("size", c_size_t), ("level", c_int), ("spec", c_char_p), ("name", c_char_p), ("debug_dir", c_char_p),
    ("no_data", c_int), ("log", CFUNCTYPE(None, c_void_p, c_char_p)), ("log_ctx", c_void_p)]

FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "plumb_version": (c_char_p, []),
    "plumb_version_number": (c_int, []),
    "plumb_status_name": (c_char_p, [c_int]),
    "plumb_exit_code": (c_int, [c_int]),
    "plumb_free": (None, [c_void_p]),
    "plumb_abandon": (None, []),
    "plumb_guard_main": (c_int, [c_int, POINTER(c_void_p)]),
    "plumb_options_init": (c_int, [c_int, c_void_p, c_size_t]),
    "plumb_tensor_new": (c_int, [
        c_int, c_int, POINTER(c_int64), c_void_p, c_size_t, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_tensor_wrap": (c_int, [
        c_int, c_int, POINTER(c_int64), c_void_p, c_size_t, CFUNCTYPE(None, c_void_p), c_void_p, POINTER(c_void_p),
        POINTER(plumb_error)]),
    "plumb_tensor_ref": (c_void_p, [c_void_p]),
    "plumb_tensor_free": (None, [c_void_p]),
    "plumb_tensor_dtype": (c_int, [c_void_p]),
    "plumb_tensor_rank": (c_int, [c_void_p]),
    "plumb_tensor_dims": (POINTER(c_int64), [c_void_p]),
    "plumb_tensor_elements": (c_int64, [c_void_p]),
    "plumb_tensor_data": (c_void_p, [c_void_p]),
    "plumb_tensor_bytes": (c_size_t, [c_void_p]),
    "plumb_dtype_name": (c_char_p, [c_int]),
    "plumb_dtype_bytes": (c_size_t, [c_int]),
    "plumb_model_open": (c_int, [c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_model_open_memory": (c_int, [c_void_p, c_size_t, c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_model_close": (None, [c_void_p]),
    "plumb_model_inputs": (c_size_t, [c_void_p]),
    "plumb_model_outputs": (c_size_t, [c_void_p]),
    "plumb_model_nodes": (c_size_t, [c_void_p]),
    "plumb_model_input_name": (c_char_p, [c_void_p, c_size_t]),
    "plumb_model_output_name": (c_char_p, [c_void_p, c_size_t]),
    "plumb_model_input_dtype": (c_int, [c_void_p, c_size_t]),
    "plumb_model_output_dtype": (c_int, [c_void_p, c_size_t]),
    "plumb_model_input_dims": (c_int, [c_void_p, c_size_t, POINTER(c_int64), c_size_t]),
    "plumb_model_output_dims": (c_int, [c_void_p, c_size_t, POINTER(c_int64), c_size_t]),
    "plumb_model_node": (c_int, [c_void_p, c_size_t, POINTER(plumb_node)]),
    "plumb_model_node_input": (c_char_p, [c_void_p, c_size_t, c_size_t]),
    "plumb_model_node_output": (c_char_p, [c_void_p, c_size_t, c_size_t]),
    "plumb_model_bytes": (c_int, [c_void_p, POINTER(c_void_p), POINTER(c_size_t), POINTER(plumb_error)]),
    "plumb_model_restrict": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, POINTER(plumb_error)]),
    "plumb_info": (c_int, [c_void_p, POINTER(plumb_info_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_info_tensors": (c_int, [c_char_p, c_int, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_model_transform": (c_int, [
        c_void_p, POINTER(plumb_transform_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_convert": (c_int, [c_void_p, c_char_p, POINTER(plumb_convert_options), POINTER(plumb_error)]),
    "plumb_ops": (c_int, [c_int, c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_write_check": (c_int, [POINTER(plumb_write_options), POINTER(plumb_error)]),
    "plumb_run": (c_int, [c_void_p, POINTER(plumb_run_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_run_result_free": (None, [c_void_p]),
    "plumb_run_result_outputs": (c_size_t, [c_void_p]),
    "plumb_run_result_name": (c_char_p, [c_void_p, c_size_t]),
    "plumb_run_result_tensor": (c_void_p, [c_void_p, c_size_t]),
    "plumb_run_result_find": (c_void_p, [c_void_p, c_char_p]),
    "plumb_run_result_file": (c_char_p, [c_void_p, c_size_t]),
    "plumb_run_result_times": (c_int, [c_void_p, POINTER(plumb_run_times)]),
    "plumb_run_result_nodes": (c_size_t, [c_void_p]),
    "plumb_run_result_node": (c_int, [c_void_p, c_size_t, POINTER(plumb_node_time)]),
    "plumb_run_result_write": (c_int, [
        c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_check": (c_int, [c_void_p, POINTER(plumb_check_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_check_result_free": (None, [c_void_p]),
    "plumb_check_result_exit_code": (c_int, [c_void_p]),
    "plumb_check_result_status": (c_char_p, [c_void_p]),
    "plumb_check_result_error": (c_char_p, [c_void_p]),
    "plumb_check_result_outputs": (c_size_t, [c_void_p]),
    "plumb_check_result_output": (c_int, [c_void_p, c_size_t, POINTER(plumb_check_output)]),
    "plumb_check_result_write": (c_int, [
        c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_test": (c_int, [
        POINTER(c_char_p), c_size_t, POINTER(plumb_test_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_test_report_free": (None, [c_void_p]),
    "plumb_test_report_passed": (c_size_t, [c_void_p]),
    "plumb_test_report_failed": (c_size_t, [c_void_p]),
    "plumb_test_report_skipped": (c_size_t, [c_void_p]),
    "plumb_test_report_cases": (c_size_t, [c_void_p]),
    "plumb_test_report_case": (c_int, [c_void_p, c_size_t, POINTER(plumb_test_case)]),
    "plumb_test_report_write": (c_int, [
        c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_metric_count": (c_size_t, []),
    "plumb_metric_name": (c_char_p, [c_size_t]),
    "plumb_measure": (c_int, [c_void_p, c_void_p, POINTER(c_double), POINTER(c_int), POINTER(plumb_error)]),
    "plumb_logit_metric_count": (c_size_t, []),
    "plumb_logit_metric_name": (c_char_p, [c_size_t]),
    "plumb_measure_logits": (c_int, [
        c_void_p, c_void_p, POINTER(c_int64), c_size_t, POINTER(c_double), POINTER(plumb_error)]),
    "plumb_same_options_parse": (c_int, [c_char_p, POINTER(plumb_same_options), POINTER(plumb_error)]),
    "plumb_same": (c_int, [
        c_void_p, c_void_p, c_void_p, POINTER(plumb_same_options), POINTER(plumb_same_result), POINTER(plumb_error)]),
    "plumb_recorder_open": (c_int, [
        c_char_p, POINTER(plumb_recorder_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_recorder_write": (c_int, [
        c_void_p, c_char_p, c_int, c_int, POINTER(c_int64), POINTER(c_int64), c_void_p, POINTER(plumb_error)]),
    "plumb_recorder_close": (c_int, [c_void_p, POINTER(plumb_error)]),
    "plumb_recorder_abandon": (None, [c_void_p]),
    "plumb_record": (c_int, [c_void_p, POINTER(plumb_record_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_record_result_free": (None, [c_void_p]),
    "plumb_record_result_path": (c_char_p, [c_void_p]),
    "plumb_record_result_values": (c_size_t, [c_void_p]),
    "plumb_record_result_bytes": (c_uint64, [c_void_p]),
    "plumb_record_result_seconds": (c_double, [c_void_p]),
    "plumb_record_result_observer_effect": (c_int, [c_void_p]),
    "plumb_record_result_notes": (c_size_t, [c_void_p]),
    "plumb_record_result_note": (c_char_p, [c_void_p, c_size_t]),
    "plumb_record_result_write": (c_int, [
        c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_recording_open": (c_int, [c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_recording_close": (None, [c_void_p]),
    "plumb_recording_format": (c_char_p, [c_void_p]),
    "plumb_recording_count": (c_size_t, [c_void_p]),
    "plumb_recording_get": (c_int, [c_void_p, c_size_t, POINTER(plumb_recorded)]),
    "plumb_recording_read": (c_int, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_store_ls": (c_int, [c_char_p, c_int, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_store_verify": (c_int, [c_char_p, c_int, POINTER(c_size_t), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_store_gc": (c_int, [c_char_p, c_int, c_int, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_mpi_plain_tasks": (c_int, []),
    "plumb_compare": (c_int, [
        c_char_p, c_char_p, POINTER(plumb_compare_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_nearest": (c_char_p, [c_char_p, POINTER(c_char_p), c_size_t]),
    "plumb_analyze": (c_int, [c_void_p, POINTER(plumb_analyze_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_generate": (c_int, [c_void_p, POINTER(plumb_generate_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_generate_explain": (c_int, [
        c_void_p, POINTER(plumb_generate_options), c_int, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_ids_read": (c_int, [c_char_p, POINTER(POINTER(c_int64)), POINTER(c_size_t), POINTER(plumb_error)]),
    "plumb_generation_free": (None, [c_void_p]),
    "plumb_generation_get": (c_int, [c_void_p, POINTER(plumb_generation_summary)]),
    "plumb_generation_steps": (c_size_t, [c_void_p]),
    "plumb_generation_step": (c_int, [c_void_p, c_size_t, POINTER(plumb_step)]),
    "plumb_generation_analyses": (c_size_t, [c_void_p]),
    "plumb_generation_session": (c_void_p, [c_void_p, c_size_t, POINTER(c_int64)]),
    "plumb_generation_tests": (c_size_t, [c_void_p]),
    "plumb_generation_test": (c_int, [c_void_p, c_size_t, POINTER(plumb_self_test)]),
    "plumb_generation_write": (c_int, [
        c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_session_open": (c_int, [c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_session_free": (None, [c_void_p]),
    "plumb_session_get": (c_int, [c_void_p, POINTER(plumb_session_summary)]),
    "plumb_session_verdict": (c_char_p, [c_void_p]),
    "plumb_session_reason": (c_char_p, [c_void_p]),
    "plumb_session_exit_code": (c_int, [c_void_p]),
    "plumb_session_side": (c_int, [c_void_p, c_char, POINTER(plumb_side_info)]),
    "plumb_session_points": (c_size_t, [c_void_p]),
    "plumb_session_point": (c_int, [c_void_p, c_size_t, POINTER(plumb_sync_point)]),
    "plumb_session_find": (c_size_t, [c_void_p, c_char_p]),
    "plumb_session_output": (c_size_t, [c_void_p, c_size_t]),
    "plumb_session_metric": (c_double, [c_void_p, c_size_t, c_char_p]),
    "plumb_session_count": (c_size_t, [c_void_p, c_char_p]),
    "plumb_session_blames": (c_size_t, [c_void_p]),
    "plumb_session_blame": (c_int, [c_void_p, c_size_t, POINTER(plumb_blame)]),
    "plumb_session_note": (c_char_p, [c_void_p, c_size_t]),
    "plumb_session_timing": (c_char_p, [c_void_p, c_size_t, POINTER(c_double)]),
    "plumb_session_failing": (c_int64, [c_void_p, c_size_t]),
    "plumb_session_smallest": (c_int64, [c_void_p, c_size_t]),
    "plumb_session_tensor": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_session_write": (c_int, [c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_analyze_many": (c_int, [
        c_void_p, POINTER(plumb_analyze_options), POINTER(c_char_p), c_size_t, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_sessions_exit_code": (c_int, [POINTER(c_void_p), c_size_t]),
    "plumb_sessions_write": (c_int, [
        POINTER(c_void_p), c_size_t, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_report": (c_int, [
        c_char_p, c_char_p, POINTER(plumb_report_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_viewer_open": (c_int, [c_char_p, POINTER(plumb_viewer_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_viewer_link": (c_char_p, [c_void_p]),
    "plumb_viewer_close": (None, [c_void_p]),
    "plumb_minify": (c_int, [c_void_p, POINTER(plumb_minify_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_minify_query": (c_int, [c_void_p, POINTER(plumb_minify_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_repro_free": (None, [c_void_p]),
    "plumb_repro_get": (c_int, [c_void_p, POINTER(plumb_repro_summary)]),
    "plumb_repro_other": (c_char_p, [c_void_p, c_size_t, POINTER(c_size_t)]),
    "plumb_repro_write": (c_int, [c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_repro_dump": (c_int, [c_void_p, POINTER(plumb_repro_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_repro_read": (c_int, [c_char_p, POINTER(plumb_repro_info), POINTER(plumb_error)]),
    "plumb_faults_missed": (c_int, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_corpus_run": (c_int, [c_char_p, POINTER(plumb_corpus_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_corpus_plan": (c_int, [
        c_char_p, POINTER(plumb_corpus_options), c_int, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_corpus_merge": (c_int, [
        POINTER(c_char_p), c_size_t, POINTER(plumb_corpus_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_corpus_open": (c_int, [c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_corpus_free": (None, [c_void_p]),
    "plumb_corpus_get": (c_int, [c_void_p, POINTER(plumb_corpus_summary)]),
    "plumb_corpus_get_case": (c_int, [c_void_p, c_size_t, POINTER(plumb_corpus_case)]),
    "plumb_corpus_get_group": (c_int, [c_void_p, c_size_t, POINTER(plumb_corpus_group)]),
    "plumb_corpus_write": (c_int, [c_void_p, POINTER(plumb_write_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_corpus_diff": (c_int, [c_void_p, c_void_p, c_int, POINTER(c_int), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_corpus_worker": (c_int, [c_char_p, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_backends": (c_int, [c_int, POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_backend_list_new": (c_int, [POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_backend_list_free": (None, [c_void_p]),
    "plumb_backend_list_count": (c_size_t, [c_void_p]),
    "plumb_backend_list_get": (c_int, [c_void_p, c_size_t, POINTER(plumb_backend_info)]),
    "plumb_host_get": (POINTER(plumb_host), []),
    "plumb_wrap_backend": (c_int, [
        POINTER(plumb_backend), c_void_p, POINTER(plumb_wrap_options), POINTER(c_void_p), POINTER(plumb_error)]),
    "plumb_wrapped_backend": (POINTER(plumb_backend), [c_void_p]),
    "plumb_wrapped_free": (None, [c_void_p]),
}
