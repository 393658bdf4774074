#include "engine/engine.h"
#include "base/memory.h"
#include "model/linear.h"
#include "plan/plan.h"
#include "engine/engine_private.h"

static struct unit **append_unit(struct unit **at, struct unit *unit)
{
    if (unit_lender(unit) != NULL)
        *at++ = unit_lender(unit);
    *at++ = unit;
    return at;
}

/* Writes a chunk's acquisition order at `at`; returns its end. */
static struct unit **order_chunk(struct unit **at, struct model *model, const struct model_chunk *chunk,
                                 struct acquisition_order *order)
{
    order->forward = at;
    for (int u = chunk->first; u < chunk->end; u++) {
        at = append_unit(at, &model->units[u]);
        if (!model->units[u].class->idle_forward)
            order->training = (int)(at - order->forward);
    }
    order->count = (int)(at - order->forward);
    order->backward = at;
    for (int u = chunk->end - 1; u >= chunk->first; u--) {
        at = append_unit(at, &model->units[u]);
        if (!model->units[u].idle_backward)
            order->trained = (int)(at - order->backward);
    }
    return at;
}

static void create_orders(struct engine *e)
{
    struct unit **at = memory_allocate((int64_t)sizeof *at * 4 * e->model->unit_count);
    e->acquisitions = at;
    for (int c = 0; c < e->model->chunk_count; c++)
        at = order_chunk(at, e->model, &e->model->chunks[c], &e->orders[c]);
}

static void create_rope_table(struct engine *e)
{
    int64_t positions = engine_generates(e) ? e->settings.positions : e->settings.memory.row_tokens;
    int64_t width = e->model->settings.head_dim;
    enum dtype dtype = e->settings.memory.statistic;
    int64_t bytes = positions * width * dtype_size(dtype);
    e->rope_table = tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_BATCH), dtype, positions, width);
    if (e->executor->class->dry)
        return;
    struct tensor host = e->rope_table;
    host.data = memory_allocate(bytes);
    for (int64_t p = 0; p < positions; p++)
        for (int64_t i = 0; i < width; i++)
            tensor_put(&host, p, i, rope_table_value(&e->model->settings, p, i));
    LAUNCH(&e->streams[STREAM_COMPUTE], COPY, copy, .from = host, .to = e->rope_table);
    engine_synchronize(e);
    memory_free(host.data);
}

/* Allocates the host memory that the device reads and writes asynchronously. */
static void create_host(struct engine *e)
{
    enum { MORE = 256 /* for small tensors sent with a batch or an update */ };
    const struct memory_settings *m = &e->settings.memory;
    const struct batch largest = {.rows = m->rows,
                                  .row_tokens = m->row_tokens,
                                  .max_segments = m->max_segments,
                                  .numbers = model_numbers(&e->model->settings)};
    staging_create(&e->staging, e->executor,
                   batch_bytes(&largest) + engine_table_bytes(e) + engine_labelled_bytes(e) + engine_cache_bytes(e) +
                       MORE);
    for (int i = 0; i < ENGINE_RETURNS; i++) {
        struct engine_return *r = &e->returns[i];
        r->total = tensor_vector(e->executor->class->allocate(e->executor, 2 * dtype_size(DTYPE_F64), MEMORY_HOST),
                                 DTYPE_F64, 2);
        r->norm = tensor_vector(e->executor->class->allocate(e->executor, dtype_size(m->statistic), MEMORY_HOST),
                                m->statistic, 1);
    }
}

static void destroy_host(struct engine *e)
{
    for (int i = 0; i < ENGINE_RETURNS; i++) {
        e->executor->class->release(e->executor, e->returns[i].total.data, MEMORY_HOST);
        e->executor->class->release(e->executor, e->returns[i].norm.data, MEMORY_HOST);
        if (tensor_present(&e->returns[i].quantization_errors))
            e->executor->class->release(e->executor, e->returns[i].quantization_errors.data, MEMORY_HOST);
    }
    staging_destroy(&e->staging);
}

/* Reserves the scratch of an update; the dry runs of the units have determined theirs. */
static void reserve_for_update(struct engine *e)
{
    struct executor *plan = plan_executor_create(e->executor);
    struct stream stream = {plan, STREAM_COMPUTE, NULL};
    for (int u = 0; u < e->model->unit_count; u++)
        optimizer_plan_measure(&e->optimizer, e->store, &e->model->units[u], &stream);
    optimizer_scale(&e->optimizer, &stream, e->total);
    delayed_scaling_update(&e->scaling, &stream);
    for (int u = 0; u < e->model->unit_count; u++)
        optimizer_update(&e->optimizer, e->store, &e->model->units[u], &stream);
    budget_reserve(&e->budget, plan);
    plan->class->destroy(plan);
}

/* Memory is planned for steps that measure quantization errors, which need the most. */
static void create_quantization_errors(struct engine *e)
{
    const int64_t operands = operand_count(&e->model->settings);
    const int64_t bytes = operands * STATISTICS * dtype_size(DTYPE_F64);
    if (e->model->settings.precision.statistics.count == 0)
        return;
    e->quantization_errors =
        tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_BATCH), DTYPE_F64, operands, STATISTICS);
    for (int i = 0; i < ENGINE_RETURNS; i++)
        e->returns[i].quantization_errors = tensor_matrix(e->executor->class->allocate(e->executor, bytes, MEMORY_HOST),
                                                          DTYPE_F64, operands, STATISTICS);
    e->execution.quantization_errors = e->quantization_errors;
}

static void create_muon(struct engine *e)
{
    const bool sharded = e->settings.sharding.level != SHARD_NONE && group_size(e->groups.gather) > 1;
    muon_create(&e->optimizer.muon, &(struct muon_request){.settings = &e->settings.optimizer.muon,
                                                           .model = e->model,
                                                           .store = e->store,
                                                           .budget = &e->budget,
                                                           .shards = sharded ? e->groups.gather : NULL,
                                                           .owners = sharded ? e->groups.gather : e->groups.replicas,
                                                           .tensor = e->groups.shared,
                                                           .compute = e->settings.memory.compute});
}

static void create_scaling(struct engine *e)
{
    const struct model_settings *s = &e->model->settings;
    delayed_scaling_create(&e->scaling, s, &e->budget, e->settings.memory.statistic, &e->streams[STREAM_COMPUTE]);
    e->execution.amax = e->scaling.amax;
    e->execution.scales = e->scaling.scale;
}

static void start_transfers(const struct execution *execution)
{
    const struct engine *e = execution->owner->engine;
    e->store->class->start_transfers(e->store, execution->stream);
}

void engine_create(struct engine *e, struct executor *executor, struct model *model,
                   const struct parallel_groups *groups, const struct engine_settings *settings)
{
    static const struct execution_services services = {
        .address = memory_address, .start_transfers = start_transfers, .attended = engine_keep_attention};
    *e = (struct engine){.executor = executor, .model = model, .groups = *groups, .settings = *settings};
    engine_written(e, STORE_WRITTEN_ALL);
    const struct memory_settings *m = &e->settings.memory;
    for (int i = 0; i < STREAM_COUNT; i++)
        e->streams[i] = (struct stream){executor, i, NULL};
    budget_create(&e->budget, executor);
    create_orders(e);
    bool trains = m->use == MEMORY_TRAIN;
    engine_create_batches(e);
    engine_create_rows(e);
    create_rope_table(e);
    create_host(e);
    replay_create(&e->replay, executor,
                  settings->replays && (groups->data->class == NULL || !groups->data->class->waits));
    if (trains)
        optimizer_create(&e->optimizer, &settings->optimizer, model, tensor_columns(&e->sums, 2, e->sums.cols - 2),
                         settings->sharding.exact.squares, &e->budget, m->statistic);
    e->owner = (struct execution_owner){&e->memory, e};
    e->execution = (struct execution){.services = &services,
                                      .owner = &e->owner,
                                      .stream = &e->streams[STREAM_COMPUTE],
                                      .transfers = &e->streams[STREAM_EXCHANGE],
                                      .tensor = groups->tensor,
                                      .row = groups->context,
                                      .data = groups->data,
                                      .batch = &e->batches[0],
                                      .rope_table = e->rope_table,
                                      .compute = m->compute,
                                      .statistic = m->statistic};
    engine_create_stage_buffers(e);
    if (trains) {
        create_scaling(e);
        create_quantization_errors(e);
    }
    if (engine_generates(e))
        engine_create_sequences(e);
    engine_create_fetched(e);
    memory_create(&e->memory, model, m, &e->execution, &e->budget);
    const struct store_request request = {.model = model,
                                          .budget = &e->budget,
                                          .streams = e->streams,
                                          .groups = &e->groups,
                                          .sharding = settings->sharding,
                                          .compute = m->compute,
                                          .statistic = m->statistic,
                                          .trains = trains,
                                          .execution = &e->execution,
                                          .orders = e->orders,
                                          .gradients = e->memory.gradients};
    e->store = store_create(&request);
    e->execution.quantization_errors = (struct tensor){0};
    if (trains) {
        create_muon(e);
        reserve_for_update(e);
    }
}

void engine_destroy(struct engine *e)
{
    replay_destroy(&e->replay);
    muon_destroy(&e->optimizer.muon);
    e->store->class->destroy(e->store);
    memory_destroy(&e->memory);
    engine_destroy_rows(e);
    memory_free(e->labelled.rows);
    memory_free(e->batches);
    memory_free(e->acquisitions);
    engine_destroy_sequences(e);
    engine_destroy_fetched(e);
    destroy_host(e);
    budget_destroy(&e->budget);
}

void engine_weights_written(struct engine *e)
{
    delayed_scaling_restart(&e->scaling, &e->streams[STREAM_COMPUTE]);
    engine_written(e, STORE_WRITTEN_ALL);
}

int64_t engine_updates(struct engine *e)
{
    double updates = 0;
    if (tensor_present(&e->optimizer.updates))
        engine_read_values(e, e->optimizer.updates, &updates);
    return (int64_t)updates;
}

void engine_set_updates(struct engine *e, int64_t updates)
{
    LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->optimizer.updates, .value = (double)updates);
}

void engine_synchronize(struct engine *e)
{
    stream_synchronize(&e->streams[STREAM_COMPUTE]);
}
