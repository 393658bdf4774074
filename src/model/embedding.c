#include "model/embedding.h"

static const struct tensor absent;

static struct tensor factors(const struct context *context, const struct unit *unit)
{
    return unit->settings->token_dropout ? context->batch->scale : absent;
}

static void embedding_forward(struct context *context, struct unit *unit, struct tensor input)
{
    (void)input;
    if (context_wants(context, UNIT_OUTPUT))
        LAUNCH(context->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = context->batch->tokens,
               .scale = factors(context, unit), .weight = unit_weight(context, unit, EMBEDDING_TABLE),
               .y = unit_tensor(context, unit, UNIT_OUTPUT));
}

static void embedding_backward(struct context *context, struct unit *unit, struct tensor input,
                               struct tensor output_gradient)
{
    (void)input;
    context_shares(context);
    if (context->gradients & GRADIENT_WEIGHT)
        LAUNCH(context->stream, EMBEDDING_BACKWARD, embedding_backward, .tokens = context->batch->tokens,
               .scale = factors(context, unit), .dy = output_gradient,
               .dweight = unit_gradient(context, unit, EMBEDDING_TABLE), .padding = unit_family(unit)->padding,
               .accumulate = unit_accumulates(unit, EMBEDDING_TABLE));
}

static const struct unit_class embedding_class = {
    .name = "embedding", .forward = embedding_forward, .backward = embedding_backward, .reads_forward_only = true};

void embedding_declare(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    unit->class = &embedding_class;
    unit_declare_weight(unit, EMBEDDING_TABLE, s->vocabulary, s->hidden, STORAGE_MATRIX);
    struct initial initial = unit_random(unit, s->embedding_std);
    initial.zero_row = unit_family(unit)->zero_row;
    unit_declare_parameter(unit, EMBEDDING_TABLE, s->vocabulary, initial, "%s.weight",
                           unit_family(unit)->names.embedding);
    unit->decay[STORAGE_MATRIX] = s->decay_embedding;
    unit_declare_tensor(unit, UNIT_OUTPUT, "embedded", UNIT_TOKENS, s->hidden, ROLE_VALUE);
}
