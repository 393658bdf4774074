#include "engine/memory.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/block.h"
#include "plan/closure.h"
#include "plan/lifetime.h"
#include "plan/plan.h"
#include "store/groups.h"

#include <stdlib.h>
#include <string.h>

/* -- Running ---------------------------------------------------------------------------------------------------- */

/* Other passes keep no activations. */
static bool keeps(enum pass_kind pass)
{
    return pass == PASS_FORWARD || pass == PASS_BACKWARD;
}

void *memory_address(const struct execution *execution, const struct unit *unit, int id)
{
    const struct engine_memory *memory = execution->owner->memory;
    const struct unit_memory *own = &memory->units[unit->index];
    if (keeps(execution->pass) && id_set_has(&own->offloaded, id))
        return offload_buffer(&memory->offload[unit->chunk], own->offload_number) + own->kept_offset[id];
    if (keeps(execution->pass) && id_set_has(&own->kept, id)) {
        const struct chunk_memory *chunk = &memory->chunks[unit->chunk];
        return memory->kept_base + chunk->begin + execution->slot * chunk->slot_bytes + own->kept_offset[id];
    }
    return memory->transient_base + own->transient_offset[execution->pass][id];
}

int memory_slots_before(const struct memory_settings *settings, int chunk)
{
    int slots = 0;
    for (int c = 0; c < chunk; c++)
        slots += settings->slots[c];
    return slots;
}

static struct tensor input_of(struct execution *execution, struct unit *unit)
{
    const struct model *model = execution->owner->memory->model;
    if (unit->index == model->chunks[unit->chunk].first)
        return (struct tensor){0};
    return unit_tensor(execution, &model->units[unit->index - 1], UNIT_OUTPUT);
}

static void run_forward(struct execution *execution, struct unit *unit)
{
    unit->class->forward(execution, unit, input_of(execution, unit));
}

const struct id_set *memory_recomputed(const struct engine_memory *memory, const struct unit *unit)
{
    return &memory->units[unit->index].recompute;
}

/* Returns the chunk's offload; NULL if it offloads nothing, and during planning. */
static struct offload *offload_of(const struct execution *execution, int chunk)
{
    struct engine_memory *memory = execution->owner->memory;
    return memory->planner == NULL && memory->offload[chunk].count > 0 ? &memory->offload[chunk] : NULL;
}

void memory_forward_unit(struct execution *execution, struct unit *unit)
{
    struct engine_memory *memory = execution->owner->memory;
    const int number = memory->units[unit->index].offload_number;
    struct offload *offload =
        execution->pass == PASS_FORWARD && number >= 0 ? offload_of(execution, unit->chunk) : NULL;
    if (offload != NULL)
        offload_await_buffer(offload, number, execution->stream);
    run_forward(execution, unit);
    if (offload != NULL)
        offload_send(offload, number, execution->slot, execution->stream);
}

void memory_forward_end(struct execution *execution, int chunk)
{
    struct offload *offload = execution->pass == PASS_FORWARD ? offload_of(execution, chunk) : NULL;
    if (offload != NULL)
        offload_await_sent(offload, execution->stream);
}

void memory_backward_begin(struct execution *execution, int chunk)
{
    struct offload *offload = offload_of(execution, chunk);
    if (offload != NULL)
        offload_fetch_last(offload, execution->slot, execution->stream);
}

static void run_backward(struct execution *execution, struct unit *unit)
{
    const struct engine_memory *memory = execution->owner->memory;
    const bool behind = unit->index + 1 < memory->model->chunks[unit->chunk].end;
    struct tensor gradient = {0};
    if (behind)
        gradient = unit_tensor(execution, &memory->model->units[unit->index + 1], UNIT_INPUT_GRADIENT);
    execution->wanted = memory_recomputed(memory, unit);
    if (!id_set_empty(execution->wanted)) {
        execution->recompute = true;
        run_forward(execution, unit);
        execution->recompute = false;
    }
    execution->output_gradient_sum = behind ? execution->input_gradient_sum : (struct tensor){0};
    execution->input_gradient_sum = (struct tensor){0};
    const enum gradient_set requested = execution->gradients;
    execution->trains_adapters = requested & GRADIENT_WEIGHT;
    if (unit->frozen)
        execution->gradients &= ~(unsigned)GRADIENT_WEIGHT;
    unit->class->backward(execution, unit, input_of(execution, unit), gradient);
    execution->gradients = requested;
}

void memory_backward_unit(struct execution *execution, struct unit *unit)
{
    struct engine_memory *memory = execution->owner->memory;
    const int number = memory->units[unit->index].offload_number;
    struct offload *offload = number >= 0 ? offload_of(execution, unit->chunk) : NULL;
    if (offload != NULL)
        offload_await_fetched(offload, number, execution->stream);
    run_backward(execution, unit);
    if (offload != NULL)
        offload_fetch_next(offload, number, execution->slot, execution->stream);
}

static int64_t tensor_count_of(const struct model *model)
{
    int64_t count = 0;
    for (int u = 0; u < model->unit_count; u++)
        count += model->units[u].tensor_count;
    return count;
}

/* -- Planning ---------------------------------------------------------------------------------------------------- */

struct planner {
    struct engine_memory *memory;
    struct model *model;
    struct executor *executor; /* plan */
    struct stream streams[STREAM_COUNT];
    struct execution execution;
    const struct memory_settings *settings;
    int64_t kept_bytes; /* kept bytes of one slot of each chunk */
    /* Sections of forwards: log entry at which each starts. */
    struct {
        int64_t entry;
        int id;
    } * sections;
    int64_t section_count, section_capacity;
};

static void enter_section(const struct execution *execution, int id)
{
    struct planner *p = execution->owner->memory->planner;
    if (p->section_count == p->section_capacity) {
        p->section_capacity = p->section_capacity ? 2 * p->section_capacity : 256;
        p->sections = memory_grow(p->sections, (int64_t)sizeof *p->sections * p->section_capacity);
    }
    p->sections[p->section_count].entry = plan_executor_log(p->executor)->count;
    p->sections[p->section_count++].id = id;
}

static void *fake(struct planner *p, int64_t bytes)
{
    return bytes > 0 ? p->executor->class->allocate(p->executor, bytes, MEMORY_DEVICE) : NULL;
}

/* Returns whether gradients may be summed over ranks, which the last micro-batch computes in fp32. */
static bool gradients_sum(const struct execution *execution)
{
    return group_size(execution->data) > 1 || execution->tensor != NULL;
}

static void start_planner(struct planner *p, struct engine_memory *memory, const struct memory_settings *settings,
                          const struct execution *execution, struct executor *target)
{
    static const struct execution_services services = {.address = memory_address, .enter_section = enter_section};
    *p = (struct planner){.memory = memory, .model = memory->model, .settings = settings, .execution = *execution};
    p->executor = plan_executor_create(target);
    for (int i = 0; i < STREAM_COUNT; i++)
        p->streams[i] = (struct stream){p->executor, i, NULL};
    p->execution.stream = &p->streams[STREAM_COMPUTE];
    p->execution.transfers = &p->streams[STREAM_EXCHANGE];
    p->execution.services = &services;
    for (int u = 0; u < p->model->unit_count; u++) {
        struct unit *unit = &p->model->units[u];
        for (int s = 0; s < STORAGE_COUNT; s++) {
            unit->weight_base[s] = fake(p, unit->elements[s] * dtype_size(settings->compute));
            unit->gradient_base[s] = fake(p, unit->elements[s] * dtype_size(settings->statistic));
        }
        unit->quantized_base = fake(p, unit->quantized_bytes);
        unit->gradient_fresh = false;
        unit->gradient_rounded = unit->rounds_gradients && !gradients_sum(execution);
    }
    memory->planner = p;
}

static void end_planner(struct planner *p)
{
    for (int u = 0; u < p->model->unit_count; u++) {
        for (int s = 0; s < STORAGE_COUNT; s++)
            p->model->units[u].weight_base[s] = p->model->units[u].gradient_base[s] = NULL;
        p->model->units[u].quantized_base = NULL;
    }
    p->memory->planner = NULL;
    p->executor->class->destroy(p->executor);
    free(p->sections);
}

static void run_forwards(struct planner *p, enum pass_kind pass, struct plan_span *spans)
{
    const struct plan_log *log = plan_executor_log(p->executor);
    p->execution.pass = pass;
    for (int u = 0; u < p->model->unit_count; u++) {
        int64_t first = log->count;
        if (unit_is_computed(&p->model->units[u]))
            memory_forward_unit(&p->execution, &p->model->units[u]);
        if (spans != NULL)
            spans[u] = (struct plan_span){log, first, log->count};
    }
}

static void run_backwards(struct planner *p, enum gradient_set gradients, struct plan_span *spans)
{
    const struct plan_log *log = plan_executor_log(p->executor);
    p->execution.pass = PASS_BACKWARD;
    p->execution.gradients = gradients;
    for (int u = p->model->unit_count - 1; u >= 0; u--) {
        int64_t first = log->count;
        if (unit_is_computed(&p->model->units[u]) && !p->model->units[u].idle_backward)
            memory_backward_unit(&p->execution, &p->model->units[u]);
        if (spans != NULL)
            spans[u] = (struct plan_span){log, first, log->count};
    }
}

static int64_t tensor_bytes(const struct planner *p, const struct unit *unit, int id)
{
    int64_t bytes = unit_tensor_elements(unit, id) * dtype_size(execution_dtype(&p->execution, unit->tensors[id].role));
    return (bytes + LIFETIME_ALIGNMENT - 1) / LIFETIME_ALIGNMENT * LIFETIME_ALIGNMENT;
}

/* Lays out a unit's kept tensors, either the offloaded or the other ones, from `bytes` on; returns the end. */
static int64_t lay_out(const struct planner *p, int u, bool offloaded, int64_t bytes)
{
    struct unit_memory *own = &p->memory->units[u];
    for (int id = 0; id < p->model->units[u].tensor_count; id++) {
        if (!id_set_has(&own->kept, id) || id_set_has(&own->offloaded, id) != offloaded)
            continue;
        own->kept_offset[id] = bytes;
        bytes += tensor_bytes(p, &p->model->units[u], id);
    }
    return bytes;
}

/* Lays out every kept tensor of one slot of each chunk; returns the bytes. */
static int64_t lay_out_kept(const struct planner *p)
{
    int64_t bytes = 0;
    for (int u = 0; u < p->model->unit_count; u++) {
        const int c = p->model->units[u].chunk;
        p->memory->units[u].kept_begin = bytes;
        if (c < 0)
            continue;
        struct chunk_memory *chunk = &p->memory->chunks[c];
        if (p->model->chunks[c].first == u)
            chunk->begin = bytes;
        chunk->slot_bytes = lay_out(p, u, false, bytes - chunk->begin);
        bytes = chunk->begin + chunk->slot_bytes;
    }
    return bytes;
}

/* Lays out the chunks one after the other, each with all of its slots; returns the bytes. */
static int64_t place_slots(struct engine_memory *memory, const int *slots)
{
    int64_t bytes = 0;
    for (int c = 0; c < memory->model->chunk_count; c++) {
        struct chunk_memory *chunk = &memory->chunks[c];
        chunk->begin = bytes;
        bytes += slots[c] * chunk->slot_bytes;
    }
    return bytes;
}

/* Selects the offloaded tensors: all kept tensors of the offloaded layers but their outputs, which the next unit's
 * backward reads. */
static void choose_offloaded(const struct planner *p)
{
    const struct layer_list *layers = &p->model->settings.recompute.offloaded;
    if (layers->count > 0 && p->settings->split_backward)
        error_fatal("bug: what one half of a backward leaves for the other cannot be offloaded");
    for (int u = 0; u < p->model->unit_count; u++) {
        struct unit_memory *own = &p->memory->units[u];
        if (!unit_is_computed(&p->model->units[u]) || !layer_list_has(layers, p->model->units[u].layer))
            continue;
        for (int id = 0; id < p->model->units[u].tensor_count; id++)
            if (id != UNIT_OUTPUT && id_set_has(&own->kept, id))
                id_set_add(&own->offloaded, id);
        const int64_t bytes = lay_out(p, u, true, 0);
        if (bytes > 0)
            own->offload_number = offload_add(&p->memory->offload[p->model->units[u].chunk], bytes);
    }
}

/* Maps each launch of a unit's forward to its section. */
static int *section_map(const struct planner *p, struct plan_span forward)
{
    int *map = memory_allocate((int64_t)sizeof *map * (forward.end - forward.first + 1));
    int64_t s = 0, behind = p->section_count; /* s: the first section of this forward */
    int id = -1;
    while (s < behind) {
        int64_t middle = (s + behind) / 2;
        if (p->sections[middle].entry < forward.first)
            s = middle + 1;
        else
            behind = middle;
    }
    for (int64_t e = forward.first; e < forward.end; e++) {
        for (; s < p->section_count && p->sections[s].entry <= e; s++)
            id = p->sections[s].id;
        map[e - forward.first] = id;
    }
    return map;
}

static void find_recompute(struct planner *p, const struct plan_span *forwards, const struct plan_span *backwards)
{
    for (int u = 0; u < p->model->unit_count; u++) {
        struct unit *unit = &p->model->units[u];
        struct unit_memory *own = &p->memory->units[u];
        if (!unit_is_computed(unit))
            continue;
        struct closure_tensor *tensors = memory_allocate((unit->tensor_count + 1) * (int64_t)sizeof *tensors);
        int count = 0;
        for (int id = 0; id < unit->tensor_count; id++)
            if (unit->tensors[id].name != NULL)
                tensors[count++] =
                    (struct closure_tensor){memory_address(&p->execution, unit, id), tensor_bytes(p, unit, id), id};
        int *sections = section_map(p, forwards[u]);
        struct closure_unit closure = {forwards[u], sections, backwards[u], tensors, count};
        if (!id_set_empty(&own->dropped))
            own->recompute = closure_find(&closure, &own->dropped);
        memory_free(sections);
        memory_free(tensors);
    }
}

/* Finds the (unit, id) whose kept tensor contains an address; returns the id, -1 if there is none. */
static int locate(const struct planner *p, uintptr_t address, int *unit_index)
{
    uintptr_t base = (uintptr_t)p->memory->kept_base;
    if (address < base || address >= base + (uintptr_t)p->kept_bytes)
        return -1;
    int64_t offset = (int64_t)(address - base);
    int u = 0, behind = p->model->unit_count; /* u: the last unit that begins there or before */
    while (u + 1 < behind) {
        int middle = (u + behind) / 2;
        if (p->memory->units[middle].kept_begin <= offset)
            u = middle;
        else
            behind = middle;
    }
    const struct unit_memory *own = &p->memory->units[u];
    *unit_index = u;
    if (!unit_is_computed(&p->model->units[u]))
        return -1;
    offset -= p->memory->chunks[p->model->units[u].chunk].begin;
    for (int id = 0; id < p->model->units[u].tensor_count; id++)
        if (id_set_has(&own->kept, id) && offset >= own->kept_offset[id] &&
            offset < own->kept_offset[id] + tensor_bytes(p, &p->model->units[u], id))
            return id;
    return -1;
}

/* Adds to needed[unit] the tensors that the log reads before it writes them. Within a launch, reads come before writes.
 */
static void find_needed(const struct planner *p, struct id_set *needed)
{
    const struct plan_log *log = plan_executor_log(p->executor);
    const int64_t tensors = tensor_count_of(p->model);
    int64_t *first_write = memory_allocate((int64_t)sizeof *first_write * tensors); /* entry, or the log's end */
    for (int64_t i = 0; i < tensors; i++)
        first_write[i] = log->count;
    int u, id;
    for (struct plan_touch touch = {.log = log}; plan_touch_next(&touch);) {
        if ((touch.region.access & OP_WRITE) == 0 || (id = locate(p, touch.region.base, &u)) < 0)
            continue;
        int64_t *first = &first_write[p->memory->units[u].first_tensor + id];
        *first = touch.entry < *first ? touch.entry : *first;
    }
    for (struct plan_touch touch = {.log = log}; plan_touch_next(&touch);)
        if ((touch.region.access & OP_READ) && (id = locate(p, touch.region.base, &u)) >= 0 &&
            touch.entry <= first_write[p->memory->units[u].first_tensor + id])
            id_set_add(&needed[u], id);
    memory_free(first_write);
}

/* Places units' gradients where later units keep tensors, which backward has read by then: from the end down, in the
 * order of backward. A tied table's gradients are older than those of the blocks. Sets where[unit] to the first byte,
 * -1 without a place. */
static void place_gradients(const struct planner *p, int64_t *where)
{
    const struct unit *units = p->model->units, *table = unit_lender(model_head(p->model));
    int64_t end = p->kept_bytes, kept_end = p->kept_bytes; /* of the free bytes; of the unit's kept tensors */
    for (int u = p->model->unit_count - 1; u >= 0; u--) {
        const int64_t needed = units[u].frozen ? 0 : unit_elements(&units[u]) * p->settings->gradient_bytes;
        const int64_t first = (end - needed) / LIFETIME_ALIGNMENT * LIFETIME_ALIGNMENT;
        const bool fits = needed > 0 && &units[u] != table && first >= kept_end;
        where[u] = fits ? first : -1;
        end = fits ? first : end;
        kept_end = p->memory->units[u].kept_begin;
    }
}

/* Gives every tensor an address of its own in all passes, so that reads identify tensors. Tensors that backward without
 * forward reads before writing must be kept. */
static void choose_kept(struct planner *p)
{
    struct engine_memory *memory = p->memory;
    int units = p->model->unit_count;
    for (int u = 0; u < units; u++)
        for (int id = 0; id < p->model->units[u].tensor_count; id++)
            if (p->model->units[u].tensors[id].name != NULL)
                id_set_add(&memory->units[u].kept, id);
    p->kept_bytes = lay_out_kept(p);
    memory->kept_base = fake(p, p->kept_bytes);

    struct plan_span *spans = memory_allocate((int64_t)sizeof *spans * 2 * units);
    run_forwards(p, PASS_FORWARD, spans);
    run_backwards(p, GRADIENT_BOTH, spans + units);
    find_recompute(p, spans, spans + units);
    memory_free(spans);

    struct id_set *needed = memory_allocate((int64_t)sizeof *needed * units);
    bool split = p->settings->split_backward;
    for (int part = 0; part < (split ? 2 : 1); part++) {
        plan_executor_clear(p->executor);
        run_backwards(p, !split ? GRADIENT_BOTH : part == 0 ? GRADIENT_INPUT : GRADIENT_WEIGHT, NULL);
        find_needed(p, needed);
    }
    for (int u = 0; u < units; u++)
        memory->units[u].kept = needed[u];
    memory_free(needed);
    choose_offloaded(p);
    for (int u = 0; u < units; u++) /* from now on: the scratch of other micro-batches is planned too */
        p->model->units[u].gradient_rounded = p->model->units[u].rounds_gradients;
    p->kept_bytes = lay_out_kept(p);
    memory->kept_base = fake(p, p->kept_bytes);
    for (int b = 0; b < OFFLOAD_BUFFERS; b++)
        memory->buffers[b].device = fake(p, memory->buffers[b].bytes);
}

/* Gives every tensor of a pass that is not kept an address of its own, runs the pass, and lets tensors whose lifetimes
 * do not overlap share memory. */
static int64_t lay_out_transient(struct planner *p, enum pass_kind pass)
{
    struct engine_memory *memory = p->memory;
    int64_t spread = 0, count = tensor_count_of(p->model);
    struct lifetime *buffers = memory_allocate((int64_t)sizeof *buffers * count);
    int64_t **offsets = memory_allocate((int64_t)sizeof *offsets * count);
    count = 0;
    for (int u = 0; u < p->model->unit_count; u++) {
        struct unit_memory *own = &memory->units[u];
        for (int id = 0; id < p->model->units[u].tensor_count && unit_is_computed(&p->model->units[u]); id++) {
            bool kept = keeps(pass) && id_set_has(&own->kept, id);
            if (kept || p->model->units[u].tensors[id].name == NULL)
                continue;
            offsets[count] = &own->transient_offset[pass][id];
            *offsets[count] = spread;
            buffers[count].bytes = tensor_bytes(p, &p->model->units[u], id);
            spread += buffers[count++].bytes;
        }
    }
    memory->transient_base = fake(p, spread);
    for (int64_t i = 0; i < count; i++)
        buffers[i].base = memory->transient_base + *offsets[i];
    plan_executor_clear(p->executor);
    if (pass == PASS_BACKWARD)
        run_backwards(p, GRADIENT_BOTH, NULL);
    else
        run_forwards(p, pass, NULL);
    struct lifetime_arena arena = lifetime_plan(plan_executor_log(p->executor), buffers, count);
    if (arena.pinned > 0) /* passes share the arena */
        error_fatal("bug: a unit uses the other stream without execution_fork before it or execution_join after it");
    for (int64_t i = 0; i < count; i++)
        *offsets[i] = buffers[i].offset;
    memory_free(offsets);
    memory_free(buffers);
    return arena.bytes;
}

/* Plans the scratch of quantizing weights. */
static void quantize_weights(struct planner *p)
{
    for (int u = 0; u < p->model->unit_count; u++)
        if (unit_is_computed(&p->model->units[u]) && p->model->units[u].quantized_bytes > 0)
            p->model->units[u].class->quantize_weights(&p->execution, &p->model->units[u], true);
}

static bool is_used(enum memory_use use, enum pass_kind pass)
{
    static const enum pass_kind of_inference[] = {[MEMORY_EVALUATE] = PASS_EVALUATE,
                                                  [MEMORY_EMBED] = PASS_EMBED,
                                                  [MEMORY_LOGITS] = PASS_LOGITS,
                                                  [MEMORY_GENERATE] = PASS_GENERATE};
    return use == MEMORY_TRAIN ? keeps(pass) || pass == PASS_EVALUATE : pass == of_inference[use];
}

static void create_units(struct engine_memory *memory)
{
    const struct model *model = memory->model;
    const int64_t tensors = tensor_count_of(model);
    memory->units = memory_allocate((int64_t)sizeof *memory->units * model->unit_count);
    memory->offsets = memory_allocate((int64_t)sizeof *memory->offsets * tensors * (1 + PASS_COUNT));
    int64_t first = 0;
    for (int u = 0; u < model->unit_count; u++) {
        struct unit_memory *own = &memory->units[u];
        own->first_tensor = first;
        own->offload_number = -1;
        own->kept_offset = memory->offsets + first;
        for (int pass = 0; pass < PASS_COUNT; pass++)
            own->transient_offset[pass] = memory->offsets + (1 + pass) * tensors + first;
        if (model->units[u].layer >= 0)
            own->dropped =
                block_dropped_by(&model->units[u], recompute_of(&model->settings.recompute, model->units[u].layer));
        first += model->units[u].tensor_count;
    }
}

void memory_create(struct engine_memory *memory, struct model *model, const struct memory_settings *settings,
                   const struct execution *execution, struct budget *budget)
{
    *memory = (struct engine_memory){.model = model};
    for (int c = 0; c < MODEL_CHUNKS; c++)
        memory->offload[c].buffers = memory->buffers;
    create_units(memory);

    struct planner planner;
    start_planner(&planner, memory, settings, execution, budget->executor);
    if (settings->use == MEMORY_TRAIN)
        choose_kept(&planner);
    int64_t *places = memory_allocate((int64_t)sizeof *places * model->unit_count);
    if (settings->gradient_bytes > 0)
        place_gradients(&planner, places);
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        if (!is_used(settings->use, (enum pass_kind)pass))
            continue;
        int64_t bytes = lay_out_transient(&planner, (enum pass_kind)pass);
        if (bytes > memory->transient_bytes)
            memory->transient_bytes = bytes;
    }
    if (settings->use == MEMORY_TRAIN)
        quantize_weights(&planner);
    budget_reserve(budget, planner.executor);
    end_planner(&planner);

    for (int c = 0; c < MODEL_CHUNKS; c++)
        offload_allocate(&memory->offload[c], settings->slots[c], budget);
    offload_allocate_buffers(memory->buffers, budget);
    /* units exchange tensors of both with tensor ranks, or else with context ranks, or else with data ranks */
    struct group *group = execution->tensor != NULL ? execution->tensor : execution->row;
    if (group == NULL && group_size(execution->data) > 1 && execution->data->copies)
        group = execution->data;
    memory->kept_base =
        budget_allocate_gathered(budget, place_slots(memory, settings->slots), BUDGET_ACTIVATIONS, group);
    memory->gradients = memory_allocate((int64_t)sizeof *memory->gradients * model->unit_count);
    for (int u = 0; u < model->unit_count && settings->gradient_bytes > 0; u++)
        memory->gradients[u] = places[u] >= 0 ? memory->kept_base + places[u] : NULL;
    memory_free(places);
    memory->transient_base = budget_allocate_gathered(budget, memory->transient_bytes, BUDGET_TRANSIENT, group);
}

void memory_destroy(struct engine_memory *memory)
{
    for (int c = 0; c < MODEL_CHUNKS; c++)
        offload_destroy(&memory->offload[c]);
    memory_free(memory->gradients);
    memory_free(memory->offsets);
    memory_free(memory->units);
    memory->units = NULL;
}
