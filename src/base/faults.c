#include "base/faults.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_BYTES = 1024 };

void faults_add(struct fault_list *faults, const char *format, ...)
{
    char line[LINE_BYTES];
    if (faults->count++ >= FAULTS_LISTED)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    char *longer = memory_format("%s\n  %s", faults->text == NULL ? "" : faults->text, line);
    free(faults->text);
    faults->text = longer;
}

int faults_verdict(struct fault_list *faults, const char *format, ...)
{
    char head[LINE_BYTES], more[48] = "";
    if (faults->count == 0)
        return ERROR_NONE;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(head, sizeof head, format, arguments);
    va_end(arguments);
    if (faults->count > FAULTS_LISTED)
        snprintf(more, sizeof more, "\n  and %d more", faults->count - FAULTS_LISTED);
    int code = error_user("%s:%s%s", head, faults->text, more);
    free(faults->text);
    *faults = (struct fault_list){0};
    return code;
}
