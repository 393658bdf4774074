/* Key header: errors. There are three tiers (doc/errors.md):
 *   user         the user can fix it: the function records one clear message and returns ERROR_USER
 *   environment  I/O, MPI or memory failed: the function records a message and returns ERROR_ENVIRONMENT
 *   bug          CHECK_BUG() failed; compiled in by --enable-debugging-checks
 * A function that can fail returns an enum error_code (as int) and leaves its message in the calling thread's record.
 * Collective functions make all ranks return the same code (comm_agree, comm/comm.h). The codes are the exit codes. */
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

/* error_open sets the rank that messages name; log_open (base/log.h) calls it. error_rank returns that rank, 0 before
 * error_open. */
void error_open(int rank);
int error_rank(void);

/* Each records a message and returns its code, so that a caller can write `return error_user(...)`. A message may have
 * several lines and has no newline at its end. The first message of a thread is kept until error_clear(); later ones
 * are dropped. Messages pass through text_printable (base/text.h), so callers may insert names from files unchanged. */
int error_user(const char *format, ...) BASE_PRINTF(1, 2);
int error_environment(const char *format, ...) BASE_PRINTF(1, 2);
int error_diverged(const char *format, ...) BASE_PRINTF(1, 2);

/* Records a code and a message that another rank reported, and returns the code. */
int error_restate(int code, const char *message);

/* error_message returns this thread's recorded message, "" if there is none; error_clear drops it. */
const char *error_message(void);
void error_clear(void);
/* error_print prints the recorded message on standard error and clears it. error_printed returns the message that was
 * printed last, "" if none was. */
void error_print(void);
const char *error_printed(void);

/* Ends the process with ERROR_ENVIRONMENT, for failures without recovery (out of memory, a broken invariant, a failed
 * launch): prints the message with the rank and calls the functions of error_on_fatal. Ranks other than 0 wait before
 * they print (rank 1 half a second), so that a failure of all ranks at once is printed once. */
void error_fatal(const char *format, ...) BASE_PRINTF(1, 2) BASE_NORETURN;
/* As error_fatal, for an open file that was damaged from outside: the flight recorder would not explain it, and is not
 * printed. */
void error_lost(const char *format, ...) BASE_PRINTF(1, 2) BASE_NORETURN;
/* Registers what error_fatal and error_lost call before they end the process; NULL = nothing. record prints the flight
 * recorder (error_fatal only); end ends the other ranks, as MPI_Abort does. */
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
