/* Writes the log-likelihoods of records as a table: the result of `cistron score --input`. */
#ifndef INFER_LIKELIHOODS_H
#define INFER_LIKELIHOODS_H

#include "infer/score.h"

#include <stdio.h>

/* Writes CSV with a header: name, tokens (the scored ones), log_likelihood (nats, their sum) and perplexity; with
 * `pseudo` the columns are pseudo_log_likelihood and pseudo_perplexity. The perplexity of a record without scored
 * tokens is an empty cell. */
void likelihoods_write(FILE *file, const struct fasta_score *score, bool pseudo);

#endif
