/* A tiny Llama learns random blocks of 64 bases that each occur twice: the loss of the second copy falls under 0.1
 * nats, which only working attention and positions can reach. The first copy cannot be predicted and is not counted. */
#include "check.h"

#include "base/random.h"
#include "cpu/cpu.h"
#include "ref/toy.h"

enum { BLOCK = 64, ROW = 2 * BLOCK, ROWS = 16, TRAINING_STEPS = 300 };

/* Rows of new random blocks; labels on the whole row, or on the second copy alone. */
static void fill(struct batch *batch, uint64_t key, bool second_alone)
{
    struct random_key random = {key, RANDOM_TEST, 1};
    batch_clear(batch, 1);
    for (int64_t r = 0; r < ROWS; r++) {
        int32_t row[ROW];
        for (int i = 0; i < ROW; i++)
            row[i] = i < BLOCK ? (int32_t)(random_bits(&random, (uint64_t)(r * BLOCK + i)) % 4) : row[i - BLOCK];
        batch->segment_start[r] = (int32_t)(r * ROW);
        batch->segment_length[r] = ROW;
        for (int i = 0; i < ROW; i++) {
            bool wanted = i + 1 < ROW && (!second_alone || i + 1 >= BLOCK + 1);
            batch->tokens[r * ROW + i] = row[i];
            batch->positions[r * ROW + i] = i;
            batch->labels[r * ROW + i] = wanted ? row[i + 1] : -100;
        }
    }
}

int main(void)
{
    struct executor *cpu = cpu_executor_create(2);
    struct toy_options options = toy_options(cpu);
    options.settings.layers = 2;
    options.settings.hidden = 64;
    options.settings.ffn = 128;
    options.settings.heads = options.settings.kv_heads = 2;
    options.settings.head_dim = 32;
    options.settings.vocabulary = 4;
    options.settings.init_std = options.settings.output_std = options.settings.embedding_std = 0.05;
    options.rows = ROWS;
    options.row_tokens = ROW;
    options.max_segments = 1;
    struct toy toy;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(1, 1, false);
    struct batch batch;
    batch_create(&batch, ROWS, ROW, 1);

    fill(&batch, 1u << 20, true);
    struct engine_result first = engine_evaluate(&toy.engine, &batch, 1);
    for (int step = 0; step < TRAINING_STEPS; step++) {
        fill(&batch, (uint64_t)step, false);
        double rate = 3e-3 * fmin(1, (step + 1) / 50.0) * fmin(1, (TRAINING_STEPS - step) / 100.0);
        struct engine_result result = engine_step(&toy.engine, &schedule, &batch, rate);
        if (step % 50 == 0)
            printf("step %d: %.4f\n", step, result.loss_sum / result.labels);
    }
    fill(&batch, 1u << 20, true);
    struct engine_result last = engine_evaluate(&toy.engine, &batch, 1);
    printf("second copy: %.4f before, %.4f nats after %d steps\n", first.loss_sum / first.labels,
           last.loss_sum / last.labels, TRAINING_STEPS);
    CHECK(first.loss_sum / first.labels > 1.2);
    CHECK(last.loss_sum / last.labels < 0.1);

    batch_destroy(&batch);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    cpu->class->destroy(cpu);
    return check_end();
}
