#include "architecture/precision.h"

const char *precision_linear_name(int linear)
{
    static const char *const names[LINEAR_COUNT] = {"qkv", "o", "up", "down"};
    return names[linear];
}

const struct linear_precision *precision_of(const struct precision *precision, int layer, int linear)
{
    enum precision_kind kind = PRECISION_COMPUTE;
    if (precision->linears[linear])
        kind = layer_list_has(&precision->four, layer)    ? PRECISION_FOUR
               : layer_list_has(&precision->eight, layer) ? PRECISION_EIGHT
                                                          : PRECISION_COMPUTE;
    return &precision->kinds[kind];
}

bool precision_uses(const struct precision *precision, enum precision_kind kind)
{
    return kind == PRECISION_EIGHT ? precision->eight.count > 0 || precision->head
                                   : kind == PRECISION_FOUR && precision->four.count > 0;
}

bool precision_quantizes(const struct precision *precision)
{
    return precision_uses(precision, PRECISION_EIGHT) || precision_uses(precision, PRECISION_FOUR);
}

bool precision_delays(const struct precision *precision)
{
    return precision_uses(precision, PRECISION_EIGHT) && precision->kinds[PRECISION_EIGHT].delayed;
}

bool precision_draws(const struct precision *precision)
{
    return precision_uses(precision, PRECISION_FOUR) &&
           precision->kinds[PRECISION_FOUR].rules[OPERAND_GRADIENT].stochastic;
}
