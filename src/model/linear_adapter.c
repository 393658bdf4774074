#include "model/linear_adapter.h"

static const struct unit_class adapters_class = {.name = "adapters"};

void adapters_declare(struct unit *unit)
{
    unit->class = &adapters_class;
    unit->decay[STORAGE_MATRIX] = unit->settings->decay_matrices;
}

void adapter_declare(struct unit *unit, const struct linear_adapter *adapter, int64_t tokens, int64_t inputs)
{
    const int64_t width = adapter->count * unit->settings->lora.rank;
    if (adapter->count == 0)
        return;
    unit_declare_tensor(unit, adapter->adapted, "adapted", tokens, width, ROLE_VALUE);
    unit_declare_tensor(unit, adapter->gradient, "d adapted", tokens, width, ROLE_VALUE);
    if (lora_drops(&unit->settings->lora))
        unit_declare_tensor(unit, adapter->dropped, "dropped", tokens, inputs, ROLE_VALUE);
}

/* Returns part number `part` of a tensor whose columns are those of s x A'. */
static struct tensor columns_of(const struct unit *unit, const struct tensor *adapted, int part)
{
    const int64_t rank = unit->settings->lora.rank;
    return tensor_columns(adapted, part * rank, rank);
}

/* Returns the rows of B, or of its gradient, of part number `part`. */
static struct tensor rows_of(const struct linear_adapter *adapter, const struct tensor *b, int part)
{
    int64_t first = 0;
    for (int p = 0; p < part; p++)
        first += adapter->parts[p].rows;
    return tensor_rows(b, first, adapter->parts[part].rows);
}

static struct tensor outputs_of(const struct linear_adapter *adapter, const struct tensor *y, int part)
{
    return tensor_columns(y, adapter->parts[part].first, adapter->parts[part].rows);
}

static void multiply(const struct execution *e, const struct unit *unit, struct tensor x)
{
    const double factor = lora_factor(&unit->settings->lora);
    if (factor != 1)
        LAUNCH(e->stream, MULTIPLY, multiply, .x = x, .factor = factor);
}

/* Returns whether the pass has dropout. */
static bool drops(const struct execution *e, const struct unit *unit)
{
    return lora_drops(&unit->settings->lora) && (e->pass == PASS_FORWARD || e->pass == PASS_BACKWARD);
}

/* y (+)= d(x); x, y: [T, in]. */
static void drop(const struct execution *e, const struct unit *unit, const struct linear_adapter *adapter,
                 struct tensor x, struct tensor y, bool accumulate)
{
    LAUNCH(e->stream, DROPOUT, dropout, .x = x,
           .keys = tensor_columns(&e->batch->dropout_keys, adapter->first_token, x.rows), .y = y,
           .probability = unit->settings->lora.dropout, .salt = adapter->salt,
           .origin = adapter->splits_inputs ? unit->settings->tensor.rank * x.cols : 0, .accumulate = accumulate);
}

/* Returns d(x), which A multiplies: x itself without dropout. */
static struct tensor dropped(const struct execution *e, const struct unit *unit, const struct linear_adapter *adapter,
                             struct tensor x)
{
    if (!drops(e, unit))
        return x;
    const struct tensor y = unit_first_rows(e, unit, adapter->dropped, x.rows);
    drop(e, unit, adapter, x, y, false);
    return y;
}

void adapter_project(const struct execution *e, const struct unit *unit, const struct linear_adapter *adapter,
                     struct tensor x)
{
    if (adapter->count == 0)
        return;
    const struct tensor adapted = unit_first_rows(e, unit, adapter->adapted, x.rows);
    LAUNCH(e->stream, GEMM, gemm, .a = dropped(e, unit, adapter, x), .b = unit_weight(e, unit, adapter->a),
           .transpose_b = true, .d = adapted);
    multiply(e, unit, adapted);
}

void adapter_forward(const struct execution *e, const struct unit *unit, const struct linear_adapter *adapter,
                     struct tensor y)
{
    if (adapter->count == 0)
        return;
    const struct tensor adapted = unit_first_rows(e, unit, adapter->adapted, y.rows);
    const struct tensor b = unit_weight(e, unit, adapter->b);
    for (int p = 0; p < adapter->count; p++) {
        const struct tensor outputs = outputs_of(adapter, &y, p);
        LAUNCH(e->stream, GEMM, gemm, .a = columns_of(unit, &adapted, p), .b = rows_of(adapter, &b, p),
               .transpose_b = true, .c = outputs, .d = outputs);
    }
}

void adapter_gradient(const struct execution *e, const struct unit *unit, const struct linear_adapter *adapter,
                      struct tensor dy)
{
    if (adapter->count == 0)
        return;
    const struct tensor gradient = unit_first_rows(e, unit, adapter->gradient, dy.rows);
    const struct tensor b = unit_weight(e, unit, adapter->b);
    for (int p = 0; p < adapter->count; p++)
        LAUNCH(e->stream, GEMM, gemm, .a = outputs_of(adapter, &dy, p), .b = rows_of(adapter, &b, p),
               .d = columns_of(unit, &gradient, p));
    multiply(e, unit, gradient);
}

void adapter_input_gradient(const struct execution *e, const struct unit *unit, const struct linear_adapter *adapter,
                            struct tensor dx)
{
    if (adapter->count == 0 || (e->gradients & GRADIENT_INPUT) == 0)
        return;
    const struct tensor gradient = unit_first_rows(e, unit, adapter->gradient, dx.rows);
    const struct tensor a = unit_weight(e, unit, adapter->a);
    if (!drops(e, unit)) {
        LAUNCH(e->stream, GEMM, gemm, .a = gradient, .b = a, .c = dx, .d = dx);
        return;
    }
    const struct tensor through = unit_first_rows(e, unit, adapter->dropped, dx.rows);
    LAUNCH(e->stream, GEMM, gemm, .a = gradient, .b = a, .d = through);
    drop(e, unit, adapter, through, dx, true);
}

void adapter_weight_gradients(const struct execution *e, const struct unit *unit, const struct linear_adapter *adapter,
                              struct tensor x, struct tensor dy, bool adds)
{
    if (adapter->count == 0 || !e->trains_adapters)
        return;
    const struct tensor adapted = unit_first_rows(e, unit, adapter->adapted, x.rows);
    const struct tensor gradient = unit_first_rows(e, unit, adapter->gradient, x.rows);
    const struct tensor db = unit_gradient(e, unit, adapter->b);
    const bool accumulate = adds || unit_accumulates(unit, adapter->a);
    for (int p = 0; p < adapter->count; p++)
        LAUNCH(e->stream, GEMM, gemm, .a = outputs_of(adapter, &dy, p), .transpose_a = true,
               .b = columns_of(unit, &adapted, p), .d = rows_of(adapter, &db, p), .accumulate = accumulate);
    LAUNCH(e->stream, GEMM, gemm, .a = gradient, .transpose_a = true, .b = dropped(e, unit, adapter, x),
           .d = unit_gradient(e, unit, adapter->a), .accumulate = accumulate);
}
