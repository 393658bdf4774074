#include "infer/likelihoods.h"
#include "records/csv.h"

#include <math.h>

void likelihoods_write(FILE *file, const struct fasta_score *score, bool pseudo)
{
    const char *kind = pseudo ? "pseudo_" : "";
    fprintf(file, "name,tokens,%slog_likelihood,%sperplexity\n", kind, kind);
    for (int64_t r = 0; r < score->count; r++) {
        const struct score_record *record = &score->records[r];
        csv_write_cell(file, ',', record->name);
        fprintf(file, ",%lld,%.9g,", (long long)record->scored, 0 - record->loss);
        if (record->scored > 0)
            fprintf(file, "%.9g", exp(record->loss / (double)record->scored));
        putc('\n', file);
    }
}
