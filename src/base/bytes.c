#include "base/bytes.h"

#include <stdio.h>

char *bytes_text(char *out, double bytes)
{
    const double mebi = 1 << 20, gibi = 1 << 30;
    if (bytes >= gibi)
        snprintf(out, BYTES_TEXT, "%.2f GiB", bytes / gibi);
    else
        snprintf(out, BYTES_TEXT, "%.2f MiB", bytes / mebi);
    return out;
}
