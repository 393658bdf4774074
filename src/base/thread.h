/* Worker threads. They use neither MPI nor HDF5. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Starts a thread that calls run(self); join it with pthread_join. It blocks all signals except SIGBUS, which its own
 * reads may raise (file/mapping.h); the thread of base/signals.h receives the others. If the thread cannot be started,
 * the program ends (error_fatal); `whose` names its purpose in the message. */
pthread_t thread_start(void *(*run)(void *self), void *self, const char *whose);

/* Calls work(self, i) for each i below `count`, on at most `threads` threads, in any order. Error messages belong to a
 * thread, so failed calls are repeated in order by the calling thread; the first that fails again ends thread_each,
 * which returns its code. A call that succeeds when repeated counts as done. */
int thread_each(int64_t count, int threads, int (*work)(void *self, int64_t i), void *self);

#endif
