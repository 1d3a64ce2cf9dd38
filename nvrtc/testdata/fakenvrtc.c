/* A library with the functions of NVRTC that compiles nothing, for tests of the call
   layer. What it "compiles" is a text of all that it was given, so that a test sees how
   arguments arrive. It asks its flow callback from the calling thread and from another one,
   and looks for its builtins by their bare name as NVRTC does. What it returns that cannot be
   true is defined on the command line of the compiler. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MAJOR
#define MAJOR 12
#endif
#ifndef COUNT
#define COUNT 3
#endif
#ifndef ARCH
#define ARCH 75
#endif
#ifndef SIZE
#define SIZE strlen(p->output) + 1
#endif
#ifndef PROGRAM
#define PROGRAM p
#endif
#ifndef COMPILED
#define COMPILED strcmp(p->source, "bad") ? 0 : 6
#endif
#ifndef NAME
#define NAME p->expressions[i]
#endif

typedef int (*flow)(void *, void *);

struct program {
  char *source, *name, *headers[8], *includes[8], *expressions[8], output[4096];
  int header_count, expression_count;
  flow ask;
  void *payload;
};

static char *copy(const char *s) { return strcpy(malloc(strlen(s) + 1), s); }

int nvrtcVersion(int *major, int *minor) { return *major = MAJOR, *minor = 9, 0; }
int nvrtcGetNumSupportedArchs(int *n) { return *n = COUNT, 0; }
int nvrtcGetSupportedArchs(int *archs) { return archs[0] = ARCH, archs[1] = 90, archs[2] = 120, 0; }

int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int headers,
                       const char *const *texts, const char *const *includes) {
  struct program *p = calloc(1, sizeof *p);
  p->source = copy(source), p->name = copy(name), p->header_count = headers;
  for (int i = 0; i < headers; i++) p->headers[i] = copy(texts[i]), p->includes[i] = copy(includes[i]);
  return *out = PROGRAM, 0;
}

int nvrtcDestroyProgram(struct program **p) { return free(*p), *p = NULL, 0; }

int nvrtcAddNameExpression(struct program *p, const char *expression) {
  return p->expressions[p->expression_count++] = copy(expression), 0;
}

int nvrtcSetFlowCallback(struct program *p, flow ask, void *payload) {
  return p->ask = ask, p->payload = payload, 0;
}

static void *ask_on_thread(void *p) {
  struct program *program = p;
  return (void *)(long)program->ask(program->payload, NULL);
}

int nvrtcCompileProgram(struct program *p, int count, const char *const *options) {
#ifdef BUILTINS
  if (!dlopen(BUILTINS, RTLD_NOW)) return strcpy(p->output, dlerror()), 7;
#endif
  if (p->ask) {
    for (int i = 0; i < 3; i++) {
      pthread_t thread;
      void *answer;
      if (p->ask(p->payload, NULL) == 1) return 16;
      pthread_create(&thread, NULL, ask_on_thread, p);
      pthread_join(thread, &answer);
      if ((long)answer == 1) return 16;
    }
  }
  /* The arguments are read after the callbacks: by then a stack may have moved. */
  char *out = p->output;
  out += sprintf(out, "%s|%s", p->name, p->source);
  for (int i = 0; i < p->header_count; i++) out += sprintf(out, "|%s=%s", p->includes[i], p->headers[i]);
  for (int i = 0; i < p->expression_count; i++) out += sprintf(out, "|%s", p->expressions[i]);
  for (int i = 0; i < count; i++) out += sprintf(out, "|%s", options[i]);
  return COMPILED;
}

int nvrtcGetProgramLogSize(struct program *p, size_t *n) { return *n = strlen(p->output) + 1, 0; }
int nvrtcGetProgramLog(struct program *p, char *out) { return strcpy(out, p->output), 0; }
int nvrtcGetPTXSize(struct program *p, size_t *n) { return *n = SIZE, 0; }
int nvrtcGetPTX(struct program *p, char *out) { return strcpy(out, p->output), 0; }
int nvrtcGetCUBINSize(struct program *p, size_t *n) { return (void)p, *n = 4, 0; }
int nvrtcGetCUBIN(struct program *p, char *out) { return (void)p, memcpy(out, "\0ELF", 4), 0; }
int nvrtcGetLoweredName(struct program *p, const char *expression, const char **name) {
  for (int i = 0; i < p->expression_count; i++)
    if (!strcmp(p->expressions[i], expression)) return *name = NAME, 0;
  return 10;
}
