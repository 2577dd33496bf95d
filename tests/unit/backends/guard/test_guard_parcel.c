/* Parcels between plumb and a guarded child: what is written comes back, or nothing does. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>
#include <unistd.h>

#include "backends/guard/guard_parcel.h"
#include "base/alloc.h"

static pl_datum *sample(void) {
    static const int64_t dims[] = { 2, 3, 5 };
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, 3, dims, &t, NULL), PL_OK);
    for (int i = 0; i < 30; i++)
        ((float *)t->data)[i] = (float)i;
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

static void assert_is_sample(const pl_parcel *p, const pl_datum *d) {
    assert_int_equal(p->n_items, 2);
    assert_string_equal(p->items[0].name, "a name");
    assert_null(p->items[1].datum);
    const pl_tensor *t = p->items[0].datum->tensor;
    assert_true(pl_tensor_same_shape(t, d->tensor));
    assert_memory_equal(t->data, d->tensor->data, pl_tensor_bytes(t));
}

static void test_parcel__comes_back(void **state) {
    (void)state;
    pl_datum *d = sample();
    const pl_parcel_item items[] = { { (char *)(uintptr_t) "a name", d },
                                     { (char *)(uintptr_t) "", NULL } };
    pl_parcel p = { NULL, 0 };
    int fd = -1;
    assert_int_equal(pl_parcel_write(items, 2, &fd, NULL), PL_OK);
    assert_int_equal(pl_parcel_read(fd, false, &p, NULL), PL_OK);
    assert_is_sample(&p, d);
    pl_parcel_release(&p);
    close(fd);
    pl_datum_unref(d);
}

/* One allocation fails and all others do not: a description that is cut short must not be sent. */
static void test_parcel__is_whole_or_not_sent(void **state) {
    (void)state;
    pl_datum *d = sample();
    const pl_parcel_item items[] = { { (char *)(uintptr_t) "a name", d },
                                     { (char *)(uintptr_t) "", NULL } };
    size_t n_failed = 0;
    for (long n = 0; n < 60; n++) {
        pl_parcel p = { NULL, 0 };
        int fd = -1;
        pl_alloc_fail_once(n);
        const pl_status st = pl_parcel_write(items, 2, &fd, NULL);
        pl_alloc_fail_once(-1);
        n_failed += st != PL_OK;
        if (st != PL_OK) {
            assert_int_equal(st, PL_E_MEMORY);
            continue;
        }
        assert_int_equal(pl_parcel_read(fd, false, &p, NULL), PL_OK);
        assert_is_sample(&p, d);
        pl_parcel_release(&p);
        close(fd);
    }
    assert_in_range(n_failed, 3, 59);
    pl_datum_unref(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parcel__comes_back),
        cmocka_unit_test(test_parcel__is_whole_or_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
