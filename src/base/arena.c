/* The arena: a list of blocks, the first of which is filled from front to back.
 *
 * Small blocks double from 4 KiB to 1 MiB. An object too big for a fair share of a block gets a
 * block of its own behind the current one, so that the rest of the current one is not lost.
 * Blocks come from calloc: fresh pages are zero already, only reset has to clear. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

enum {
    ALIGNMENT = 16,
    BLOCK_MIN = 4 << 10,
    BLOCK_MAX = 1 << 20,
    OWN_BLOCK_FRACTION = 4, /* an object above 1/4 of the block size gets its own */
};

typedef struct block {
    struct block *next;
    size_t n_bytes; /* as allocated, with this header */
    char *begin;    /* first object, aligned */
    char *used_end; /* valid for blocks other than the current one */
} block;

typedef struct cleanup {
    struct cleanup *next;
    void (*fn)(void *);
    void *object;
} cleanup;

struct pl_arena {
    char *at, *end; /* free space in the current block */
    block *blocks;  /* the current block first */
    cleanup *cleanups;
    size_t n_bytes;
    size_t block_bytes; /* size of the next block */
};

pl_arena *pl_arena_new(void) {
    pl_arena *arena = pl_calloc(1, sizeof *arena);
    if (arena == NULL) return NULL;
    arena->at = arena->end = (char *)arena; /* empty, but a valid pointer to subtract */
    arena->n_bytes = sizeof *arena;
    arena->block_bytes = BLOCK_MIN;
    return arena;
}

static char *align_up(char *p) {
    return p + (-(uintptr_t)p & (ALIGNMENT - 1));
}

/* Cleanups are arena objects themselves; newest first. One may register another. */
static void run_cleanups(pl_arena *arena) {
    while (arena->cleanups != NULL) {
        const cleanup c = *arena->cleanups;
        arena->cleanups = c.next;
        c.fn(c.object);
    }
}

static void free_blocks_except(pl_arena *arena, const block *keep) {
    block *b = arena->blocks;
    while (b != NULL) {
        block *next = b->next;
        if (b != keep) {
            arena->n_bytes -= b->n_bytes;
            pl_free(b);
        }
        b = next;
    }
}

void pl_arena_free(pl_arena *arena) {
    if (arena == NULL) return;
    run_cleanups(arena);
    free_blocks_except(arena, NULL);
    pl_free(arena);
}

void pl_arena_reset(pl_arena *arena) {
    run_cleanups(arena);
    if (arena->blocks == NULL) return;
    arena->blocks->used_end = arena->at;
    block *largest = arena->blocks;
    for (block *b = arena->blocks; b != NULL; b = b->next) {
        if (b->n_bytes > largest->n_bytes) largest = b;
    }
    free_blocks_except(arena, largest);
    memset(largest->begin, 0, (size_t)(largest->used_end - largest->begin));
    largest->next = NULL;
    arena->blocks = largest;
    arena->at = largest->begin;
    arena->end = (char *)largest + largest->n_bytes;
}

/* A block of at least `min_bytes` with `room` bytes after alignment; NULL when out of memory. */
static block *block_new(pl_arena *arena, size_t room, size_t min_bytes) {
    size_t n_bytes;
    if (!pl_size_add(room, sizeof(block) + ALIGNMENT, &n_bytes)) return NULL;
    if (n_bytes < min_bytes) n_bytes = min_bytes;
    block *b = pl_calloc(1, n_bytes);
    if (b == NULL) return NULL;
    b->n_bytes = n_bytes;
    b->begin = align_up((char *)(b + 1));
    b->used_end = b->begin;
    arena->n_bytes += n_bytes;
    return b;
}

/* Used when the current block is full; n_bytes is a multiple of ALIGNMENT. */
static void *alloc_slow(pl_arena *arena, size_t n_bytes) {
    const bool own = arena->blocks != NULL && n_bytes > arena->block_bytes / OWN_BLOCK_FRACTION;
    block *b = block_new(arena, n_bytes, own ? 0 : arena->block_bytes);
    if (b == NULL) return NULL;
    if (own) {
        b->used_end = b->begin + n_bytes;
        b->next = arena->blocks->next;
        arena->blocks->next = b;
        return b->begin;
    }
    if (arena->blocks != NULL) arena->blocks->used_end = arena->at;
    b->next = arena->blocks;
    arena->blocks = b;
    arena->at = b->begin + n_bytes;
    arena->end = (char *)b + b->n_bytes;
    if (arena->block_bytes < BLOCK_MAX) arena->block_bytes *= 2;
    return b->begin;
}

void *pl_arena_alloc(pl_arena *arena, size_t n_bytes) {
    if (n_bytes > SIZE_MAX - ALIGNMENT) return NULL;
    /* Zero bytes take one unit too: distinct objects have distinct addresses. */
    const size_t n = (n_bytes + (n_bytes == 0) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (n > (size_t)(arena->end - arena->at)) return alloc_slow(arena, n);
    void *p = arena->at;
    arena->at += n;
    return p;
}

void *pl_arena_array(pl_arena *arena, size_t count, size_t size) {
    size_t n_bytes;
    if (!pl_size_mul(count, size, &n_bytes)) return NULL;
    return pl_arena_alloc(arena, n_bytes);
}

char *pl_arena_strndup(pl_arena *arena, const char *s, size_t n) {
    size_t n_bytes;
    if (!pl_size_add(n, 1, &n_bytes)) return NULL;
    char *copy = pl_arena_alloc(arena, n_bytes);
    if (copy != NULL && n > 0) memcpy(copy, s, n);
    return copy; /* memory is zeroed, so the NUL is there */
}

/* A block of its own, which counts as used throughout: it is zeroed when the arena is reset. */
static void *raw_block(pl_arena *arena, size_t n_bytes) {
    size_t n;
    if (!pl_size_add(n_bytes, sizeof(block) + ALIGNMENT, &n)) return NULL;
    block *b = pl_malloc(n);
    if (b == NULL) return NULL;
    b->n_bytes = n;
    b->begin = align_up((char *)(b + 1));
    b->used_end = (char *)b + n;
    b->next = arena->blocks->next;
    arena->blocks->next = b;
    arena->n_bytes += n;
    return b->begin;
}

void *pl_arena_raw(pl_arena *arena, size_t count, size_t size) {
    size_t n_bytes;
    if (!pl_size_mul(count, size, &n_bytes)) return NULL;
    if (arena->blocks == NULL || n_bytes < BLOCK_MAX) return pl_arena_alloc(arena, n_bytes);
    return raw_block(arena, n_bytes);
}

char *pl_arena_strdup(pl_arena *arena, const char *s) {
    return pl_arena_strndup(arena, s, strlen(s));
}

char *pl_arena_printf(pl_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char *text = NULL;
    const int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0) text = pl_arena_alloc(arena, (size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

int pl_arena_defer(pl_arena *arena, void (*fn)(void *), void *object) {
    cleanup *c = pl_arena_alloc(arena, sizeof *c);
    if (c == NULL) return -1;
    c->next = arena->cleanups;
    c->fn = fn;
    c->object = object;
    arena->cleanups = c;
    return 0;
}

size_t pl_arena_bytes(const pl_arena *arena) {
    return arena->n_bytes;
}
