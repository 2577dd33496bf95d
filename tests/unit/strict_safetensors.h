/* A reader of safetensors that shares no code with plumb's: it checks a file against the
 * specification (README and lib.rs of huggingface/safetensors) and against what torch needs of it,
 * every tensor aligned to its elements. NULL when all is well, else what is wrong. */
#ifndef PL_STRICT_SAFETENSORS_H
#define PL_STRICT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRICT_MAX = 4000, STRICT_NAME = 200 };

typedef struct strict_tensor {
    char name[STRICT_NAME], dtype[16];
    int64_t dims[20];
    int rank;
    uint64_t begin, end;
} strict_tensor;

typedef struct strict_file {
    unsigned char *bytes;
    size_t n_bytes, data_start;
    strict_tensor *tensors;
    int n_tensors;
    char *metadata[64][2];
    int n_metadata;
    const char *at, *stop;
    bool bad;
} strict_file;

static inline void strict_space(strict_file *f) {
    while (f->at < f->stop && strchr(" \t\r\n", *f->at) != NULL)
        f->at++;
}

static inline bool strict_take(strict_file *f, char c) {
    strict_space(f);
    if (f->at < f->stop && *f->at == c) {
        f->at++;
        return true;
    }
    return false;
}

static inline void strict_want(strict_file *f, char c) {
    if (!strict_take(f, c)) f->bad = true;
}

/* The decoded string; the caller frees. */
static inline char *strict_string(strict_file *f) {
    char *out = malloc((size_t)(f->stop - f->at) + 1), *p = out;
    strict_want(f, '"');
    while (!f->bad && f->at < f->stop && *f->at != '"') {
        unsigned char c = (unsigned char)*f->at++;
        if (c < 0x20) f->bad = true;
        if (c == '\\' && f->at < f->stop) {
            c = (unsigned char)*f->at++;
            const char *known = strchr("\"\\/bfnrt", c);
            if (c == 'u') {
                const unsigned long code =
                    strtoul((char[5]){ f->at[0], f->at[1], f->at[2], f->at[3] }, NULL, 16);
                f->at += 4;
                if (code == 0 || code > 0x7f) f->bad = true; /* plumb escapes control codes only */
                c = (unsigned char)code;
            } else if (known == NULL || c == '\0') {
                f->bad = true;
            } else {
                c = (unsigned char)"\"\\/\b\f\n\r\t"[known - "\"\\/bfnrt"];
            }
        }
        *p++ = (char)c;
    }
    *p = '\0';
    if (f->at >= f->stop)
        f->bad = true;
    else
        f->at++;
    return out;
}

static inline uint64_t strict_number(strict_file *f) {
    uint64_t v = 0;
    strict_space(f);
    const char *start = f->at;
    while (f->at < f->stop && *f->at >= '0' && *f->at <= '9')
        v = v * 10 + (uint64_t)(*f->at++ - '0');
    if (f->at == start || f->at - start > 19 || (*start == '0' && f->at - start > 1)) f->bad = true;
    return v;
}

static inline void strict_tensor_fields(strict_file *f, strict_tensor *t) {
    int seen = 0;
    strict_want(f, '{');
    do {
        char *key = strict_string(f);
        strict_want(f, ':');
        if (strcmp(key, "dtype") == 0 && !(seen & 1)) {
            char *text = strict_string(f);
            snprintf(t->dtype, sizeof t->dtype, "%s", text);
            free(text);
            seen |= 1;
        } else if (strcmp(key, "shape") == 0 && !(seen & 2)) {
            strict_want(f, '[');
            if (!strict_take(f, ']')) {
                do
                    t->dims[t->rank++] = (int64_t)strict_number(f);
                while (!f->bad && t->rank < 20 && strict_take(f, ','));
                strict_want(f, ']');
            }
            seen |= 2;
        } else if (strcmp(key, "data_offsets") == 0 && !(seen & 4)) {
            strict_want(f, '[');
            t->begin = strict_number(f);
            strict_want(f, ',');
            t->end = strict_number(f);
            strict_want(f, ']');
            seen |= 4;
        } else {
            f->bad = true;
        }
        free(key);
    } while (!f->bad && strict_take(f, ','));
    strict_want(f, '}');
    if (seen != 7) f->bad = true;
}

static inline void strict_metadata(strict_file *f) {
    strict_want(f, '{');
    if (strict_take(f, '}')) return;
    do {
        if (f->n_metadata == 64) {
            f->bad = true;
            return;
        }
        char **pair = f->metadata[f->n_metadata++];
        pair[0] = strict_string(f);
        strict_want(f, ':');
        pair[1] = strict_string(f); /* strings only */
    } while (!f->bad && strict_take(f, ','));
    strict_want(f, '}');
}

static inline size_t strict_size(const char *dtype) {
    static const char *const names[] = { "F64",     "I64",     "U64",  "F32", "I32",
                                         "U32",     "F16",     "BF16", "I16", "U16",
                                         "F8_E4M3", "F8_E5M2", "I8",   "U8",  "BOOL" };
    static const size_t sizes[] = { 8, 8, 8, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(names[i], dtype) == 0) return sizes[i];
    return 0;
}

static inline int strict_by_offset(const void *a, const void *b) {
    const strict_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static inline const char *strict_check(strict_file *f) {
    uint64_t at = 0;
    qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, strict_by_offset);
    for (int i = 0; i < f->n_tensors; i++) {
        const strict_tensor *t = &f->tensors[i];
        const size_t size = strict_size(t->dtype);
        uint64_t want = size;
        if (size == 0) return "an unknown dtype";
        for (int k = 0; k < t->rank; k++)
            want *= (uint64_t)t->dims[k];
        if (t->begin != at) return "a hole or an overlap";
        if (t->end < t->begin || t->end - t->begin != want) return "a wrong size";
        if ((f->data_start + t->begin) % size != 0) return "a tensor that is not aligned";
        at = t->end;
        for (int k = 0; k < i; k++)
            if (strcmp(f->tensors[k].name, t->name) == 0) return "a name twice";
    }
    return f->data_start + at == f->n_bytes ? NULL : "data beyond the last tensor";
}

static inline const char *strict_open(const char *path, strict_file *f) {
    memset(f, 0, sizeof *f);
    FILE *in = fopen(path, "rb");
    if (in == NULL) return "cannot open";
    fseek(in, 0, SEEK_END);
    f->n_bytes = (size_t)ftell(in);
    rewind(in);
    f->bytes = malloc(f->n_bytes + 1);
    f->tensors = calloc(STRICT_MAX, sizeof *f->tensors);
    const size_t n_read = fread(f->bytes, 1, f->n_bytes, in);
    fclose(in);
    uint64_t n = 0;
    if (n_read != f->n_bytes || f->n_bytes < 8) return "too short";
    for (int i = 7; i >= 0; i--)
        n = n << 8 | f->bytes[i];
    if (n > 100000000 || n > f->n_bytes - 8) return "a wrong header length";
    f->data_start = 8 + (size_t)n;
    f->at = (const char *)f->bytes + 8;
    f->stop = f->at + n;
    if (n == 0 || *f->at != '{') return "the header does not begin with {";
    strict_want(f, '{');
    if (!strict_take(f, '}')) {
        do {
            char *name = strict_string(f);
            strict_want(f, ':');
            if (strcmp(name, "__metadata__") == 0) {
                strict_metadata(f);
            } else if (f->n_tensors == STRICT_MAX || strlen(name) >= STRICT_NAME) {
                f->bad = true;
            } else {
                strict_tensor *t = &f->tensors[f->n_tensors++];
                snprintf(t->name, sizeof t->name, "%s", name);
                strict_tensor_fields(f, t);
            }
            free(name);
        } while (!f->bad && strict_take(f, ','));
        strict_want(f, '}');
    }
    while (f->at < f->stop)
        if (*f->at++ != ' ') f->bad = true; /* padding is spaces only */
    return f->bad ? "malformed JSON" : strict_check(f);
}

static inline const strict_tensor *strict_find(const strict_file *f, const char *name) {
    for (int i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

static inline const char *strict_meta(const strict_file *f, const char *key) {
    for (int i = 0; i < f->n_metadata; i++)
        if (strcmp(f->metadata[i][0], key) == 0) return f->metadata[i][1];
    return NULL;
}

static inline void strict_close(strict_file *f) {
    for (int i = 0; i < f->n_metadata; i++) {
        free(f->metadata[i][0]);
        free(f->metadata[i][1]);
    }
    free(f->bytes);
    free(f->tensors);
}

#endif
