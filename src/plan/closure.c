#include "plan/closure.h"
#include "base/error.h"
#include "base/memory.h"

/* The ids that an entry or a section reads and writes. */
struct id_use {
    struct id_set reads, writes;
};

static void add_region(const struct closure_unit *unit, const struct plan_region *region, struct id_use *use)
{
    for (int i = 0; i < unit->tensor_count; i++) {
        struct plan_region tensor = plan_region_bytes(unit->tensors[i].base, unit->tensors[i].bytes);
        if (!plan_region_overlap(region, &tensor))
            continue;
        if (region->access & OP_READ)
            id_set_add(&use->reads, unit->tensors[i].id);
        if (region->access & OP_WRITE)
            id_set_add(&use->writes, unit->tensors[i].id);
    }
}

static struct id_use use_of_entry(const struct closure_unit *unit, const struct plan_log *log, int64_t index)
{
    const struct plan_entry *entry = &log->entries[index];
    struct id_use use = {{{0}}, {{0}}};
    if (entry->kind != PLAN_LAUNCH)
        return use;
    for (int field = 0; field < op_info(entry->op)->field_count; field++) {
        struct plan_region region;
        if (plan_log_region(log, entry, field, &region))
            add_region(unit, &region, &use);
    }
    return use;
}

/* Returns for each section the ids that it reads before it writes them, and the ids that it writes. */
static struct id_use *sections_of(const struct closure_unit *unit, int *count)
{
    *count = 0;
    for (int64_t i = 0; i < unit->forward.end - unit->forward.first; i++)
        if (unit->section[i] >= *count)
            *count = unit->section[i] + 1;
    struct id_use *sections = memory_allocate((*count + 1) * (int64_t)sizeof *sections);
    for (int64_t i = unit->forward.first; i < unit->forward.end; i++) {
        if (unit->section[i - unit->forward.first] < 0)
            continue;
        struct id_use *section = &sections[unit->section[i - unit->forward.first]];
        struct id_use use = use_of_entry(unit, unit->forward.log, i);
        struct id_set from_outside = id_set_without(&use.reads, &section->writes);
        id_set_join(&section->reads, &from_outside);
        id_set_join(&section->writes, &use.writes);
    }
    return sections;
}

/* Adds the section if it writes a member of the set. If it is in the set, adds the dropped ids that it reads, to
 * `tensors` too. */
static void extend(struct id_set *set, struct id_set *tensors, const struct id_use *section, int id,
                   const struct id_set *dropped)
{
    struct id_set made = id_set_both(&section->writes, dropped);
    made = id_set_both(&made, set);
    if (!id_set_empty(&made))
        id_set_add(set, id);
    struct id_set lacking = id_set_both(&section->reads, dropped);
    if (id_set_has(set, id)) {
        id_set_join(set, &lacking);
        id_set_join(tensors, &lacking);
    }
}

struct id_set closure_find(const struct closure_unit *unit, const struct id_set *dropped)
{
    int count;
    struct id_use *sections = sections_of(unit, &count);
    struct id_set set = {{0}}, before, made = {{0}}, written = {{0}};
    struct id_set tensors = {
        {0}}; /* members whose tensors are needed; other members are sections needed for other tensors */
    for (int64_t i = unit->backward.first; i < unit->backward.end; i++) {
        struct id_use use = use_of_entry(unit, unit->backward.log, i);
        struct id_set needed = id_set_both(&use.reads, dropped);
        needed = id_set_without(&needed, &written);
        id_set_join(&set, &needed);
        id_set_join(&tensors, &needed);
        id_set_join(&written, &use.writes);
    }
    do {
        before = set;
        for (int s = 0; s < count; s++)
            extend(&set, &tensors, &sections[s], s, dropped);
    } while (!id_set_equal(&set, &before));
    for (int s = 0; s < count; s++)
        id_set_join(&made, &sections[s].writes);
    struct id_set lacking = id_set_without(&tensors, &made);
    for (int id = 0; id < ID_SET_LIMIT; id++)
        if (id_set_has(&lacking, id))
            error_fatal("bug: id %d is dropped and needed again, but no section of the forward writes it", id);
    memory_free(sections);
    return set;
}
