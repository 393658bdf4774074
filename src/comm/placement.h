/* Which device each rank of a node uses, where ranks need not see the same ones: a launcher may show each rank all of
 * the node's, some, or one of its own. So devices are known by ids that are the same for all who see them. */
#ifndef COMM_PLACEMENT_H
#define COMM_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

enum { PLACEMENT_ID_BYTES = 16 };

struct placement_id {
    unsigned char bytes[PLACEMENT_ID_BYTES]; /* a GPU's UUID */
};

struct device_placement {
    int device;  /* number among those that the rank sees */
    int sharing; /* ranks that have it, this one among them */
};

/* For each of `ranks`, places[rank]. Rank r sees counts[r] devices, at least one and at most `most`: ids[r * most] and
 * on. Each takes the device that the fewest ranks have, the first if there are several; ranks that see fewer devices
 * choose first. Where all see the same n, rank r has device r mod n. Returns the number of different devices that are
 * seen. */
int placement_choose(struct device_placement *places, const struct placement_id *ids, const int64_t *counts,
                     int64_t most, int ranks);

/* Does any of ids[count] occur twice? */
bool placement_repeats(const struct placement_id *ids, int count);

#endif
