#include "setup/walltime.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int walltime_parse(const char *text, double *seconds)
{
    long part[4] = {0}; /* days, then up to three numbers */
    int parts = 0;
    const char *at = text, *dash = strchr(text, '-');
    char *end = NULL;
    *seconds = 0;
    if (*text == '\0')
        return ERROR_NONE;
    bool good = true;
    if (dash != NULL) {
        part[0] = strtol(at, &end, 10);
        good = end == dash && end > at;
        at = dash + 1;
    }
    while (good && parts < 3) {
        long value = strtol(at, &end, 10);
        good = end > at && *at >= '0' && *at <= '9';
        part[1 + parts++] = value;
        if (*end != ':')
            break;
        at = end + 1;
    }
    if (!good || *end != '\0' || part[0] < 0)
        return error_user("key train.walltime = \"%s\": must be minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS",
                          text);
    /* the first number is hours if days precede it or two numbers follow, else minutes */
    static const double units[] = {3600, 60, 1, 0};
    int unit = dash != NULL || parts == 3 ? 0 : 1;
    *seconds = 86400.0 * (double)part[0];
    for (int i = 0; i < parts; i++)
        *seconds += units[unit + i] * (double)part[1 + i];
    return *seconds > 0 ? ERROR_NONE : error_user("key train.walltime = \"%s\": leaves no time", text);
}
