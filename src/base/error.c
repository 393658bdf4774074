#include "base/error.h"
#include "base/signals.h"
#include "base/text.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 16384 };

static _Thread_local char message[MESSAGE_BYTES], printed[MESSAGE_BYTES];
static void (*record_launches)(void), (*end_ranks)(void);
static int own_rank;

void error_open(int rank)
{
    own_rank = rank;
}

int error_rank(void)
{
    return own_rank;
}

static int record(int code, const char *format, va_list arguments)
{
    char text[MESSAGE_BYTES];
    if (message[0] == '\0') {
        vsnprintf(text, sizeof text, format, arguments);
        text_printable(message, sizeof message, text);
    }
    return code;
}

#define RECORD(code)                                                                                                   \
    va_list arguments;                                                                                                 \
    va_start(arguments, format);                                                                                       \
    record(code, format, arguments);                                                                                   \
    va_end(arguments);                                                                                                 \
    return code

int error_user(const char *format, ...)
{
    RECORD(ERROR_USER);
}

int error_environment(const char *format, ...)
{
    RECORD(ERROR_ENVIRONMENT);
}

int error_diverged(const char *format, ...)
{
    RECORD(ERROR_DIVERGED);
}

int error_restate(int code, const char *text)
{
    if (message[0] == '\0')
        text_printable(message, sizeof message, text);
    return code;
}

const char *error_message(void)
{
    return message;
}

void error_clear(void)
{
    message[0] = '\0';
}

void error_print(void)
{
    fprintf(stderr, "cistron: %s\n", message);
    fflush(stderr);
    memcpy(printed, message, sizeof printed);
    error_clear();
}

const char *error_printed(void)
{
    return printed;
}

void error_on_fatal(void (*record)(void), void (*end)(void))
{
    record_launches = record;
    end_ranks = end;
}

/* Waits for this rank's turn. Failures often hit all ranks at once. Rank 0 prints at once, the others half a second
 * later for each doubling of their number, so that the first to print ends the job before the rest do. A rank that is
 * signalled to end meanwhile exits silently, since another has printed. */
static void await_turn(void)
{
    struct timespec pause = {0, 50000000};
    const int before = signals_pending() & SIGNALS_END;
    for (int rank = error_rank(); rank > 0; rank /= 2)
        for (int i = 0; i < 10; i++) {
            nanosleep(&pause, NULL);
            if ((signals_pending() & SIGNALS_END) != before)
                _exit(ERROR_ENVIRONMENT);
        }
}

static void fail(const char *format, va_list arguments, void (*record)(void)) BASE_NORETURN;

static void fail(const char *format, va_list arguments, void (*record)(void))
{
    static atomic_flag ends = ATOMIC_FLAG_INIT;
    char text[MESSAGE_BYTES];
    while (atomic_flag_test_and_set(&ends)) /* another thread is ending the process, often for the same cause */
        pause();
    vsnprintf(text, sizeof text, format, arguments);
    await_turn();
    fprintf(stderr, "cistron: rank %d: ", error_rank());
    text_print(stderr, text);
    fputc('\n', stderr);
    fflush(NULL);
    if (record != NULL)
        record();
    if (end_ranks != NULL)
        end_ranks();
    exit(ERROR_ENVIRONMENT);
}

void error_fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(format, arguments, record_launches);
}

void error_lost(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(format, arguments, NULL);
}
