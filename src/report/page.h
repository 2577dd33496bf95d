/* The debugger's page, embedded at build time from web/dist/page.html (tools/embed-page): the parts
 * before and after the data of a report, and the policy that allows its scripts. */
#ifndef PL_PAGE_H
#define PL_PAGE_H

#include <stddef.h>

extern const unsigned char pl_page_head[], pl_page_tail[];
extern const size_t pl_page_head_bytes, pl_page_tail_bytes;
extern const char pl_page_policy[]; /* Content-Security-Policy */

#endif
