/* Drives a fuzz target without libFuzzer: the target's seeds and the files given as they are, then mutations of them.
 *   fuzz_NAME [-n INPUTS] [-t SECONDS] [-s SEED] [-o FOLDER] [FILES...]
 * Input i is a function of the seed, i, the seeds and the files. Inputs run in a child process; one that ends it is
 * kept in FOLDER (the working folder) and the next child goes on behind it. -n 0 FILE runs a kept input again. Exit
 * status 1: an input ended the target, through a fault of the program. Crashes inside libhdf5, where the target says
 * that it reads unverified data (fuzz.h), are counted apart. */
#include "base/error.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LARGEST = 256 << 10,
    INPUT_SECONDS = 20,
    MOST_FAULTS = 10,
    MOST_LIBRARY = 2 /* kept */,
    FRAMES = 64,
    LOG_TAIL = 6000
};

/* gcc's and clang's sanitizers ask for these: a report ends the process by SIGABRT, where the child sees who was it.
 * libconfig 1.5 leaks on syntax errors, HDF5 at its end. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "abort_on_error=1:detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096";
}

const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1";
}

/* -- Inputs ------------------------------------------------------------------------------------------------------ */

struct input {
    size_t size;
    uint8_t data[LARGEST];
};

static struct input **seeds;
static int64_t seed_count;

static void add_seed(const void *data, size_t size)
{
    if (size > LARGEST)
        error_fatal("a seed of %zu bytes: %d is the most", size, LARGEST);
    seeds = memory_grow(seeds, (seed_count + 1) * (int64_t)sizeof *seeds);
    struct input *seed = seeds[seed_count++] = memory_allocate(sizeof *seed);
    seed->size = size;
    memcpy(seed->data, data, size);
}

/* SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014) */
static uint64_t random_state;

static uint64_t draw(void)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static size_t below(size_t bound)
{
    return bound == 0 ? 0 : (size_t)(draw() % bound);
}

/* Bytes `from` .. `from + removed - 1` give way to others, as far as there is room. */
static void replace(struct input *input, size_t from, size_t removed, const void *bytes, size_t count)
{
    size_t tail = input->size - from - removed;
    if (count > LARGEST - (input->size - removed))
        return;
    memmove(input->data + from + count, input->data + from + removed, tail);
    memcpy(input->data + from, bytes, count);
    input->size += count - removed;
}

static void mutate(struct input *input)
{
    static const char *const numbers[] = {
        "0",     "-1", "1",  "2147483647",          "2147483648",           "4294967296",
        "1e309", "-0", "0x", "9223372036854775807", "-9223372036854775808", "18446744073709551616",
        ""};
    static const uint64_t values[] = {
        0,          1,          2,          7,         0xff,           0x7f,       0x7fff,    0xffff,
        0x7fffffff, 0xffffffff, UINT64_MAX, INT64_MAX, UINT64_MAX - 7, 1ull << 40, 1ull << 62};
    const size_t at = below(input->size), span = 1 + below(input->size - at < 64 ? input->size - at : 64);
    size_t words = 0;
    while (fuzz_target_words[words] != NULL)
        words++;
    switch (draw() % 10) {
    case 0:
    case 1:
        if (input->size > 0)
            input->data[at] ^= (uint8_t)(1 << draw() % 8);
        break;
    case 2:
        if (input->size > 0)
            input->data[at] = (uint8_t)draw();
        break;
    case 3:
        if (draw() % 4 == 0)
            input->size = at;
        break;
    case 4:
        if (input->size > 0)
            replace(input, at, span, "", 0);
        break;
    case 5: /* once more what is here */
        if (input->size > 0) {
            uint8_t copy[64];
            memcpy(copy, input->data + at, span);
            replace(input, at, 0, copy, span);
        }
        break;
    case 6: {
        const char *number = numbers[below(sizeof numbers / sizeof numbers[0])];
        replace(input, at, 0, number, strlen(number));
        break;
    }
    case 7: {
        const char *word = fuzz_target_words[below(words)];
        replace(input, at, 0, word, strlen(word));
        break;
    }
    case 8: { /* a binary number, in place */
        const size_t width = (size_t)1 << draw() % 4;
        const uint64_t value = values[below(sizeof values / sizeof values[0])];
        if (at + width <= input->size)
            memcpy(input->data + at, &value, width);
        break;
    }
    default: { /* the end of another seed */
        const struct input *other = seeds[below((size_t)seed_count)];
        const size_t from = below(other->size);
        if (draw() % 4 == 0 && at <= input->size)
            replace(input, at, input->size - at, other->data + from, other->size - from);
    }
    }
}

static void make_input(struct input *input, uint64_t seed, int64_t i)
{
    const struct input *from = i < seed_count ? seeds[i] : NULL;
    random_state = seed * 0x100000001b3u + (uint64_t)i;
    if (from == NULL)
        from = seeds[below((size_t)seed_count)];
    input->size = from->size;
    memcpy(input->data, from->data, from->size);
    for (uint64_t turns = i < seed_count ? 0 : 1 + draw() % 6; turns > 0; turns--)
        mutate(input);
}

/* -- The child --------------------------------------------------------------------------------------------------- */

/* What parent and child share. */
static struct shared {
    int64_t next, accepted;
    bool in_hdf5; /* it died there, and may */
    struct input input;
} * shared;

/* Is the frame's code in a library of one of these names? */
static bool is_in(void *frame, const char *const names[])
{
    Dl_info info;
    if (dladdr(frame, &info) == 0 || info.dli_fname == NULL)
        return false;
    while (*names != NULL && strstr(info.dli_fname, *names) == NULL)
        names++;
    return *names != NULL;
}

/* Whose code was running? This handler returns into the C library; behind that, frames of the C library and the
 * sanitizers may stand before the one that called them. */
static void on_signal(int signal)
{
    static const char *const c[] = {"libc.so", NULL}, *const hdf5[] = {"libhdf5", NULL};
    static const char *const callees[] = {"libc.so", "libasan", "libubsan", "ld-linux", "vdso", NULL};
    void *frames[FRAMES];
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal, &standard, NULL);
    alarm(5); /* a heap that is broken may hang what follows */
    int count = backtrace(frames, FRAMES), i = 0;
    while (i < count && !is_in(frames[i], c))
        i++;
    while (i < count && is_in(frames[i], callees))
        i++;
    shared->in_hdf5 = fuzz_hdf5_may_crash && i < count && is_in(frames[i], hdf5);
    if (!shared->in_hdf5)
        backtrace_symbols_fd(frames, count, STDERR_FILENO);
    raise(signal);
}

static void run_inputs(uint64_t seed, int64_t inputs, time_t end, int log)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
    void *frame;
    backtrace(&frame, 1); /* loads what it needs */
    for (int s = 0; s < 6; s++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
        sigaction(signals[s], &action, NULL);
    }
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    for (; shared->next < inputs && (end == 0 || time(NULL) < end); shared->next++) {
        if (ftruncate(log, 0) != 0)
            _exit(99);
        make_input(&shared->input, seed, shared->next);
        alarm(INPUT_SECONDS);
        LLVMFuzzerTestOneInput(shared->input.data, shared->input.size);
        alarm(0);
        shared->accepted += fuzz_accepted;
        fuzz_accepted = 0;
    }
    fflush(NULL);
    _exit(0);
}

/* -- The parent -------------------------------------------------------------------------------------------------- */

static const char *program;

static void keep_input(const char *folder, int status, uint64_t seed)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s-%s-%llu-%lld", folder, program, shared->in_hdf5 ? "hdf5" : "fault",
             (unsigned long long)seed, (long long)shared->next);
    fuzz_write(path, shared->input.data, shared->input.size);
    fprintf(stderr, "%s: input %lld ended it by %s%s; kept as %s\n", program, (long long)shared->next,
            WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit", shared->in_hdf5 ? " inside libhdf5" : "", path);
}

static void print_log(int log)
{
    char text[LOG_TAIL];
    off_t size = lseek(log, 0, SEEK_END);
    ssize_t count = pread(log, text, sizeof text, 0);
    if (count > 0)
        fwrite(text, 1, (size_t)count, stderr);
    if (size > LOG_TAIL)
        fprintf(stderr, "...\n");
}

static int write_seeds(const char *folder)
{
    for (int64_t i = 0; i < seed_count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/seed-%lld", folder, (long long)i);
        fuzz_write(path, seeds[i]->data, seeds[i]->size);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int64_t inputs = -1, seconds = 0, faults = 0, library = 0;
    uint64_t seed = 1;
    const char *folder = ".", *seeds_folder = NULL;
    int option;
    while ((option = getopt(argc, argv, "n:t:s:o:w:")) != -1)
        switch (option) {
        case 'n':
            inputs = atoll(optarg);
            break;
        case 't':
            seconds = atoll(optarg);
            break;
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'o':
            folder = optarg;
            break;
        case 'w':
            seeds_folder = optarg;
            break;
        default:
            return ERROR_USER;
        }
    program = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    fuzz_begin();
    fuzz_target_seeds(add_seed);
    if (seeds_folder != NULL)
        return write_seeds(seeds_folder);
    for (int i = optind; i < argc; i++) {
        size_t size;
        void *data = fuzz_read(argv[i], &size);
        add_seed(data, size);
        free(data);
    }
    if (inputs < 0)
        inputs = seconds > 0 ? INT64_MAX : 1000;
    if (inputs < INT64_MAX)
        inputs += seed_count;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int log = open(fuzz_path("log"), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (shared == MAP_FAILED || log < 0)
        error_fatal("cannot share memory or make a log");
    fflush(NULL);
    omp_pause_resource_all(omp_pause_hard); /* a child would wait for threads that only its parent has */
    for (time_t end = seconds > 0 ? time(NULL) + seconds : 0; faults < MOST_FAULTS; shared->next++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            run_inputs(seed, inputs, end, log);
        if (child < 0 || waitpid(child, &status, 0) != child)
            error_fatal("cannot run a child");
        if (status == 0)
            break;
        library += shared->in_hdf5;
        faults += !shared->in_hdf5;
        if (!shared->in_hdf5 || library <= MOST_LIBRARY)
            keep_input(folder, status, seed);
        if (!shared->in_hdf5)
            print_log(log);
        shared->in_hdf5 = false;
    }
    printf("%s: %lld inputs with seed %llu, %lld read to the end, %lld faults, %lld crashes inside libhdf5\n", program,
           (long long)shared->next, (unsigned long long)seed, (long long)shared->accepted, (long long)faults,
           (long long)library);
    return faults > 0 || shared->accepted == 0;
}
