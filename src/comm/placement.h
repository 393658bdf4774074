/* Assigns devices to the ranks of a node, which need not see the same ones: a launcher may show each rank all devices
 * of the node, some, or only its own. Devices are therefore identified by ids that are the same for all ranks. */
#ifndef COMM_PLACEMENT_H
#define COMM_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

enum { PLACEMENT_ID_BYTES = 16 };

struct placement_id {
    unsigned char bytes[PLACEMENT_ID_BYTES]; /* a GPU's UUID */
};

struct device_placement {
    int device;  /* number among the devices that the rank sees */
    int sharing; /* number of ranks with this device, this rank included */
};

/* Writes places[ranks]. Rank r sees the counts[r] devices ids[r * most], ...; 1 <= counts[r] <= most. Each rank gets
 * the device with the fewest ranks so far, the first of several; ranks that see fewer devices choose first. If all
 * ranks see the same n devices, rank r gets device r mod n. Returns the number of different devices that are seen. */
int placement_choose(struct device_placement *places, const struct placement_id *ids, const int64_t *counts,
                     int64_t most, int ranks);

/* Returns whether an id occurs twice in ids[count]. */
bool placement_repeats(const struct placement_id *ids, int count);

#endif
