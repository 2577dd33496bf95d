/* plumb_report. */
#include "flows/api/options.h"
#include "flows/corpus/corpus_print.h"
#include "report/html.h"

plumb_status plumb_report(const char *session, const char *path,
                          const plumb_report_options *options, char **text, plumb_error *err) {
    plumb_report_options o;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(session);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_REPORT, options, &o, err));
    pl_status st = pl_corpus_is(session) ? pl_corpus_report(session, path, o.format, &out, err)
                                         : pl_report_make(session, path, &o, &out, err);
    if (st == PL_OK) st = pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}
