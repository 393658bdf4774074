#include "estimate/device_name.h"
#include "base/memory.h"
#include "file/open.h"
#include "core/tuned_kernels.h"

#include <stdlib.h>
#include <string.h>

/* Returns NULL if the system does not report the name. */
static char *processor_name(void)
{
    static const char key[] = "model name";
    FILE *file = open_stream("/proc/cpuinfo");
    char *line = NULL, *name = NULL;
    size_t capacity = 0;
    while (file != NULL && name == NULL && getline(&line, &capacity, file) > 0) {
        const char *value = strstr(line, ": ");
        if (strncmp(line, key, strlen(key)) == 0 && value != NULL)
            name = memory_format("%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return name;
}

char *device_name(struct executor *executor)
{
    char identity[TUNING_IDENTITY_BYTES] = "";
    int64_t bytes = 0;
    const void *choices = executor->tuning != NULL ? executor->tuning->table(executor->owner, &bytes) : NULL;
    if (choices != NULL)
        tuning_table_identity(identity, choices, bytes);
    if (identity[0] != '\0')
        return memory_string(identity);
    char *processor = executor->device == NULL ? processor_name() : NULL;
    return processor != NULL ? processor : memory_string(executor->class->name);
}
