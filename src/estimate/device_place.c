#include "estimate/device_place.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void device_place_find(struct device_place *place, struct executor *executor)
{
    *place = (struct device_place){0};
    gethostname(place->host, sizeof place->host - 1);
    if (executor->device == NULL)
        return;
    const unsigned char *u = executor->device->identity(executor->owner);
    snprintf(place->device, sizeof place->device,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4],
             u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

const char *device_place_text(char out[PLACE_TEXT_BYTES], int rank, const struct device_place *place)
{
    snprintf(out, PLACE_TEXT_BYTES, "rank %d on %s%s%s", rank, place->host, place->device[0] != '\0' ? ", " : "",
             place->device);
    return out;
}
