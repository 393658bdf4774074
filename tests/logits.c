/* logits CHECKPOINT TOKENS OUT: the logits of sequences of token ids, one a line of the text file TOKENS, all of them
 * packed into one row of at most memory.head_tokens tokens. OUT gets f64, the tokens' logits one after the other. What
 * tests/interop/round_trip.py compares with other programs. */
#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "data/masking.h"
#include "infer/inference.h"
#include "model/lm_head.h"
#include "tests/ref/reference.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_TOKENS = 1024, MOST_SEQUENCES = 64 };

static void read_tokens(struct batch *batch, const char *path)
{
    FILE *file = fopen(path, "r");
    int token, used = 0, sequences = 0;
    for (int c = 0; file != NULL && c != EOF && used < MOST_TOKENS && sequences < MOST_SEQUENCES;) {
        int first = used;
        while (fscanf(file, "%d", &token) == 1) {
            batch->positions[used] = used - first;
            batch->labels[used] = 0;
            batch->tokens[used++] = token;
            c = fgetc(file);
            if (c == '\n' || c == EOF)
                break;
        }
        if (used == first)
            break;
        batch->segment_start[sequences] = first;
        batch->segment_length[sequences++] = used - first;
    }
    if (used == 0)
        error_fatal("%s: holds no tokens", path);
    fclose(file);
    batch->row_tokens = used;
    batch->max_segments = sequences;
}

static void write_logits(const struct engine *engine, int64_t tokens, const char *path)
{
    const struct unit *head = &engine->model->units[engine->model->unit_count - 1];
    struct tensor logits = unit_tensor(&engine->context, head, LM_HEAD_LOGITS);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        error_fatal("%s: cannot be written", path);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t v = 0; v < engine->model->settings.vocabulary; v++) {
            double value = reference_load(&logits, t, v);
            fwrite(&value, sizeof value, 1, file);
        }
    fclose(file);
}

int main(int argc, char **argv)
{
    struct comm *self = comm_self();
    struct inference inference;
    struct batch batch;
    double losses[MOST_TOKENS];
    if (argc != 4)
        error_fatal("usage: logits CHECKPOINT TOKENS OUT");
    batch_create(&batch, 1, MOST_TOKENS, MOST_SEQUENCES);
    read_tokens(&batch, argv[2]);
    int code = inference_open(&inference, self, argv[1], cpu_executor_make);
    if (code == ERROR_NONE && inference.settings.token_dropout)
        for (int64_t s = 0; s < batch.max_segments; s++)
            masking_scale(inference.tokenizer, batch.tokens + batch.segment_start[s], batch.segment_length[s],
                          batch.scale + batch.segment_start[s]);
    if (code == ERROR_NONE) {
        inference_lay_out(
            &inference, &(struct inference_shape){MEMORY_EVALUATE, batch.row_tokens, batch.max_segments, 0, false, 0});
        code = inference_start(&inference);
    }
    if (code == ERROR_NONE) {
        engine_score(&inference.engine, &batch, losses);
        write_logits(&inference.engine, batch.row_tokens, argv[3]);
    }
    inference_close(&inference);
    batch_destroy(&batch);
    comm_destroy(self);
    return code;
}
