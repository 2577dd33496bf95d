/* The journal of a run: OUT/parts/NAME.jsonl, one line for each event, synced before work
 * continues.
 *
 * Lines: {"t":"open"} a process begins; {"t":"start","key":K} an item is in flight;
 * {"t":"part","key":K,"seconds":S,"cpu":C,"n":N,"so_far":TEXT} its step N is; {"t":"done",…,
 * "result":{…}} the item is finished; {"t":"stop"} the process
 * ends regularly, so running items do not count as crashed. A line cut off by a crash is dropped
 * when the journal is opened again. */
#ifndef PL_JOURNAL_H
#define PL_JOURNAL_H

#include <pthread.h>

#include "base/buf.h"
#include "base/door.h"
#include "base/json_read.h"
#include "base/strmap.h"

typedef struct pl_journal_entry {
    const char *key;
    size_t n_deaths;            /* how often it was running when the process died */
    bool in_flight, is_started; /* while reading */
    struct pl_journal_entry *next_started;
    const pl_json_value *result; /* NULL = not done */
    double seconds;              /* of all steps */
    const char *so_far;          /* what the next step needs; NULL = none is done */
    unsigned n_steps;            /* done, before that */
} pl_journal_entry;

/* Contents of a journal. Strings are in the arena. */
typedef struct pl_journal_read {
    pl_strmap entries;         /* key -> pl_journal_entry */
    size_t n_repeated;         /* further results of finished items */
    pl_journal_entry *started; /* while reading: since the last process began */
} pl_journal_read;

/* Adds OUT/parts/NAME; the first result of an item counts. */
pl_status pl_journal_parse(const char *text, size_t n, const char *name, pl_arena *arena,
                           pl_journal_read *out, pl_err *err);
/* Reads all journals of the folder OUT, in the order of their names. */
pl_status pl_journal_read_all(const pl_dir *out_dir, pl_arena *arena, pl_journal_read *out,
                              pl_err *err);
void pl_journal_read_release(pl_journal_read *read);
/* Has the process that wrote it died: nobody holds the lock, and it did not end regularly? */
bool pl_journal_is_left(const pl_dir *out_dir, const char *name);
/* Items of one journal that were running in a crash and are not done, "'a', 'b'". */
void pl_journal_put_unfinished(const pl_dir *out_dir, const char *name, pl_buf *out);

/* Open for writing; any number of threads may append. */
typedef struct pl_journal {
    int fd;
    char *path;
    pthread_mutex_t mutex;
    int error; /* errno of the first failed write: nothing is appended after a partial line */
} pl_journal;

/* Locks the journal (PL_E_EXISTS when another process has it) and drops a partial last line.
 * PL_E_EXISTS also when it has lines and `resume` is false. */
pl_status pl_journal_open(const pl_dir *out_dir, const char *name, bool resume, pl_journal *out,
                          pl_err *err);
void pl_journal_close(pl_journal *journal); /* NULL and never opened are fine */
/* One line, without its newline; synced. */
pl_status pl_journal_append(pl_journal *journal, const pl_buf *line, pl_err *err);

#endif
