#include "data/megatron_part.h"
#include "base/error.h"
#include "base/range.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Reads the share of each use, normalised to sum 1. */
static int parse_shares(const char *text, double shares[MEGATRON_USES])
{
    const char *rest = text;
    double sum = 0;
    bool good = true;
    for (int i = 0; i < MEGATRON_USES && *rest != '\0' && good; i++) {
        char *end;
        shares[i] = strtod(rest, &end);
        good =
            end != rest && isfinite(shares[i]) && shares[i] >= 0 && (*end == '\0' || (*end == ',' && end[1] != '\0'));
        rest = *end == ',' ? end + 1 : end;
        sum += shares[i];
    }
    if (!good || *rest != '\0' || !(sum > 0) || !isfinite(sum))
        return error_user("key data.split_ratios = \"%s\": must be up to %d non-negative numbers separated by commas, "
                          "such as \"949,50,1\" for train, valid, test",
                          text, MEGATRON_USES);
    for (int i = 0; i < MEGATRON_USES; i++)
        shares[i] /= sum;
    return ERROR_NONE;
}

/* Rounds half to even, as Python's round. */
static int64_t bound(double share, int64_t sequences)
{
    return (int64_t)nearbyint(share * (double)sequences);
}

int megatron_part_choose(struct megatron_part *part, const struct megatron_store *store, const char *text,
                         enum megatron_use use)
{
    static const char *const uses[MEGATRON_USES] = {"train", "valid", "test"};
    double shares[MEGATRON_USES] = {0};
    int64_t first = 0, end = store->sequences;
    if (text[0] != '\0') {
        int code = parse_shares(text, shares);
        if (code != ERROR_NONE)
            return code;
        double before = 0;
        for (int i = 0; i < (int)use; i++)
            before += shares[i];
        first = bound(before, store->sequences);
        end = bound(before + shares[use], store->sequences);
        end = MIN(end, store->sequences);
    }
    const int64_t start = megatron_store_start(store, first), stop = megatron_store_start(store, end);
    *part = (struct megatron_part){first, end - first, stop - start, start};
    if (part->count > 0 && part->tokens > 0)
        return ERROR_NONE;
    return error_user("key data.split_ratios = \"%s\": leaves no token of the %lld sequences of %s for %s", text,
                      (long long)store->sequences, store->prefix, uses[use]);
}
