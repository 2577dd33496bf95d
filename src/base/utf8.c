/* UTF-8 as in RFC 3629 section 4, table of well-formed sequences. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

static bool is_continuation(unsigned char c) {
    return (c & 0xC0) == 0x80;
}

size_t pl_utf8_step(const char *s, size_t n) {
    if (n == 0) return 0;
    const unsigned char *u = (const unsigned char *)s;
    const unsigned char c = u[0];
    if (c < 0x80) return 1;
    if (c < 0xC2 || c > 0xF4) return 0; /* continuation, overlong, above U+10FFFF */
    const size_t length = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (n < length) return 0;
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(u[i])) return 0;
    }
    if (c == 0xE0 && u[1] < 0xA0) return 0;  /* overlong */
    if (c == 0xED && u[1] >= 0xA0) return 0; /* surrogate */
    if (c == 0xF0 && u[1] < 0x90) return 0;  /* overlong */
    if (c == 0xF4 && u[1] >= 0x90) return 0; /* above U+10FFFF */
    return length;
}

size_t pl_utf8_put(uint32_t c, char out[4]) {
    static const unsigned char leads[5] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    const size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(leads[length] | c);
    return length;
}

bool pl_utf8_is_control(const char *s, size_t length) {
    const unsigned char *u = (const unsigned char *)s;
    if (length == 1) return u[0] < 0x20 || u[0] == 0x7F;
    if (length == 2) return u[0] == 0xC2 && u[1] < 0xA0; /* U+0080..U+009F */
    if (length != 3 || u[0] != 0xE2) return false;
    if (u[1] == 0x80) return u[2] >= 0xA8 && u[2] <= 0xAE; /* U+2028..U+202E */
    return u[1] == 0x81 && u[2] >= 0xA6 && u[2] <= 0xA9;   /* U+2066..U+2069 */
}

void pl_utf8_clean(char *s) {
    size_t n = strlen(s);
    const char *from = s;
    char *to = s;
    while (n > 0) {
        const size_t length = pl_utf8_step(from, n);
        const size_t used = length == 0 ? 1 : length;
        if (length == 0 || pl_utf8_is_control(from, length)) {
            *to++ = '?';
        } else {
            memmove(to, from, length);
            to += length;
        }
        from += used;
        n -= used;
    }
    *to = '\0';
}

size_t pl_utf8_cut(const char *s, size_t n, size_t max) {
    if (n <= max) return n;
    size_t cut = max;
    /* Three steps at most: longer runs of continuation bytes are not UTF-8 anyway. */
    for (int i = 0; i < 3 && cut > 0 && is_continuation((unsigned char)s[cut]); i++)
        cut--;
    return is_continuation((unsigned char)s[cut]) ? max : cut;
}
