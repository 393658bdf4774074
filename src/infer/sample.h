/* Choosing the next token from its logits. */
#ifndef INFER_SAMPLE_H
#define INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct sampling {
    double temperature; /* divides the logits; 0 = the likeliest token, always */
    int64_t top_k;      /* choose among so many of the likeliest; 0 = all */
    double top_p;       /* choose among the fewest likeliest that have so much probability together; 0 = all */
    uint64_t seed;
    const bool *allowed; /* [vocabulary] tokens to choose among; NULL: all */
};

/* The token at `position` of sequence number `sequence`, from logits[vocabulary]. Temperature, then top_k, then top_p
 * (Holtzman et al. 2020, "The curious case of neural text degeneration"); of equally likely tokens the lowest id counts
 * as likelier. The random number depends on seed, sequence and position alone. -1: a logit, of any token, is not
 * finite. */
int32_t sample_token(const struct sampling *sampling, const double *logits, int64_t vocabulary, uint64_t sequence,
                     int64_t position);

/* The model's log-probability of a token, nats: among all tokens, at temperature 1. */
double sample_log_probability(const double *logits, int64_t vocabulary, int32_t token);

#endif
