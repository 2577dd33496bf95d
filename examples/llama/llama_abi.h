/* What record_llama uses of libllama and ggml, and the checks that a library really has it.
 *
 * Facts from llama.cpp's include/llama.h, ggml/include/ggml.h and ggml-backend.h. The structs of
 * parameters have no version; offsets are those of the library that tools/fetch-llama pins, and
 * llama_abi_open compares size and defaults of what the library returns with them. */
#ifndef LLAMA_ABI_H
#define LLAMA_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LLAMA_F32 = 0, LLAMA_F16 = 1, LLAMA_I32 = 26, LLAMA_I64 = 27, LLAMA_BF16 = 30 };
enum { LLAMA_SOURCES = 10, LLAMA_MODEL_BYTES = 80, LLAMA_CONTEXT_BYTES = 160 };

typedef struct llama_tensor { /* struct ggml_tensor */
    int type;
    void *buffer;
    int64_t ne[4]; /* elements; the innermost axis first */
    size_t nb[4];  /* strides in bytes */
    int op;
    int32_t op_params[16];
    int32_t flags;
    struct llama_tensor *src[LLAMA_SOURCES];
    struct llama_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[64];
} llama_tensor;

typedef struct llama_batch {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
} llama_batch;

/* Passed by value: bytes, because what matters of them is looked up by offset. */
typedef struct llama_model_params {
    _Alignas(8) unsigned char bytes[LLAMA_MODEL_BYTES];
} llama_model_params;
typedef struct llama_context_params {
    _Alignas(8) unsigned char bytes[LLAMA_CONTEXT_BYTES];
} llama_context_params;

typedef bool (*llama_on_node)(llama_tensor *t, bool ask, void *ctx);
typedef void (*llama_on_log)(int level, const char *text, void *ctx);

/* X(result, name, parameters) */
#define LLAMA_FUNCTIONS(X)                                                                         \
    X(const char *, llama_version, (void))                                                         \
    X(void, llama_log_set, (llama_on_log, void *))                                                 \
    X(void, llama_backend_init, (void))                                                            \
    X(llama_model_params, llama_model_default_params, (void))                                      \
    X(llama_context_params, llama_context_default_params, (void))                                  \
    X(void *, llama_model_load_from_file, (const char *, llama_model_params))                      \
    X(void, llama_model_free, (void *))                                                            \
    X(void *, llama_init_from_model, (void *, llama_context_params))                               \
    X(void, llama_free, (void *))                                                                  \
    X(void *, llama_get_memory, (const void *))                                                    \
    X(bool, llama_memory_seq_rm, (void *, int32_t, int32_t, int32_t))                              \
    X(const void *, llama_model_get_vocab, (const void *))                                         \
    X(int32_t, llama_vocab_n_tokens, (const void *))                                               \
    X(int32_t, llama_model_n_head, (const void *))                                                 \
    X(int32_t, llama_model_n_head_kv, (const void *))                                              \
    X(int32_t, llama_model_meta_val_str, (const void *, const char *, char *, size_t))             \
    X(llama_batch, llama_batch_init, (int32_t, int32_t, int32_t))                                  \
    X(void, llama_batch_free, (llama_batch))                                                       \
    X(int32_t, llama_decode, (void *, llama_batch))                                                \
    X(float *, llama_get_logits, (void *))                                                         \
    X(void, ggml_backend_load_all_from_path, (const char *))                                       \
    X(const char *, ggml_op_name, (int))                                                           \
    X(const char *, ggml_type_name, (int))                                                         \
    X(const char *, ggml_get_name, (const llama_tensor *))                                         \
    X(void *, ggml_get_data, (const llama_tensor *))                                               \
    X(int64_t, ggml_nelements, (const llama_tensor *))                                             \
    X(size_t, ggml_nbytes, (const llama_tensor *))                                                 \
    X(void, ggml_fp32_to_fp16_row, (const float *, uint16_t *, int64_t))                           \
    X(void, ggml_fp16_to_fp32_row, (const uint16_t *, float *, int64_t))                           \
    X(void, ggml_backend_tensor_get, (const llama_tensor *, void *, size_t, size_t))

#define LLAMA_MEMBER(result, name, parameters) result(*name) parameters;
typedef struct llama_abi {
    LLAMA_FUNCTIONS(LLAMA_MEMBER)
    llama_model_params model_defaults;
    llama_context_params context_defaults;
} llama_abi;
#undef LLAMA_MEMBER

typedef struct llama_settings {
    uint32_t n_tokens; /* that the context must hold */
    int threads;
    bool flash, f16_cache;
    llama_on_node on_node;
    void *ctx;
} llama_settings;

/* Opens libllama* in a folder. NULL, or why not: a static text. */
const char *llama_abi_open(llama_abi *abi, const char *folder);
/* NULL: llama_abi_last_error() says why. `repack`: weights in the order that this CPU likes. */
void *llama_abi_load(const llama_abi *abi, const char *path, bool repack);
void *llama_abi_context(const llama_abi *abi, void *model, const llama_settings *settings);
const char *llama_abi_last_error(void); /* what libllama logged last as an error */
/* Do the library's own functions find in it what this header finds? */
bool llama_abi_tensor_fits(const llama_abi *abi, const llama_tensor *t);
void llama_abi_check_batch(const llama_batch *b); /* ends the program when it does not fit */

#endif
