/* logits CHECKPOINT TOKENS OUT: the logits of sequences of token ids, one a line of the text file TOKENS, all of them
 * packed into one row of at most memory.head_tokens tokens. OUT gets f64, the tokens' logits one after the other. What
 * tests/interop/round_trip.py compares with other programs. */
#include "base/error.h"
#include "logits.h"

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

int main(int argc, char **argv)
{
    struct batch batch;
    double *logits;
    int64_t vocabulary;
    if (argc != 4)
        error_fatal("usage: logits CHECKPOINT TOKENS OUT");
    batch_create(&batch, 1, MOST_TOKENS, MOST_SEQUENCES);
    read_tokens(&batch, argv[2]);
    int code = logits_compute(argv[1], &batch, &logits, &vocabulary);
    FILE *file = code == ERROR_NONE ? fopen(argv[3], "w") : NULL;
    if (code == ERROR_NONE && file == NULL)
        error_fatal("%s: cannot be written", argv[3]);
    if (file != NULL) {
        fwrite(logits, sizeof *logits, (size_t)(batch.row_tokens * vocabulary), file);
        fclose(file);
    }
    free(logits);
    batch_destroy(&batch);
    return code;
}
