/* Exact sums, which do not depend on the layout. Numbers that are added over micro-batches and ranks are first rounded
 * to multiples of a quantum, a power of two so large that no sum needs more than the 53 bits of a double. Then each
 * addition is exact, and the order of additions, which changes with the number of ranks, does not matter. (Demmel &
 * Nguyen 2013, with quanta known in advance.) */
#ifndef STORE_EXACT_H
#define STORE_EXACT_H

/* Quanta and limits of exact sums. All are 0 if sums are not exact. */
struct exact_quanta {
    double gradient; /* quantum of gradients of the summed loss */
    double most;     /* maximum that one contribution adds to an element; more counts as NaN, and the step is skipped */
    double loss;     /* quantum of the loss and label sums of micro-batches */
    double most_loss;
    double squares; /* quantum of sums of squared gradients (struct sum_squares_args) */
};

/* Returns the quanta for steps of `tokens` tokens over all ranks, with at most `contributions` additions to an element.
 * Limits: 64 per token on average for a gradient element, 1024 nats per token, 1024 times as many tokens in an
 * evaluation. The gradient quantum is at most 2^-46 of the sum of an element that is 1 for each token. */
struct exact_quanta exact_quanta_of(double tokens, double contributions);

#endif
