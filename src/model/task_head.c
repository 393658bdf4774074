#include "model/task_head.h"
#include "model/block.h"
#include "model/linear.h"
#include "model/lm_head.h"
#include "model/norm.h"
#include "model/sequence.h"

static const struct tensor absent;
static const struct norm last_norm = {TASK_HEAD_NORM, TASK_HEAD_NORM_BIAS, TASK_HEAD_RSTD, TASK_HEAD_MEAN,
                                      true,           NORM_FINAL};

_Static_assert((int)TASK_HEAD_NORMED == (int)LM_HEAD_NORMED, "engine_embed reads either");

/* Returns the rows and names of the unit's linear layers. */
static const struct family_task *task_of(const struct unit *unit)
{
    return &unit_family(unit)->task[unit->settings->task.head];
}

static bool averages(const struct unit *unit)
{
    return unit->settings->task.head == DECK_HEAD_SEQUENCE && unit->settings->task.pooling == DECK_POOLING_MEAN;
}

static bool selects(const struct unit *unit)
{
    return unit->settings->task.head == DECK_HEAD_SEQUENCE && !averages(unit);
}

enum { TASK_DENSE, TASK_OUTPUT };

/* A linear layer in the compute type, by its number. */
static struct linear linear_of(const struct unit *unit, int number, int weight, int bias)
{
    return (struct linear){.weight = weight,
                           .bias = bias,
                           .first = TASK_HEAD_LINEARS + number * LINEAR_TENSORS,
                           .section = -1,
                           .number = operand_number((int)unit->settings->layers, number, OPERAND_INPUT),
                           .tokens = UNIT_TOKENS};
}

static struct linear dense_of(const struct unit *unit)
{
    return linear_of(unit, TASK_DENSE, TASK_HEAD_DENSE, TASK_HEAD_DENSE_BIAS);
}

static struct linear output_of(const struct unit *unit)
{
    return linear_of(unit, TASK_OUTPUT, TASK_HEAD_OUTPUT, task_of(unit)->bias ? TASK_HEAD_OUTPUT_BIAS : -1);
}

struct tensor task_head_labels(const struct execution *e, const struct unit *unit)
{
    return unit->settings->task.head == DECK_HEAD_SEQUENCE ? e->batch->labelled.labels : e->batch->labels;
}

struct tensor task_head_outputs(const struct execution *e, const struct unit *unit)
{
    const struct tensor padded = unit_first_rows(e, unit, TASK_HEAD_OUTPUTS, task_head_labels(e, unit).cols);
    return tensor_columns(&padded, 0, unit->settings->task.labels);
}

/* Returns the rows of the input that are normalised. */
static struct tensor input_rows(const struct execution *e, const struct unit *unit, struct tensor input)
{
    if (!selects(unit))
        return input;
    const struct tensor rows = unit_first_rows(e, unit, TASK_HEAD_INPUT, e->batch->labelled.rows.cols);
    LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = e->batch->labelled.rows, .weight = input,
           .y = rows);
    return rows;
}

static struct tensor final_norm(const struct execution *e, const struct unit *unit, struct tensor rows)
{
    const struct tensor normed = unit_first_rows(e, unit, TASK_HEAD_NORMED, rows.rows);
    norm_forward(e, unit, &last_norm, rows, normed);
    return normed;
}

/* Returns the normalised rows of all tensor ranks. */
static struct tensor all_rows(const struct execution *e, const struct unit *unit, struct tensor normed)
{
    if (!sequence_parallel(unit))
        return normed;
    const struct tensor all = unit_first_rows(e, unit, TASK_HEAD_ALL_NORMED, normed.rows * e->tensor->size);
    sequence_place(e, normed, all);
    sequence_gather(e, all);
    return all;
}

/* Returns the input of the first linear layer. A mean is a sum over the tokens of a segment, each times 1 / their
 * number: the gradient of a table of embeddings. */
static struct tensor pooled_rows(const struct execution *e, const struct unit *unit, struct tensor normed)
{
    if (!averages(unit))
        return normed;
    const struct tensor pooled = unit_first_rows(e, unit, TASK_HEAD_POOLED, e->batch->labelled.labels.cols);
    LAUNCH(e->stream, EMBEDDING_BACKWARD, embedding_backward, .tokens = e->batch->labelled.places,
           .scale = e->batch->labelled.factors, .dy = normed, .dweight = pooled, .padding = -1);
    return pooled;
}

/* Returns the input of the output layer. */
static struct tensor make_features(const struct execution *e, const struct unit *unit, struct tensor pooled)
{
    if (task_of(unit)->dense == NULL)
        return pooled;
    const struct tensor out = unit_first_rows(e, unit, TASK_HEAD_DENSE_OUT, pooled.rows);
    const struct tensor activated = unit_first_rows(e, unit, TASK_HEAD_ACTIVATED, pooled.rows);
    const struct linear dense = dense_of(unit);
    const struct operand x = linear_input(e, unit, &dense, pooled);
    linear_forward(e, unit, &dense, &x, out, absent);
    LAUNCH(e->stream, TANH_FORWARD, tanh_forward, .x = out, .y = activated);
    return activated;
}

static void make_outputs(const struct execution *e, const struct unit *unit, struct tensor features)
{
    const struct linear output = output_of(unit);
    const struct operand x = linear_input(e, unit, &output, features);
    linear_forward(e, unit, &output, &x, task_head_outputs(e, unit), absent);
}

static struct tensor statistic_of(const struct execution *e, const struct unit *unit, enum task_head_tensor id)
{
    const struct tensor all = unit_tensor(e, unit, (int)id);
    return tensor_columns(&all, 0, task_head_labels(e, unit).cols);
}

/* Computes the losses; differentiate: also replaces the outputs by their gradient. */
static void make_losses(const struct execution *e, const struct unit *unit, bool differentiate, struct tensor total)
{
    const struct tensor outputs = task_head_outputs(e, unit), labels = task_head_labels(e, unit);
    const struct tensor loss = statistic_of(e, unit, TASK_HEAD_LOSS), weights = e->batch->class_weights;
    const struct tensor counted = tensor_present(&weights) ? e->batch->discarded : total;
    const struct tensor gradient = differentiate ? outputs : absent;
    if (unit->settings->task.problem == DECK_PROBLEM_REGRESSION)
        LAUNCH(e->stream, MSE, mse, .predictions = outputs, .labels = labels, .targets = e->batch->targets,
               .gradient = gradient, .loss = loss, .total = total);
    else if (differentiate)
        LAUNCH(e->stream, XENT_BOTH, xent_both, .logits = outputs, .labels = labels, .loss = loss, .total = counted);
    else
        LAUNCH(e->stream, XENT_STAT, xent_stat, .logits = outputs, .labels = labels, .loss = loss,
               .lse = statistic_of(e, unit, TASK_HEAD_LSE), .total = counted);
    if (tensor_present(&weights))
        LAUNCH(e->stream, CLASS_WEIGHT, class_weight, .labels = labels, .weights = weights, .loss = loss,
               .gradient = gradient, .total = total);
}

static void task_head_forward(struct execution *e, struct unit *unit, struct tensor input)
{
    CHECK_BUG(e->pass == PASS_FORWARD || e->pass == PASS_EVALUATE || e->pass == PASS_EMBED);
    if (e->pass == PASS_EMBED)
        final_norm(e, unit, input);
    if (e->pass != PASS_EVALUATE)
        return;
    const struct tensor normed = all_rows(e, unit, final_norm(e, unit, input_rows(e, unit, input)));
    make_outputs(e, unit, make_features(e, unit, pooled_rows(e, unit, normed)));
    make_losses(e, unit, false, e->batch->total);
}

/* Computes the gradient of pooled from that of the features. */
static void features_backward(struct execution *e, const struct unit *unit, struct tensor pooled,
                              struct tensor d_pooled)
{
    const struct tensor activated = unit_first_rows(e, unit, TASK_HEAD_ACTIVATED, pooled.rows);
    const struct tensor d_activated = unit_first_rows(e, unit, TASK_HEAD_D_ACTIVATED, pooled.rows);
    const struct linear dense = dense_of(unit);
    const struct operand x = linear_input(e, unit, &dense, pooled);
    LAUNCH(e->stream, TANH_BACKWARD, tanh_backward, .y = activated, .dy = d_activated, .dx = d_activated);
    linear_backward(e, unit, &dense, &x, d_activated, d_pooled, NULL, NULL);
}

/* Computes the gradient of pooled, from that of the outputs. Both halves of a split backward need the gradients between
 * the layers. */
static void linears_backward(const struct execution *e, const struct unit *unit, struct tensor features,
                             struct tensor pooled, struct tensor d_pooled)
{
    const bool dense = task_of(unit)->dense != NULL;
    const struct linear output = output_of(unit);
    const struct operand x = linear_input(e, unit, &output, features);
    struct execution both = *e;
    both.gradients |= GRADIENT_INPUT;
    linear_backward(&both, unit, &output, &x, task_head_outputs(e, unit),
                    dense ? unit_first_rows(e, unit, TASK_HEAD_D_ACTIVATED, pooled.rows) : d_pooled, NULL, NULL);
    if (dense)
        features_backward(&both, unit, pooled, d_pooled);
}

/* Computes the gradient of this rank's normalised rows, from all ranks' ones. */
static struct tensor rows_backward(const struct execution *e, const struct unit *unit, struct tensor normed,
                                   struct tensor total)
{
    const bool means = averages(unit);
    const struct tensor pooled = pooled_rows(e, unit, normed), features = make_features(e, unit, pooled);
    const struct tensor d_normed = unit_first_rows(
        e, unit, sequence_parallel(unit) ? (int)TASK_HEAD_D_ALL_NORMED : (int)TASK_HEAD_D_NORMED, normed.rows);
    const struct tensor d_pooled = means ? unit_first_rows(e, unit, TASK_HEAD_D_POOLED, pooled.rows) : d_normed;
    make_outputs(e, unit, features);
    make_losses(e, unit, true, total);
    linears_backward(e, unit, features, pooled, d_pooled);
    if (means)
        LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = e->batch->labelled.places,
               .scale = e->batch->labelled.factors, .weight = d_pooled, .y = d_normed);
    return sequence_parallel(unit) ? sequence_own(e, d_normed) : d_normed;
}

static void task_head_backward(struct execution *e, struct unit *unit, struct tensor input,
                               struct tensor output_gradient)
{
    (void)output_gradient;
    /* both halves of a split backward compute the losses, but only one counts them */
    const struct tensor total = e->gradients & GRADIENT_INPUT ? e->batch->total : e->batch->discarded;
    const struct tensor rows = input_rows(e, unit, input), normed = final_norm(e, unit, rows);
    const struct tensor d_rows =
        unit_first_rows(e, unit, selects(unit) ? (int)TASK_HEAD_D_INPUT : (int)UNIT_INPUT_GRADIENT, rows.rows);
    const struct tensor d_normed = rows_backward(e, unit, all_rows(e, unit, normed), total);
    norm_backward(
        e, unit, &last_norm,
        &(struct norm_gradients){.x = rows, .dy = d_normed, .dx = d_rows, .sum = unit_sum_input_gradient(e, unit)});
    if (selects(unit)) /* tokens that are not selected have a place beyond the last row: zeros */
        LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = e->batch->labelled.places, .weight = d_rows,
               .y = unit_tensor(e, unit, UNIT_INPUT_GRADIENT));
}

static const struct unit_class task_head_class = {
    .name = "task_head", .forward = task_head_forward, .backward = task_head_backward, .idle_forward = true};

/* -- Declaring ----------------------------------------------------------------------------------------------------- */

static void declare_linear(struct unit *unit, const struct linear *linear, int64_t rows, const char *name)
{
    const struct model_settings *s = unit->settings;
    unit_declare_weight(unit, linear->weight, rows, s->hidden, STORAGE_MATRIX);
    parameter_share(
        unit_declare_parameter(unit, linear->weight, rows, unit_random(unit, s->init_std), "%s.weight", name),
        &s->tensor, false);
    if (linear->bias < 0)
        return;
    unit_declare_weight(unit, linear->bias, 1, rows, STORAGE_VECTOR);
    parameter_share(unit_declare_parameter(unit, linear->bias, rows, unit_constant(0), "%s.bias", name), &s->tensor,
                    false);
}

/* tokens: UNIT_OWN_TOKENS, or UNIT_TOKENS for the rows of all tensor ranks. */
static void declare_wide(struct unit *unit, int id, int tokens, const char *name)
{
    unit_declare_tensor(unit, id, name, tokens, unit->settings->hidden, ROLE_VALUE);
}

static void declare_tensors(struct unit *unit)
{
    const int64_t labels = unit->settings->task.labels;
    const int64_t row = (labels + TASK_HEAD_ALIGNMENT - 1) / TASK_HEAD_ALIGNMENT * TASK_HEAD_ALIGNMENT;
    declare_wide(unit, UNIT_INPUT_GRADIENT, UNIT_OWN_TOKENS, "d input");
    block_declare_sum(unit);
    declare_wide(unit, TASK_HEAD_NORMED, UNIT_OWN_TOKENS, "normed");
    declare_wide(unit, TASK_HEAD_D_NORMED, UNIT_OWN_TOKENS, "d normed");
    if (sequence_parallel(unit)) {
        declare_wide(unit, TASK_HEAD_ALL_NORMED, UNIT_TOKENS, "normed of all ranks");
        declare_wide(unit, TASK_HEAD_D_ALL_NORMED, UNIT_TOKENS, "d normed of all ranks");
    }
    if (selects(unit)) {
        declare_wide(unit, TASK_HEAD_INPUT, UNIT_OWN_TOKENS, "input of labelled tokens");
        declare_wide(unit, TASK_HEAD_D_INPUT, UNIT_OWN_TOKENS, "d input of labelled tokens");
    }
    if (averages(unit)) {
        declare_wide(unit, TASK_HEAD_POOLED, UNIT_TOKENS, "pooled");
        declare_wide(unit, TASK_HEAD_D_POOLED, UNIT_TOKENS, "d pooled");
    }
    if (task_of(unit)->dense != NULL) {
        declare_wide(unit, TASK_HEAD_DENSE_OUT, UNIT_TOKENS, "dense");
        declare_wide(unit, TASK_HEAD_ACTIVATED, UNIT_TOKENS, "activated");
        declare_wide(unit, TASK_HEAD_D_ACTIVATED, UNIT_TOKENS, "d activated");
    }
    unit_declare_tensor(unit, TASK_HEAD_OUTPUTS, "outputs", UNIT_TOKENS, row, ROLE_VALUE);
    unit_declare_tensor(unit, TASK_HEAD_LOSS, "loss", 1, UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, TASK_HEAD_LSE, "lse", 1, UNIT_TOKENS, ROLE_STATISTIC);
}

void task_head_declare(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    const struct family_task *task = task_of(unit);
    const struct linear dense = dense_of(unit), output = output_of(unit);
    unit->class = &task_head_class;
    unit->head_tokens = unit->tokens; /* one slice */
    norm_declare(unit, &last_norm, unit_family(unit)->names.final_norm);
    if (task->output == NULL) { /* no head: PASS_EMBED only */
        declare_wide(unit, TASK_HEAD_NORMED, UNIT_OWN_TOKENS, "normed");
        return;
    }
    if (task->dense != NULL)
        declare_linear(unit, &dense, s->hidden, task->dense);
    declare_linear(unit, &output, s->task.labels, task->output);
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
    unit->decoupled[STORAGE_MATRIX] = s->decoupled;
    declare_tensors(unit);
    if (task->dense != NULL)
        linear_declare(unit, &dense);
    linear_declare(unit, &output);
}
