#include "architecture/config_key.h"

bool config_key_in(const struct config_key *row, enum checkpoint_dialect dialect)
{
    return row->scope == CONFIG_BOTH || (row->scope == CONFIG_TE) == (dialect == DIALECT_TE);
}

int64_t config_gated_ffn(int64_t size, int64_t multiple)
{
    return (2 * size / 3 + multiple - 1) / multiple * multiple;
}
