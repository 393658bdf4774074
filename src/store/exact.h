/* Units of sums that do not depend on the layout. What is added over micro-batches and ranks is rounded to multiples of
 * a power of two first, so small that no sum takes more than the 53 bits of a double: each addition is exact, and the
 * order of additions, which the number of ranks changes, does not matter. (Demmel & Nguyen 2013, with units that are
 * known beforehand.) */
#ifndef STORE_EXACT_H
#define STORE_EXACT_H

/* All are 0 where sums are not to be exact. */
struct exact_units {
    double gradient; /* of gradients of the summed loss */
    double most;     /* of an element that one contribution adds; beyond it counts as NaN, so there is no update */
    double loss;     /* of the sums of losses and labels of micro-batches */
    double most_loss;
    double squares; /* the largest of a sum of squared gradients (struct sum_squares_args) */
};

/* tokens: of a step, over all ranks; contributions: how many are added to an element in a step, at most. An element of
 * the gradient may be 64 a token in the mean, a loss 1024 nats a token; evaluations may have 1024 times as many tokens.
 * The unit is then at most 2^-46 of an element of 1 a token. */
struct exact_units exact_units_of(double tokens, double contributions);

#endif
