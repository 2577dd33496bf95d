/* Reading ZIP. Everything comes from the central directory; of local headers only the length is
 * used, since streaming writers leave out their sizes. */
#include "tensor/file/zip.h"

#include <stdlib.h>
#include <string.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/alloc.h"
#include "base/le.h"
#include "base/size.h"

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    DEFLATE_RATIO_MAX = 1032 /* no deflate stream expands more */
};

bool pl_zip_sniff(const void *data, size_t n_bytes) {
    return n_bytes >= END_BYTES &&
           (memcmp(data, "PK\3\4", 4) == 0 || memcmp(data, "PK\5\6", 4) == 0);
}

/* ---- CRC ---- */

#ifndef HAVE_ZLIB
/* Four bits at a time: small, and fast enough for a build without zlib. */
uint32_t pl_crc32(uint32_t crc, const void *data, size_t n_bytes) {
    static const uint32_t table[16] = { 0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
                                        0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                        0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C };
    const uint8_t *p = data;
    crc = ~crc;
    for (size_t i = 0; i < n_bytes; i++) {
        crc = table[(crc ^ p[i]) & 15] ^ crc >> 4;
        crc = table[(crc ^ (p[i] >> 4)) & 15] ^ crc >> 4;
    }
    return ~crc;
}
#else
uint32_t pl_crc32(uint32_t crc, const void *data, size_t n_bytes) {
    return (uint32_t)crc32_z(crc, data, n_bytes);
}
#endif

/* ---- directory ---- */

typedef struct directory {
    uint64_t offset, n_bytes, n_entries;
} directory;

static pl_status fail_zip(pl_err *err, const char *what) {
    return pl_fail(err, PL_E_FORMAT, "zip archive: %s", what);
}

/* The ZIP64 end record, by its locator right before the end record. */
static pl_status read_end64(pl_bytes a, size_t end, directory *dir, pl_err *err) {
    if (end < LOCATOR_BYTES || memcmp(a.data + end - LOCATOR_BYTES, "PK\6\7", 4) != 0)
        return fail_zip(err, "the ZIP64 record is missing");
    const uint64_t at = pl_le64(a.data + end - LOCATOR_BYTES + 8);
    if (at > a.n_bytes || a.n_bytes - at < END64_BYTES || memcmp(a.data + at, "PK\6\6", 4) != 0)
        return fail_zip(err, "the ZIP64 record is at the wrong offset");
    const uint8_t *p = a.data + at;
    *dir = (directory){ pl_le64(p + 48), pl_le64(p + 40), pl_le64(p + 32) };
    return PL_OK;
}

static pl_status find_directory(pl_bytes a, directory *dir, pl_err *err) {
    if (a.n_bytes < END_BYTES) return fail_zip(err, "too short");
    const size_t lowest = a.n_bytes > END_BYTES + 65535 ? a.n_bytes - END_BYTES - 65535 : 0;
    size_t at = a.n_bytes - END_BYTES;
    while (memcmp(a.data + at, "PK\5\6", 4) != 0) {
        if (at == lowest) return fail_zip(err, "no end record; the file may be truncated");
        at--;
    }
    const uint8_t *p = a.data + at;
    if (pl_le16(p + 4) != 0 && pl_le16(p + 4) != 0xFFFF)
        return pl_fail(err, PL_E_UNSUPPORTED, "multi-disk archives are not supported");
    *dir = (directory){ pl_le32(p + 16), pl_le32(p + 12), pl_le16(p + 10) };
    if (dir->offset == UINT32_MAX || dir->n_bytes == UINT32_MAX || dir->n_entries == 0xFFFF)
        PL_TRY(read_end64(a, at, dir, err));
    if (dir->offset > a.n_bytes || dir->n_bytes > a.n_bytes - dir->offset)
        return fail_zip(err, "the directory lies outside the file");
    if (dir->n_entries > dir->n_bytes / CENTRAL_BYTES)
        return fail_zip(err, "more entries than the directory has room for");
    return PL_OK;
}

/* Replaces the 32-bit fields that are all ones by those of the ZIP64 extra field, in its order. */
static bool read_extra64(const uint8_t *extra, size_t n, uint64_t *size, uint64_t *packed,
                         uint64_t *offset) {
    uint64_t *const fields[3] = { size, packed, offset };
    if (*size != UINT32_MAX && *packed != UINT32_MAX && *offset != UINT32_MAX) return true;
    while (n >= 4) {
        const size_t length = pl_le16(extra + 2);
        if (length > n - 4) return false;
        if (pl_le16(extra) == 1) {
            size_t at = 0;
            for (int i = 0; i < 3; i++) {
                if (*fields[i] != UINT32_MAX) continue;
                if (length - at < 8) return false;
                *fields[i] = pl_le64(extra + 4 + at);
                at += 8;
            }
            return true;
        }
        extra += 4 + length;
        n -= 4 + length;
    }
    return false;
}

/* Where the bytes of an entry are, behind its local header. */
static pl_status locate(pl_bytes a, uint64_t offset, uint64_t n_packed, pl_zip_entry *e,
                        pl_err *err) {
    if (offset > a.n_bytes || a.n_bytes - offset < LOCAL_BYTES ||
        memcmp(a.data + offset, "PK\3\4", 4) != 0)
        return fail_zip(err, "an entry is not at the offset in the directory");
    const uint8_t *p = a.data + offset;
    const size_t head = LOCAL_BYTES + pl_le16(p + 26) + pl_le16(p + 28);
    const size_t left = a.n_bytes - (size_t)offset;
    if (head > left || n_packed > left - head) return fail_zip(err, "an entry is truncated");
    e->packed = (pl_bytes){ p + head, (size_t)n_packed };
    return PL_OK;
}

static pl_status read_central(pl_bytes a, const uint8_t **at, const uint8_t *end, pl_zip_entry *e,
                              pl_err *err) {
    const uint8_t *p = *at;
    if (end - p < CENTRAL_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return fail_zip(err, "invalid directory entry");
    const size_t n_name = pl_le16(p + 28), n_extra = pl_le16(p + 30), n_comment = pl_le16(p + 32);
    if ((size_t)(end - p) - CENTRAL_BYTES < n_name + n_extra + n_comment)
        return fail_zip(err, "invalid directory entry");
    uint64_t n_packed = pl_le32(p + 20), n_bytes = pl_le32(p + 24), offset = pl_le32(p + 42);
    e->name = (pl_bytes){ p + CENTRAL_BYTES, n_name };
    e->method = (uint16_t)pl_le16(p + 10);
    e->crc = pl_le32(p + 16);
    if (!read_extra64(p + CENTRAL_BYTES + n_name, n_extra, &n_bytes, &n_packed, &offset))
        return fail_zip(err, "invalid ZIP64 field");
    e->n_bytes = n_bytes;
    const int n_shown = (int)pl_size_min(n_name, 200);
    if (pl_le16(p + 8) & 1)
        return pl_fail(err, PL_E_UNSUPPORTED, "zip entry '%.*s' is encrypted", n_shown,
                       (const char *)e->name.data);
    if (e->method != 0 && e->method != 8)
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "zip entry '%.*s' uses unsupported compression method %u", n_shown,
                       (const char *)e->name.data, e->method);
    PL_TRY(locate(a, offset, n_packed, e, err));
    if (e->method == 0 ? n_bytes != n_packed : n_bytes / DEFLATE_RATIO_MAX > n_packed)
        return pl_fail(err, PL_E_FORMAT, "zip entry '%.*s' cannot have the size it claims", n_shown,
                       (const char *)e->name.data);
    *at = p + CENTRAL_BYTES + n_name + n_extra + n_comment;
    return PL_OK;
}

static int compare_spans(const void *a, const void *b) {
    const pl_bytes *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

/* Overlapping entries are a zip-bomb trick; no regular writer makes them. */
static pl_status check_overlap(const pl_zip *zip, pl_err *err) {
    pl_bytes *spans = pl_calloc(zip->n_entries + 1, sizeof *spans);
    if (!spans) return pl_fail_memory(err, (zip->n_entries + 1) * sizeof *spans);
    for (size_t i = 0; i < zip->n_entries; i++)
        spans[i] = zip->entries[i].packed;
    qsort(spans, zip->n_entries, sizeof *spans, compare_spans);
    bool overlap = false;
    for (size_t i = 1; i < zip->n_entries; i++)
        if (spans[i - 1].data + spans[i - 1].n_bytes > spans[i].data) overlap = true;
    pl_free(spans);
    return overlap ? fail_zip(err, "entries overlap") : PL_OK;
}

/* All of an archive is in memory at once. Weights deflate to half, masks to a hundredth. */
static pl_status check_inflated(const pl_zip *zip, size_t n_archive, pl_err *err) {
    const uint64_t least = (uint64_t)1 << 29, most = 64 * (uint64_t)n_archive;
    uint64_t n = 0;
    for (size_t i = 0; i < zip->n_entries; i++)
        if (zip->entries[i].method != 0) n += zip->entries[i].n_bytes;
    if (n <= least || n <= most) return PL_OK;
    return pl_fail(err, PL_E_LIMIT,
                   "zip archive: %zu bytes that inflate to %llu; at most 512 MB or 64 times the "
                   "file, so save it uncompressed",
                   n_archive, (unsigned long long)n);
}

pl_status pl_zip_open(pl_bytes archive, pl_zip *out, pl_err *err) {
    directory dir = { 0, 0, 0 };
    pl_status st = PL_OK;
    pl_zip zip = { NULL, 0 };
    PL_TRY(find_directory(archive, &dir, err));
    zip.entries = pl_calloc((size_t)dir.n_entries + 1, sizeof *zip.entries);
    if (!zip.entries)
        return pl_fail(err, PL_E_MEMORY, "out of memory for %zu zip entries",
                       (size_t)dir.n_entries);
    const uint8_t *at = archive.data + dir.offset, *end = at + dir.n_bytes;
    for (uint64_t i = 0; i < dir.n_entries; i++) {
        PL_TRY_GOTO(done, st, read_central(archive, &at, end, &zip.entries[i], err));
        zip.n_entries++;
    }
    PL_TRY_GOTO(done, st, check_overlap(&zip, err));
    PL_TRY_GOTO(done, st, check_inflated(&zip, archive.n_bytes, err));
    *out = zip;
    return PL_OK;
done:
    pl_zip_release(&zip);
    return st;
}

void pl_zip_release(pl_zip *zip) {
    pl_free(zip->entries);
    *zip = (pl_zip){ NULL, 0 };
}

/* ---- entries ---- */

static pl_status fail_entry(const pl_zip_entry *e, pl_err *err, pl_status st, const char *what) {
    return pl_fail(err, st, "zip entry '%.*s' %s", (int)pl_size_min(e->name.n_bytes, 200),
                   (const char *)e->name.data, what);
}

#ifdef HAVE_ZLIB
/* zlib counts in 32 bits, so long buffers are passed in pieces. */
static bool inflate_all(const pl_zip_entry *e, uint8_t *to) {
    z_stream z = { 0 };
    const uint8_t *in = e->packed.data;
    size_t n_in = e->packed.n_bytes, n_out = (size_t)e->n_bytes;
    const size_t piece = (size_t)1 << 30;
    if (inflateInit2(&z, -15) != Z_OK) return false;
    int code = Z_OK;
    while (code == Z_OK) {
        const size_t give = pl_size_min(n_in, piece), room = pl_size_min(n_out, piece);
        z.next_in = (Bytef *)(uintptr_t)in;
        z.avail_in = (uInt)give;
        z.next_out = to;
        z.avail_out = (uInt)room;
        code = inflate(&z, Z_NO_FLUSH);
        const size_t used = give - z.avail_in, made = room - z.avail_out;
        if (used == 0 && made == 0 && code == Z_OK) break;
        in += used;
        n_in -= used;
        to += made;
        n_out -= made;
    }
    inflateEnd(&z);
    return code == Z_STREAM_END && n_out == 0;
}
#endif

static pl_status read_deflated(const pl_zip_entry *e, pl_bytes *out, void **owned, pl_err *err) {
#ifdef HAVE_ZLIB
    uint8_t *memory = e->n_bytes < SIZE_MAX ? pl_malloc((size_t)e->n_bytes + 1) : NULL;
    if (!memory) return pl_fail_memory(err, (size_t)e->n_bytes);
    if (!inflate_all(e, memory)) {
        pl_free(memory);
        return fail_entry(e, err, PL_E_FORMAT, "cannot be decompressed");
    }
    *owned = memory;
    *out = (pl_bytes){ memory, (size_t)e->n_bytes };
    return PL_OK;
#else
    (void)out;
    (void)owned;
    return fail_entry(e, err, PL_E_UNSUPPORTED, "is compressed, and this build has no zlib");
#endif
}

pl_status pl_zip_read(const pl_zip_entry *entry, pl_bytes *out, void **owned, pl_err *err) {
    *owned = NULL;
    if (entry->method == 0)
        *out = entry->packed;
    else
        PL_TRY(read_deflated(entry, out, owned, err));
    if (pl_crc32(0, out->data, out->n_bytes) == entry->crc) return PL_OK;
    pl_free(*owned);
    *owned = NULL;
    return fail_entry(entry, err, PL_E_FORMAT, "is damaged: its CRC does not match");
}
