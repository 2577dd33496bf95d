/* The table of contexts. A row says what encloses the text, which characters are special and how
 * they are written, and what happens to control characters and invalid UTF-8. */
#include "base/escape.h"

#include <string.h>

#include "base/utf8.h"

typedef enum policy {
    KEEP,    /* as it is */
    MARK,    /* one '?' */
    REPLACE, /* U+FFFD */
    SPELL    /* byte by byte, with the row's `spell` */
} policy;

typedef struct row {
    const char *name, *around, *special;
    void (*spell)(pl_buf *out, unsigned char c); /* writes a special character or byte */
    policy control, invalid;
    bool ascii; /* also escape everything beyond ASCII */
} row;

/* ---- how a special character is written ---- */

static void spell_json(pl_buf *out, unsigned char c) {
    switch (c) {
    case '"': pl_buf_puts(out, "\\\""); break;
    case '\\': pl_buf_puts(out, "\\\\"); break;
    case '\n': pl_buf_puts(out, "\\n"); break;
    case '\r': pl_buf_puts(out, "\\r"); break;
    case '\t': pl_buf_puts(out, "\\t"); break;
    default: pl_buf_printf(out, "\\u%04x", (unsigned)c); break;
    }
}

static void spell_entity(pl_buf *out, unsigned char c) {
    pl_buf_puts(out, c == '&'   ? "&amp;"
                     : c == '<' ? "&lt;"
                     : c == '>' ? "&gt;"
                     : c == '"' ? "&quot;"
                                : "&#39;");
}

static void spell_backslash(pl_buf *out, unsigned char c) {
    pl_buf_putc(out, '\\');
    pl_buf_putc(out, (char)c);
}

static void spell_shell(pl_buf *out, unsigned char c) {
    (void)c;
    pl_buf_puts(out, "'\\''");
}

static void spell_hex(pl_buf *out, unsigned char c) {
    if (c == '"' || c == '\\') {
        spell_backslash(out, c);
    } else {
        pl_buf_printf(out, "\\x%02x", (unsigned)c);
    }
}

/* Always three digits: a hexadecimal escape would swallow digits that follow. */
static void spell_octal(pl_buf *out, unsigned char c) {
    if (c == '"' || c == '\\') {
        spell_backslash(out, c);
    } else {
        pl_buf_printf(out, "\\%03o", (unsigned)c);
    }
}

static void spell_percent(pl_buf *out, unsigned char c) {
    pl_buf_printf(out, "%%%02X", (unsigned)c);
}

static void spell_double(pl_buf *out, unsigned char c) {
    pl_buf_putc(out, (char)c);
    pl_buf_putc(out, (char)c);
}

/* '?' is special in C because of trigraphs. CSV, code spans and blocks start with something that
 * depends on the text; put_csv, put_span and put_block write it. */
/* clang-format off */
static const row rows[PL_ESCAPE_COUNT] = {
    [PL_ESCAPE_LINE]       = { "line",       "",   "",             NULL,            MARK,  MARK,    false },
    [PL_ESCAPE_JSON]       = { "json",       "\"", "\"\\",         spell_json,      SPELL, REPLACE, false },
    [PL_ESCAPE_SCRIPT]     = { "script",     "",   "<",            spell_json,      KEEP,  KEEP,    false },
    [PL_ESCAPE_HTML]       = { "html",       "",   "&<>\"'",       spell_entity,    MARK,  MARK,    false },
    [PL_ESCAPE_XML]        = { "xml",        "",   "&<>\"",        spell_entity,    MARK,  MARK,    false },
    [PL_ESCAPE_CSV]        = { "csv",        "",   "\"",           spell_double,    MARK,  MARK,    false },
    [PL_ESCAPE_MARKDOWN]   = { "markdown",   "",   "|\\`*_<>[]&~", spell_backslash, MARK,  MARK,    false },
    [PL_ESCAPE_MD_CODE]    = { "md-code",    "",   "",             NULL,            MARK,  MARK,    false },
    [PL_ESCAPE_MD_BLOCK]   = { "md-block",   "",   "",             NULL,            MARK,  MARK,    false },
    [PL_ESCAPE_SHELL]      = { "shell",      "'",  "'",            spell_shell,     KEEP,  KEEP,    false },
    [PL_ESCAPE_PYTHON]     = { "python",     "\"", "\"\\",         spell_hex,       SPELL, SPELL,   false },
    [PL_ESCAPE_JAVASCRIPT] = { "javascript", "\"", "\"\\<",        spell_hex,       SPELL, SPELL,   false },
    [PL_ESCAPE_C]          = { "c",          "\"", "\"\\?",        spell_octal,     SPELL, SPELL,   true  },
    [PL_ESCAPE_GITHUB]     = { "github",     "",   "%",            spell_percent,   MARK,  MARK,    false },
    [PL_ESCAPE_GITHUB_KEY] = { "github-key", "",   "%:,",          spell_percent,   MARK,  MARK,    false },
    [PL_ESCAPE_URL]        = { "url",        "",   " \"#$%&'()*+,:;<=>?@[\\]^`{|}!",
                                                                   spell_percent,   SPELL, SPELL,   true  },
};
/* clang-format on */

const char *pl_escape_name(pl_escape context) {
    return rows[context].name;
}

/* ---- one UTF-8 sequence ---- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static void apply(pl_buf *out, const row *r, policy how, const char *s, size_t n) {
    switch (how) {
    case KEEP: pl_buf_append(out, s, n); break;
    case MARK: pl_buf_putc(out, '?'); break;
    case REPLACE: pl_buf_puts(out, "\xEF\xBF\xBD"); break;
    case SPELL:
        for (size_t i = 0; i < n; i++)
            r->spell(out, (unsigned char)s[i]);
        break;
    }
}

/* XML 1.0 forbids U+FFFE and U+FFFF. */
static bool is_no_xml(const row *r, const char *s, size_t n) {
    return r == &rows[PL_ESCAPE_XML] && n == 3 && memcmp(s, "\xEF\xBF", 2) == 0 &&
           (unsigned char)s[2] >= 0xBE;
}

static void put_sequence(pl_buf *out, const row *r, const char *s, size_t length) {
    const bool json = r->spell == spell_json; /* JSON escapes C0 only */
    const bool control =
        json ? length == 1 && (unsigned char)*s < 0x20 : pl_utf8_is_control(s, length);
    if (control) {
        apply(out, r, r->control, s, length);
    } else if (length == 1 && strchr(r->special, *s) != NULL) {
        r->spell(out, (unsigned char)*s);
    } else if (is_no_xml(r, s, length)) {
        pl_buf_putc(out, '?');
    } else {
        apply(out, r, length > 1 && r->ascii ? SPELL : KEEP, s, length);
    }
}

static void put_text(pl_buf *out, const row *r, const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t run = i;
        while (run < n && is_word(s[run])) /* plain in every context */
            run++;
        if (run > i) pl_buf_append(out, s + i, run - i);
        i = run;
        if (i == n) break;
        const size_t length = pl_utf8_step(s + i, n - i);
        if (length == 0) {
            apply(out, r, r->invalid, s + i, 1);
        } else {
            put_sequence(out, r, s + i, length);
        }
        i += length == 0 ? 1 : length;
    }
}

/* ---- what depends on the whole text ---- */

static bool has_any(const char *s, size_t n, const char *of) {
    for (size_t i = 0; i < n; i++)
        if (s[i] != '\0' && strchr(of, s[i]) != NULL) return true;
    return false;
}

/* Spreadsheets run a field that begins like this, quoted or not. */
static void put_csv(pl_buf *out, const row *r, const char *s, size_t n) {
    const bool formula = n > 0 && s[0] != '\0' && strchr("=+-@\t\r\n", s[0]) != NULL;
    const bool quote = has_any(s, n, ",\"\r\n");
    if (quote) pl_buf_putc(out, '"');
    if (formula) pl_buf_putc(out, '\'');
    put_text(out, r, s, n);
    if (quote) pl_buf_putc(out, '"');
}

/* CommonMark 0.30, 6.1: the enclosing run of backticks must be longer than any inside. */
static void put_span(pl_buf *out, const row *r, const char *s, size_t n) {
    size_t longest = 0, here = 0;
    for (size_t i = 0; i < n; i++) {
        here = s[i] == '`' ? here + 1 : 0;
        if (here > longest) longest = here;
    }
    const bool pad = n == 0 || s[0] == '`' || s[n - 1] == '`';
    for (size_t i = 0; i <= longest; i++)
        pl_buf_putc(out, '`');
    if (pad) pl_buf_putc(out, ' ');
    put_text(out, r, s, n);
    if (pad) pl_buf_putc(out, ' ');
    for (size_t i = 0; i <= longest; i++)
        pl_buf_putc(out, '`');
}

static void put_block(pl_buf *out, const row *r, const char *s, size_t n) {
    while (n > 0) {
        const char *end = memchr(s, '\n', n);
        const size_t line = end == NULL ? n : (size_t)(end - s);
        pl_buf_puts(out, "    ");
        put_text(out, r, s, line);
        pl_buf_putc(out, '\n');
        s += end == NULL ? line : line + 1;
        n -= end == NULL ? line : line + 1;
    }
}

void pl_escape_put_n(pl_buf *out, pl_escape context, const char *s, size_t n) {
    const row *r = &rows[context];
    switch (context) {
    case PL_ESCAPE_CSV: put_csv(out, r, s, n); return;
    case PL_ESCAPE_MD_CODE: put_span(out, r, s, n); return;
    case PL_ESCAPE_MD_BLOCK: put_block(out, r, s, n); return;
    case PL_ESCAPE_URL: /* two leading slashes would start a host name */
        for (; n > 1 && s[0] == '/' && s[1] == '/'; n--)
            s++;
        break;
    default: break;
    }
    pl_buf_puts(out, r->around);
    put_text(out, r, s, n);
    pl_buf_puts(out, r->around);
}

void pl_escape_put(pl_buf *out, pl_escape context, const char *s) {
    pl_escape_put_n(out, context, s, strlen(s));
}

void pl_escape_end_line(pl_buf *out, size_t at) {
    pl_buf_clean_from(out, at);
    pl_buf_putc(out, '\n');
}
