#include "base/duration.h"

#include <math.h>
#include <stdio.h>

void duration_print(char text[DURATION_BYTES], double seconds)
{
    long long whole = seconds < 1e11 ? llround(seconds) : 0, days = whole / 86400;
    int rest = (int)(whole % 86400), hours = rest / 3600, minutes = rest / 60 % 60;
    if (!(seconds < 1e11))
        snprintf(text, DURATION_BYTES, "-");
    else if (days > 0)
        snprintf(text, DURATION_BYTES, "%lld-%02d:%02d:%02d", days, hours, minutes, rest % 60);
    else
        snprintf(text, DURATION_BYTES, "%d:%02d:%02d", hours, minutes, rest % 60);
}
