#include "file/jsontext.h"
#include "base/memory.h"

#include <stdlib.h>

json_t *jsontext_create(const char *bytes, int64_t length)
{
    json_t *text = json_stringn(bytes, (size_t)length);
    if (text != NULL)
        return text;
    char *ascii = memory_format("%.*s", (int)length, bytes);
    for (char *c = ascii; *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    text = json_string(ascii);
    free(ascii);
    return text;
}
