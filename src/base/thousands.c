#include "base/thousands.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

char *thousands_text(int64_t value)
{
    char digits[32], text[48], *end = text;
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    for (size_t i = 0, length = strlen(digits); i < length; i++) {
        *end++ = digits[i];
        size_t left = length - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-')
            *end++ = ',';
    }
    *end = '\0';
    return memory_string(text);
}

const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}
