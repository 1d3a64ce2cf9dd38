// clamp with a mistake that everybody makes once: n is one too many. broken.ptx is
// made from it as clamp.ptx is from clamp.cu.
#define INSIDE(i, n) ((i) <= (n))
#include "../clamp.cu"
