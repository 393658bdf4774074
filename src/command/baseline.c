/* cistron baseline */
#include "data/baseline.h"
#include "base/error.h"
#include "command/command.h"

#include <stdio.h>
#include <stdlib.h>

static const char *orders = "3,6";

static int run(const struct environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    if (orders[0] == '\0')
        return error_user("--orders: its list is empty");
    for (const char *at = orders; *at != '\0';) {
        char *end;
        long order = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0'))
            return error_user("--orders %s: must be numbers with commas between", orders);
        double nats;
        int64_t bases;
        int code = baseline_evaluate(arguments[0], arguments[1], (int)order, &nats, &bases);
        if (code != ERROR_NONE)
            return code;
        printf("order-%ld %.4f nats per base over %lld bases\n", order, nats, (long long)bases);
        at = *end == ',' ? end + 1 : end;
    }
    return ERROR_NONE;
}

static const struct command_option options[] = {
    {"orders", 0, "LIST", COMMAND_TEXT, false, &orders, "bases that a prediction looks back on (3,6)"}, {0}};

const struct command command_baseline = {
    .name = "baseline",
    .arguments = "TRAIN.h5 VALID.h5",
    .summary = "nats per base of count models of a genome",
    .help = "Fits models of fixed order on the bases of TRAIN.h5 and prints their loss on those of VALID.h5: what a\n"
            "model must beat.",
    .options = options,
    .least = 2,
    .most = 2,
    .run = run,
};
