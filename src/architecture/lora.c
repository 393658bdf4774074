#include "architecture/lora.h"
#include "architecture/family.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

const char *lora_module(const struct family *family, enum lora_target target)
{
    const struct family_names *n = &family->names;
    if (family->experts > 0 && target >= LORA_GATE)
        return NULL; /* experts are not linear layers of the class */
    const char *const names[LORA_TARGETS] = {n->q, n->k, n->v, n->o, n->gate, n->up, n->down};
    return names[target];
}

/* Returns whether the name of `length` bytes means the module. */
static bool means(const char *name, size_t length, const char *module)
{
    const size_t all = module != NULL ? strlen(module) : 0;
    if (length == 0 || all < length || memcmp(module + all - length, name, length) != 0)
        return false;
    return all == length || module[all - length - 1] == '.';
}

/* Refuses a name that means no linear layer of a block. */
static int unknown_name(const struct family *family, const char *name, int length)
{
    char known[1024] = "";
    for (int t = 0; t < LORA_TARGETS; t++) {
        const char *module = lora_module(family, (enum lora_target)t);
        const size_t used = strlen(known);
        if (module != NULL)
            snprintf(known + used, sizeof known - used, "%s, ", module);
    }
    return error_user("key lora.targets: \"%.*s\" is not a linear layer of a block of %s; they are %sand all-linear",
                      length, name, family->title, known);
}

static int add_name(struct lora_settings *lora, const struct family *family, const char *name, size_t length)
{
    const char *const others[] = {family->names.embedding, family->names.dense, family->names.decoder};
    static const char all[] = "all-linear";
    const bool whole = length == strlen(all) && memcmp(name, all, length) == 0;
    bool found = false;
    for (int t = 0; t < LORA_TARGETS; t++) {
        const char *module = lora_module(family, (enum lora_target)t);
        if (module == NULL || !(whole || means(name, length, module)))
            continue;
        lora->targets[t] = found = true;
    }
    if (!found)
        return unknown_name(family, name, (int)length);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (means(name, length, others[i]))
            return error_user("key lora.targets: \"%.*s\" also means %s, and only linear layers of blocks have "
                              "adapters; give more of the name",
                              (int)length, name, others[i]);
    return ERROR_NONE;
}

int lora_read_targets(struct lora_settings *lora, const struct family *family, const char *list)
{
    int code = ERROR_NONE;
    memset(lora->targets, 0, sizeof lora->targets);
    for (const char *at = list; code == ERROR_NONE;) {
        at += strspn(at, " ");
        const size_t length = strcspn(at, " ,");
        code = add_name(lora, family, at, length);
        at += length + strspn(at + length, " ");
        if (*at == '\0')
            break;
        if (*at != ',' && code == ERROR_NONE)
            code = error_user("key lora.targets = \"%s\": must be names with commas between them", list);
        at++;
    }
    return code;
}
