#include "architecture/family.h"

#define FAMILY_ADDRESS(name) &family_##name,
const struct family *const families[] = {DECK_FAMILIES(FAMILY_ADDRESS) NULL};

const struct family *family_of_choice(int choice)
{
    return families[choice - DECK_FAMILY_FIRST];
}

int family_choice(const struct family *family)
{
    int number = 0;
    while (families[number] != family)
        number++;
    return DECK_FAMILY_FIRST + number;
}

const struct config_key *family_key(const struct family *family, enum config_kind kind)
{
    for (const struct config_key *row = family->keys; row->key != NULL; row++)
        if (row->kind == kind)
            return row;
    return NULL;
}

const struct config_key *family_key_of(const struct family *family, size_t offset)
{
    for (const struct config_key *row = family->keys; row->key != NULL; row++)
        if ((row->kind == CONFIG_SIZE || row->kind == CONFIG_REAL || row->kind == CONFIG_FLAG) && row->offset == offset)
            return row;
    return NULL;
}
