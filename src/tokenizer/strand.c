#include "tokenizer/strand.h"

#include <string.h>

int32_t strand_complement(int32_t id)
{
    static const char letters[] = "ACGTURYKMBDHVacgturykmbdhv", complements[] = "TGCAAYRMKVHDBtgcaayrmkvhdb";
    const char *at = id > 0 && id < 128 ? strchr(letters, id) : NULL;
    return at != NULL ? complements[at - letters] : id;
}

void strand_reverse(int32_t *ids, int64_t count)
{
    for (int64_t i = 0, j = count - 1; i <= j; i++, j--) {
        const int32_t id = strand_complement(ids[i]);
        ids[i] = strand_complement(ids[j]);
        ids[j] = id;
    }
}
