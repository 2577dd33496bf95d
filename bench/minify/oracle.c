/* A check for minifiers: says "fails" (exit code 1) when the wanted nodes occur in an ONNX file.
 *
 *   oracle FILE WORD…     op=TYPE, or name=NODE: each must occur
 *   oracle FILE -j WORD…  and all of them must lead to one common output of the model
 *
 * Reads the protobuf by hand, so that a query costs the tool's own work and nothing else. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_OUTPUT = 12, NODE_INPUT = 1, NODE_OUTPUT = 2 };
enum { NODE_NAME = 3, NODE_OP_TYPE = 4, VALUE_NAME = 1, WORDS_MAX = 16 };

typedef struct bytes {
    const uint8_t *at, *end;
} bytes;
typedef struct field {
    uint32_t number;
    bytes inner; /* of length-delimited fields; else empty */
} field;

static uint64_t varint(bytes *b) {
    uint64_t x = 0;
    for (int shift = 0; b->at < b->end && shift < 64; shift += 7) {
        const uint8_t byte = *b->at++;
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    return x;
}

static int next(bytes *b, field *f) {
    if (b->at >= b->end) return 0;
    const uint64_t key = varint(b);
    *f = (field){ (uint32_t)(key >> 3), { b->at, b->at } };
    switch (key & 7) {
    case 0: varint(b); return 1;
    case 1: b->at += 8; return 1;
    case 5: b->at += 4; return 1;
    case 2: break;
    default: exit(125);
    }
    const uint64_t n = varint(b);
    if (n > (uint64_t)(b->end - b->at)) exit(125);
    f->inner = (bytes){ b->at, b->at + n };
    b->at += n;
    return 1;
}

static int is(bytes b, const char *s) {
    const size_t n = strlen(s);
    return (size_t)(b.end - b.at) == n && memcmp(b.at, s, n) == 0;
}

static int same(bytes a, bytes b) {
    return a.end - a.at == b.end - b.at && memcmp(a.at, b.at, (size_t)(a.end - a.at)) == 0;
}

static int hits(bytes node, const char *word) {
    field f;
    const uint32_t wanted = strncmp(word, "op=", 3) == 0 ? NODE_OP_TYPE : NODE_NAME;
    const char *text = strchr(word, '=') + 1;
    while (next(&node, &f))
        if (f.number == wanted && is(f.inner, text)) return 1;
    return 0;
}

/* Which words lead to each value: masks by name, kept in a plain list (only used with -j). */
typedef struct reach {
    bytes name;
    uint32_t mask;
} reach;

static uint32_t mask_of(const reach *list, size_t n, bytes name) {
    for (size_t i = n; i > 0; i--)
        if (same(list[i - 1].name, name)) return list[i - 1].mask;
    return 0;
}

static int joined(bytes graph, char **words, int n_words) {
    const uint32_t all = (1u << n_words) - 1;
    field f, g;
    size_t n = 0, capacity = (size_t)(graph.end - graph.at) / 4 + 16;
    reach *list = calloc(capacity, sizeof(*list));
    bytes at = graph;
    if (list == NULL) exit(125);
    while (next(&at, &f)) {
        if (f.number != GRAPH_NODE) continue;
        uint32_t mask = 0;
        for (int i = 0; i < n_words; i++)
            if (hits(f.inner, words[i])) mask |= 1u << i;
        for (bytes b = f.inner; next(&b, &g);)
            if (g.number == NODE_INPUT) mask |= mask_of(list, n, g.inner);
        for (bytes b = f.inner; next(&b, &g);)
            if (g.number == NODE_OUTPUT && n < capacity) list[n++] = (reach){ g.inner, mask };
    }
    for (at = graph; next(&at, &f);) {
        if (f.number != GRAPH_OUTPUT) continue;
        for (bytes b = f.inner; next(&b, &g);)
            if (g.number == VALUE_NAME && mask_of(list, n, g.inner) == all) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct stat info;
    field f;
    const int join = argc > 2 && strcmp(argv[2], "-j") == 0;
    char **words = argv + 2 + join;
    const int n_words = argc - 2 - join;
    int found[WORDS_MAX] = { 0 }, n_found = 0;
    const int fd = argc < 3 || n_words > WORDS_MAX ? -1 : open(argv[1], O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0) return 125;
    const uint8_t *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return 125;
    bytes model = { data, data + info.st_size };
    while (next(&model, &f)) {
        if (f.number != MODEL_GRAPH) continue;
        if (join) return joined(f.inner, words, n_words);
        field node;
        for (bytes at = f.inner; next(&at, &node);) {
            for (int i = 0; i < n_words && node.number == GRAPH_NODE; i++)
                if (!found[i] && hits(node.inner, words[i])) found[i] = 1, n_found++;
        }
    }
    return n_found == n_words;
}
