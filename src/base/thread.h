/* Threads that work beside the main one. They touch neither MPI nor HDF5. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Starts a thread that calls run(self); join it with pthread_join. It takes no signals but SIGBUS, which its own reads
 * may raise (file/mapping.h): the others are for the thread of base/signals.h. Where none can be started the program
 * ends (error_fatal); `whose` says in the message what it was for. */
pthread_t thread_start(void *(*run)(void *self), void *self, const char *whose);

/* Calls work(self, i) for each i below `count`, by at most so many threads, in any order. Messages of errors are a
 * thread's own, so what has failed is done once more, in order, by the caller's: the first that fails again ends it,
 * with its code. What failed and then succeeds counts as done. */
int thread_each(int64_t count, int threads, int (*work)(void *self, int64_t i), void *self);

#endif
