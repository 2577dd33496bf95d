/* Inside src/base only: what door.c, file.c, path.c and unfinished.c share. */
#ifndef PL_DOOR_INT_H
#define PL_DOOR_INT_H

#include <sys/stat.h>

#include "base/door.h"

/* Maps a regular file or, with `streams`, anything readable. */
pl_status pl_map_of_fd(int fd, const char *path, bool streams, pl_file_map **out, pl_err *err);
/* An error such as "is a pipe, expected a file"; PL_OK for a regular file. */
pl_status pl_check_regular(const struct stat *info, const char *path, pl_err *err);
const char *pl_kind_of_mode(mode_t mode); /* "a pipe", "a folder" */

/* Forgets a temporary name that is finished or removed. Unknown names are ignored. */
void pl_unfinished_done(const char *name);
bool pl_is_temporary_name(const char *name); /* ".NAME.plumb-PID-N" */
/* Removes leftovers of dead processes of this user from the folder. */
void pl_unfinished_sweep(int dir_fd);
/* Empties and removes a folder below dir_fd, without heap and without following links. */
pl_status pl_remove_at(int dir_fd, const char *name, pl_err *err);
/* Lists the folder fd and closes fd. */
pl_status pl_dir_list_fd_take(int fd, const char *path, pl_dir_list *out, pl_err *err);
/* Replaces a regular file in dir_fd. */
pl_status pl_file_writer_open_at(int dir_fd, const char *last, const char *shown,
                                 pl_file_writer **out, pl_err *err);
/* Opens the parent of `path`; *last points to the last component in `path`. */
int pl_open_parent(const char *path, const char **last);

#endif
