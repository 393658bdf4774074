#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_WARNINGS = 64 };

static int own_rank;

void log_open(int rank)
{
    own_rank = rank;
    setvbuf(stdout, NULL, _IOLBF, 0);
}

int log_rank(void)
{
    return own_rank;
}

void log_info(const char *format, ...)
{
    if (own_rank != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

void log_warn(const char *format, ...)
{
    static const char *printed[MAX_WARNINGS];
    static int count;
    if (own_rank != 0)
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
    fprintf(stderr, "warning: %s\n", text);
}
