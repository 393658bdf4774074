/* Errors. Three tiers (doc/errors.md):
 *   user         what the user can mend: a function records one clear message and returns ERROR_USER
 *   environment  I/O, MPI, memory: records a message and returns ERROR_ENVIRONMENT
 *   bug          CHECK_BUG(), compiled in by --enable-debugging-checks
 * A function that can fail returns an int of enum error_code and leaves its message in this thread's record. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stddef.h>

enum error_code {
    ERROR_NONE = 0,
    ERROR_ENVIRONMENT = 1,
    ERROR_USER = 2,
    ERROR_DIVERGED = 3,
    ERROR_REQUEUE = 85 /* stopped early after a checkpoint */
};

#if defined(__GNUC__)
#define BASE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define BASE_NORETURN __attribute__((noreturn))
#else
#define BASE_PRINTF(f, a)
#define BASE_NORETURN
#endif

/* The number of this process in messages; before error_open, which log_open (base/log.h) calls, every process is rank
 * 0. */
void error_open(int rank);
int error_rank(void);

/* Record a message (without a newline at its end; it may hold several lines) and return the code, so that a
 * caller can write `return error_user(...)`. The first message of a thread stands until error_clear(). It is kept as
 * text_printable (base/text.h) makes it, so that names from files can be put into it as they are. */
int error_user(const char *format, ...) BASE_PRINTF(1, 2);
int error_environment(const char *format, ...) BASE_PRINTF(1, 2);
int error_diverged(const char *format, ...) BASE_PRINTF(1, 2);

/* The same for a code and a message that come from elsewhere (another rank). */
int error_restate(int code, const char *message);

/* The recorded message of this thread, "" when there is none. */
const char *error_message(void);
void error_clear(void);
/* error_tell prints the message on standard error and clears it. error_told returns the message printed last, "" if
 * none was. */
void error_tell(void);
const char *error_told(void);

/* For failures that the program cannot recover from (out of memory, a broken invariant, a failed launch): prints the
 * message with the rank, does what error_on_fatal says (flight recorder, MPI_Abort) and ends the process with
 * ERROR_ENVIRONMENT. Ranks other than 0 wait before they print (rank 1 half a second), so that a failure of all ranks
 * at once is printed once.
 */
void error_fatal(const char *format, ...) BASE_PRINTF(1, 2) BASE_NORETURN;
/* The same for what happened to a file that is open: nothing that the program has done before explains it. */
void error_lost(const char *format, ...) BASE_PRINTF(1, 2) BASE_NORETURN;
/* What both do before they end the process; NULL = nothing. record: prints the flight recorder, of which error_lost
 * makes no use; end: ends the other ranks. */
void error_on_fatal(void (*record)(void), void (*end)(void));

#ifdef CISTRON_DEBUGGING_CHECKS
#define CHECK_BUG(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            error_fatal("%s:%d: bug: %s", __FILE__, __LINE__, #condition);                                             \
    } while (0)
#else
#define CHECK_BUG(condition) ((void)0)
#endif

#endif
