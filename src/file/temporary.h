/* Temporary files that must not outlive a run: unlinked when their owner says so and when SIGINT, SIGTERM, SIGHUP,
 * SIGUSR1 or SIGUSR2 ends the process. */
#ifndef FILE_TEMPORARY_H
#define FILE_TEMPORARY_H

/* What follows a file's name in its temporary names, which stand in the same folder. */
#define TEMPORARY_SHARED ".tmp"
#define TEMPORARY_OWN ".tmp-"
#define TEMPORARY_OLD ".old-" /* a folder while another one takes its place; the process follows */
/* "PATH.tmp": several processes write the file together, or exclude each other by a lock. Freed with free(). */
char *temporary_shared(const char *path);
/* "PATH.tmp-PROCESS": processes that write the same file do not meet. Freed with free(). */
char *temporary_own(const char *path);

/* From now on those signals remove the registered files, then end the process as they always do. */
void temporary_catch_signals(void);
/* Back to the handlers from before temporary_catch_signals. */
void temporary_release_signals(void);

/* Registers a path (at most 16 at a time; one that does not fit is not cleaned after a signal). */
void temporary_register(const char *path);
/* Forgets a path: the file was renamed or removed. */
void temporary_forget(const char *path);

#endif
