/* ESM-2 and AMPLIFY learn random proteins of two equal blocks: masked residues with a readable twin fall under 0.1
 * nats, which needs attention to both sides and positions; all masked residues stay above 0.3, since less would be a
 * leak. */
#include "base/random.h"
#include "check.h"
#include "cpu/cpu.h"
#include "loader/masking.h"
#include "ref/toy.h"

#include <string.h>

enum { BLOCK = 24, PROTEIN = 2 * BLOCK + 2, PROTEINS = 5, ROW = 256, ROWS = 8, TRAINING_STEPS = 400, RESIDUES = 20 };

/* Rows of new random proteins. The labels of masking_apply, on all selected residues; or, put here, on those of them
 * whose twin was not selected. */
static void fill(struct batch *batch, const struct token_masking *masking, bool token_dropout, uint64_t key,
                 bool readable)
{
    const struct tokenizer *tokenizer = masking->tokenizer;
    struct random_key random = {key, RANDOM_TEST, 1};
    char letters[] = "LAGVSERTIDPKQNFYMHWC";
    tokenizer->encode_characters(letters, RESIDUES, (uint8_t *)letters);
    batch_clear(batch, tokenizer->pad);
    for (int64_t p = 0; p < ROWS * PROTEINS; p++) {
        const int64_t row = p / PROTEINS, slot = p % PROTEINS, start = row * ROW + slot * PROTEIN;
        int32_t whole[PROTEIN] = {[0] = tokenizer->bos, [PROTEIN - 1] = tokenizer->eos}, selected[PROTEIN];
        for (int i = 0; i < BLOCK; i++)
            whole[1 + i] = whole[1 + BLOCK + i] = letters[random_bits(&random, (uint64_t)(p * BLOCK + i)) % RESIDUES];
        memcpy(batch->tokens + start, whole, sizeof whole);
        masking_apply(masking, key, p, 0, PROTEIN, batch->tokens + start, selected);
        if (token_dropout)
            masking_scale(tokenizer, batch->tokens + start, PROTEIN, batch->scale + start);
        for (int t = 0; t < PROTEIN; t++) {
            const int twin = t <= BLOCK ? t + BLOCK : t - BLOCK;
            const bool wanted = selected[t] != BATCH_IGNORED && selected[twin] == BATCH_IGNORED;
            batch->labels[start + t] = !readable ? selected[t] : wanted ? whole[t] : BATCH_IGNORED;
            batch->positions[start + t] = t;
        }
        batch->segment_start[row * PROTEINS + slot] = (int32_t)start;
        batch->segment_length[row * PROTEINS + slot] = PROTEIN;
    }
}

static double mean(const struct engine_result *result)
{
    return result->loss_sum / result->labels;
}

static void test_family(struct executor *cpu, enum toy_kind kind)
{
    struct toy_options options = toy_options(cpu);
    options.settings = toy_settings(kind);
    const struct family *family = options.settings.family;
    const struct token_masking masking = {tokenizer_find(family->tokenizer), 42, 0.15, NULL};
    options.settings.layers = 2;
    options.settings.hidden = 64;
    options.settings.ffn = 128;
    options.settings.heads = options.settings.kv_heads = 2;
    options.settings.head_dim = 32;
    options.settings.vocabulary = masking.tokenizer->vocabulary;
    options.settings.init_std = options.settings.output_std = options.settings.embedding_std = 0.05;
    options.rows = ROWS;
    options.row_tokens = ROW;
    options.max_segments = PROTEINS;
    struct toy toy;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(1, 1, false);
    struct batch batch;
    batch_create(&batch, ROWS, ROW, PROTEINS);

    fill(&batch, &masking, family->token_dropout, 1u << 20, true);
    struct engine_result first = engine_evaluate(&toy.engine, &batch, 1);
    for (int step = 0; step < TRAINING_STEPS; step++) {
        fill(&batch, &masking, family->token_dropout, (uint64_t)step, false);
        double rate = 3e-3 * fmin(1, (step + 1) / 50.0) * fmin(1, (TRAINING_STEPS - step) / 100.0);
        struct engine_result result = engine_step(&toy.engine, &schedule, &batch, rate);
        if (step % 50 == 0)
            printf("%s, step %d: %.4f\n", family->name, step, mean(&result));
    }
    fill(&batch, &masking, family->token_dropout, 1u << 20, false);
    struct engine_result all = engine_evaluate(&toy.engine, &batch, 1);
    fill(&batch, &masking, family->token_dropout, 1u << 20, true);
    struct engine_result last = engine_evaluate(&toy.engine, &batch, 1);
    printf("%s, %.0f residues with a twin to read: %.4f before, %.4f nats after %d steps; all selected: %.4f\n",
           family->name, last.labels, mean(&first), mean(&last), TRAINING_STEPS, mean(&all));
    CHECK(last.labels > 150 && mean(&first) > 2.9);
    CHECK(mean(&last) < 0.1);
    CHECK(mean(&all) > 0.3); /* where the twin was selected too there is nothing to read: less would be a leak */

    batch_destroy(&batch);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
}

int main(void)
{
    struct executor *cpu = cpu_executor_create(2);
    test_family(cpu, TOY_ESM2);
    test_family(cpu, TOY_AMPLIFY);
    cpu->class->destroy(cpu);
    return check_end();
}
