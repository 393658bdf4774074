/* Samples the next token from its logits. */
#ifndef INFER_SAMPLE_H
#define INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct sampling {
    double temperature; /* divides the logits; 0 = always the likeliest token */
    int64_t top_k;      /* sample from this many of the likeliest tokens; 0 = all */
    double top_p;       /* sample from the smallest set of likeliest tokens whose probability reaches this; 0 = all */
    uint64_t seed;
    const bool *allowed; /* [vocabulary] tokens that may be sampled; NULL: all */
};

/* Samples the token at `position` of sequence number `sequence` from logits[vocabulary]: applies temperature, then
 * top_k, then top_p (Holtzman et al. 2020, "The curious case of neural text degeneration"). Among equally likely
 * tokens, the lower id ranks first. The random number depends only on seed, sequence and position. Returns -1 if any
 * token's logit is not finite. */
int32_t sample_token(const struct sampling *sampling, const double *logits, int64_t vocabulary, uint64_t sequence,
                     int64_t position);

/* Returns the model's log-probability of a token, nats, among all tokens at temperature 1. */
double sample_log_probability(const double *logits, int64_t vocabulary, int32_t token);

#endif
