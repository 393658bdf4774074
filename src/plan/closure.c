#include "plan/closure.h"
#include "base/error.h"

enum { MAX_IDS = 64 };

/* Which ids an entry reads and writes. */
struct id_use {
    uint64_t reads, writes;
};

static uint64_t ids_of_region(const struct closure_unit *unit, const struct plan_region *region)
{
    uint64_t ids = 0;
    for (int i = 0; i < unit->tensor_count; i++) {
        struct plan_region tensor = plan_region_bytes(unit->tensors[i].base, unit->tensors[i].bytes);
        if (plan_region_overlap(region, &tensor))
            ids |= (uint64_t)1 << unit->tensors[i].id;
    }
    return ids;
}

static struct id_use use_of_entry(const struct closure_unit *unit, const struct plan_log *log, int64_t index)
{
    const struct plan_entry *entry = &log->entries[index];
    struct id_use use = {0};
    if (entry->kind != PLAN_LAUNCH)
        return use;
    for (int field = 0; field < op_info(entry->op)->field_count; field++) {
        struct plan_region region;
        if (!plan_log_region(log, entry, field, &region))
            continue;
        uint64_t ids = ids_of_region(unit, &region);
        use.reads |= region.access & OP_READ ? ids : 0;
        use.writes |= region.access & OP_WRITE ? ids : 0;
    }
    return use;
}

uint64_t closure_find(const struct closure_unit *unit, uint64_t dropped)
{
    /* per section: the ids it reads that it did not write itself before, and those it writes */
    struct id_use sections[MAX_IDS] = {{0}};
    for (int64_t i = unit->forward.first; i < unit->forward.end; i++) {
        int section = unit->section[i - unit->forward.first];
        if (section < 0)
            continue;
        struct id_use use = use_of_entry(unit, unit->forward.log, i);
        sections[section].reads |= use.reads & ~sections[section].writes;
        sections[section].writes |= use.writes;
    }
    uint64_t set = 0, before = ~(uint64_t)0;
    for (int64_t i = unit->backward.first; i < unit->backward.end; i++)
        set |= use_of_entry(unit, unit->backward.log, i).reads & dropped;
    while (set != before) {
        before = set;
        for (int s = 0; s < MAX_IDS; s++) {
            if (sections[s].writes & before & dropped)
                set |= (uint64_t)1 << s;
            if (before >> s & 1)
                set |= sections[s].reads & dropped;
        }
    }
    uint64_t made = 0;
    for (int s = 0; s < MAX_IDS; s++)
        made |= sections[s].writes;
    for (int id = 0; id < MAX_IDS; id++)
        if ((set & dropped & ~made) >> id & 1)
            error_fatal("bug: id %d is dropped and needed again, but no section of the forward writes it", id);
    return set;
}
