/* cistron measure */
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thousands.h"
#include "command/command.h"
#include "comm/threads.h"
#include "infer/output.h"
#include "estimate/device_check.h"
#include "estimate/measure.h"
#include "estimate/rates_file.h"
#include "setup/setup.h"

#include <stddef.h>

enum { LEAST = 128, MOST = 32768 };

static const char *output;
static bool replace;
static struct measure_settings settings;
static bool checks;
static struct device_check_settings check_settings = {.slow = DEVICE_CHECK_SLOW};
static struct setup setup; /* from the keys on the command line */
static char **overrides;
static int override_count;
static device_make *make_executor;

static int open_output(struct atomic_file *atomic)
{
    int code = disk_check_output(output, DISK_STREAM | (replace ? DISK_REPLACE : 0), NULL, 0);
    return code == ERROR_NONE ? output_open(atomic, output) : code;
}

static int write_rates(struct comm *world, struct executor *executor)
{
    static struct machine_rates rates;
    struct atomic_file atomic = {0};
    int code = comm_agree(world, world->rank == 0 ? open_output(&atomic) : ERROR_NONE);
    if (code != ERROR_NONE) /* checked first: measuring takes minutes */
        return code;
    rates_default(&rates, setup.peak);
    measure_rates(&rates, world, executor, &settings);
    if (world->rank == 0)
        rates_file_write(&rates, atomic.file);
    code = comm_agree(world, output_close(&atomic, ERROR_NONE));
    if (code == ERROR_NONE && world->rank == 0)
        log_info("# machine profile: %d rates of %s on %d rank%s: %s", rates.count, rates.device, world->size,
                 plural(world->size), output);
    return code;
}

static int read_keys(const struct comm *world)
{
    struct deck *deck = deck_create();
    int code = deck_read_text(deck, "", "command line", overrides, override_count);
    if (code == ERROR_NONE)
        code = setup_create(&setup, deck, world->size);
    memory_free(deck);
    return code;
}

static int measure(struct comm *world, void *self)
{
    (void)self;
    int code = comm_agree(world, read_keys(world));
    if (code != ERROR_NONE)
        return code;
    struct comm *node = comm_split_node(world);
    struct device_request request = setup.device;
    request.threads = threads_choose(node, setup.threads);
    request.world = world;
    request.node = node;
    request.deterministic = checks; /* bits are compared */
    struct executor *executor;
    comm_set_timeout(setup.device.timeout);
    code = make_executor(&executor, &request);
    if (code == ERROR_NONE) {
        code = checks ? device_check(world, node, executor, &check_settings) : write_rates(world, executor);
        if (checks && code == ERROR_NONE && world->rank == 0)
            log_info("# all devices and links are right and fast enough");
        executor->class->destroy(executor);
    }
    comm_destroy(node);
    setup_destroy(&setup);
    return code;
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    const int64_t largest = settings.largest; /* halves and eighths of this size are measured too */
    if (largest != 0 && (largest < LEAST || largest > MOST || (largest & (largest - 1)) != 0))
        return error_user("--largest %lld: must be a power of two between %d and %d", (long long)largest, LEAST, MOST);
    if (checks && output != NULL)
        return command_mistake(&command_measure, "--output is for machine profiles, not for --check");
    if (!checks && output == NULL)
        return command_mistake(&command_measure, "missing: -o, --output OUT.cfg (or --check)");
    if (!(check_settings.slow >= 0 && check_settings.slow < 1))
        return error_user("--slow %g: must be from 0 to below 1", check_settings.slow);
    if (!(check_settings.seconds >= 0))
        return error_user("--seconds %g: must be at least 0", check_settings.seconds);
    make_executor = environment->make_executor;
    overrides = arguments;
    override_count = count;
    return environment->with_ranks(measure, NULL);
}

static const struct command_option options[] = {
    {"output", 'o', "OUT.cfg", COMMAND_PATH, false, &output,
     "output file, the machine profile (required without --check)"},
    COMMAND_FORCE(&replace),
    {"largest", 0, "N", COMMAND_INTEGER, false, &settings.largest,
     "largest size of a GEMM, a power of two (16384 on a GPU, else 512)"},
    {"check", 0, NULL, COMMAND_FLAG, false, &checks, "check devices and links instead; exit code 1 if one is bad"},
    {"slow", 0, "SHARE", COMMAND_REAL, false, &check_settings.slow,
     "--check: rates below this share of the median are bad (0.75); 0: only wrong results are"},
    {"seconds", 0, "S", COMMAND_REAL, false, &check_settings.seconds,
     "--check: time of each test (1 on a GPU, else 0.1)"},
    {"quick", 0, NULL, COMMAND_FLAG, false, &settings.quick, "fewer sizes, and without tuning of kernels"},
    {0}};

const struct command command_measure = {
    .name = "measure",
    .arguments = "[KEY=VALUE...]",
    .summary = "measure this machine's profile, for plan",
    .help =
        "Measures GEMMs, attention, memory and, under mpirun or srun, collectives by kind, size and number of\n"
        "ranks, and writes the rates to OUT.cfg, a machine profile. If device.rates_file = \"OUT.cfg\" is set in a\n"
        "deck, `cistron plan` predicts the time of a step with it, here or on another machine, and parallel.shard\n"
        "= \"auto\" chooses the layout with it. On several nodes, collectives are measured within nodes, and each\n"
        "rank receives from another node. KEY=VALUE sets keys of a deck, such as device.kind=cpu.\n"
        "With --check it measures no profile: it compares matrix products, memory and transfers of all ranks, and\n"
        "names each device or link that is wrong or slow, with rank and host. Run it before a large job, or set\n"
        "device.check in its deck.",
    .options = options,
    .least = 0,
    .most = -1,
    .run = run,
};
