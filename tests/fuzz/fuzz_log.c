/* The log of a run, as `cistron report` reads and draws it. */
#include "base/error.h"
#include "fuzz/fuzz.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_target_words[] = {"{\"event\":\"step\",\"step\":",
                                         "\n",
                                         "}",
                                         ",",
                                         "1e308",
                                         "-1e308",
                                         "5e-324",
                                         "\"mean_loss\":",
                                         "\"step_seconds\":[",
                                         "\\u001b[",
                                         "null",
                                         NULL};

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    static const char *const logs[] = {
        "{\"event\":\"start\",\"step\":0,\"steps_total\":9,\"ranks\":1,\"threads\":2,\"parameters\":3,\"peak\":1e12,"
        "\"time\":1.7e9,\"version\":\"1\",\"host\":\"h\",\"job\":\"\"}\n"
        "{\"event\":\"step\",\"step\":1,\"loss\":5.5,\"mean_loss\":5.5,\"lr\":1e-3,\"grad_norm\":2,"
        "\"tokens_per_second\":1e5,\"seconds\":2,\"data_wait\":0.1,\"memory\":1e8,\"time\":1.7e9,\"step_seconds\":[1,1."
        "5]}\n"
        "{\"event\":\"step\",\"step\":2,\"loss\":-1e308,\"mean_loss\":1e308,\"lr\":0,\"grad_norm\":null,"
        "\"tokens_per_second\":0,\"seconds\":0,\"step_seconds\":[5e-324,1e308,-1e308]}\n"
        "{\"event\":\"step\",\"step\":9223372036854775807,\"mean_loss\":-1e308,\"grad_norm\":1e308}\n"
        "{\"event\":\"validation\",\"step\":2,\"loss\":4,\"labels\":10}\n"
        "{\"event\":\"checkpoint\",\"step\":2,\"digest\":\"ab\"}\n"
        "{\"event\":\"start\",\"step\":2,\"time\":1e300}\n"
        "{\"event\":\"saved\",\"step\":2,\"text\":\"<b>\\u001b[2J\"}\n"
        "{\"event\":\"timers\",\"step\":2,\"timers\":[{\"name\":\"all\",\"kind\":\"all\",\"calls\":1,\"minimum\":1,"
        "\"mean\":1,\"maximum\":1}]}\n",
        "{\"event\":\"step\",\"step\":-9223372036854775808,\"mean_loss\":1}\n"
        "{\"event\":\"step\",\"step\":9223372036854775808}\n[[\n",
        ""};
    for (int i = 0; i < 3; i++)
        add(logs[i], strlen(logs[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *log = fuzz_path("log.jsonl"), *page = fuzz_path("report.html");
    size_t bytes;
    fuzz_write(log, data, size);
    char *folder = strdup(log);
    *strrchr(folder, '/') = '\0';
    error_clear();
    FUZZ_CHECK(report_run(folder, page) == ERROR_NONE);
    char *text = fuzz_read(page, &bytes);
    FUZZ_CHECK(memchr(text, '\x1b', bytes) == NULL);
    free(text);
    free(folder);
    fuzz_accepted++;
    return 0;
}
