/* XXH3: values as printed by xxh128sum and xxhsum -H3 (xxHash 0.8.1). */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

static void assert_hex(pl_hash128 hash, const char *want) {
    char hex[PL_HASH128_HEX];
    pl_hash128_hex(hash, hex);
    assert_string_equal(hex, want);
}

/* The thousand bytes (7 i + 3) mod 256. */
static void fill(unsigned char data[1000]) {
    for (int i = 0; i < 1000; i++)
        data[i] = (unsigned char)(7 * i + 3);
}

static void test_hash__agrees_with_xxhsum(void **state) {
    (void)state;
    unsigned char data[1000];
    fill(data);
    assert_true(pl_hash64("plumb", 5) == UINT64_C(0xd0e30f76347352b4));
    assert_true(pl_hash64(data, 1000) == UINT64_C(0x6c4f14bd97bd9e82));
    assert_hex(pl_hash128_of("", 0), "99aa06d3014798d86001c324468d497f");
    assert_hex(pl_hash128_of(NULL, 0), "99aa06d3014798d86001c324468d497f");
    assert_hex(pl_hash128_of("plumb", 5), "2c8a555e7af7e01d39f1321662e9f252");
    assert_hex(pl_hash128_of(data, 1000), "6bcc7eff62da44c26c4f14bd97bd9e82");
}

static void test_hasher__gives_the_same_in_pieces(void **state) {
    (void)state;
    unsigned char data[1000];
    fill(data);
    for (size_t piece = 1; piece < 1001; piece += 37) {
        pl_hasher *hasher = pl_hasher_new();
        assert_non_null(hasher);
        pl_hasher_update(hasher, NULL, 0);
        for (size_t at = 0; at < 1000; at += piece) {
            (void)pl_hasher_digest(hasher); /* asking does not disturb */
            pl_hasher_update(hasher, data + at, 1000 - at < piece ? 1000 - at : piece);
        }
        assert_hex(pl_hasher_digest(hasher), "6bcc7eff62da44c26c4f14bd97bd9e82");
        pl_hasher_free(hasher);
    }
    pl_hasher *empty = pl_hasher_new();
    assert_hex(pl_hasher_digest(empty), "99aa06d3014798d86001c324468d497f");
    pl_hasher_free(empty);
    pl_hasher_free(NULL);
}

static void test_hasher_new__reports_out_of_memory(void **state) {
    (void)state;
    pl_alloc_fail_after(0);
    pl_hasher *hasher = pl_hasher_new();
    pl_alloc_fail_after(-1);
    assert_null(hasher);
}

/* Names with the same low bits of XXH3 are easy to choose, and took 13.5 s as values of a model.
 * The maps' own hash must spread them. */
static void test_hash_in_memory__spreads_chosen_names(void **state) {
    enum { N = 1000, BITS = 10, SLOTS = 1 << BITS };
    static bool hit[SLOTS];
    char name[32];
    size_t n_chosen = 0, n_hit = 0;
    (void)state;
    for (long i = 0; n_chosen < N; i++) {
        const size_t n = (size_t)snprintf(name, sizeof name, "name_%ld", i);
        if ((pl_hash64(name, n) & (SLOTS - 1)) != 0) continue;
        const uint64_t at = pl_hash_in_memory(name, n) & (SLOTS - 1);
        n_hit += !hit[at];
        hit[at] = true;
        n_chosen++;
        assert_true(pl_hash_in_memory(name, n) == pl_hash_in_memory(name, n));
    }
    assert_true(n_hit > N / 2); /* at random 638 of 1024 places */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_in_memory__spreads_chosen_names),
        cmocka_unit_test(test_hash__agrees_with_xxhsum),
        cmocka_unit_test(test_hasher__gives_the_same_in_pieces),
        cmocka_unit_test(test_hasher_new__reports_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
