#include "estimate/host_traffic.h"
#include "comm/roll_call.h"

static const double HOST_ROUND_SECONDS = 20e-6, HOST_MESSAGE_SECONDS = 1e-6;

const char *host_work_name(enum host_work work)
{
    static const char *const names[HOST_WORKS] = {
        [HOST_START] = "start", [HOST_SAVE] = "save", [HOST_LOAD] = "restart", [HOST_ROLL_CALL] = "roll call"};
    return names[work];
}

double host_seconds(const struct host_traffic *traffic, enum host_work work, const struct machine_rates *rates)
{
    const struct comm_traffic *t = &traffic->of[work];
    const double seconds = HOST_ROUND_SECONDS * (double)t->rounds + HOST_MESSAGE_SECONDS * (double)t->messages +
                           (double)t->bytes / rates->between_nodes;
    return seconds + (work == HOST_ROLL_CALL ? roll_call_listening : 0);
}

int64_t host_communicator_memory(const struct host_traffic *traffic)
{
    const int64_t first = (int64_t)400 << 20, each = (int64_t)500 << 20;
    return traffic->communicators > 0 ? first + traffic->communicators * each : 0;
}
