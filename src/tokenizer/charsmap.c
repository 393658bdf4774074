/* The double array is that of Darts-clone: a unit of 32 bits has bit 31 and bits 0 to 7 for its label, bit 8 if a leaf
 * follows, and an offset in bits 10 to 30, which bit 9 multiplies by 256. A leaf has its value in bits 0 to 30. */
#include "tokenizer/charsmap.h"
#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <stdbool.h>
#include <string.h>

struct charsmap {
    uint32_t *units; /* [count] */
    int64_t count;
    unsigned char *texts; /* [bytes], the last one zero */
    int64_t bytes;
};

static uint32_t little_endian(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

struct charsmap *charsmap_open(const void *data, int64_t bytes)
{
    enum { UNIT = 4 };
    const unsigned char *at = data;
    const int64_t size = bytes > UNIT ? little_endian(at) : 0;
    if (size < UNIT || size % UNIT != 0 || size >= bytes - UNIT || at[bytes - 1] != '\0')
        return NULL;
    const int64_t texts = bytes - UNIT - size;
    if (utf8_valid(at + UNIT + size, texts) != texts)
        return NULL;
    struct charsmap *map = memory_allocate(sizeof *map);
    map->count = size / UNIT;
    map->units = memory_allocate(size);
    for (int64_t i = 0; i < map->count; i++)
        map->units[i] = little_endian(at + UNIT + UNIT * i);
    map->bytes = texts;
    map->texts = memory_allocate(map->bytes);
    memcpy(map->texts, at + UNIT + size, (size_t)map->bytes);
    return map;
}

void charsmap_close(struct charsmap *map)
{
    if (map == NULL)
        return;
    memory_free(map->units);
    memory_free(map->texts);
    memory_free(map);
}

/* Returns whether no character goes on at this place. */
static bool is_boundary(const unsigned char *text, int64_t at, int64_t bytes)
{
    return at == bytes || (text[at] & 0xc0) != 0x80;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

int64_t charsmap_find(const struct charsmap *map, const unsigned char *text, int64_t bytes,
                      const unsigned char **replacement, int64_t *count)
{
    enum { LEAF = 1 << 8, LABEL = 0xff };
    int64_t longest = 0;
    uint32_t node = map != NULL ? offset_of(map->units[0]) : 0;
    for (int64_t i = 0; map != NULL && i < bytes; i++) {
        node ^= text[i];
        if (node >= map->count || (map->units[node] & (1u << 31 | LABEL)) != text[i])
            break;
        const uint32_t unit = map->units[node];
        node ^= offset_of(unit);
        const uint32_t value = (unit & LEAF) && node < map->count ? map->units[node] & INT32_MAX : UINT32_MAX;
        if (value < map->bytes && is_boundary(text, i + 1, bytes) && is_boundary(map->texts, value, map->bytes)) {
            longest = i + 1;
            *replacement = map->texts + value;
            *count = (int64_t)strlen((const char *)*replacement);
        }
    }
    return longest;
}
