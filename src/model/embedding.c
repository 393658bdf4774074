#include "model/embedding.h"
#include "model/execution.h"
#include "model/sequence.h"

/* The first three are gathered from the data ranks. The last two exist with sequence parallelism only: OF_ALL_TOKENS is
 * this rank's term of the output's sum in forward, and the gathered output gradient in backward, of all tokens;
 * SUM_SCRATCH is scratch for the sum. */
enum { ALL_TOKENS = UNIT_FIRST_OWN, ALL_FACTORS, ALL_GRADIENTS, OF_ALL_TOKENS, SUM_SCRATCH };

static const struct tensor absent;

static struct tensor factors(const struct execution *execution, const struct unit *unit)
{
    return unit->settings->token_dropout ? execution->batch->scale : absent;
}

/* x *= the factor of the residual stream. */
static void scale(const struct execution *execution, const struct unit *unit, struct tensor x)
{
    const double factor = model_stream_factor(unit->settings);
    if (factor != 1)
        LAUNCH(execution->stream, MULTIPLY, multiply, .x = x, .factor = factor);
}

/* Each tensor rank has some rows of the table and looks up their tokens; the sum over ranks is the output. */
static void embedding_forward(struct execution *execution, struct unit *unit, struct tensor input)
{
    (void)input;
    if (!execution_wants(execution, UNIT_OUTPUT))
        return;
    const struct tensor output = unit_tensor(execution, unit, UNIT_OUTPUT);
    const struct tensor part = sequence_parallel(unit) ? unit_tensor(execution, unit, OF_ALL_TOKENS) : output;
    LAUNCH(execution->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = execution->batch->tokens,
           .scale = factors(execution, unit), .weight = unit_weight(execution, unit, EMBEDDING_TABLE), .y = part,
           .origin = model_vocabulary(unit->settings).first);
    scale(execution, unit, part);
    if (tensor_ranks(&unit->settings->tensor) > 1)
        sequence_sum(execution, unit, part, output, SUM_SCRATCH);
}

static struct tensor gathered(struct execution *execution, const struct unit *unit, int id, struct tensor own)
{
    struct tensor all = unit_tensor(execution, unit, id);
    const int64_t ranks = execution->data->size, count = tensor_count(&own);
    CHECK_BUG(tensor_count(&all) == ranks * count);
    LAUNCH(execution->stream, ALL_GATHER, all_gather, .group = execution->data,
           .in = tensor_vector(own.data, own.dtype, count), .out = tensor_matrix(all.data, all.dtype, ranks, count));
    return all;
}

/* The stream of units has no other work left, so the gathers run on it, before pending gradient sums start. Those sums
 * may use the same group on another stream. This cannot deadlock: a group's collectives run in launch order, which
 * follows the schedule's actions and is the same on all ranks, and none waits for a later launch. */
static void gather(struct execution *execution, const struct unit *unit, struct embedding_backward_args *args)
{
    args->tokens = gathered(execution, unit, ALL_TOKENS, args->tokens);
    if (tensor_present(&args->scale))
        args->scale = gathered(execution, unit, ALL_FACTORS, args->scale);
    args->dy = gathered(execution, unit, ALL_GRADIENTS, args->dy);
}

static void embedding_backward(struct execution *execution, struct unit *unit, struct tensor input,
                               struct tensor output_gradient)
{
    (void)input;
    const bool weight = execution->gradients & GRADIENT_WEIGHT;
    if (weight)
        scale(execution, unit, output_gradient);
    if (weight && sequence_parallel(unit)) {
        const struct tensor all = unit_tensor(execution, unit, OF_ALL_TOKENS);
        sequence_place(execution, output_gradient, all);
        sequence_gather(execution, all);
        output_gradient = all;
    }
    struct embedding_backward_args args = {
        .tokens = execution->batch->tokens, .scale = factors(execution, unit), .dy = output_gradient};
    if (weight && unit->complete_gradients)
        gather(execution, unit, &args);
    execution_start_transfers(execution);
    if (weight)
        LAUNCH(execution->stream, EMBEDDING_BACKWARD, embedding_backward, .tokens = args.tokens, .scale = args.scale,
               .dy = args.dy, .dweight = unit_gradient(execution, unit, EMBEDDING_TABLE),
               .padding = model_padding(unit->settings), .origin = model_vocabulary(unit->settings).first,
               .accumulate = unit_accumulates(unit, EMBEDDING_TABLE));
}

static const struct unit_class embedding_class = {
    .name = "embedding", .forward = embedding_forward, .backward = embedding_backward, .reads_forward_only = true};

static void declare_gathered(struct unit *unit)
{
    unit_declare_tensor(unit, ALL_TOKENS, "tokens of all ranks", 1, UNIT_ALL_TOKENS, ROLE_I32);
    if (unit->settings->token_dropout)
        unit_declare_tensor(unit, ALL_FACTORS, "factors of all ranks", 1, UNIT_ALL_TOKENS, ROLE_F32);
    unit_declare_tensor(unit, ALL_GRADIENTS, "d embedded of all ranks", UNIT_ALL_TOKENS, unit->settings->hidden,
                        ROLE_VALUE);
}

int64_t embedding_token_bytes(const struct model_settings *settings, enum dtype compute)
{
    return dtype_size(DTYPE_I32) + (settings->token_dropout ? dtype_size(DTYPE_F32) : 0) +
           settings->hidden * dtype_size(compute);
}

void embedding_declare(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    unit->class = &embedding_class;
    const struct vocabulary_part part = model_vocabulary(s);
    unit_declare_weight(unit, EMBEDDING_TABLE, part.rows, s->hidden, STORAGE_MATRIX);
    unit_reserve(unit, EMBEDDING_TABLE, part.most);
    struct initial_value initial = unit_random(unit, s->embedding_std);
    initial.zero_row = model_zero_row(s);
    parameter_place(unit_declare_parameter(unit, EMBEDDING_TABLE, part.rows, initial, "%s.weight",
                                           unit_family(unit)->names.embedding),
                    s->vocabulary, s->hidden, part.first, 0);
    unit->decay[STORAGE_MATRIX] = s->decay_embedding;
    unit->decoupled[STORAGE_MATRIX] = s->decoupled;
    unit_declare_tensor(unit, UNIT_OUTPUT, "embedded", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE);
    if (sequence_parallel(unit))
        unit_declare_tensor(unit, OF_ALL_TOKENS, "of all tokens", UNIT_TOKENS, s->hidden, ROLE_VALUE);
    sequence_declare_scratch(unit, SUM_SCRATCH, UNIT_TOKENS, s->hidden);
    unit->complete_gradients = s->embedding_ranks > 1;
    if (unit->complete_gradients)
        declare_gathered(unit);
}
