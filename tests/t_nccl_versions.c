/* Each version of NCCL gathers by copy engines, or not, and gets the environment variables that it needs
 * (cuda/nccl_versions.h). */
#include "check.h"

#include "cuda/nccl_versions.h"

static bool copies(int version, const char *nvls, const char *windows)
{
    return nccl_use_of(version, nvls, windows).copies;
}

static bool disables(int version, const char *nvls, const char *windows)
{
    return nccl_use_of(version, nvls, windows).disable_nvls;
}

int main(void)
{
    CHECK(!copies(22707, NULL, NULL) && copies(22803, NULL, NULL) && copies(23200, NULL, NULL));
    CHECK(!copies(22803, NULL, "0") && copies(22803, NULL, "1"));

    /* 2.28.4 to 2.31.1 hang on two ranks with NVLS */
    CHECK(!disables(22803, NULL, NULL) && disables(22804, NULL, NULL));
    CHECK(disables(23101, NULL, NULL) && !disables(23102, NULL, NULL));
    CHECK(copies(22804, NULL, NULL) && copies(22804, "0", NULL) && !copies(22804, "1", NULL));
    CHECK(!copies(23101, "2", NULL) && copies(23102, "1", NULL) && copies(22803, "1", NULL));
    CHECK(!disables(22804, "0", NULL) && !disables(22804, "1", NULL)); /* the user's setting stays */
    CHECK(!disables(22804, NULL, "0"));                                /* nothing copies, so NVLS may stay */
    return check_end();
}
