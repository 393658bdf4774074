/* Temporary files that must not outlive a run: unlinked when their owner says so and when SIGINT, SIGTERM, SIGHUP,
 * SIGUSR1 or SIGUSR2 ends the process. */
#ifndef FILE_TEMPORARY_H
#define FILE_TEMPORARY_H

/* From now on those signals remove the registered files, then end the process as they always do. */
void temporary_catch_signals(void);
/* Back to the handlers from before temporary_catch_signals. */
void temporary_release_signals(void);

/* Registers a path (at most 16 at a time; one that does not fit is not cleaned after a signal). */
void temporary_register(const char *path);
/* Forgets a path: the file was renamed or removed. */
void temporary_forget(const char *path);

#endif
