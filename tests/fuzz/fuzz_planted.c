/* A reader with a fault, which the driver must find: its buffer holds no more than the seed needs. */
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_target_words[] = {"count ", NULL};

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    add("count 3\n", 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t digits = 0;
    while (digits + 6 < size && data[6 + digits] >= '0' && data[6 + digits] <= '9')
        digits++;
    FUZZ_CHECK(size < 6 || memcmp(data, "count ", 6) != 0 || digits < 8);
    fuzz_accepted += digits > 0;
    return 0;
}
