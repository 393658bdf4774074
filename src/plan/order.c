#include "plan/order.h"
#include "base/memory.h"

static void join(struct order_clock *clock, const struct order_clock *other)
{
    for (int s = 0; s < STREAM_COUNT; s++)
        if (other->known[s] > clock->known[s])
            clock->known[s] = other->known[s];
}

void order_create(struct launch_order *order, const struct plan_log *log, int64_t without)
{
    struct order_clock now[STREAM_COUNT];
    for (int s = 0; s < STREAM_COUNT; s++)
        for (int t = 0; t < STREAM_COUNT; t++)
            now[s].known[t] = s == t ? ORDER_START : ORDER_NONE;
    /* entries of records hold what has ended when their stream reaches them */
    order->before = memory_allocate((log->count + 1) * (int64_t)sizeof *order->before);
    for (int64_t i = 0; i < log->count; i++) {
        const struct plan_entry *entry = &log->entries[i];
        struct order_clock *clock = &now[entry->stream];
        if (entry->kind == PLAN_WAIT && entry->record >= 0 && i != without)
            join(clock, &order->before[entry->record]);
        order->before[i] = *clock;
        if (entry->kind == PLAN_LAUNCH)
            clock->known[entry->stream] = i;
    }
    order->end = now[STREAM_COMPUTE];
}

void order_destroy(struct launch_order *order)
{
    memory_free(order->before);
}
