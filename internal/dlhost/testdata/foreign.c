/* A library for the tests of package dlhost: it calls back from threads that Go does
   not know. With ALONE it needs no other library, so that every glibc loads it. */

int answer(int question) { return question * 2 + 1; }

#ifndef ALONE
#include <pthread.h>
#include <stdlib.h>

typedef void (*callback)(void *);

struct work {
	callback call;
	void *data;
	int times;
};

static void *thread(void *argument)
{
	struct work *w = argument;
	for (int i = 0; i < w->times; i++)
		w->call(w->data);
	return NULL;
}

/* Calls back from several threads at once, and returns how many it could start. */
int call_from_threads(callback call, void *data, int threads, int times)
{
	pthread_t *all = calloc(threads, sizeof *all);
	struct work w = {call, data, times};
	int started = 0;
	while (started < threads && pthread_create(&all[started], NULL, thread, &w) == 0)
		started++;
	for (int i = 0; i < started; i++)
		pthread_join(all[i], NULL);
	free(all);
	return started;
}
#endif
