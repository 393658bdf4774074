#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_WARNINGS = 64 };

static bool lost, to_errors;

void log_open(int rank)
{
    error_open(rank);
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stderr, NULL, _IOLBF, 0); /* line-buffered, so that mpirun does not interleave lines */
}

void log_to_errors(void)
{
    to_errors = true;
}

static void print(FILE *file, const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        error_fatal("out of memory");
    text_print(file, text);
    free(text);
}

void log_info(const char *format, ...)
{
    FILE *out = to_errors ? stderr : stdout;
    if (error_rank() != 0)
        return;
    progress_erase();
    errno = 0;
    va_list arguments;
    va_start(arguments, format);
    print(out, format, arguments);
    va_end(arguments);
    fputc('\n', out);
    fflush(out);
    lost = lost || (ferror(out) != 0 && errno == EPIPE);
}

void log_print(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(file, format, arguments);
    va_end(arguments);
}

bool log_lost(void)
{
    return lost;
}

void log_warn(const char *format, ...)
{
    static const char *printed[MAX_WARNINGS];
    static int count;
    if (error_rank() != 0)
        return;
    for (int i = 0; i < count; i++)
        if (printed[i] == format)
            return;
    if (count < MAX_WARNINGS)
        printed[count++] = format;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    progress_erase();
    fputs("warning: ", stderr);
    text_print(stderr, text);
    fputc('\n', stderr);
}
