/* The choice of instruction set, and what is said about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vmath.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static void test_cpu__environment_holds_down_but_never_up(void **state) {
    (void)state;
    const char *wish = getenv("PLUMB_CPU");
    assert_true(pl_cpu_has(pl_cpu_isa()) && pl_cpu_has(pl_cpu_isa_max()));
    if (wish == NULL) assert_int_equal(pl_cpu_isa(), pl_cpu_isa_max());
    for (int i = 0; wish != NULL && i < PL_ISA_COUNT; i++)
        if (strcmp(wish, pl_isa_name((pl_isa)i)) == 0)
            assert_int_equal(pl_cpu_isa(), pl_cpu_has((pl_isa)i) ? (pl_isa)i : pl_cpu_isa_max());
}

static void test_cpu__tables_exist_up_to_what_the_machine_has(void **state) {
    (void)state;
    assert_ptr_equal(pl_vmath_get(), pl_vmath_of(pl_cpu_isa()));
    for (int i = 0; i < PL_ISA_COUNT; i++) {
        const pl_vmath *v = pl_vmath_of((pl_isa)i);
        if (!pl_cpu_has((pl_isa)i)) {
            assert_null(v);
            continue;
        }
        assert_int_equal(v->isa, i);
        void (*const *f)(void) = (void (*const *)(void))(const void *)&v->f32;
        for (size_t j = 0; j < sizeof v->f32 / sizeof *f; j++)
            assert_true(f[j] != NULL);
        f = (void (*const *)(void))(const void *)&v->f64;
        for (size_t j = 0; j < sizeof v->f64 / sizeof *f; j++)
            assert_true(f[j] != NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu__environment_holds_down_but_never_up),
        cmocka_unit_test(test_cpu__tables_exist_up_to_what_the_machine_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
