#include "model/lm_head.h"
#include "base/range.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/linear.h"
#include "model/norm.h"
#include "model/sequence.h"

static const struct tensor absent;
static const struct norm last_norm = {LM_HEAD_NORM, LM_HEAD_NORM_BIAS, LM_HEAD_RSTD, LM_HEAD_MEAN, true, NORM_FINAL};
static const struct norm transform_norm = {LM_HEAD_NORM2, LM_HEAD_NORM2_BIAS, LM_HEAD_RSTD2, LM_HEAD_MEAN2,
                                           true,          NORM_TRANSFORM};

/* Returns whether the vocabulary is split over tensor ranks. */
static bool is_split(const struct unit *unit)
{
    return tensor_ranks(&unit->settings->tensor) > 1;
}

/* The head's linears, by their numbers. */
enum { HEAD_DENSE, HEAD_DECODER, HEAD_LINEARS };

static struct linear head_linear(const struct unit *unit, int number)
{
    const struct model_settings *s = unit->settings;
    return (struct linear){.first = LM_HEAD_LINEARS + number * LINEAR_TENSORS,
                           .first_quantized = number * LINEAR_QUANTIZED,
                           .section = -1,
                           .number = operand_number((int)s->layers, number, OPERAND_INPUT),
                           .precision = s->precision.head ? &s->precision.kinds[PRECISION_EIGHT] : NULL};
}

static struct linear dense_of(const struct unit *unit)
{
    struct linear linear = head_linear(unit, HEAD_DENSE);
    linear.weight = LM_HEAD_DENSE;
    linear.bias = LM_HEAD_DENSE_BIAS;
    linear.tokens = UNIT_TOKENS;
    linear.summed = true;
    return linear;
}

/* first: first token of the slice. */
static struct linear decoder_of(const struct unit *unit, int64_t first)
{
    struct linear linear = head_linear(unit, HEAD_DECODER);
    linear.weight = LM_HEAD_MATRIX;
    linear.bias = unit_family(unit)->decoder_bias ? LM_HEAD_BIAS : -1;
    linear.tokens = unit->head_tokens;
    linear.adds = first > 0;
    return linear;
}

/* Returns whether the head computes only the rows of labelled tokens. */
static bool selects_rows(const struct execution *e)
{
    return tensor_present(&e->batch->labelled.rows);
}

/* Returns the rows of the input that the head computes. */
static struct tensor selected_rows(struct execution *e, const struct unit *unit, struct tensor input)
{
    if (!selects_rows(e))
        return input;
    const struct tensor rows = unit_first_rows(e, unit, LM_HEAD_INPUT, e->batch->labelled.rows.cols);
    LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = e->batch->labelled.rows, .weight = input,
           .y = rows);
    return rows;
}

/* The gradient of the selected rows becomes that of the input, with zeros for the other tokens: their place is beyond
 * the last row. */
static void spread_gradient(struct execution *e, const struct unit *unit, struct tensor gradient)
{
    if (selects_rows(e))
        LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = e->batch->labelled.places, .weight = gradient,
               .y = unit_tensor(e, unit, UNIT_INPUT_GRADIENT));
}

/* Normalises the input, whose rows are all of the micro-batch's or fewer. */
static struct tensor final_norm(struct execution *e, struct unit *unit, struct tensor input)
{
    struct tensor normed = unit_first_rows(e, unit, LM_HEAD_NORMED, input.rows);
    norm_forward(e, unit, &last_norm, input, normed);
    return normed;
}

/* Returns the input of the decoder, for this rank's tokens between linear layers (UNIT_OWN_TOKENS). */
static struct tensor make_features(struct execution *e, struct unit *unit, struct tensor normed)
{
    if (!unit_family(unit)->transform)
        return normed;
    struct tensor dense_out = unit_first_rows(e, unit, LM_HEAD_DENSE_OUT, normed.rows);
    struct tensor activated = unit_first_rows(e, unit, LM_HEAD_ACTIVATED, normed.rows);
    struct tensor features = unit_first_rows(e, unit, LM_HEAD_FEATURES, normed.rows);
    const struct linear dense = dense_of(unit);
    const struct operand x = linear_input(e, unit, &dense, normed);
    linear_prepare(e, unit, &dense, &x);
    linear_forward(e, unit, &dense, &x, dense_out, absent);
    LAUNCH(e->stream, GELU_FORWARD, gelu_forward, .x = dense_out, .y = activated);
    norm_forward(e, unit, &transform_norm, activated, features);
    return features;
}

/* Each rank needs the features of all tokens, for its part of the vocabulary. */
static struct tensor all_features(const struct execution *e, const struct unit *unit, struct tensor features)
{
    if (!sequence_parallel(unit))
        return features;
    const struct tensor all = unit_first_rows(e, unit, LM_HEAD_ALL_FEATURES, features.rows * e->tensor->size);
    sequence_place(e, features, all);
    sequence_gather(e, all);
    return all;
}

static void features_backward(struct execution *e, struct unit *unit, struct tensor normed, struct tensor d_normed)
{
    struct tensor d_activated = unit_first_rows(e, unit, LM_HEAD_D_ACTIVATED, normed.rows);
    struct tensor d_dense_out = unit_first_rows(e, unit, LM_HEAD_D_DENSE_OUT, normed.rows);
    const struct linear dense = dense_of(unit);
    const struct operand x = linear_input(e, unit, &dense, normed);
    norm_backward(e, unit, &transform_norm,
                  &(struct norm_gradients){.x = unit_first_rows(e, unit, LM_HEAD_ACTIVATED, normed.rows),
                                           .dy = unit_first_rows(e, unit, LM_HEAD_D_FEATURES, normed.rows),
                                           .dx = d_activated});
    LAUNCH(e->stream, GELU_BACKWARD, gelu_backward, .x = unit_first_rows(e, unit, LM_HEAD_DENSE_OUT, normed.rows),
           .dy = d_activated, .dx = d_dense_out, .sum = linear_sum(e, unit, &dense),
           .accumulate = unit_accumulates(unit, dense.weight));
    linear_backward(e, unit, &dense, &x, d_dense_out, d_normed, NULL, NULL);
}

struct tensor lm_head_logits(const struct execution *e, const struct unit *unit, int64_t rows)
{
    struct tensor padded = unit_first_rows(e, unit, LM_HEAD_LOGITS, rows);
    return tensor_columns(&padded, 0, model_vocabulary(unit->settings).rows);
}

struct tensor lm_head_end_logits(const struct execution *e, const struct unit *unit)
{
    const int64_t count = e->batch->ends.cols;
    return is_split(unit) ? unit_first_rows(e, unit, LM_HEAD_ALL_LOGITS, count) : lm_head_logits(e, unit, count);
}

/* Rows first .. first + count - 1 of those that the head computes. */
struct token_slice {
    struct tensor features, logits, labels, loss, lse;
    int64_t first, count;
};

static struct token_slice slice_at(const struct execution *e, const struct unit *unit, struct tensor features,
                                   int64_t first)
{
    int64_t left = features.rows - first, count = MIN(left, unit->head_tokens);
    const struct tensor labels = selects_rows(e) ? e->batch->labelled.labels : e->batch->labels;
    struct tensor loss = unit_tensor(e, unit, LM_HEAD_LOSS), lse = unit_tensor(e, unit, LM_HEAD_LSE);
    return (struct token_slice){.features = tensor_rows(&features, first, count),
                                .logits = lm_head_logits(e, unit, count),
                                .labels = tensor_columns(&labels, first, count),
                                .loss = tensor_columns(&loss, first, count),
                                .lse = tensor_columns(&lse, 0, count),
                                .first = first,
                                .count = count};
}

static void slice_logits(struct execution *e, struct unit *unit, const struct token_slice *slice)
{
    const struct linear decoder = decoder_of(unit, slice->first);
    const struct operand x = linear_input(e, unit, &decoder, slice->features);
    linear_prepare(e, unit, &decoder, &x);
    linear_forward(e, unit, &decoder, &x, slice->logits, absent);
}

/* Every rank computes the losses, from the statistics of all parts of the vocabulary; `total` decides on which rank
 * they count. */
static void merged_losses(struct execution *e, const struct unit *unit, const struct token_slice *slice,
                          struct tensor total)
{
    const struct tensor statistics =
        tensor_matrix(e->services->address(e, unit, LM_HEAD_STATISTICS), execution_dtype(e, ROLE_STATISTIC),
                      e->tensor->size * XENT_STATISTICS, slice->count);
    const struct tensor own = sequence_own(e, statistics);
    LAUNCH(e->stream, XENT_PART, xent_part, .logits = slice->logits, .labels = slice->labels, .statistics = own,
           .origin = model_vocabulary(unit->settings).first);
    sequence_gather(e, statistics);
    LAUNCH(e->stream, XENT_MERGE, xent_merge, .statistics = statistics, .labels = slice->labels, .loss = slice->loss,
           .lse = slice->lse, .total = total);
}

static void slice_losses(struct execution *e, const struct unit *unit, const struct token_slice *slice)
{
    if (is_split(unit))
        merged_losses(e, unit, slice, e->batch->total);
    else
        LAUNCH(e->stream, XENT_STAT, xent_stat, .logits = slice->logits, .labels = slice->labels, .loss = slice->loss,
               .lse = slice->lse, .total = e->batch->total);
}

/* Computes the losses, and replaces the logits by their gradient. */
static void differentiate_slice(struct execution *e, const struct unit *unit, const struct token_slice *slice,
                                struct tensor total)
{
    const float z_loss = (float)unit->settings->z_loss;
    if (!is_split(unit)) {
        LAUNCH(e->stream, XENT_BOTH, xent_both, .logits = slice->logits, .labels = slice->labels, .loss = slice->loss,
               .total = total, .z_loss = z_loss);
        return;
    }
    merged_losses(e, unit, slice, total);
    LAUNCH(e->stream, XENT_GRAD, xent_grad, .logits = slice->logits, .labels = slice->labels, .lse = slice->lse,
           .origin = model_vocabulary(unit->settings).first, .z_loss = z_loss);
}

/* Sums the ranks' logits, with zeros for the rest of the vocabulary. */
static void collect_logits(struct execution *e, struct unit *unit, struct tensor own)
{
    const struct tensor all = unit_first_rows(e, unit, LM_HEAD_ALL_LOGITS, own.rows);
    LAUNCH(e->stream, FILL, fill, .x = all, .value = 0);
    LAUNCH(e->stream, COPY, copy, .from = own,
           .to = tensor_columns(&all, model_vocabulary(unit->settings).first, own.cols));
    sequence_sum(e, unit, all, all, LM_HEAD_SCRATCH);
}

static void end_logits(struct execution *e, struct unit *unit, struct tensor input)
{
    const struct tensor ends = e->batch->ends;
    if (ends.cols == 0)
        return;
    const struct tensor rows = unit_first_rows(e, unit, LM_HEAD_ENDS, ends.cols);
    LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = ends, .weight = input, .y = rows);
    struct token_slice slice = slice_at(e, unit, make_features(e, unit, final_norm(e, unit, rows)), 0);
    CHECK_BUG(slice.count == ends.cols);
    slice_logits(e, unit, &slice);
    if (is_split(unit))
        collect_logits(e, unit, slice.logits);
}

static void losses(struct execution *e, struct unit *unit, struct tensor input)
{
    struct tensor normed = final_norm(e, unit, selected_rows(e, unit, input));
    struct tensor features = all_features(e, unit, make_features(e, unit, normed));
    for (int64_t first = 0; first < features.rows; first += unit->head_tokens) {
        struct token_slice slice = slice_at(e, unit, features, first);
        slice_logits(e, unit, &slice);
        slice_losses(e, unit, &slice);
    }
}

static void lm_head_forward(struct execution *e, struct unit *unit, struct tensor input)
{
    CHECK_BUG(e->pass == PASS_EVALUATE || e->pass == PASS_FORWARD || !sequence_parallel(unit));
    if (e->pass == PASS_GENERATE || e->pass == PASS_LOGITS)
        end_logits(e, unit, input);
    else if (e->pass == PASS_EMBED)
        final_norm(e, unit, input);
    else if (e->pass == PASS_EVALUATE)
        losses(e, unit, input);
}

/* Backward of the decoder. Both halves of a split backward need d_features, for the units before the decoder. */
static void slice_backward(struct execution *e, struct unit *unit, const struct token_slice *slice,
                           struct tensor d_features)
{
    const struct linear decoder = decoder_of(unit, slice->first);
    const struct operand x = linear_input(e, unit, &decoder, slice->features);
    struct execution both = *e;
    both.gradients |= GRADIENT_INPUT;
    linear_backward(&both, unit, &decoder, &x, slice->logits, tensor_rows(&d_features, slice->first, slice->count),
                    NULL, NULL);
}

static void lm_head_quantize_weights(const struct execution *e, struct unit *unit, bool all)
{
    const struct linear dense = dense_of(unit), decoder = decoder_of(unit, 0);
    if (unit_family(unit)->transform)
        linear_quantize_weight(e, unit, &dense, all);
    linear_quantize_weight(e, unit, &decoder, all);
}

static void lm_head_backward(struct execution *e, struct unit *unit, struct tensor input, struct tensor output_gradient)
{
    (void)output_gradient;
    bool transform = unit_family(unit)->transform;
    /* Both halves of a split backward compute the losses, but only one counts them. */
    struct tensor total = e->gradients & GRADIENT_INPUT ? e->batch->total : e->batch->discarded;
    struct tensor rows = selected_rows(e, unit, input), normed = final_norm(e, unit, rows);
    struct tensor features = all_features(e, unit, make_features(e, unit, normed));
    struct tensor d_rows = unit_first_rows(e, unit, selects_rows(e) ? LM_HEAD_D_INPUT : UNIT_INPUT_GRADIENT, rows.rows);
    struct tensor d_normed = unit_first_rows(e, unit, LM_HEAD_D_NORMED, rows.rows);
    struct tensor d_features = transform ? unit_first_rows(e, unit, LM_HEAD_D_FEATURES, rows.rows) : d_normed;
    struct tensor d_part =
        sequence_parallel(unit) ? unit_first_rows(e, unit, LM_HEAD_D_ALL_FEATURES, features.rows) : d_features;
    for (int64_t first = 0; first < features.rows; first += unit->head_tokens) {
        struct token_slice slice = slice_at(e, unit, features, first);
        slice_logits(e, unit, &slice);
        differentiate_slice(e, unit, &slice, total);
        slice_backward(e, unit, &slice, d_part);
    }
    if (is_split(unit))
        sequence_sum(e, unit, d_part, d_features, LM_HEAD_SCRATCH);
    if (transform)
        features_backward(e, unit, normed, d_normed);
    norm_backward(
        e, unit, &last_norm,
        &(struct norm_gradients){.x = rows, .dy = d_normed, .dx = d_rows, .sum = unit_sum_input_gradient(e, unit)});
    spread_gradient(e, unit, d_rows);
}

static const struct unit_class lm_head_class = {.name = "lm_head",
                                                .forward = lm_head_forward,
                                                .backward = lm_head_backward,
                                                .quantize_weights = lm_head_quantize_weights,
                                                .idle_forward = true};

/* Declares a weight with one row (matrix) or element (vector) for each token of this rank's part of the vocabulary. */
static void declare_part(struct unit *unit, enum lm_head_weight id, enum storage_class storage,
                         struct initial_value initial, const char *name)
{
    const struct vocabulary_part part = model_vocabulary(unit->settings);
    const int64_t hidden = unit->settings->hidden, vocabulary = unit->settings->vocabulary;
    const bool vector = storage == STORAGE_VECTOR;
    unit_declare_weight(unit, (int)id, vector ? 1 : part.rows, vector ? part.rows : hidden, storage);
    unit_reserve(unit, (int)id, part.most);
    struct parameter *p = unit_declare_parameter(unit, (int)id, part.rows, initial, vector ? "%s" : "%s.weight", name);
    parameter_place(p, vector ? 1 : vocabulary, vector ? vocabulary : hidden, vector ? 0 : part.first,
                    vector ? part.first : 0);
}

/* Every tensor rank has all of the transform. With sequence parallelism each computes the gradient of its tokens. */
static void declare_transform(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    const struct family_names *names = &unit_family(unit)->names;
    unit_declare_weight(unit, LM_HEAD_DENSE, s->hidden, s->hidden, STORAGE_MATRIX);
    parameter_share(unit_declare_parameter(unit, LM_HEAD_DENSE, s->hidden, unit_random(unit, s->init_std), "%s.weight",
                                           names->dense),
                    &s->tensor, s->tensor.sequence);
    unit_declare_weight(unit, LM_HEAD_DENSE_BIAS, 1, s->hidden, STORAGE_VECTOR);
    parameter_share(
        unit_declare_parameter(unit, LM_HEAD_DENSE_BIAS, s->hidden, unit_constant(0), "%s.bias", names->dense),
        &s->tensor, s->tensor.sequence);
    norm_declare(unit, &transform_norm, names->head_norm);
}

static void declare_weights(struct unit *unit, struct unit *embedding)
{
    const struct model_settings *s = unit->settings;
    const struct family *family = unit_family(unit);
    const struct family_names *names = &family->names;
    if (s->tied)
        unit_share_weight(unit, LM_HEAD_MATRIX, embedding, EMBEDDING_TABLE);
    else
        declare_part(unit, LM_HEAD_MATRIX, STORAGE_MATRIX, unit_random(unit, s->init_std), names->decoder);
    norm_declare(unit, &last_norm, names->final_norm);
    if (family->transform)
        declare_transform(unit);
    if (family->decoder_bias)
        declare_part(unit, LM_HEAD_BIAS, STORAGE_VECTOR, unit_constant(0), names->decoder_bias);
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
    unit->decoupled[STORAGE_MATRIX] = s->decoupled;
}

static void declare_wide(struct unit *unit, int id, const char *name)
{
    unit_declare_tensor(unit, id, name, UNIT_OWN_TOKENS, unit->settings->hidden, ROLE_VALUE);
}

static void declare_exchange(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    unit_declare_tensor(unit, LM_HEAD_STATISTICS, "statistics of parts", tensor_ranks(&s->tensor) * XENT_STATISTICS,
                        unit->head_tokens, ROLE_STATISTIC);
    unit_declare_tensor(unit, LM_HEAD_ALL_LOGITS, "all logits", unit->head_tokens, s->vocabulary, ROLE_VALUE);
    if (!sequence_parallel(unit))
        return;
    unit_declare_tensor(unit, LM_HEAD_ALL_FEATURES, "features of all tokens", UNIT_TOKENS, s->hidden, ROLE_VALUE);
    unit_declare_tensor(unit, LM_HEAD_D_ALL_FEATURES, "d features of all tokens", UNIT_TOKENS, s->hidden, ROLE_VALUE);
    sequence_declare_scratch(unit, LM_HEAD_SCRATCH, UNIT_TOKENS, s->hidden);
}

void lm_head_declare(struct unit *unit, struct unit *embedding, int64_t head_tokens)
{
    const int64_t most = model_vocabulary(unit->settings).most;
    const int64_t row = (most + LM_HEAD_ALIGNMENT - 1) / LM_HEAD_ALIGNMENT * LM_HEAD_ALIGNMENT;
    unit->class = &lm_head_class;
    unit->head_tokens = MIN(head_tokens, unit->tokens);
    declare_weights(unit, embedding);
    declare_wide(unit, UNIT_INPUT_GRADIENT, "d input");
    block_declare_sum(unit);
    if (unit->settings->label_probability > 0) {
        declare_wide(unit, LM_HEAD_INPUT, "input of labelled tokens");
        declare_wide(unit, LM_HEAD_D_INPUT, "d input of labelled tokens");
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
    unit_declare_tensor(unit, LM_HEAD_ENDS, "ends", unit->head_tokens, unit->settings->hidden, ROLE_VALUE);
    unit_declare_tensor(unit, LM_HEAD_LOSS, "loss", 1, UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, LM_HEAD_LSE, "lse", 1, unit->head_tokens, ROLE_STATISTIC);
    if (is_split(unit))
        declare_exchange(unit);
    const struct linear dense = dense_of(unit), decoder = decoder_of(unit, 0);
    if (unit_family(unit)->transform)
        linear_declare(unit, &dense);
    linear_declare(unit, &decoder);
}
