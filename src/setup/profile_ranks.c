#include "setup/profile_ranks.h"
#include "deck/fields.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A parsed list of ranks: "0,3" or "all". */
struct rank_list {
    bool is_one;  /* false: the text is not a list */
    bool listed;  /* the rank asked for is in the list */
    long largest; /* -1: "all" */
};

static struct rank_list read_list(const char *ranks, int rank)
{
    struct rank_list list = {.is_one = true, .largest = -1};
    if (strcmp(ranks, "all") == 0) {
        list.listed = true;
        return list;
    }
    for (const char *at = ranks;;) {
        char *end;
        if (*at < '0' || *at > '9')
            return (struct rank_list){0};
        const long one = strtol(at, &end, 10);
        list.listed |= one == rank;
        list.largest = one > list.largest ? one : list.largest;
        if (*end == '\0')
            return list;
        if (*end != ',')
            return (struct rank_list){0};
        at = end + 1;
    }
}

int profile_check(const struct deck *deck, int64_t ranks)
{
    const struct rank_list list = read_list(deck->profile.ranks, 0);
    if (!list.is_one)
        return error_user("key profile.ranks: \"%s\" is not a list of ranks such as \"0\", \"0,8\" or \"all\"",
                          deck->profile.ranks);
    if (deck->profile.start > 0 && list.largest >= ranks)
        return error_user("key profile.ranks: \"%s\" names rank %ld; the ranks of this run are 0 to %lld",
                          deck->profile.ranks, list.largest, (long long)ranks - 1);
    if (deck->profile.stop < deck->profile.start)
        return error_user("key profile.stop: %lld is before profile.start = %lld", (long long)deck->profile.stop,
                          (long long)deck->profile.start);
    if (deck->profile.collectives && deck->profile.start == 0)
        return error_user(
            "key profile.collectives = true: needs a profile, but profile.start = 0 makes none; set profile.start");
    return ERROR_NONE;
}

bool profile_lists(const char *ranks, int rank)
{
    return read_list(ranks, rank).listed;
}
