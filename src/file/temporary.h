/* Temporary files that must not outlive a run: their owner unlinks them, and so does a SIGINT, SIGTERM, SIGHUP, SIGUSR1
 * or SIGUSR2 that ends the process. */
#ifndef FILE_TEMPORARY_H
#define FILE_TEMPORARY_H

/* The endings of temporary names, which are in the file's folder. */
#define TEMPORARY_SHARED ".tmp"
#define TEMPORARY_OWN ".tmp-"
#define TEMPORARY_OLD ".old-" /* a folder while another replaces it; followed by the process id */
/* Returns "PATH.tmp", for files that several processes write together, or protect by a lock; freed with free(). */
char *temporary_shared(const char *path);
/* Returns "PATH.tmp-PROCESS", so that processes that write the same file do not conflict; freed with free(). */
char *temporary_own(const char *path);

/* Makes these signals remove the registered files before they end the process. */
void temporary_catch_signals(void);
/* Restores the handlers from before temporary_catch_signals. */
void temporary_release_signals(void);

/* Registers a path. At most 16 paths at a time; further ones are not removed by a signal. */
void temporary_register(const char *path);
/* Unregisters a path, after the file was renamed or removed. */
void temporary_forget(const char *path);

#endif
