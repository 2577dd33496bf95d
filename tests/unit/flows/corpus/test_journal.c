/* Journals: what counts as a death, which result counts, what a cut-off line is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "flows/corpus/journal.h"
/* cmocka comes last */
#include <cmocka.h>

typedef struct parsed {
    pl_arena *arena;
    pl_journal_read read;
    pl_err err;
    pl_status st;
} parsed;

static parsed parse(const char *text) {
    parsed p = { .arena = pl_arena_new() };
    assert_non_null(p.arena);
    p.st = pl_journal_parse(text, strlen(text), "j", p.arena, &p.read, &p.err);
    return p;
}

static void release(parsed *p) {
    pl_journal_read_release(&p->read);
    pl_arena_free(p->arena);
}

static const pl_journal_entry *get(const parsed *p, const char *key) {
    const pl_journal_entry *e = pl_strmap_get(&p->read.entries, key);
    assert_non_null(e);
    return e;
}

#define OPEN "{\"t\":\"open\"}\n"
#define START(k) "{\"t\":\"start\",\"key\":\"" k "\"}\n"
#define DONE(k, s)                                                                                 \
    "{\"t\":\"done\",\"key\":\"" k "\",\"seconds\":1,\"result\":{\"status\":\"" s "\"}}\n"
#define STOP "{\"t\":\"stop\"}\n"

static void test_journal__counts_deaths(void **state) {
    (void)state;
    parsed p = parse(OPEN START("a") START("b") DONE("b", "agree") OPEN START("a") OPEN START("c"));
    assert_int_equal(p.st, PL_OK);
    assert_int_equal(get(&p, "a")->n_deaths, 2);
    assert_int_equal(get(&p, "b")->n_deaths, 0);
    assert_non_null(get(&p, "b")->result);
    assert_int_equal(get(&p, "c")->n_deaths, 1); /* the end of the file is one, too */
    release(&p);
}

#define PART(k, n, text)                                                                           \
    "{\"t\":\"part\",\"key\":\"" k "\",\"seconds\":2,\"n\":" n ",\"so_far\":\"" text "\"}\n"

/* Steps of one item may be in the journals of two ranks, the later one first. */
static void test_journal__keeps_the_last_step(void **state) {
    (void)state;
    parsed p = parse(OPEN START("a") PART("a", "2", "two") START("a") OPEN START("a") PART(
        "a", "1", "one") START("b") PART("b", "1", "x") START("b") DONE("b", "agree"));
    assert_int_equal(p.st, PL_OK);
    assert_string_equal(get(&p, "a")->so_far, "two");
    assert_int_equal(get(&p, "a")->n_steps, 2);
    assert_int_equal(get(&p, "a")->n_deaths, 1); /* in its third step */
    assert_null(get(&p, "a")->result);
    assert_non_null(get(&p, "b")->result);
    assert_true(get(&p, "b")->seconds > 2.9 && get(&p, "b")->seconds < 3.1);
    release(&p);
    parsed bad = parse(PART("a", "0", "none"));
    assert_int_equal(bad.st, PL_E_FORMAT);
    release(&bad);
}

static void test_journal__a_stop_is_no_death(void **state) {
    (void)state;
    parsed p = parse(OPEN START("a") STOP OPEN START("a") STOP);
    assert_int_equal(p.st, PL_OK);
    assert_int_equal(get(&p, "a")->n_deaths, 0);
    assert_null(get(&p, "a")->result);
    release(&p);
}

static void test_journal__the_first_result_counts(void **state) {
    (void)state;
    parsed p = parse(START("a") DONE("a", "agree") START("a") DONE("a", "failed"));
    assert_int_equal(p.st, PL_OK);
    assert_string_equal(pl_json_find(get(&p, "a")->result, "status")->string, "agree");
    assert_int_equal(p.read.n_repeated, 1);
    release(&p);
}

static void test_journal__a_line_cut_off_is_dropped(void **state) {
    (void)state;
    parsed p = parse(START("a") "{\"t\":\"done\",\"key\":\"a\",\"seco");
    assert_int_equal(p.st, PL_OK);
    assert_null(get(&p, "a")->result);
    assert_int_equal(get(&p, "a")->n_deaths, 1);
    release(&p);
}

static void test_journal__names_a_bad_line(void **state) {
    (void)state;
    parsed p = parse(OPEN "{\"t\":\"start\"}\n" START("a"));
    assert_int_equal(p.st, PL_E_FORMAT);
    assert_non_null(strstr(p.err.message, "j:2"));
    release(&p);
    p = parse("nonsense\n");
    assert_int_equal(p.st, PL_E_FORMAT);
    release(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal__counts_deaths),
        cmocka_unit_test(test_journal__keeps_the_last_step),
        cmocka_unit_test(test_journal__a_stop_is_no_death),
        cmocka_unit_test(test_journal__the_first_result_counts),
        cmocka_unit_test(test_journal__a_line_cut_off_is_dropped),
        cmocka_unit_test(test_journal__names_a_bad_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
