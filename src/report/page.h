/* The debugger's page, embedded at build time from web/dist/page.html (tools/embed-page): what
 * stands before and after the place for the data of a report, and the policy that lets its scripts
 * run. */
#ifndef PL_PAGE_H
#define PL_PAGE_H

#include <stddef.h>

extern const unsigned char pl_page_head[], pl_page_tail[];
extern const size_t pl_page_head_bytes, pl_page_tail_bytes;
extern const char pl_page_policy[]; /* Content-Security-Policy */

#endif
