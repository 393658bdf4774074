#include "base/path.h"
#include "train/tuning_file.h"

const char *tuning_shipped_folder(void)
{
    return path_is_built() ? CISTRON_SOURCE_TUNING : CISTRON_TUNING;
}
