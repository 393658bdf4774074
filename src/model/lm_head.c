#include "model/lm_head.h"
#include "model/embedding.h"
#include "model/linear.h"
#include "model/norm.h"
#include "model/sequence.h"

static const struct tensor absent;
static const struct norm last_norm = {LM_HEAD_NORM, LM_HEAD_NORM_BIAS, LM_HEAD_RSTD, LM_HEAD_MEAN, false};
static const struct norm transform_norm = {LM_HEAD_NORM2, LM_HEAD_NORM2_BIAS, LM_HEAD_RSTD2, LM_HEAD_MEAN2, false};

/* The head's linears, by their numbers. */
enum { HEAD_DENSE, HEAD_DECODER, HEAD_LINEARS };

static struct linear head_linear(const struct unit *unit, int number)
{
    const struct model_settings *s = unit->settings;
    return (struct linear){.first = LM_HEAD_LINEARS + number * LINEAR_TENSORS,
                           .first_copy = number * LINEAR_COPIES,
                           .section = -1,
                           .number = operand_number((int)s->layers, number, OPERAND_INPUT),
                           .precision = s->precision.head ? &s->precision.kinds[PRECISION_EIGHT] : NULL};
}

/* Of the transform. */
static struct linear dense_of(const struct unit *unit)
{
    struct linear linear = head_linear(unit, HEAD_DENSE);
    linear.weight = LM_HEAD_DENSE;
    linear.bias = LM_HEAD_DENSE_BIAS;
    linear.tokens = UNIT_TOKENS;
    linear.summed = true;
    return linear;
}

/* Of the chunk that begins with token `first`. */
static struct linear decoder_of(const struct unit *unit, int64_t first)
{
    struct linear linear = head_linear(unit, HEAD_DECODER);
    linear.weight = LM_HEAD_MATRIX;
    linear.bias = unit_family(unit)->decoder_bias ? LM_HEAD_BIAS : -1;
    linear.tokens = unit->head_tokens;
    linear.adds = first > 0;
    return linear;
}

static struct tensor first_rows(const struct context *c, const struct unit *unit, int id, int64_t rows)
{
    struct tensor all = unit_tensor(c, unit, id);
    return tensor_rows(&all, 0, rows);
}

/* From here on of the input's rows, which are all of the micro-batch's or fewer. */
static struct tensor final_norm(struct context *c, struct unit *unit, struct tensor input)
{
    struct tensor normed = first_rows(c, unit, LM_HEAD_NORMED, input.rows);
    norm_forward(c, unit, &last_norm, input, normed);
    return normed;
}

/* What the logits are products of. */
static struct tensor make_features(struct context *c, struct unit *unit, struct tensor normed)
{
    if (!unit_family(unit)->transform)
        return normed;
    struct tensor dense_out = first_rows(c, unit, LM_HEAD_DENSE_OUT, normed.rows);
    struct tensor activated = first_rows(c, unit, LM_HEAD_ACTIVATED, normed.rows);
    struct tensor features = first_rows(c, unit, LM_HEAD_FEATURES, normed.rows);
    const struct linear dense = dense_of(unit);
    const struct operand x = linear_input(c, unit, &dense, normed);
    linear_prepare(c, unit, &dense, &x);
    linear_forward(c, unit, &dense, &x, dense_out, absent);
    LAUNCH(c->stream, GELU_FORWARD, gelu_forward, .x = dense_out, .y = activated);
    norm_forward(c, unit, &transform_norm, activated, features);
    return features;
}

static void features_backward(struct context *c, struct unit *unit, struct tensor normed, struct tensor d_normed)
{
    struct tensor d_activated = unit_tensor(c, unit, LM_HEAD_D_ACTIVATED);
    struct tensor d_dense_out = unit_tensor(c, unit, LM_HEAD_D_DENSE_OUT);
    const struct linear dense = dense_of(unit);
    const struct operand x = linear_input(c, unit, &dense, normed);
    norm_backward(c, unit, &transform_norm, unit_tensor(c, unit, LM_HEAD_ACTIVATED),
                  unit_tensor(c, unit, LM_HEAD_D_FEATURES), absent, d_activated);
    LAUNCH(c->stream, GELU_BACKWARD, gelu_backward, .x = unit_tensor(c, unit, LM_HEAD_DENSE_OUT), .dy = d_activated,
           .dx = d_dense_out, .sum = linear_sum(c, unit, &dense), .accumulate = unit_accumulates(unit, dense.weight));
    linear_backward(c, unit, &dense, &x, d_dense_out, d_normed, NULL);
}

struct tensor lm_head_logits(const struct context *c, const struct unit *unit, int64_t rows)
{
    struct tensor padded = first_rows(c, unit, LM_HEAD_LOGITS, rows);
    return tensor_columns(&padded, 0, unit->settings->vocabulary);
}

/* Tokens first .. first + count - 1. */
struct chunk {
    struct tensor features, logits, labels, loss, lse;
    int64_t first, count;
};

static struct chunk chunk_at(const struct context *c, const struct unit *unit, struct tensor features, int64_t first)
{
    int64_t left = features.rows - first, count = left < unit->head_tokens ? left : unit->head_tokens;
    struct tensor loss = unit_tensor(c, unit, LM_HEAD_LOSS), lse = unit_tensor(c, unit, LM_HEAD_LSE);
    return (struct chunk){.features = tensor_rows(&features, first, count),
                          .logits = lm_head_logits(c, unit, count),
                          .labels = tensor_columns(&c->batch->labels, first, count),
                          .loss = tensor_columns(&loss, first, count),
                          .lse = tensor_columns(&lse, 0, count),
                          .first = first,
                          .count = count};
}

static void chunk_logits(struct context *c, struct unit *unit, const struct chunk *chunk)
{
    const struct linear decoder = decoder_of(unit, chunk->first);
    const struct operand x = linear_input(c, unit, &decoder, chunk->features);
    linear_prepare(c, unit, &decoder, &x);
    linear_forward(c, unit, &decoder, &x, chunk->logits, absent);
}

static void chunk_losses(struct context *c, const struct chunk *chunk, struct tensor total)
{
    LAUNCH(c->stream, XENT_STAT, xent_stat, .logits = chunk->logits, .labels = chunk->labels, .loss = chunk->loss,
           .lse = chunk->lse, .total = total);
}

static void last_logits(struct context *c, struct unit *unit, struct tensor input)
{
    struct tensor normed = final_norm(c, unit, tensor_rows(&input, input.rows - 1, 1));
    struct chunk chunk = chunk_at(c, unit, make_features(c, unit, normed), 0);
    chunk_logits(c, unit, &chunk);
}

static void losses(struct context *c, struct unit *unit, struct tensor input)
{
    struct tensor features = make_features(c, unit, final_norm(c, unit, input));
    for (int64_t first = 0; first < input.rows; first += unit->head_tokens) {
        struct chunk chunk = chunk_at(c, unit, features, first);
        chunk_logits(c, unit, &chunk);
        chunk_losses(c, &chunk, c->batch->total);
    }
}

/* That of all tokens. */
static struct tensor whole_input(struct context *c, struct unit *unit, struct tensor input)
{
    if (!sequence_is_cut(unit))
        return input;
    const struct tensor all = unit_tensor(c, unit, LM_HEAD_INPUT);
    sequence_gather(c, input, all);
    return all;
}

static void lm_head_forward(struct context *c, struct unit *unit, struct tensor input)
{
    if (c->pass == PASS_FORWARD)
        return;
    input = whole_input(c, unit, input);
    if (c->pass == PASS_GENERATE)
        last_logits(c, unit, input);
    else if (c->pass == PASS_EMBED)
        final_norm(c, unit, input);
    else
        losses(c, unit, input);
}

/* What comes before the decoder needs d_features in either half of a backward that is split in two. */
static void chunk_backward(struct context *c, struct unit *unit, const struct chunk *chunk, struct tensor d_features)
{
    const struct linear decoder = decoder_of(unit, chunk->first);
    const struct operand x = linear_input(c, unit, &decoder, chunk->features);
    struct context both = *c;
    both.gradients |= GRADIENT_INPUT;
    LAUNCH(c->stream, XENT_GRAD, xent_grad, .logits = chunk->logits, .labels = chunk->labels, .lse = chunk->lse);
    linear_backward(&both, unit, &decoder, &x, chunk->logits, tensor_rows(&d_features, chunk->first, chunk->count),
                    NULL);
}

static void lm_head_copy_weights(const struct context *c, struct unit *unit, bool all)
{
    const struct linear dense = dense_of(unit), decoder = decoder_of(unit, 0);
    if (unit_family(unit)->transform)
        linear_copy_weight(c, unit, &dense, all);
    linear_copy_weight(c, unit, &decoder, all);
}

static void lm_head_backward(struct context *c, struct unit *unit, struct tensor input, struct tensor output_gradient)
{
    (void)output_gradient;
    bool transform = unit_family(unit)->transform;
    struct tensor d_input = unit_tensor(c, unit, sequence_is_cut(unit) ? LM_HEAD_D_INPUT : UNIT_INPUT_GRADIENT);
    struct tensor d_normed = unit_tensor(c, unit, LM_HEAD_D_NORMED);
    struct tensor d_features = transform ? unit_tensor(c, unit, LM_HEAD_D_FEATURES) : d_normed;
    bool want_input = c->gradients & GRADIENT_INPUT;
    /* A backward that is split in two computes the losses in both halves but counts them once. */
    struct tensor total = want_input ? c->batch->total : c->batch->discarded;
    input = whole_input(c, unit, input);
    struct tensor normed = final_norm(c, unit, input), features = make_features(c, unit, normed);
    for (int64_t first = 0; first < input.rows; first += unit->head_tokens) {
        struct chunk chunk = chunk_at(c, unit, features, first);
        chunk_logits(c, unit, &chunk);
        chunk_losses(c, &chunk, total);
        chunk_backward(c, unit, &chunk, d_features);
    }
    if (transform)
        features_backward(c, unit, normed, d_normed);
    norm_backward(c, unit, &last_norm, input, d_normed, absent, d_input);
    if (sequence_is_cut(unit) && want_input)
        LAUNCH(c->stream, COPY, copy, .from = sequence_own(c, d_input),
               .to = unit_tensor(c, unit, UNIT_INPUT_GRADIENT));
}

static const struct unit_class lm_head_class = {.name = "lm_head",
                                                .forward = lm_head_forward,
                                                .backward = lm_head_backward,
                                                .copy_weights = lm_head_copy_weights,
                                                .idle_forward = true};

static void declare_weights(struct unit *unit, struct unit *embedding)
{
    const struct model_settings *s = unit->settings;
    const struct family *family = unit_family(unit);
    const struct family_names *names = &family->names;
    if (s->tied) {
        unit_share_weight(unit, LM_HEAD_MATRIX, embedding, EMBEDDING_TABLE);
    } else {
        unit_declare_weight(unit, LM_HEAD_MATRIX, s->vocabulary, s->hidden, STORAGE_MATRIX);
        unit_declare_parameter(unit, LM_HEAD_MATRIX, s->vocabulary, unit_random(unit, s->init_std), "%s.weight",
                               names->decoder);
    }
    norm_declare(unit, &last_norm, names->final_norm);
    if (family->transform) {
        unit_declare_weight(unit, LM_HEAD_DENSE, s->hidden, s->hidden, STORAGE_MATRIX);
        unit_declare_parameter(unit, LM_HEAD_DENSE, s->hidden, unit_random(unit, s->init_std), "%s.weight",
                               names->dense);
        unit_declare_weight(unit, LM_HEAD_DENSE_BIAS, 1, s->hidden, STORAGE_VECTOR);
        unit_declare_parameter(unit, LM_HEAD_DENSE_BIAS, s->hidden, unit_constant(0), "%s.bias", names->dense);
        norm_declare(unit, &transform_norm, names->head_norm);
    }
    if (family->decoder_bias) {
        unit_declare_weight(unit, LM_HEAD_BIAS, 1, s->vocabulary, STORAGE_VECTOR);
        unit_declare_parameter(unit, LM_HEAD_BIAS, s->vocabulary, unit_constant(0), "%s", names->decoder_bias);
    }
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
    unit->decoupled[STORAGE_MATRIX] = s->decoupled;
    for (int i = 0; i < unit->parameter_count; i++)
        parameter_share(&unit->parameters[i], &s->layer, false);
}

static void declare_wide(struct unit *unit, int id, const char *name)
{
    unit_declare_tensor(unit, id, name, UNIT_TOKENS, unit->settings->hidden, ROLE_VALUE);
}

void lm_head_declare(struct unit *unit, struct unit *embedding, int64_t head_tokens)
{
    int64_t row = (unit->settings->vocabulary + LM_HEAD_ALIGNMENT - 1) / LM_HEAD_ALIGNMENT * LM_HEAD_ALIGNMENT;
    unit->class = &lm_head_class;
    unit->head_tokens = head_tokens < unit->tokens ? head_tokens : unit->tokens;
    declare_weights(unit, embedding);
    unit_declare_tensor(unit, UNIT_INPUT_GRADIENT, "d input", UNIT_OWN_TOKENS, unit->settings->hidden, ROLE_VALUE);
    if (sequence_is_cut(unit)) {
        declare_wide(unit, LM_HEAD_INPUT, "input");
        declare_wide(unit, LM_HEAD_D_INPUT, "d input of all tokens");
    }
    declare_wide(unit, LM_HEAD_NORMED, "normed");
    declare_wide(unit, LM_HEAD_D_NORMED, "d normed");
    if (unit_family(unit)->transform) {
        declare_wide(unit, LM_HEAD_DENSE_OUT, "dense");
        declare_wide(unit, LM_HEAD_ACTIVATED, "activated");
        declare_wide(unit, LM_HEAD_FEATURES, "features");
        declare_wide(unit, LM_HEAD_D_FEATURES, "d features");
        declare_wide(unit, LM_HEAD_D_ACTIVATED, "d activated");
        declare_wide(unit, LM_HEAD_D_DENSE_OUT, "d dense");
    }
    unit_declare_tensor(unit, LM_HEAD_LOGITS, "logits", unit->head_tokens, row, ROLE_VALUE);
    unit_declare_tensor(unit, LM_HEAD_LOSS, "loss", 1, UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, LM_HEAD_LSE, "lse", 1, unit->head_tokens, ROLE_STATISTIC);
    const struct linear dense = dense_of(unit), decoder = decoder_of(unit, 0);
    if (unit_family(unit)->transform)
        linear_declare(unit, &dense);
    linear_declare(unit, &decoder);
}
