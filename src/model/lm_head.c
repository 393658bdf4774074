#include "model/lm_head.h"
#include "model/embedding.h"

static const struct tensor absent;

/* Of the input's rows, which are all of the micro-batch's or fewer. */
static void final_norm(struct context *c, struct unit *unit, struct tensor input)
{
    struct tensor normed = unit_tensor(c, unit, LM_HEAD_NORMED), rstd = unit_tensor(c, unit, LM_HEAD_RSTD);
    LAUNCH(c->stream, RMSNORM_FORWARD, rmsnorm_forward, .x = input, .weight = unit_weight(c, unit, LM_HEAD_NORM),
           .y = tensor_rows(&normed, 0, input.rows), .rstd = tensor_columns(&rstd, 0, input.rows),
           .eps = (float)unit->settings->norm_eps);
}

/* Tokens first .. first + count - 1. */
struct chunk {
    struct tensor normed, logits, labels, loss, lse;
    int64_t first, count;
};

static struct chunk chunk_at(const struct context *c, const struct unit *unit, int64_t first)
{
    struct tensor normed = unit_tensor(c, unit, LM_HEAD_NORMED), logits = unit_tensor(c, unit, LM_HEAD_LOGITS);
    int64_t left = normed.rows - first, count = left < unit->head_tokens ? left : unit->head_tokens;
    struct tensor loss = unit_tensor(c, unit, LM_HEAD_LOSS), lse = unit_tensor(c, unit, LM_HEAD_LSE);
    return (struct chunk){.normed = tensor_rows(&normed, first, count),
                          .logits = tensor_rows(&logits, 0, count),
                          .labels = tensor_columns(&c->batch->labels, first, count),
                          .loss = tensor_columns(&loss, first, count),
                          .lse = tensor_columns(&lse, 0, count),
                          .first = first,
                          .count = count};
}

static void chunk_logits(struct context *c, struct unit *unit, const struct chunk *chunk)
{
    LAUNCH(c->stream, GEMM, gemm, .a = chunk->normed, .b = unit_weight(c, unit, LM_HEAD_MATRIX), .transpose_b = true,
           .d = chunk->logits);
}

static void chunk_losses(struct context *c, const struct chunk *chunk, struct tensor total)
{
    LAUNCH(c->stream, XENT_STAT, xent_stat, .logits = chunk->logits, .labels = chunk->labels, .loss = chunk->loss,
           .lse = chunk->lse, .total = total);
}

static void last_logits(struct context *c, struct unit *unit, struct tensor input)
{
    final_norm(c, unit, tensor_rows(&input, input.rows - 1, 1));
    struct chunk chunk = chunk_at(c, unit, 0);
    chunk.normed = tensor_rows(&chunk.normed, 0, 1);
    chunk.logits = tensor_rows(&chunk.logits, 0, 1);
    chunk_logits(c, unit, &chunk);
}

static void lm_head_forward(struct context *c, struct unit *unit, struct tensor input)
{
    if (c->pass == PASS_GENERATE)
        last_logits(c, unit, input);
    if (c->pass != PASS_EVALUATE)
        return;
    final_norm(c, unit, input);
    for (int64_t first = 0; first < input.rows; first += unit->head_tokens) {
        struct chunk chunk = chunk_at(c, unit, first);
        chunk_logits(c, unit, &chunk);
        chunk_losses(c, &chunk, c->batch->total);
    }
}

static void lm_head_backward(struct context *c, struct unit *unit, struct tensor input, struct tensor output_gradient)
{
    (void)output_gradient;
    struct tensor d_normed = unit_tensor(c, unit, LM_HEAD_D_NORMED);
    bool want_input = c->gradients & GRADIENT_INPUT, want_weight = c->gradients & GRADIENT_WEIGHT;
    /* A backward that is split in two computes the losses in both halves but counts them once. */
    struct tensor total = want_input ? c->batch->total : c->batch->discarded;
    final_norm(c, unit, input);
    for (int64_t first = 0; first < input.rows; first += unit->head_tokens) {
        struct chunk chunk = chunk_at(c, unit, first);
        chunk_logits(c, unit, &chunk);
        chunk_losses(c, &chunk, total);
        LAUNCH(c->stream, XENT_GRAD, xent_grad, .logits = chunk.logits, .labels = chunk.labels, .lse = chunk.lse);
        LAUNCH(c->stream, GEMM, gemm, .a = chunk.logits, .b = unit_weight(c, unit, LM_HEAD_MATRIX),
               .d = tensor_rows(&d_normed, chunk.first, chunk.count));
        if (want_weight)
            LAUNCH(c->stream, GEMM, gemm, .a = chunk.logits, .transpose_a = true, .b = chunk.normed,
                   .d = unit_gradient(c, unit, LM_HEAD_MATRIX),
                   .accumulate = first > 0 || unit_accumulates(unit, LM_HEAD_MATRIX));
    }
    LAUNCH(c->stream, RMSNORM_BACKWARD, rmsnorm_backward, .x = input, .weight = unit_weight(c, unit, LM_HEAD_NORM),
           .rstd = unit_tensor(c, unit, LM_HEAD_RSTD), .dy = d_normed,
           .dx = want_input ? unit_tensor(c, unit, UNIT_INPUT_GRADIENT) : absent,
           .dweight = want_weight ? unit_gradient(c, unit, LM_HEAD_NORM) : absent,
           .accumulate = unit_accumulates(unit, LM_HEAD_NORM));
}

static const struct unit_class lm_head_class = {"lm_head", lm_head_forward, lm_head_backward};

void lm_head_declare(struct unit *unit, struct unit *embedding, int64_t head_tokens)
{
    const struct model_settings *s = unit->settings;
    unit->class = &lm_head_class;
    unit->head_tokens = head_tokens < unit->tokens ? head_tokens : unit->tokens;
    if (s->tied) {
        unit_share_weight(unit, LM_HEAD_MATRIX, embedding, EMBEDDING_TABLE);
    } else {
        unit_declare_weight(unit, LM_HEAD_MATRIX, s->vocabulary, s->hidden, STORAGE_MATRIX);
        unit_declare_parameter(unit, LM_HEAD_MATRIX, "lm_head.weight", s->vocabulary, s->init_std, 0);
    }
    unit_declare_weight(unit, LM_HEAD_NORM, 1, s->hidden, STORAGE_VECTOR);
    unit_declare_parameter(unit, LM_HEAD_NORM, "model.norm.weight", 1, 0, 1);
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
    unit_declare_tensor(unit, UNIT_INPUT_GRADIENT, "d input", UNIT_TOKENS, s->hidden, ROLE_VALUE);
    unit_declare_tensor(unit, LM_HEAD_NORMED, "normed", UNIT_TOKENS, s->hidden, ROLE_VALUE);
    unit_declare_tensor(unit, LM_HEAD_RSTD, "rstd", 1, UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, LM_HEAD_LOGITS, "logits", unit->head_tokens, s->vocabulary, ROLE_VALUE);
    unit_declare_tensor(unit, LM_HEAD_LOSS, "loss", 1, UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, LM_HEAD_LSE, "lse", 1, unit->head_tokens, ROLE_STATISTIC);
    unit_declare_tensor(unit, LM_HEAD_D_NORMED, "d normed", UNIT_TOKENS, s->hidden, ROLE_VALUE);
}
