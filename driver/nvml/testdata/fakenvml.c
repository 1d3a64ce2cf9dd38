/* A library with functions of NVML for tests of the call layer. Its structures are those of C's layout, and its values tell
   which argument came where. What it returns that cannot be true is defined on the command line of the compiler. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef COUNT
#define COUNT 2
#endif
#ifndef HANDLE
#define HANDLE(n) (n)
#endif
#ifndef PERCENT
#define PERCENT 97
#endif
#ifndef FREE
#define FREE 60
#endif
#ifndef PROCESSES
#define PROCESSES 100
#endif
#ifndef RETURNS
#define RETURNS 0
#endif

typedef uintptr_t device;
typedef unsigned int u;
typedef unsigned long long ull;

int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *s, u n) { return snprintf(s, n, "580.1 (%u)", n), 0; }
int nvmlDeviceGetCount_v2(u *n) { return *n = COUNT, RETURNS; }
int nvmlDeviceGetHandleByIndex_v2(u i, device *d) { return *d = HANDLE(0x100 + i), 0; }
int nvmlDeviceGetHandleByUUID(const char *s, device *d) {
  if (strcmp(s, "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f")) return 6;
  return *d = 0x700, 0;
}
int nvmlDeviceGetUUID(device d, char *s, u n) { return snprintf(s, n, "GPU-%lx", (unsigned long)d), 0; }
int nvmlDeviceGetName(device d, char *s, u n) { return memset(s, 'x', n), 0; /* no end */ }

struct pci {
  char legacy[16];
  u domain, bus, device, id, subsystem;
  char id_text[32];
};
int nvmlDeviceGetPciInfo_v3(device d, struct pci *p) {
  memset(p, 0xff, sizeof *p);
  return strcpy(p->id_text, "00000000:3B:00.0"), 0;
}

struct memory2 {
  u version;
  ull total, reserved, free, used;
};
int nvmlDeviceGetMemoryInfo_v2(device d, struct memory2 *m) {
  if (m->version != (sizeof *m | 2u << 24)) return 25;
  return *m = (struct memory2){m->version, 100, 10, FREE, 30}, 0;
}
struct utilization {
  u gpu, memory;
};
int nvmlDeviceGetUtilizationRates(device d, struct utilization *v) { return v->gpu = PERCENT, v->memory = 41, 0; }
int nvmlDeviceGetClockInfo(device d, u domain, u *mhz) { return *mhz = 1000 + domain, 0; }
int nvmlDeviceGetMaxClockInfo(device d, u domain, u *mhz) { return *mhz = 2000 + domain, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, ull *r) { return *r = 0x44, 0; }
int nvmlDeviceGetTemperature(device d, u sensor, u *t) { return *t = 50 + sensor, 0; }
int nvmlDeviceGetTemperatureThreshold(device d, u kind, u *t) { return *t = 90 + kind, 0; }
int nvmlDeviceGetPowerUsage(device d, u *p) { return *p = 350123, 0; }
int nvmlDeviceGetEnforcedPowerLimit(device d, u *p) { return *p = 700000, 0; }
int nvmlDeviceGetEccMode(device d, u *now, u *pending) { return *now = 1, *pending = 0, 0; }
int nvmlDeviceGetTotalEccErrors(device d, u kind, u since, ull *n) { return *n = (1ull << 40) + 10 * kind + since, 0; }
int nvmlDeviceGetRemappedRows(device d, u *a, u *b, u *c, u *e) { return *a = 1, *b = 2, *c = 1, *e = 0, 0; }

struct process {
  u pid;
  ull memory;
  u gpu, compute;
};
int nvmlDeviceGetComputeRunningProcesses_v3(device d, u *n, struct process *list) {
  u room = *n, all = PROCESSES;
  *n = all;
  if (room < all) return 7;
  for (u i = 0; i < all; i++) list[i] = (struct process){1000 + i, i ? i << 20 : ~0ull, ~0u, ~0u};
  return 0;
}
int nvmlDeviceGetMigMode(device d, u *now, u *pending) { return *now = 0, *pending = 1, 0; }
int nvmlDeviceGetMaxMigDeviceCount(device d, u *n) { return *n = 7, 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, u i, device *m) { return *m = d * 16 + i, i < 2 ? 0 : 6; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device m, device *d) { return *d = m / 16, 0; }
int nvmlDeviceGetNvLinkState(device d, u link, u *on) { return *on = link % 2, link < 4 ? 0 : 2; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, u link, struct pci *p) {
  return snprintf(p->id_text, 32, "link %u", link), 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(device d, u *n) { return *n = 4, 0; }
int nvmlDeviceGetCurrPcieLinkWidth(device d, u *n) { return *n = 8, 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(device d, u *n) { return *n = 5, 0; }
int nvmlDeviceGetMaxPcieLinkWidth(device d, u *n) { return *n = 16, 0; }
int nvmlDeviceGetSupportedEventTypes(device d, ull *types) { return *types = ~0ull, 0; }
int nvmlEventSetCreate(uintptr_t *set) { return *set = 0x5e7, 0; }

static ull registered;
int nvmlDeviceRegisterEvents(device d, ull types, uintptr_t set) { return registered = types, set == 0x5e7 ? 0 : 2; }

struct event {
  device d;
  ull type, data;
  u gpu, compute;
};
int nvmlEventSetWait_v2(uintptr_t set, struct event *e, u ms) {
  if (ms == 7) return 10;
  return *e = (struct event){0x101, registered & 8, 79, ~0u, ~0u}, 0;
}
int nvmlEventSetFree(uintptr_t set) { return set == 0x5e7 ? 0 : 2; }
