/* SANITIZED: built with AddressSanitizer, which catches faults before a signal is seen and keeps
 * freed memory. gcc and clang say so in their own ways. */
#ifndef PL_SANITIZED_H
#define PL_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
