/* Threads that work beside the main one. They touch neither MPI nor HDF5. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that calls run(self); join it with pthread_join. It takes no signals but SIGBUS, which its own reads
 * may raise (base/mapping.h): the others are for the thread of base/signals.h. Where none can be started the program
 * ends (error_fatal); `whose` says in the message what it was for. */
pthread_t thread_start(void *(*run)(void *self), void *self, const char *whose);

#endif
