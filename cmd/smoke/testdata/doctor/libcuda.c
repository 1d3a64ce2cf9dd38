/* A driver library of which every function is there, for tests of smoke doctor. INIT is the
   body of cuInit; every other function says that the driver was not initialised. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef INIT
#define INIT return 0
#endif

int cuInit(unsigned flags) { INIT; }
int cuDriverGetVersion(int *version) { return *version = 12040, 0; }
static int other(void) { return 3; }

int cuGetProcAddress_v2(const char *name, void **address, int version, unsigned long long flags, int *status) {
  *address = !strcmp(name, "cuInit") ? (void *)cuInit : !strcmp(name, "cuDriverGetVersion") ? (void *)cuDriverGetVersion : (void *)other;
  return *status = 0, 0;
}
